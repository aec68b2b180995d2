"""Three different models in a pipeline: the time of an item against the least that it can take.

``stage_ms`` is each model alone, from the hand-over to its end, in the same round. No pipeline can be faster than its
slowest stage, nor than the sum of all stages on all workers: that is the bound. ``ratio_to_bound`` is a median over
rounds of what an item took, filling and draining included.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice

ITEMS = 100
ROUNDS = 7
ALONE = 15

#: Rows of an item and the widths of each model, a matrix product for each but the last: about 2 to 4 ms on one core.
ROWS = 48
WIDTHS = ((512, 640, 512), (512, 512, 512, 512), (512, 896, 512))


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    rng = np.random.default_rng(7)
    device = CpuDevice()
    async with aj.Engine([device]):
        models = [_model(widths, rng) for widths in WIDTHS]
        items = [rng.standard_normal((ROWS, WIDTHS[0][0])) for _ in range(ITEMS)]
        for model in models:
            await model.prepare(aj.spec(items[0].shape, "float64"))
        rounds = [await _round(models, items, device.workers) for _ in range(ROUNDS)]
    stage_ms = [statistics.median(alone[index] for alone, _, _ in rounds) for index in range(len(models))]
    return {
        "stage_ms": [round(each, 2) for each in stage_ms],
        "per_item_ms": round(statistics.median(per_item for _, per_item, _ in rounds), 2),
        "workers": device.workers,
        "ratio_to_bound": round(statistics.median(ratio for _, _, ratio in rounds), 3),
    }


def _model(widths: Sequence[int], rng: np.random.Generator) -> Any:
    layers = [anp.asarray(rng.standard_normal(shape) / 16) for shape in itertools.pairwise(widths)]

    @aj.jit
    def model(x: Any) -> Any:
        for layer in layers:
            x = anp.tanh(x @ layer)
        return x

    return model


async def _round(models: Sequence[Any], items: Sequence[np.ndarray], workers: int) -> tuple[list[float], float, float]:
    """Milliseconds of each model alone and of an item in the pipeline, and the ratio of that to the bound."""
    alone = [await _alone_ms(model, items[0]) for model in models]
    start = time.perf_counter()
    async with aj.pipeline(*models, in_flight=2 * workers + 2)(items) as outputs:
        async for output in outputs:
            del output
    per_item = (time.perf_counter() - start) / len(items) * 1e3
    return alone, per_item, per_item / max(*alone, sum(alone) / workers)


async def _alone_ms(model: Any, item: np.ndarray) -> float:
    taken = []
    for _ in range(ALONE):
        replay = model(item)
        await replay
        times = replay.times
        taken.append((times.done_s - times.started_s) * 1e3)
    return statistics.median(taken)
