"""Files with variables that somebody has changed: an error of ours at loading or at a call, and nothing else, ever."""

from __future__ import annotations

import copy
import io
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
from asyncjit.saving.container import Container, pack
from tests.surface.saved_models import M, T, decoder
from tests.surface.test_save_damage import places, refused

#: A container with one symbolic integer in it, for each kind of change.
OWN, OTHER, WIDE = ({"sum": [[1, [name, 0, most]]]} for name, most in (("t", 7), ("q", 7), ("t", 2**40)))
NEGATIVE = {"sum": [[-1, ["t", 0, 7]]]}


@cache
def saved() -> bytes:
    decode, _ = decoder()
    decode.run(np.ones(4), T.bind(3), M.bind(2))
    with tempfile.TemporaryDirectory() as folder:
        aj.save(Path(folder) / "good.aj", decode)
        return (Path(folder) / "good.aj").read_bytes()


def content() -> tuple[Any, list[memoryview]]:
    container = Container(io.BytesIO(saved()), len(saved()), "file")
    arrays = [memoryview(container.array(index)) for index in range(len(container.arrays_nbytes))]
    return copy.deepcopy(container.content.data), arrays


def put(data: Any, path: tuple[str | int, ...], value: object) -> None:
    for key in path[:-1]:
        data = data[key]
    assert data[path[-1]] != value
    data[path[-1]] = copy.deepcopy(value)


def test_the_whole_file_loads_and_is_cut_off_nowhere(file: Path) -> None:
    file.write_bytes(saved())
    result = aj.load(file).run(np.ones(4), T.bind(1), M.bind(1))
    assert np.asarray(result["backwards"]).shape == (2, 4)
    for length in range(0, len(saved()), 101):
        assert "cut off" in refused(file, saved()[:length])


def test_every_byte_counts(file: Path) -> None:
    for position in range(7, len(saved()), 61):
        changed = bytearray(saved())
        changed[position] ^= 1 << position % 8
        refused(file, bytes(changed))


CAPTURE = ("things", "", "function", "captures", 0)
PLAN = (*CAPTURE, "plan")
CALLS = (*PLAN, "schedule", "calls")
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    ((*CAPTURE, "key", 1), {"value": 3}, "of every variable that the plan has"),
    ((*CAPTURE, "key", 1, "variable", 2), 6, "of every variable that the plan has"),
    ((*CAPTURE, "key", 1, "variable", 2), -1, "a name and a range"),
    ((*CAPTURE, "key", 1, "variable", 0), 7, "must be text"),
    ((*CAPTURE, "key", 0, "array", 0, 0), OWN, "must be an integer"),
    ((*CAPTURE, "outputs", 1, 1, 0), OWN, "the layout of"),
    ((*CAPTURE, "outputs", 1, 1, 0), NEGATIVE, "integers of 0 or more"),
    ((*CAPTURE, "results", 1, 1), OWN, "a view of"),
    ((*CAPTURE, "results", 1, 1), 8, "a view of"),
    ((*CAPTURE, "results", 0, 1), OWN, "a view of"),
    ((*CAPTURE, "results", 1, 2, 0, 0), 8, "a view of"),
    ((*CAPTURE, "results", 1, 2, 0, 0), OTHER, "a view of"),
    ((*CAPTURE, "results", 1, 2, 1, 0), OWN, "a view of"),
    ((*CALLS, 1, "kernel", "params", 0), 3, "the symbolic arguments of the kernel"),
    ((*CALLS, 1, "kernel", "params"), [], "the symbolic arguments of the kernel"),
    ((*CALLS, 1, "kernel", "implementation", "arguments", 2, 1, 0), {"symbolic": OTHER}, "the symbolic arguments"),
    ((*CALLS, 0, "operands", 1, "offset_bytes"), OTHER, "may write"),
    ((*CALLS, 0, "operands", 1, "offset_bytes"), {"sum": [[1, ["//", [[1]], [[0]]]]]}, "a quotient"),
    ((*PLAN, "writes", 0, "operand", "offset_bytes"), 0, "may write"),
    ((*PLAN, "version"), 2, "version is 2"),
]


@pytest.mark.parametrize(("path", "value", "words"), WRONG, ids=[".".join(map(str, path[-2:])) for path, _, _ in WRONG])
def test_what_is_wrong_with_a_piece_is_said(file: Path, path: tuple[str | int, ...], value: object, words: str) -> None:
    data, arrays = content()
    put(data, path, value)
    assert words in refused(file, b"".join(pack(data, arrays)))


REPLACEMENTS: list[Any] = [None, -1, 1, 2**70, "x", [], {}, OWN, OTHER, WIDE, NEGATIVE]


@pytest.mark.parametrize("value", REPLACEMENTS, ids=str)
def test_no_piece_changed_does_more_than_be_refused(file: Path, value: object) -> None:
    data, arrays = content()
    for path in random.Random(repr(value)).sample(list(places(data)), 40):
        changed = copy.deepcopy(data)
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = copy.deepcopy(value)
        file.write_bytes(b"".join(pack(changed, arrays)))
        try:
            loaded = aj.load(file)
        except aj.LoadError:
            continue
        except aj.DeviceError as error:
            # An operation, or a device, of another name.
            assert "no " in str(error)  # noqa: PT017
            continue
        for t in (0, 7, 3) if isinstance(loaded, aj.JitFunction) else ():
            call_somehow(loaded, t)


def call_somehow(function: Any, t: int) -> None:
    try:
        result = function.run(np.ones(4), T.bind(t), M.bind(t % 4 + 1))
    except (aj.AsyncJitError, TypeError) as error:
        # The parameters may be others by now, which Python says as usual.
        assert isinstance(error, aj.AsyncJitError) or "argument" in str(error)  # noqa: PT017
    else:
        # A structure of another kind, maybe; every array in it lies in its own memory.
        for each in result.values() if isinstance(result, dict) else ():
            if isinstance(each, aj.Array):
                assert np.asarray(each).nbytes <= each._storage.nbytes


def schedule_of(data: Any) -> Any:
    return data["things"][""]["function"]["captures"][0]["plan"]["schedule"]


def test_a_kernel_that_does_not_take_its_parameters_fails_its_call(file: Path) -> None:
    data, arrays = content()
    kernels = [call["kernel"] for call in schedule_of(data)["calls"] if not call["copy"]]
    symbolic = [each for each in kernels if "sum" in str(each["params"]) and "implementation" not in each]
    symbolic[0]["params"].insert(0, "x")
    file.write_bytes(b"".join(pack(data, arrays)))
    with pytest.raises(aj.KernelError, match="does not take the parameters"):
        aj.load(file).run(np.ones(4), T.bind(1), M.bind(1))


def test_a_view_that_leaves_the_memory_of_its_replay_fails_it(file: Path) -> None:
    """The largest replay has room for it, a small one has not."""
    data, arrays = content()
    schedule = schedule_of(data)
    outputs = {slot["buffer"] for slot in schedule["slots"] if slot["kind"] == "output"}
    operands = [operand for call in schedule["calls"] for operand in call["operands"]]
    mine = [each for each in operands if each["view"]["buffer"] in outputs and isinstance(each["shape"][0], dict)]
    mine[0]["shape"][0] = 8
    file.write_bytes(b"".join(pack(data, arrays)))
    with pytest.raises(aj.InternalError, match="does not fit the memory"):
        aj.load(file).run(np.ones(4), T.bind(1), M.bind(1))
