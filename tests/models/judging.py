"""One case on both engines, and how far the answers lie apart.

Law: ONNX Runtime is the oracle; nothing here knows how asyncjit computes. An error is relative to the largest magnitude
of the output that it stands in, since small elements of a float32 output carry the rounding of large ones.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import asyncjit as aj
import asyncjit.onnx
from tests.models.cases import Case

__all__ = ["Verdict", "differences", "doubts", "judge", "load", "oracle", "session"]

#: Largest error of a float output, relative to its largest magnitude.
ERROR_MAX = 1e-4

#: Of a quantised model: one of the 255 steps between the least and the largest value of the output.
QUANTA_MAX = 1.0

#: Where a model amplifies rounding, the oracle is in doubt itself. Two runs, each that far from the truth, may be twice
#: as far from each other; more is not admitted. Measured, only where the limits above are passed, by what ONNX Runtime
#: says without its optimisations, and with float inputs changed by less than a part in four million: quantised models
#: move by up to 4 quanta, where a last bit decides about whole steps, basic-pitch by up to 2e-3.
PERTURBATIONS, PERTURBED_BY, DOUBTS_MAX = 12, 2.0**-22, 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went. ``error``: the largest of its outputs, over the admitted one; None where it did not run.

    ``note`` says where more than the usual was admitted, and how much.
    """

    case: Case
    error: float | None
    max_rel_err: float | None
    reason: str = ""
    note: str = ""

    @property
    def is_right(self) -> bool:
        return self.error is not None and self.error <= 1.0


def session(path: Path, threads: int = 1, *, optimised: bool = True) -> onnxruntime.InferenceSession:
    """ONNX Runtime on a model, on so many threads, which sleep while there is nothing to do."""
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Without this its products of uint8 with int8 add up in 16 bits on processors without VNNI, and overflow.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    for pool in ("intra", "inter"):
        options.add_session_config_entry(f"session.{pool}_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@functools.lru_cache(maxsize=1)
def load(path: Path) -> asyncjit.onnx.Model:
    """The model; the last one is kept, since cases of one model stand together."""
    return aj.onnx.load(path)


@functools.lru_cache(maxsize=1)
def _session(path: Path) -> onnxruntime.InferenceSession:
    return session(path)


def oracle(path: Path, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """What ONNX Runtime says, by name of the output."""
    running = _session(path)
    names = [each.name for each in running.get_outputs()]
    return dict(zip(names, running.run(names, dict(inputs)), strict=True))


def differences(
    outputs: Mapping[str, Any], expected: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, tuple[float, float]]:
    """For each output its largest error relative to its largest magnitude, and the same in quanta.

    Raises:
        AssertionError: outputs have other names, shapes or dtypes than those expected, or are not finite.
    """
    assert list(outputs) == list(expected), f"outputs are {list(outputs)}, expected {list(expected)}"
    found = {}
    for name, right in expected.items():
        given = np.asarray(outputs[name])
        assert (given.shape, given.dtype) == (right.shape, right.dtype), (
            f"output {name!r} is {given.dtype}{given.shape}, expected {right.dtype}{right.shape}"
        )
        assert np.isfinite(given).all(), f"output {name!r} is not finite"
        right = right.astype(np.float64)
        distance = float(np.abs(given.astype(np.float64) - right).max(initial=0.0))
        largest = float(np.abs(right).max(initial=0.0)) or 1.0
        extent = float(np.ptp(right)) if right.size else 0.0
        found[name] = (distance / largest, distance / ((extent or largest) / 255))
    return found


def judge(case: Case, seeds: tuple[int, ...] = (0, 1)) -> Verdict:
    """Run a case on inputs of each seed, the later ones replaying what the first recorded."""
    path = case.file
    assert path is not None, f"{case.wheel.name} has not been fetched"
    unit, limit, name = (1, QUANTA_MAX, "quanta") if case.is_quantised else (0, ERROR_MAX, "relative")
    worst, relative, notes = 0.0, 0.0, []
    try:
        model = load(path)
        for seed in seeds:
            inputs = case.inputs(seed)
            expected = oracle(path, inputs)
            found = differences(model.run(**inputs), expected).values()
            relative = max(relative, *(each[0] for each in found))
            error, admitted = max(each[unit] for each in found), limit
            if error > limit:
                doubt = max(each[unit] for each in doubts(path, inputs, expected))
                notes.append(f"seed {seed}: {error:.1e} {name}, where ONNX Runtime differs from itself by {doubt:.1e}")
                admitted = max(limit, DOUBTS_MAX * doubt)
            worst = max(worst, error / admitted)
    except (aj.AsyncJitError, AssertionError) as error:
        return Verdict(case, None, None, f"{type(error).__name__}: {error}")
    return Verdict(case, worst, relative, note="; ".join(notes))


def doubts(
    path: Path, inputs: Mapping[str, Any], expected: Mapping[str, np.ndarray[Any, Any]]
) -> Iterator[tuple[float, float]]:
    """How far ONNX Runtime is from ``expected``, its own answer, in each way and output; as ``differences``."""
    rng = np.random.default_rng(0)

    def moved(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if value.dtype.kind != "f":
            return value
        return (value * (1 + rng.uniform(-PERTURBED_BY, PERTURBED_BY, value.shape))).astype(value.dtype)

    literal = session(path, optimised=False).run(list(expected), dict(inputs))
    yield from differences(dict(zip(expected, literal, strict=True)), expected).values()
    for _ in range(PERTURBATIONS):
        near = oracle(path, {name: moved(value) for name, value in inputs.items()})
        yield from differences(near, expected).values()
