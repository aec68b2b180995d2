"""What users of TinyJit reported of training: 16571 and 16618 at github.com/tinygrad/tinygrad/issues.

Law: as in ``test_tinygrad_issues``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import RUNS, Run


@pytest.fixture(params=list(RUNS))
def run(request: pytest.FixtureRequest) -> Run:
    """Runs an async function on a loop of each kind."""
    return RUNS[request.param]


def values(array: Any) -> Any:
    return np.asarray(array).tolist()


def test_16571_an_array_that_is_held_outside_survives_the_planner(run: Run) -> None:
    """Reported: a gradient that the function leaves in an attribute is zero after a replay, for the planner had put it
    into memory that was used again. Here: what is written outside is state, and no frame holds it."""

    class Layer:
        def __init__(self) -> None:
            self.weight = anp.full((3, 3), 0.5)
            self.gradient = anp.zeros((3, 3))

        @aj.jit
        def step(self, x: anp.Array, wanted: anp.Array) -> anp.Array:
            error = x @ self.weight - wanted
            self.gradient[...] = anp.permute_dims(x, (1, 0)).copy() @ error
            # Intermediates of the same size, which would like to have its memory.
            noise = anp.zeros((3, 3))
            for _ in range(4):
                noise = noise * 2 + error.sum()
            return (error * error).sum() + noise.sum() * 0

    async def main() -> None:
        layer = Layer()
        for seed in range(4):
            x, wanted = np.random.default_rng(seed).random((2, 3, 3))
            await layer.step(anp.asarray(x), anp.asarray(wanted))
            error = x @ np.full((3, 3), 0.5) - wanted
            np.testing.assert_allclose(np.asarray(await layer.gradient), x.T @ error)

    run(main)


def test_16618_training_goes_on_though_the_weights_are_not_returned(run: Run) -> None:
    """Reported: the update of a weight that is an argument is dropped from the replays, and training stands still.
    Here: it happens at each replay, in the caller's array."""
    features = np.random.default_rng(1).normal(size=(64, 5))
    wanted = features @ np.arange(5.0).reshape(5, 1)
    x, y = anp.asarray(features), anp.asarray(wanted)

    @aj.jit
    def step(weight: anp.Array) -> anp.Array:
        error = x @ weight - y
        weight -= anp.permute_dims(x, (1, 0)) @ error * (0.2 / 64)
        return (error * error).mean()

    async def main() -> None:
        weight, host = anp.zeros((5, 1)), np.zeros((5, 1))
        losses = []
        for _ in range(5):
            losses.append(values(await step(weight)))
            host = host - features.T @ (features @ host - wanted) * (0.2 / 64)
            np.testing.assert_allclose(np.asarray(await weight), host)
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0] / 2

    run(main)
