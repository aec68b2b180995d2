"""Load files while the model runs: the loading disappears behind the computing.

    python examples/overlap_loading.py

Writes some compressed files, then reads, decodes and scores them twice: one after the other, and with ``aj.prefetch``,
which decodes the next files on threads of its own while the current one is scored. (zlib lets go of the interpreter
lock, as image decoders do; for decoders that hold it there is ``executor="process"``.)
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

FILES, ROWS, WIDTH = 40, 1024, 256

weights = anp.asarray(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32) / 16)


@aj.jit
def score(images: Any) -> Any:
    hidden = images.astype("float32") / 64
    for _ in range(3):
        hidden = anp.maximum(hidden @ weights, 0)
    return hidden.mean()


def load(path: Path) -> np.ndarray:
    return np.frombuffer(zlib.decompress(path.read_bytes()), np.uint8).reshape(ROWS, WIDTH)


async def one_after_the_other(paths: list[Path]) -> list[float]:
    return [float(await score(load(path))) for path in paths]


async def overlapped(paths: list[Path]) -> tuple[list[float], aj.PrefetchStatistics]:
    scores = []
    async with aj.prefetch(paths, load, concurrency=2) as batches:
        async for batch in batches:
            scores.append(float(await score(batch)))
    return scores, batches.statistics()


async def main() -> None:
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{index}.z" for index in range(FILES)]
        for path in paths:
            path.write_bytes(zlib.compress(random.integers(64, size=(ROWS, WIDTH), dtype=np.uint8).tobytes(), 1))
        await score(load(paths[0]))
        start = time.perf_counter()
        expected = await one_after_the_other(paths)
        middle = time.perf_counter()
        scores, loading = await overlapped(paths)
        end = time.perf_counter()
    print(f"one after the other: {middle - start:.2f} s; overlapped: {end - middle:.2f} s")
    print(f"{loading.items} files took {loading.produce_s:.2f} s to load, {loading.hidden:.0%} of it hidden")
    print(f"same scores: {scores == expected}")


if __name__ == "__main__":
    asyncio.run(main())
