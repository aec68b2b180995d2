"""Batched functions called from several loops and threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from tests.surface.batches import FOREVER_S, rows

PATIENCE_S = 20.0

entered, opened = threading.Event(), threading.Event()


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


@aj.kernel(writes="out")
def hold(out: Any, src: Any) -> None:
    entered.set()
    assert opened.wait(PATIENCE_S)
    out[...] = src


@aj.jit
def held(x: Any) -> Any:
    out = anp.empty(x.shape)
    hold(out, x)
    return out


async def call(one: Any, engine: aj.Engine, results: list[Any], started: threading.Event) -> None:
    with engine.use():
        task = asyncio.ensure_future(one(rows(1)))
        await asyncio.sleep(0)
        started.set()
        results.append(np.asarray(await task).tolist())


def test_a_loop_that_dies_without_a_word_takes_no_other_along() -> None:
    one = held.batched(8, FOREVER_S)
    engine = aj.Engine([CpuDevice(inline_s_max=0)])
    results: list[Any] = []

    def live() -> threading.Thread:
        started = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(call(one, engine, results, started)))
        thread.start()
        assert started.wait(PATIENCE_S)
        return thread

    first = live()
    assert entered.wait(PATIENCE_S)
    # A leader on a loop that stops turning and is closed with the task still pending.
    dead = asyncio.new_event_loop()
    coroutine = call(one, engine, results, threading.Event())
    dead.create_task(coroutine)._log_destroy_pending = False  # type: ignore[attr-defined]
    for _ in range(4):
        dead.call_soon(dead.stop)
        dead.run_forever()
    second = live()
    dead.close()
    opened.set()
    for thread in (first, second):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert results == [[[1.0, 1.0]]] * 2
    coroutine.close()
    engine.close()


def test_loops_in_threads_share_batches_and_each_call_gets_its_own_rows() -> None:
    async def main(engine: aj.Engine, thread: int) -> None:
        with engine.use():
            for turn in range(20):
                numbers = [float(1000 * thread + 10 * turn + call) for call in range(8)]
                results = await asyncio.gather(*(one(rows(number)) for number in numbers))
                assert [float(np.asarray(result)[0, 0]) for result in results] == [2 * number for number in numbers]
                done.append(thread)

    one = twice.batched(16, 0.001)
    done: list[int] = []
    engine = aj.Engine([CpuDevice(inline_s_max=0)])
    threads = [threading.Thread(target=asyncio.run, args=(main(engine, number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    engine.close()
    assert len(done) == 60
    statistics = one.statistics()
    assert (statistics.calls, statistics.cancelled) == (480, 0)
    assert sum(rows * count for rows, count in statistics.batch_rows.items()) == 480 + statistics.rows_padded
