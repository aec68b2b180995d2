"""Three models and a plain function in one pipeline: find the brightest patch of a picture, describe it, name it.

Run it: ``python examples/pipeline.py``. While one picture is being described, the next is being searched, and a thread
writes labels for the one before. The two models in a row hand each other arrays that are not computed yet.
"""

from __future__ import annotations

import asyncio

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

SIZE, PATCH, PICTURES = 128, 16, 40

rng = np.random.default_rng(3)
filters = anp.asarray(rng.standard_normal((PATCH * PATCH, 64)))
classes = anp.asarray(rng.standard_normal((64, 4)))
NAMES = ("circle", "cross", "line", "dot")


@aj.jit
def detect(picture):
    """The brightest of the patches that the picture falls into, as a row."""
    count = SIZE // PATCH
    patches = anp.reshape(picture, (count, PATCH, count, PATCH))
    patches = anp.reshape(anp.permute_dims(patches, (0, 2, 1, 3)), (count * count, PATCH * PATCH))
    brightness = anp.sum(patches, axis=1, keepdims=True)
    is_brightest = anp.astype(brightness == anp.max(brightness), "float64")
    return anp.sum(patches * is_brightest, axis=0)


@aj.jit
def classify(patch):
    """The class of a patch."""
    features = anp.maximum(patch @ filters, 0)
    return anp.argmax(features @ classes)


def name(label):
    """Plain Python, on a thread of its own."""
    return NAMES[int(np.asarray(label))]


def pictures():
    for _ in range(PICTURES):
        yield rng.random((SIZE, SIZE))


async def main():
    counts = dict.fromkeys(NAMES, 0)
    async with aj.pipeline(detect, classify, name, in_flight=6)(pictures()) as outputs:
        async for each in outputs:
            counts[each] += 1
    statistics = outputs.statistics()
    print(", ".join(f"{count} {each}" for each, count in counts.items() if count))
    for stage in statistics.stages:
        print(f"{stage.name}: {stage.items} items, busy {stage.busy_share:.0%} of the time")
    print(f"at most {statistics.in_flight_peak} pictures on their way")


if __name__ == "__main__":
    asyncio.run(main())
