"""Control flow whose course is known when the node is recorded: branches are chosen, loops unrolled.

Law: what is not known by then is run in steps, see ``_program``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator
from asyncjit.onnx.operators.sequences import joined

__all__: list[str] = []

#: Rounds of a loop that are unrolled into one recording.
ROUNDS_MAX = 10_000


@operator("If", whole=True)
def if_(node: Node, run: Any, env: Mapping[str, Any], condition: Any) -> Any:
    branch = node.graph("then_branch" if bool(np.asarray(condition).reshape(-1)[0]) else "else_branch")
    return tuple(run.graph(branch, env, []))


@operator("Loop", whole=True)
def loop(node: Node, run: Any, env: Mapping[str, Any], rounds: Any, condition: Any, *states: Any) -> Any:
    body = node.graph("body")
    limit = None if rounds is None else int(np.asarray(rounds).item())
    goes_on = condition is None or bool(np.asarray(condition).item())
    values = list(states)
    kept: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(states))]
    done = 0
    while goes_on and (limit is None or done < limit):
        if done == ROUNDS_MAX:
            raise Unsupported(f"more than {ROUNDS_MAX} rounds of a loop that is unrolled")
        going, *results = run.graph(body, env, [np.array(done, np.int64), np.array(True), *values])
        goes_on, done = bool(np.asarray(going).item()), done + 1
        values = results[: len(values)]
        for each, value in zip(kept, results[len(values) :], strict=True):
            each.append(value)
    return (
        *values,
        *(_stacked(run, each, out) for each, out in zip(kept, body.outputs[1 + len(values) :], strict=True)),
    )


@operator("Scan", since=9, whole=True)
def scan(node: Node, run: Any, env: Mapping[str, Any], *values: Any) -> Any:
    """The body once for each element along the scanned axes: unrolled, since extents are known."""
    body = node.graph("body")
    count = node.int("num_scan_inputs")
    states, scanned = list(values[: len(values) - count]), values[len(values) - count :]
    kept = len(body.outputs) - len(states)
    axes = node.ints("scan_input_axes") or (0,) * count
    backwards = node.ints("scan_input_directions") or (0,) * count
    into = node.ints("scan_output_axes") or (0,) * kept
    prepends = node.ints("scan_output_directions") or (0,) * kept
    lengths = {each.shape[axis] for each, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise Unsupported(f"scanned axes of extents {sorted(lengths)}")
    (length,) = lengths
    columns: list[list[Any]] = [[] for _ in range(kept)]
    for step in range(length):
        given = [
            _element(each, axis, length - 1 - step if back else step)
            for each, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        results = run.graph(body, env, [*states, *given])
        states = results[: len(states)]
        for column, value, before in zip(columns, results[len(states) :], prepends, strict=True):
            column.insert(0 if before else len(column), value)
    kinds = body.outputs[len(states) :]
    return (*states, *(_stacked(run, c, kind, axis) for c, kind, axis in zip(columns, kinds, into, strict=True)))


@operator("Scan", since=8, whole=True)
def scan_batched(node: Node, run: Any, env: Mapping[str, Any], lengths: Any, *values: Any) -> Any:
    """The first version: a batch axis before everything, and a length for each row of it."""
    if lengths is not None:
        raise Unsupported("sequence_lens of Scan-8")
    body, count = node.graph("body"), node.int("num_scan_inputs")
    backwards = node.ints("directions") or (0,) * count
    batch = values[0].shape[0]
    rows = []
    for row in range(batch):
        inner = Node(
            node.name,
            "Scan",
            "",
            9,
            (),
            (),
            {"body": body, "num_scan_inputs": count, "scan_input_directions": backwards},
        )
        rows.append(scan(inner, run, env, *(_element(each, 0, row) for each in values)))
    return tuple(_stacked(run, list(column), None) for column in zip(*rows, strict=True))


def _element(value: Any, axis: int, index: int) -> Any:
    return value[(*(slice(None),) * (axis % len(value.shape)), index)]


def _stacked(run: Any, values: list[Any], kind: Any, axis: int = 0) -> Any:
    if not values:
        if kind.dtype is None or kind.shape is None or not all(isinstance(each, int) for each in kind.shape):
            raise Unsupported(f"no round was made, and the graph does not say what {kind.name!r} would have been")
        return np.empty((0, *kind.shape), kind.dtype)
    return joined(run, values, axis, is_new=True)
