"""Tensors of a file as NumPy arrays, checked before anything is allocated.

Law: one ``TensorProto`` at a time; where bytes lie outside of the file, ``ExternalData`` knows whether they may be
read.
"""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from asyncjit.errors import OnnxError
from asyncjit.onnx._dtypes import dtype_of_code, is_text_code, name_of_code
from asyncjit.onnx._model_data import Host

__all__ = ["ExternalData", "sparse_of", "tensor_of"]

#: Elements a byte of types that share bytes.
_PACKED = {
    TensorProto.INT4: 2,
    TensorProto.UINT4: 2,
    TensorProto.FLOAT4E2M1: 2,
    **{getattr(TensorProto, name): 4 for name in ("INT2", "UINT2") if hasattr(TensorProto, name)},
}


class ExternalData:
    """Files beside the model that hold tensors. They are mapped, not read, and must lie in the model's folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder.resolve()
        self._maps: dict[Path, Host] = {}

    def read(self, tensor: TensorProto) -> bytes | Host:
        """The bytes of ``tensor``.

        Raises:
            OnnxError: there is no folder, the path leaves it, or the file is shorter than promised.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self._folder is None:
            raise OnnxError(
                f"tensor {tensor.name!r} lies in the file {location!r}, and a model given as bytes has no folder; "
                "load it by its path",
                tensor=tensor.name,
            )
        path = (self._folder / location).resolve()
        if not location or os.path.isabs(location) or not path.is_relative_to(self._folder):
            raise OnnxError(
                f"tensor {tensor.name!r} lies in {location!r}, outside of the model's folder; such a file is not read",
                tensor=tensor.name,
                location=location,
            )
        whole = self._mapped(path, tensor.name)
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", whole.nbytes - offset))
        except ValueError:
            raise OnnxError(f"tensor {tensor.name!r}: offset and length are no integers: {entries}") from None
        if offset < 0 or length < 0 or offset + length > whole.nbytes:
            raise OnnxError(
                f"tensor {tensor.name!r} is {length} bytes from byte {offset} of {location!r}, which has "
                f"{whole.nbytes}: the file is truncated, or belongs to another model",
                tensor=tensor.name,
            )
        return whole[offset : offset + length]

    def _mapped(self, path: Path, name: str) -> Host:
        if path not in self._maps:
            if not path.is_file():
                raise OnnxError(f"tensor {name!r} lies in {path.name!r}, and there is no such file", tensor=name)
            empty = path.stat().st_size == 0
            self._maps[path] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
        return self._maps[path]


def tensor_of(tensor: TensorProto, external: ExternalData) -> Host:
    """The array that ``tensor`` describes; a read-only view of the file's bytes where that is possible.

    Raises:
        OnnxError: type, shape and data do not go together.
    """
    shape = tuple(tensor.dims)
    if any(extent < 0 for extent in shape):
        raise OnnxError(f"tensor {tensor.name!r} has the shape {shape}; extents are not negative", tensor=tensor.name)
    count = prod(shape)
    if is_text_code(tensor.data_type):
        _check(tensor, count, len(tensor.string_data), "strings")
        text = [each.decode("utf-8", "surrogateescape") for each in tensor.string_data]
        return np.array(text, dtype=object).reshape(shape)
    try:
        dtype = dtype_of_code(tensor.data_type)
    except ValueError as error:
        raise OnnxError(f"tensor {tensor.name!r}: {error}", tensor=tensor.name) from None
    packed = _PACKED.get(tensor.data_type, 0)
    is_external = tensor.data_location == TensorProto.EXTERNAL
    if is_external or tensor.HasField("raw_data"):
        raw = external.read(tensor) if is_external else tensor.raw_data
        _check(tensor, -(-count // packed) if packed else count * dtype.itemsize, len(raw), "bytes")
        if not packed:
            little = dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype
            return np.asarray(np.frombuffer(raw, little).reshape(shape), dtype)
        inline = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape, raw_data=bytes(raw))
        return np.asarray(numpy_helper.to_array(inline), dtype)
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    given = max(len(getattr(tensor, name)) for name in fields)
    pairs = 2 if dtype.kind == "c" else 1
    _check(tensor, -(-count // packed) if packed else count * pairs, given, "numbers")
    return np.asarray(numpy_helper.to_array(tensor), dtype).reshape(shape)


def _check(tensor: TensorProto, wanted: int, given: int, unit: str) -> None:
    if wanted != given:
        raise OnnxError(
            f"tensor {tensor.name!r} of shape {tuple(tensor.dims)} and type {name_of_code(tensor.data_type)} needs "
            f"{wanted} {unit} and has {given}",
            tensor=tensor.name,
        )


def sparse_of(sparse: Any, external: ExternalData, nbytes_max: int) -> Host:
    """A sparse tensor as a dense array of at most ``nbytes_max`` bytes."""
    values, indices = tensor_of(sparse.values, external), tensor_of(sparse.indices, external)
    shape = tuple(sparse.dims)
    if any(extent < 0 for extent in shape) or prod(shape) * values.itemsize > nbytes_max:
        raise OnnxError(
            f"sparse tensor {sparse.values.name!r} of shape {shape} is larger than {nbytes_max} bytes; raise "
            "value_bytes_max if that is meant",
            tensor=sparse.values.name,
        )
    dense = np.zeros(prod(shape), values.dtype)
    try:
        flat = np.ravel_multi_index(tuple(indices.T), shape) if indices.ndim == 2 else indices
        dense[flat] = values
    except (ValueError, IndexError) as error:
        raise OnnxError(f"sparse tensor {sparse.values.name!r}: {error}", tensor=sparse.values.name) from None
    return dense.reshape(shape)
