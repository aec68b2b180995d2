"""Resources: threads, cores, memory, the first call, and probes meanwhile. Each test names its public issue."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import anyio
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from tests.scenarios.world import PATIENCE_S, Work, engine_of, on_each_loop, pings, until, value, wait


def _blas_threads() -> int:
    return max(int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas")


async def test_workers_times_blas_threads_are_no_more_than_the_cores() -> None:
    """openxla/xla #18608.

    Wanted: asynchronous dispatch that does not oversubscribe the cores and run at half the speed.
    Here: while an engine lives, BLAS has cores / workers threads on every worker; afterwards it has its own again.
    """
    cores, before, seen = len(os.sched_getaffinity(0)), _blas_threads(), list[int]()
    work = Work(inside=lambda: seen.append(_blas_threads()))
    async with engine_of(work, devices=[CpuDevice(workers=cores)]):
        for number in range(2 * cores):
            await work.f(np.full(2, float(number)))
    assert seen == [1] * (2 * cores)
    assert _blas_threads() == before


@on_each_loop
async def test_kernels_run_on_the_engines_few_threads_and_never_on_the_loops() -> None:
    """huggingface/sentence-transformers #3856 and #3839.

    Wanted: no ``encode()`` that blocks the loop of the endpoint, and no more threads than cores.
    Here: thirty-two concurrent requests are computed by the two workers of the engine, and by nobody else.
    """
    work = Work()
    async with engine_of(work), anyio.create_task_group() as tasks:
        for number in range(32):
            tasks.start_soon(work.f, np.full(2, float(number)))
    assert len(work.threads) == 32
    assert set(work.threads) <= {"asyncjit-cpu-0", "asyncjit-cpu-1"}


def _holds(engine: aj.Engine) -> tuple[int, int]:
    statistics = engine.statistics()
    return statistics.memory_bytes, statistics.tracker_entries


async def _until_it_holds(engine: aj.Engine, expected: tuple[int, int]) -> None:
    """A worker may hold the last replay for a moment longer than who awaited it."""
    gc.collect()
    with anyio.move_on_after(PATIENCE_S):
        while _holds(engine) != expected:
            await pings(1)
    assert _holds(engine) == expected


async def test_memory_after_many_requests_is_that_after_few() -> None:
    """pytorch/serve #1003.

    Wanted: memory that does not grow with every request until there is none.
    Here: bytes in use, and what the engine remembers, are after twenty and after four hundred calls what they were.
    """
    f = aj.jit(lambda x: anp.tanh(x) * 2 + 1)
    async with engine_of() as engine:
        await f.prepare(aj.spec(5_000, "float64"))
        before = _holds(engine)
        for count in (20, 400):
            for number in range(count):
                await f(np.full(5_000, float(number)))
            f.free_intermediates()
            await _until_it_holds(engine, before)


async def test_memory_of_requests_is_given_back() -> None:
    """felixdittrich92/OnnxTR #78, huggingface/diffusers #867.

    Wanted: memory that comes back when the requests of a server are over.
    Here: outputs go with their last reference, frames when asked for; then what was there before is there again.
    """
    f = aj.jit(lambda x: anp.tanh(x @ x) @ x)
    async with engine_of() as engine:
        await f.prepare(aj.spec((128, 128), "float64"))
        before = _holds(engine)
        results = [await f(np.ones((128, 128))) for _ in range(5)]
        assert engine.statistics().memory_bytes >= before[0] + 5 * 128 * 128 * 8
        del results
        f.free_intermediates()
        await _until_it_holds(engine, before)


@on_each_loop
async def test_the_first_request_finds_everything_prepared() -> None:
    """triton-inference-server/server #708, SeldonIO/MLServer #985, huggingface/text-embeddings-inference #580.

    Wanted: no first request that takes ten seconds where others take a fifth of one.
    Here: after ``prepare``, of a function and of all its batch sizes, requests record and plan nothing any more.
    """
    bodies: list[tuple[int, ...]] = []

    @aj.jit
    def model(x: Any) -> Any:
        bodies.append(x.shape)
        return x * 2

    one = model.batched(4, 0.0)
    async with engine_of():
        await model.prepare(aj.spec((1, 2), "float64"))
        await one.prepare(aj.spec((1, 2), "float64"))
        recorded = list(bodies)
        assert "lowered; 0 replays" in model.explain()
        assert value(await model(np.ones((1, 2)))) == 2.0
        for count in (1, 2, 3, 4):
            assert value(await one(np.ones((count, 2)))) == 2.0
    assert bodies == recorded
    assert sorted(recorded) == [(1, 2), (1, 2), (2, 2), (4, 2)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_a_process_that_may_use_one_core_gets_one_worker() -> None:
    """vllm-project/vllm #49919.

    Wanted: threads counted by the cores that a container may use, and not by those of the machine.
    Here: a process that is bound to one core has an engine of one worker.
    """
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from asyncjit.devices.cpu import CpuDevice; print(CpuDevice().workers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


class SlowToCompile(CpuDevice):
    """A CPU device that is slow to compile the lowered plan; the one in program order, which comes first, is quick."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self.asked, self.open = threading.Event(), threading.Event()
        self._plans = 0

    def instantiate(self, plan: Any, executor: str | None = None) -> Any:
        self._plans += 1
        if self._plans == 2:
            self.asked.set()
            wait(self.open)
        return super().instantiate(plan, executor)


@on_each_loop
async def test_probes_are_answered_while_a_model_is_prepared() -> None:
    """triton-inference-server/server #6469.

    Wanted: liveness and readiness that do not time out, and restart the server, while models load.
    Here: lowering and compiling happen on a thread; the loop answers meanwhile, and knows that the model is not ready.
    """
    device = SlowToCompile()
    model, ready = aj.jit(lambda x: x * 2), anyio.Event()

    async def load() -> None:
        await model.prepare(aj.spec(2, "float64"))
        ready.set()

    async with engine_of(devices=[device]), anyio.create_task_group() as tasks:
        tasks.start_soon(load)
        await until(device.asked)
        assert await pings(100) == 100
        assert not ready.is_set()
        device.open.set()
        await ready.wait()
        assert value(await model(np.ones(2))) == 2.0
