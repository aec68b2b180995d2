"""Who may record: the task and the thread that run the function, on their engine."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def here() -> str:
    return __file__


async def test_a_task_that_records_after_the_capture_has_ended_is_refused() -> None:
    tasks: list[asyncio.Task[Any]] = []
    state = anp.zeros(2)

    async def late() -> Any:
        return state + 1

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        tasks.append(asyncio.get_running_loop().create_task(late()))
        return x + 1

    assert np.asarray(await f(anp.zeros(2))).tolist() == [1.0, 1.0]
    with pytest.raises(aj.CaptureError, match=r"has ended.*contextvars\.Context") as caught:
        await tasks[0]
    assert here() in str(caught.value.where)
    assert np.asarray(await (state + 1)).tolist() == [1.0, 1.0]


async def test_a_thread_that_records_into_another_ones_capture_is_refused() -> None:
    errors: list[str] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        def intrude() -> None:
            try:
                x + 1
            except aj.CaptureError as error:
                # The error itself would keep the recorded array alive by its traceback.
                errors.append(str(error))

        thread = threading.Thread(target=contextvars.copy_context().run, args=(intrude,))
        thread.start()
        thread.join()
        return x * 2

    await f(anp.zeros(2))
    assert len(errors) == 1
    assert "belongs to another task or thread" in errors[0]


def test_a_task_inside_a_recording_is_refused_while_the_function_still_runs() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        async def intrude() -> anp.Array:
            return x + 1

        return asyncio.run(intrude())

    with pytest.raises(aj.CaptureError, match="belongs to another task or thread"):
        f.run(anp.zeros(2))


async def test_a_fresh_context_may_work_on_arrays_beside_a_recording() -> None:
    state = anp.ones(2)
    seen: list[Any] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        def beside() -> None:
            # Later in ticket order than the call that is recorded here, so it may start but is not to be waited for.
            seen.append(state + 1)

        thread = threading.Thread(target=contextvars.Context().run, args=(beside,))
        thread.start()
        thread.join()
        return x * 2

    assert np.asarray(await f(anp.ones(2))).tolist() == [2.0, 2.0]
    assert np.asarray(await seen[0]).tolist() == [2.0, 2.0]
    entry: Any = f.match(anp.ones(2))
    assert len(entry.program.schedule.calls) == 1


async def test_an_array_of_one_recording_is_no_operand_of_another() -> None:
    leaked: list[Any] = []

    @aj.jit
    def inner(x: anp.Array) -> anp.Array:
        leaked.append(x)
        return x + 1

    with pytest.raises(aj.CaptureError):
        inner(anp.zeros(2))

    @aj.jit
    def outer(x: anp.Array) -> anp.Array:
        return x + leaked[0]

    with pytest.raises(aj.CaptureError, match="outside of that recording"):
        outer(anp.zeros(2))


async def test_state_of_another_engine_is_refused() -> None:
    state = anp.zeros(2)

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return x + state

    async with aj.Engine():
        with pytest.raises(aj.CaptureError, match="another engine") as caught:
            f(anp.zeros(2))
        assert here() in str(caught.value.where)
    assert np.asarray(await f(anp.zeros(2))).tolist() == [0.0, 0.0]


def test_a_recording_under_trio_belongs_to_its_task() -> None:
    trio = pytest.importorskip("trio")

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return x + 1

    async def main() -> list[float]:
        result: list[float] = np.asarray(await f(anp.zeros(2))).tolist()
        return result

    assert trio.run(main) == [1.0, 1.0]
