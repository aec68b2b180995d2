"""Control flow whose course is known when the node is recorded: branches are chosen, loops unrolled.

Law: what is not known by then is run in steps, see ``_program``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

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


def _stacked(run: Any, values: list[Any], kind: Any) -> Any:
    if not values:
        if kind.dtype is None or kind.shape is None or not all(isinstance(each, int) for each in kind.shape):
            raise Unsupported(f"no round was made, and the graph does not say what {kind.name!r} would have been")
        return np.empty((0, *kind.shape), kind.dtype)
    if all(isinstance(each, np.ndarray) for each in values):
        return np.stack(values)
    return anp.stack([run.array(each) for each in values])
