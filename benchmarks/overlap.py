"""Loading overlapped with replays: how long 100 items take, against the slower of the two alone.

An item is a file of compressed bytes, read and inflated on a thread of ``prefetch`` (zlib lets go of the interpreter
lock), and a captured function of matrix products. Both are made to take about 5 ms in this run. The five cases (loading
alone, computing alone, one after the other, overlapped, side by side) take turns; each figure is the median of its
case, and a ratio the median of the ratios of the rounds.

Side by side: a bare thread loads everything while the loop computes everything, nothing handed over. Where two cores
share execution units or memory each slows the other down, and no overlap can be faster than this.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

ITEMS = 100
FILES = 10
TARGET_S = 0.005
ROUNDS = 7
WIDTH = 256


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder)))


def load(path: Path) -> np.ndarray:
    """What a loader does: read, decode, look at it as an array."""
    return np.frombuffer(zlib.decompress(path.read_bytes()), np.uint8).reshape(-1, WIDTH)


async def _run(folder: Path) -> dict[str, object]:
    files = _write_files(folder)
    paths = [files[index % FILES] for index in range(ITEMS)]
    batch = anp.asarray(load(files[0]))
    compute = await _calibrated(batch)

    async def loading() -> None:
        for path in paths:
            load(path)

    async def computing() -> None:
        for _ in paths:
            await compute(batch)

    async def serial() -> None:
        for path in paths:
            await compute(load(path))

    async def overlapped() -> None:
        async with aj.prefetch(paths, load) as batches:
            async for _ in compute.map(batches):
                pass

    async def side_by_side() -> None:
        thread = threading.Thread(target=lambda: [load(path) for path in paths])
        thread.start()
        await computing()
        await asyncio.to_thread(thread.join)

    cases: list[Callable[[], Awaitable[None]]] = [loading, computing, serial, overlapped, side_by_side]
    rounds = [[await _timed(case) for case in cases] for _ in range(ROUNDS)]
    return _figures(rounds)


def _figures(rounds: list[list[float]]) -> dict[str, object]:
    """The times of the cases of each round, as figures."""
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    load_s, compute_s, serial_s, overlapped_s, side_by_side_s = medians
    return {
        "load_ms": round(load_s / ITEMS * 1e3, 3),
        "compute_ms": round(compute_s / ITEMS * 1e3, 3),
        "serial_ms": round(serial_s * 1e3, 1),
        "overlapped_ms": round(overlapped_s * 1e3, 1),
        "side_by_side_ms": round(side_by_side_s * 1e3, 1),
        "ratio_to_max": round(statistics.median(times[3] / max(times[:2]) for times in rounds), 3),
        "ratio_to_side_by_side": round(statistics.median(times[3] / times[4] for times in rounds), 3),
    }


async def _timed(case: Callable[[], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await case()
    return time.perf_counter() - start


def _write_files(folder: Path) -> list[Path]:
    """Files that take about TARGET_S to load. Six random bits in each byte: literals, which are slow to inflate."""
    random = np.random.default_rng(0)
    rows = 4096
    for _ in range(3):
        files = [folder / f"{index}.z" for index in range(FILES)]
        for path in files:
            path.write_bytes(zlib.compress(random.integers(64, size=(rows, WIDTH), dtype=np.uint8).tobytes(), 1))
        start = time.perf_counter()
        for path in files:
            load(path)
        rows = max(WIDTH, round(rows * TARGET_S * FILES / (time.perf_counter() - start)))
    return files


async def _calibrated(batch: anp.Array) -> Any:
    """A captured function that takes about TARGET_S a batch."""
    products = 8
    for _ in range(3):
        compute = _products(products)
        await compute(batch)
        start = time.perf_counter()
        for _ in range(FILES):
            await compute(batch)
        took_s = (time.perf_counter() - start) / FILES
        products = max(1, round(products * TARGET_S / took_s))
    return compute


def _products(count: int) -> Any:
    weights = anp.asarray(np.full((WIDTH, WIDTH), 1 / WIDTH, np.float32))

    @aj.jit
    def compute(batch: Any) -> Any:
        rows = batch[:WIDTH].astype("float32")
        for _ in range(count):
            rows = rows @ weights
        return rows

    return compute
