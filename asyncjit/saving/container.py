"""The file format: one JSON document and raw arrays behind it, every byte of them checked.

Law: bytes, sizes and checksums; nothing of what they mean. Imports ``data_reader`` and ``errors`` only.

    0     8 bytes   "\\x89asyncjt"
    8     4 bytes   version of the format, little-endian like all numbers here
    12    8 bytes   length of the document
    20    32 bytes  SHA-256 of bytes 0 to 20 and of the document
    52    …         the document, UTF-8: {"content": …, "arrays": [{"nbytes": …, "sha256": …}, …]}
    …     …         the arrays in turn, each from the next multiple of 64 on, zeros between; the last ends the file

No size is believed before it has been compared with the length of the file, and no array is handed out before its
checksum was compared. Checksums tell damage; they do not tell who wrote the file.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NoReturn

from asyncjit.data_reader import DataReader
from asyncjit.errors import LoadError

__all__ = ["FORMAT_VERSION", "Container", "pack"]

FORMAT_VERSION = 1

_MAGIC = b"\x89asyncjt"
_SIZES = struct.Struct("<8sIQ")
_HEAD_BYTES = _SIZES.size + 32
_ALIGNMENT_BYTES = 64


def pack(content: object, arrays: Sequence[memoryview]) -> Iterator[bytes | memoryview]:
    """The pieces of a file, to be written one after the other. ``content`` is what JSON can hold, arrays are bytes."""
    listed = [{"nbytes": array.nbytes, "sha256": hashlib.sha256(array).hexdigest()} for array in arrays]
    document = json.dumps({"content": content, "arrays": listed}, separators=(",", ":"), allow_nan=False).encode()
    sizes = _SIZES.pack(_MAGIC, FORMAT_VERSION, len(document))
    yield sizes
    yield hashlib.sha256(sizes + document).digest()
    yield document
    position = _HEAD_BYTES + len(document)
    for array in arrays:
        gap = -position % _ALIGNMENT_BYTES
        yield bytes(gap)
        yield array
        position += gap + array.nbytes


class Container:
    """A file that is read: ``content``, and arrays on demand.

    Raises:
        LoadError: it is no such file, of another version, cut off, longer than it should be, or damaged; the message
            says which.
    """

    def __init__(self, file: BinaryIO, nbytes: int, what: str) -> None:
        self._file = file
        self.what = what
        sizes, digest = self._read(0, _SIZES.size, nbytes), self._read(_SIZES.size, 32, nbytes)
        magic, version, length = _SIZES.unpack(sizes)
        if magic != _MAGIC:
            self._refuse("does not begin like a file that asyncjit has saved; pass one that aj.save has written")
        if version != FORMAT_VERSION:
            self._refuse(
                f"has version {version} of the format, but this release reads version {FORMAT_VERSION}; save it anew "
                "with this release"
            )
        document = self._read(_HEAD_BYTES, length, nbytes)
        if hashlib.sha256(sizes + document).digest() != digest:
            self._refuse("is damaged: its head does not match its checksum")
        self.content, sizes_listed = self._parse(document)
        #: Where each array begins, its bytes and its checksum.
        self._arrays = self._place(sizes_listed, _HEAD_BYTES + length, nbytes)

    @property
    def arrays_nbytes(self) -> list[int]:
        """Bytes of each array; together no more than the file has."""
        return [nbytes for _, nbytes, _ in self._arrays]

    def array(self, index: int) -> bytearray:
        """The bytes of an array.

        Raises:
            LoadError: they do not match their checksum.
        """
        start, nbytes, digest = self._arrays[index]
        taken = self._read(start, nbytes, start + nbytes)
        if hashlib.sha256(taken).hexdigest() != digest:
            self._refuse(f"is damaged: array {index} of {nbytes} bytes does not match its checksum")
        return taken

    def _parse(self, document: bytearray) -> tuple[DataReader, tuple[tuple[int, str], ...]]:
        try:
            root = DataReader(json.loads(document), "file")
            listed = root["arrays"].each(lambda it: (it["nbytes"].natural(), it["sha256"].text()))
            return root["content"], listed
        except (ValueError, RecursionError) as error:
            self._refuse(f"is no document of this format: {error}")

    def _place(self, listed: tuple[tuple[int, str], ...], position: int, nbytes: int) -> list[tuple[int, int, str]]:
        places = []
        for length, digest in listed:
            gap = -position % _ALIGNMENT_BYTES
            if any(self._read(position, gap, nbytes)):
                self._refuse(f"is damaged: there should be zeros at byte {position}")
            places.append((position + gap, length, digest))
            position += gap + length
            self._check_length(position, nbytes)
        if position != nbytes:
            self._refuse(f"has {nbytes} bytes where {position} were written; it is damaged")
        return places

    def _read(self, start: int, length: int, nbytes: int) -> bytearray:
        """Exactly so many bytes; asks for no memory that the file would not fill."""
        self._check_length(start + length, nbytes)
        self._file.seek(start)
        taken = bytearray(length)
        filled = memoryview(taken)
        while filled and (count := self._file.readinto(filled)):  # type: ignore[attr-defined]
            filled = filled[count:]
        if filled:
            self._check_length(start + length, start + length - len(filled))
        return taken

    def _check_length(self, wanted: int, nbytes: int) -> None:
        if wanted > nbytes:
            self._refuse(f"has {nbytes} bytes where at least {wanted} were written; it was cut off")

    def _refuse(self, why: str) -> NoReturn:
        raise LoadError(f"{self.what} {why}", where=self.what)
