"""Damaged models: bytes changed by chance, loaded, and run where they load.

    python -m tests.onnx.fuzz [--seconds 600] [--seed 0] [FILE …]

Whatever the bytes, ``load`` gives a model or raises ``OnnxError``; a run gives outputs or raises an ``AsyncJitError``;
nothing crashes or hangs, and nothing takes more memory than it may. An attempt that breaks this is kept in a file.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import random
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import asyncjit as aj
from asyncjit.errors import AsyncJitError, OnnxError
from asyncjit.onnx import Model, ValueType, load
from tests.onnx._building import model, node, value

__all__ = ["attempt", "main", "mutated", "seeds"]

VALUE_BYTES_MAX = 2**22
#: What an attempt may allocate: its values, copies of the file, and what protobuf and NumPy need besides.
PEAK_BYTES_MAX = 2**27
#: An attempt that takes longer hangs.
HANG_S = 60.0


def seeds() -> Iterator[bytes]:
    """Small models with something of everything."""
    f, i64 = np.float32, np.int64
    body = helper.make_graph(
        [node("Identity", ["cond"], ["going"]), node("Add", ["v", "x"], ["v_out"]), node("Neg", ["v_out"], ["kept"])],
        "body",
        [value("i", i64, []), value("cond", bool, []), value("v", f, [2])],
        [value("going", bool, []), value("v_out", f, [2]), value("kept", f, [2])],
    )
    branch = helper.make_graph([node("Relu", ["last"], ["t"])], "then", [], [value("t", f, [2])])
    other = helper.make_graph([node("Neg", ["last"], ["e"])], "else", [], [value("e", f, [2])])
    yield model(
        [
            node("Loop", ["n", "", "x"], ["last", "all"], body=body),
            node("Shape", ["all"], ["s"]),
            node("ReduceSum", ["last"], ["sum"], keepdims=0),
            node("Greater", ["sum", "zero"], ["c"]),
            node("If", ["c"], ["b"], then_branch=branch, else_branch=other),
            node("Reshape", ["all", "s"], ["z"]),
        ],
        [value("x", f, [2]), value("n", i64, [])],
        [value("z", f, [None, 2]), value("b", f, [2])],
        {"zero": np.array(0, f)},
    ).SerializeToString()
    weights = {"w": np.ones((4, 3, 3, 3), f), "b": np.ones(4, f), "shape": np.array([0, -1]), "pads": np.arange(4)}
    yield model(
        [
            node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
            node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
            node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
            node("Reshape", ["t", "shape"], ["r"]),
            node("Softmax", ["r"], ["s"], axis=-1),
            node("Slice", ["s", "zero", "two", "axis"], ["cut"]),
            node("Cast", ["cut"], ["z"], to=TensorProto.DOUBLE),
        ],
        [value("x", f, ["n", 3, 8, 8])],
        [value("z", np.float64, [None, None])],
        weights | {"zero": np.array([0]), "two": np.array([2]), "axis": np.array([1])},
    ).SerializeToString()


def mutated(random: random.Random, data: bytes) -> bytes:
    """``data`` with one to eight changes: bytes, bits, cuts, repeats, and numbers made large."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        if not changed:
            break
        at = random.randrange(len(changed))
        kind = random.randrange(6)
        if kind == 0:
            changed[at] = random.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            del changed[at : at + random.choice((1, 4, 64))]
        elif kind == 3:
            changed[at:at] = changed[at : at + random.choice((1, 8, 128))]
        elif kind == 4:
            changed[at : at + 1] = random.choice((b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x10", b"\x00"))
        else:
            del changed[at:]
    return bytes(changed)


def attempt(data: bytes) -> str:
    """Load ``data`` and run what loads: ``refused``, ``failed`` or ``ran``; anything else raises."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = _attempt(data)
    finally:
        _, peak = tracemalloc.get_traced_memory()
    if tracemalloc.is_tracing() and peak - before > PEAK_BYTES_MAX:
        raise MemoryError(f"{peak - before} bytes were allocated, {PEAK_BYTES_MAX} are allowed")
    return outcome


def _attempt(data: bytes) -> str:
    try:
        loaded = load(data, value_bytes_max=VALUE_BYTES_MAX)
    except OnnxError:
        return "refused"
    inputs = {kind.name: _input(kind) for kind in loaded.inputs}
    if any(np.asarray(each, object).nbytes > VALUE_BYTES_MAX for each in inputs.values() if each is not None):
        return "refused"
    try:
        asyncio.run(_run(loaded, inputs))
    except (AsyncJitError, MemoryError):
        return "failed"
    return "ran"


async def _run(loaded: Model, inputs: dict[str, Any]) -> None:
    async with aj.Engine(memory_bytes_max=2**24):
        await loaded(**inputs)


def _input(kind: ValueType) -> Any:
    if kind.kind == "sequence":
        return []
    if kind.kind == "optional" or kind.shape is None:
        return np.zeros((), kind.dtype or np.float32)
    shape = [each if isinstance(each, int) else 2 for each in kind.shape]
    if np.prod([float(each) for each in shape]) > 2**16 or len(shape) > 32:
        shape = []
    return np.ones(shape, object if kind.is_text else kind.dtype or np.float32)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="models to damage besides the small ones")
    given = parser.parse_args(arguments)
    originals = [*seeds(), *(path.read_bytes() for path in given.files)]
    chance = random.Random(given.seed)
    tracemalloc.start()
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + given.seconds
    while time.monotonic() < until:
        data = mutated(chance, chance.choice(originals))
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            outcomes[attempt(data)] += 1
        except BaseException:
            path = Path(f"fuzz-{given.seed}-{sum(outcomes.values())}.onnx")
            path.write_bytes(data)
            print(f"broken by {path}", file=sys.stderr)
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
    print(f"{sum(outcomes.values())} attempts: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
