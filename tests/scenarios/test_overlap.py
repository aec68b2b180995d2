"""Overlap: what runs beside what, how far ahead, and why not. Each test names the public issue it comes from."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.testing import SimDevice
from tests.scenarios.world import PATIENCE_S, Work, engine_of, on_each_loop, until, value, wait


@pytest.mark.parametrize(("in_flight_max", "took_s"), [(1, 8.0), (4, 2.0)])
async def test_four_calls_in_flight_take_a_quarter_of_the_time(in_flight_max: int, took_s: float) -> None:
    """microsoft/onnxruntime #21791.

    Wanted: four outstanding asynchronous requests that are faster than one after the other.
    Here: eight calls of one virtual second each take eight seconds one at a time, and two seconds four at a time.
    """
    device = SimDevice(seed=1)
    f = aj.jit(lambda x: x * 2, in_flight_max=in_flight_max)
    async with engine_of(devices=[device]):
        replays = [f(np.full(2, float(number))) for number in range(8)]
        device.run_until_idle()
        assert device.now_s == took_s
        assert [value(await replay) for replay in replays] == [2.0 * number for number in range(8)]


@on_each_loop
async def test_a_chain_is_submitted_whole_and_its_links_never_meet_the_host() -> None:
    """microsoft/onnxruntime #17889.

    Wanted: asynchronous runs whose outputs stay bound on the device and do not block the server's thread.
    Here: three functions in a chain have their tickets while the first is still running; only the last is awaited.
    """
    first, second = Work(held=True), Work()
    add = aj.jit(lambda x: x + 1)
    async with engine_of(first, second):
        a = first.f(np.ones(2))
        b = add(a.result)
        c = second.f(b.result)
        await until(first.entered)
        assert (a.ticket < b.ticket < c.ticket, a.done(), second.log) == (True, False, [])
        first.let_go()
        assert value(await c) == 6.0
    assert second.log == [3.0]


@on_each_loop
async def test_two_models_are_inside_their_kernels_at_the_same_time() -> None:
    """NVIDIA/TensorRT #4132.

    Wanted: two contexts on two streams that really overlap.
    Here: the kernel of each model waits for that of the other, and both finish.
    """
    both = threading.Barrier(2)
    one, two = (Work(inside=lambda: both.wait(PATIENCE_S)) for _ in range(2))
    async with engine_of(one, two):
        replays = [work.f(np.full(2, float(number))) for number in range(3) for work in (one, two)]
        assert [value(await replay) for replay in replays] == [0.0, 0.0, 2.0, 2.0, 4.0, 4.0]


async def test_memory_grows_with_what_is_in_flight_and_not_with_calls() -> None:
    """NVIDIA/TensorRT #1367.

    Wanted: several executions at a time without all buffers once more for each.
    Here: weights are there once, intermediates once for each of two places in flight, however many calls there are.
    """
    f = aj.jit(lambda x, w: anp.tanh(x @ w) @ w, in_flight_max=2)
    x, w = np.ones((64, 256)), np.ones((256, 256))
    async with engine_of() as engine:
        on_device = anp.asarray(x), anp.asarray(w)
        await f.prepare(aj.spec(x.shape, "float64"), aj.spec(w.shape, "float64"))
        frame = int(re.search(r"frame ([\d,]+)", f.explain())[1].replace(",", ""))  # type: ignore[index]
        # All results are kept: one that is let go is given back when the last worker has let go of it too.
        kept: list[Any] = []
        for count in (1, 4, 40):
            replays = [f(*on_device) for _ in range(count)]
            kept += [await replay for replay in replays]
            used = engine.statistics().memory_bytes - x.nbytes - w.nbytes - len(kept) * x.nbytes
            assert used in (frame, 2 * frame)


@on_each_loop
async def test_the_next_batch_is_loaded_while_this_one_is_computed() -> None:
    """ray-project/ray #47944.

    Wanted: overlap from one execution to the next, and not inside of one only.
    Here: while the first batch is inside its kernel, the source is asked for the next ones, as many as are allowed.
    """
    work, loaded, third = Work(held=True), list[int](), threading.Event()

    def source() -> Iterator[Any]:
        for number in range(6):
            loaded.append(number)
            if number == 2:
                third.set()
            yield np.full(2, float(number))

    async with engine_of(work), aj.prefetch(source(), buffer=2) as batches:
        first = work.f(await anext(batches))
        await until(work.entered)
        await until(third)
        assert not first.done()
        assert len(loaded) <= 4
        work.let_go()
        rest = [value(await work.f(batch)) async for batch in batches]
        assert [value(await first), *rest] == [2.0 * number for number in range(6)]


@on_each_loop
async def test_stages_of_a_pipeline_work_on_different_items_at_the_same_time() -> None:
    """microsoft/onnxruntime #21791.

    Wanted: submissions that are pipelined, so that several requests are at different places on their way.
    Here: the second stage keeps the first item until the first stage has begun with the next one; the order is kept.
    """
    next_has_begun = threading.Event()
    first = Work(inside=lambda: next_has_begun.set() if len(first.log) > 1 else None)
    second = Work(inside=lambda: wait(next_has_begun))
    async with (
        engine_of(first, second),
        aj.pipeline(first.f, second.f, in_flight=2)(np.full(2, float(number)) for number in range(4)) as outputs,
    ):
        assert [value(output) async for output in outputs] == [0.0, 4.0, 8.0, 12.0]
    assert (first.log, second.log) == ([0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0])


@on_each_loop
async def test_calls_beyond_the_room_wait_and_beyond_the_queue_are_refused_at_the_call() -> None:
    """ray-project/ray #47944.

    Wanted: to submit more than fits without an exception, and a limit that is one.
    Here: what has no room waits in the queue; with the queue full the call raises at once and leaves no trace.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work, replays_queued_max=3) as engine:
        replays = [work.f(np.full(2, 0.0))]
        await until(work.entered)
        replays += [work.f(np.full(2, float(number))) for number in (1, 2, 3)]
        with pytest.raises(aj.EngineBusyError):
            work.f(np.full(2, 4.0))
        assert engine.statistics().queued == 3
        work.let_go()
        assert [value(await replay) for replay in replays] == [0.0, 2.0, 4.0, 6.0]
    assert work.log == [0.0, 1.0, 2.0, 3.0]


def _head(function: aj.JitFunction[Any, Any]) -> str:
    return function.explain().splitlines()[1].strip().partition(";")[0]


async def test_it_can_be_told_why_two_calls_did_not_overlap() -> None:
    """pytorch/pytorch #59692, #48279 and #19103.

    Wanted: to see why work on two streams ran one after the other.
    Here: ``explain`` gives streams and waits of a capture, ``predecessors`` whom a replay had to follow, ``story`` what
    happened to it, and the simulated device's trace who started when.
    """
    device = SimDevice(streams_max=4)
    apart, behind = aj.jit(lambda x: (anp.exp(x), anp.sin(x))), aj.jit(lambda x: anp.sin(anp.exp(x)))
    async with engine_of(devices=[device]) as engine:
        for function in (apart, behind):
            await function.prepare(aj.spec(3, "float64"))
        assert _head(apart) == "2 calls, 2 segments, 2 streams, 0 waits"
        assert _head(behind) == "2 calls, 1 segment, 1 stream, 0 waits"
        state = anp.zeros(3)
        bump = aj.jit(lambda state: state.__iadd__(1))
        first, second, free = bump(state), bump(state), apart(np.ones(3))
        device.run_until_idle()
        assert (value(await first), value(await second)) == (1.0, 2.0)
        await free
        assert (second.predecessors, free.predecessors) == ((first.ticket,), ())
        assert [move for _, move, _ in engine.story(second)] == ["Submit", "Admitted", "RunDone"]
    # In the order in which the device got them: the first, the one that is free to run beside it, the one behind it.
    position = [(entry.kind, entry.submission) for entry in device.trace].index
    assert position(("segment started", 1)) < position(("reported", 0)) < position(("segment started", 2))
