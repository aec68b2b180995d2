"""Two halves of a model on two devices: while one batch is in the second half, the next is in the first.

Run it: ``python examples/two_devices.py``. Each device has memory and worker threads of its own, and the weights of its
half. What goes over is one copy a batch, a call of the captured function like any other. Nobody writes a queue: batches
are called one after the other, at most ``in_flight_max`` are under way, and results come in order.
"""

from __future__ import annotations

import asyncio

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

BATCHES, ROWS, FEATURES, HIDDEN, CLASSES = 24, 256, 256, 256, 10

rng = np.random.default_rng(5)
first_half = rng.standard_normal((2, FEATURES, HIDDEN)).astype("float32") / 16
second_half = rng.standard_normal((HIDDEN, CLASSES)).astype("float32")
batches = rng.standard_normal((BATCHES, ROWS, FEATURES)).astype("float32")


async def main():
    async with aj.Engine(devices=("cpu:0", "cpu:1")) as engine:
        w1, w2 = anp.asarray(first_half[0], device="cpu:0"), anp.asarray(first_half[1], device="cpu:0")
        w3 = anp.asarray(second_half, device="cpu:1")
        seen = anp.zeros(CLASSES, "int64", device="cpu:1")

        @aj.jit(in_flight_max=3)
        def classify(x):
            hidden = anp.maximum(x @ w1, 0)
            hidden = anp.maximum(hidden @ w2, 0)
            scores = anp.to_device(hidden, "cpu:1") @ w3
            labels = anp.argmax(scores, axis=1)
            seen[...] = seen + (labels[:, None] == anp.arange(CLASSES, device="cpu:1")).sum(axis=0)
            return labels

        total = 0
        async for labels in classify.map(batches, in_flight=3):
            total += len(np.asarray(labels))
        await seen
        print(f"{total} rows on {labels.device}, by class: {' '.join(map(str, np.asarray(seen)))}")
        print(f"{len(classify.captures)} capture over {' and '.join(engine.statistics().devices)}")


if __name__ == "__main__":
    asyncio.run(main())
