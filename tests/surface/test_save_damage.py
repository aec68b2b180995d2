"""Files that are not, or no longer, what ``save`` wrote: an error that says so, and nothing else, ever."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import random
import struct
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asyncjit as aj
from asyncjit.saving.container import Container, pack
from tests.surface.saved_models import Mode, Pair, accumulator, blurred, structured

ONES = np.ones(4)

# One file for a test; each example writes it anew.
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@cache
def saved() -> bytes:
    """A file with state, constants, structures and a kernel."""
    path = Path(tempfile.mkdtemp()) / "good.aj"
    add, peek, total = accumulator()
    for function, arguments in [
        (add, (ONES,)),
        (peek, ()),
        (blurred, (np.ones(3),)),
        (structured, (pair(), Mode.DOUBLE)),
    ]:
        function.run(*arguments)
    aj.save(path, add=add, peek=peek, blurred=blurred, structured=structured, total=total)
    structured.reset()
    data = path.read_bytes()
    path.unlink()
    path.parent.rmdir()
    return data


def pair() -> Pair:
    return Pair(np.ones(2), np.ones(3))


def refused(file: Path, data: bytes) -> str:
    """The message of the error that loading ``data`` raises."""
    file.write_bytes(data)
    with pytest.raises(aj.LoadError) as caught:
        aj.load(file)
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_the_whole_file_loads(file: Path) -> None:
    file.write_bytes(saved())
    assert list(aj.load(file)) == ["add", "peek", "blurred", "structured", "total"]


@EXAMPLES
@given(st.data())
def test_a_file_cut_off_anywhere_is_refused(file: Path, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(saved()) - 1))
    assert "cut off" in refused(file, saved()[:length])


@EXAMPLES
@given(st.data())
def test_a_file_with_a_flipped_bit_anywhere_is_refused(file: Path, data: st.DataObject) -> None:
    changed = bytearray(saved())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(changed) - 1))
        changed[position] ^= 1 << data.draw(st.integers(0, 7))
    if bytes(changed) != saved():
        refused(file, bytes(changed))


def test_every_byte_counts(file: Path) -> None:
    """One flipped bit in every 37th byte, and in each of the first 64 and the last 200."""
    whole = saved()
    for position in {*range(64), *range(0, len(whole), 37), *range(len(whole) - 200, len(whole))}:
        changed = bytearray(whole)
        changed[position] ^= 1 << position % 8
        refused(file, bytes(changed))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: b"", "has 0 bytes"),
        (lambda data: b"PK\x03\x04" + bytes(100), "does not begin like a file that asyncjit has saved"),
        (lambda data: pickle.dumps(list(range(100))), "does not begin like"),
        (lambda data: data + b"\0", "damaged"),
        (lambda data: data[:8] + b"\2" + data[9:], "has version 2 of the format, but this release reads version 1"),
        (lambda data: data[:12] + b"\xff" * 8 + data[20:], "cut off"),
        (lambda data: data[:20] + bytes(32) + data[52:], "its head does not match its checksum"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "does not match its checksum"),
    ],
    ids=["empty", "zip", "pickle", "longer", "version", "length", "head", "array"],
)
def test_what_is_wrong_with_a_file_is_said(file: Path, change: Callable[[bytes], bytes], words: str) -> None:
    assert words in refused(file, change(saved()))


def content() -> tuple[Any, list[memoryview]]:
    container = Container(io.BytesIO(saved()), len(saved()), "file")
    arrays = [memoryview(container.array(index)) for index in range(len(container.arrays_nbytes))]
    return container.content.data, arrays


def framed(document: bytes) -> bytes:
    """A document with a head that fits it."""
    sizes = struct.pack("<8sIQ", b"\x89asyncjt", 1, len(document))
    return sizes + hashlib.sha256(sizes + document).digest() + document


def test_zeros_between_the_parts_are_checked_too(file: Path) -> None:
    _, arrays = content()
    data = b"".join(pack({"things": {}}, arrays))
    gap = data.index(b"]}", 52) + 2
    assert data[gap] == 0
    assert "there should be zeros" in refused(file, data[:gap] + b"\1" + data[gap + 1 :])


@pytest.mark.parametrize("document", [b"[]", b"{}", b'{"content":1,"arrays":{}}', b"\xff", b"[" * 100_000, b"7" * 5000])
def test_a_document_of_another_kind_is_refused(file: Path, document: bytes) -> None:
    assert "no document of this format" in refused(file, framed(document))


@pytest.mark.parametrize("size", [2**20, 2**40, 2**63, 2**70])
def test_sizes_that_lie_are_refused_before_anything_of_that_size_is_made(file: Path, size: int) -> None:
    document = json.dumps({"content": content()[0], "arrays": [{"nbytes": size, "sha256": ""}]}).encode()
    whole = framed(document) + bytes(1000)
    tracemalloc.start()
    try:
        message = refused(file, whole)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "cut off" in message
    assert peak < 2**20


def test_a_storage_of_another_layout_than_its_bytes_is_refused(file: Path) -> None:
    data, arrays = content()
    data["storages"][0][1] = [2**40]
    assert "the layout of 32 bytes" in refused(file, b"".join(pack(data, arrays)))


# Files made on purpose, with the right checksums.


def places(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


ADD = ("things", "add", "function", "captures", 0)
STRUCTURED = ("things", "structured", "function", "captures", 0)
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    ((*ADD, "bindings", 0, 1), 1, "inside of its argument"),
    ((*ADD, "bindings", 0, 1), -1, "inside of its argument"),
    ((*ADD, "bindings"), [], "a list of 1"),
    ((*ADD, "names"), [], "arguments"),
    ((*ADD, "names"), ["x", "y"], "1 texts, one for each array in the key"),
    ((*ADD, "pattern"), [[[7, 0]]], "of arrays in the key"),
    ((*ADD, "state", 0, 0), 0, "a slot of kind state"),
    ((*ADD, "state"), [], "each bound once"),
    ((*ADD, "outputs", 0, 1), [5], "the layout of 32 bytes"),
    ((*ADD, "results", 0, 1), 8, "a view of 32 bytes on cpu"),
    ((*ADD, "results", 0, 2, 0), [4, 1], "as many strides"),
    ((*ADD, "structure"), None, "of every result, in order"),
    ((*ADD, "key"), [], "must be 0 texts"),
    ((*ADD, "plan", "schedule", "calls", 0, "operands", 0, "shape"), [5], "inside"),
    ((*ADD[:3], "signature"), [{"name": "x", "kind": "ODD"}], "a known word"),
    ((*ADD[:3], "options", "in_flight_max"), 0, "in_flight_max must be at least 1"),
    ((*STRUCTURED, "structure", "labels"), ["point"], "as many labels as values"),
    ((*STRUCTURED, "structure", "of"), "int", "a container of 3 things"),
    ((*STRUCTURED, "structure", "of"), "novelty", "a known word"),
    ((*STRUCTURED, "key", 1, "value"), {"odd": 1}, "of a known kind"),
    ((*STRUCTURED, "key", 1, "value", "enum", 2), "ABSENT", "a member of an enum"),
    (("things", "total", "array", 1), 8, "a view of 32 bytes"),
    (("storages", 0, 2), "O", "a dtype"),
    (("storages",), [], "a list of"),
]


@pytest.mark.parametrize(("path", "value", "words"), WRONG, ids=[".".join(map(str, path[-2:])) for path, _, _ in WRONG])
def test_what_is_wrong_with_a_piece_is_said(file: Path, path: tuple[str | int, ...], value: object, words: str) -> None:
    original, arrays = content()
    data = copy.deepcopy(original)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    assert holder[path[-1]] != value
    holder[path[-1]] = value
    assert words in refused(file, b"".join(pack(data, arrays)))


REPLACEMENTS: list[Any] = [None, -1, 1, 2**70, "x", [], {}]


@pytest.mark.parametrize("value", REPLACEMENTS, ids=repr)
def test_no_piece_changed_does_more_than_be_refused(file: Path, value: object) -> None:
    """Whatever stands in the place of a piece, a sample of them: one of our errors, or functions that can be called."""
    original, arrays = content()
    for path in random.Random(repr(value)).sample(list(places(original)), 60):
        data = copy.deepcopy(original)
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
        file.write_bytes(b"".join(pack(data, arrays)))
        try:
            loaded = aj.load(file)
        except aj.AsyncJitError:
            continue
        assert isinstance(loaded, dict)
        for name, arguments in [("add", (ONES,)), ("blurred", (np.ones(3),)), ("structured", (pair(), Mode.DOUBLE))]:
            if name in loaded and isinstance(loaded[name], aj.JitFunction):
                call_somehow(loaded[name], arguments)


def call_somehow(function: Any, arguments: tuple[Any, ...]) -> None:
    try:
        function.run(*arguments)
    except (aj.AsyncJitError, TypeError) as error:
        # The parameters may be others by now, which Python says as usual.
        assert isinstance(error, aj.AsyncJitError) or "argument" in str(error)  # noqa: PT017


@pytest.mark.parametrize("dtype", ["object", "O", "V8", "datetime64", "float128"])
def test_a_dtype_that_arrays_cannot_have_is_refused(file: Path, dtype: str) -> None:
    """Bytes of a file seen as objects would be addresses made by whoever wrote it."""
    original, arrays = content()
    data = copy.deepcopy(original)
    capture = data["things"]["add"]["function"]["captures"][0]
    capture["plan"]["schedule"]["calls"][0]["operands"][0]["dtype"] = dtype
    assert "of known dtypes" in refused(file, b"".join(pack(data, arrays)))


def test_a_name_in_a_file_imports_nothing(file: Path) -> None:
    original, arrays = content()
    data = copy.deepcopy(original)
    sys.modules.pop("this", None)
    call = data["things"]["blurred"]["function"]["captures"][0]["plan"]["schedule"]["calls"][0]
    call["kernel"]["implementation"]["kernel"] = ["this", "s"]
    assert "import this before loading" in refused(file, b"".join(pack(data, arrays)))
    assert "this" not in sys.modules
