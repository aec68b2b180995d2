"""Recording: what is refused while a function runs, what becomes of arrays that outlive it, which calls remain."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def here() -> str:
    return "test_capture.py"


READS: dict[str, Callable[[Any], Any]] = {
    "bool()": lambda x: bool(x[0] > 0),
    "float()": lambda x: float(x[0]),
    "int()": lambda x: int(x[0]),
    "complex()": lambda x: complex(x[0]),
    "an index": lambda x: range(10)[x.astype("int64")[0]],
    "np.asarray": lambda x: np.asarray(x),
    "item()": lambda x: x[0].item(),
    "tolist()": lambda x: x.tolist(),
    "in": lambda x: 1.0 in x,
    "__dlpack__": lambda x: np.from_dlpack(x),
}


@pytest.mark.parametrize("what", READS)
async def test_reading_a_value_names_the_line_and_the_remedy(what: str) -> None:
    read = READS[what]

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        read(x + 1)
        return x + 1

    with pytest.raises(aj.HostReadError, match=r"static=") as caught:
        f(anp.zeros(2))
    assert isinstance(caught.value, ValueError)
    assert caught.value.what == what
    assert here() in str(caught.value.where)
    assert f.captures == []


async def test_reading_state_is_refused_too_since_only_its_value_of_now_is_there() -> None:
    threshold = anp.ones(1)
    await threshold

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return x if threshold[0] > 0 else -x

    with pytest.raises(aj.HostReadError, match="threshold"):
        f(anp.zeros(2))
    assert bool(await (threshold[0] > 0))


async def test_printing_an_array_reads_nothing() -> None:
    texts: list[str] = []
    state = anp.ones(1)

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        texts.extend([repr(x), str(state)])
        return x + state

    await f(anp.zeros(2))
    assert all("pending" in text for text in texts)


@pytest.mark.parametrize(
    ("returned", "path", "kind"),
    [
        (lambda x: 3, "", "an int"),
        (lambda x: (x, {"n": 4.5}), r"\[1\]\['n'\]", "a float"),
        (lambda x: [x, [None, "text"]], r"\[1\]\[1\]", "a str"),
        (lambda x: {x.dtype: x, "k": {1}}, r"\['k'\]", "a set"),
    ],
)
async def test_what_is_no_array_in_the_result_is_refused_by_its_place(returned: Any, path: str, kind: str) -> None:
    @aj.jit
    def f(x: anp.Array) -> Any:
        return returned(x + 1)

    with pytest.raises(aj.CaptureError, match=f"return value{path} of .* is {kind}"):
        f(anp.zeros(2))


async def test_a_function_without_operations_has_nothing_to_replay() -> None:
    @aj.jit
    def same(x: anp.Array) -> anp.Array:
        return x

    @aj.jit
    def lost(x: anp.Array) -> None:
        x + 1

    with pytest.raises(aj.NothingCapturedError, match="recorded no array operation"):
        same(anp.zeros(2))
    with pytest.raises(aj.NothingCapturedError, match="returns none of their results"):
        lost(anp.zeros(2))


async def test_calls_without_effect_are_not_replayed_but_writes_and_kernels_are() -> None:
    ran: list[int] = []
    state = anp.zeros(2)

    @aj.kernel()
    def watch(x: Any) -> None:
        ran.append(len(x))

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        unused = anp.exp(x) * 3
        unused += 1
        watch(x)
        state[:1] = x[:1]
        return x + 1

    for _ in range(3):
        await f(anp.ones(2))
    kernels = [line.split()[1] for line in f.explain().splitlines()[5:]]
    assert "exp" not in kernels
    assert "multiply" not in kernels
    assert ran == [2, 2, 2]
    assert np.asarray(await state).tolist() == [1.0, 0.0]


# Arrays that outlive the function.


class Momentum:
    def __init__(self) -> None:
        self.velocity: Any = None
        self.table: Any = None
        self.view: Any = None

    @aj.jit
    def step(self, x: anp.Array) -> anp.Array:
        if self.velocity is None:
            self.velocity = anp.zeros((2,), dtype="float64")
            self.velocity[1:] = anp.ones(1) * 2 + anp.asarray([3.0])
            self.table = anp.asarray([10.0, 20.0])
            self.view = self.velocity[::-1]
        self.velocity[...] = self.velocity * 0.5 + x
        return self.velocity + self.table


async def test_constants_that_are_kept_become_state_made_once() -> None:
    model = Momentum()
    x = anp.ones(2)
    results = [np.asarray(await model.step(x)).tolist() for _ in range(3)]
    assert results == [[11.0, 23.5], [11.5, 22.75], [11.75, 22.375]]
    assert len(model.step.captures) == 1
    assert np.asarray(await model.velocity).tolist() == [1.75, 2.375]
    assert np.asarray(await model.view).tolist() == [2.375, 1.75]
    assert np.asarray(await model.table).tolist() == [10.0, 20.0]
    model.velocity[...] = 0
    assert np.asarray(await model.step(anp.zeros(2))).tolist() == [10.0, 20.0]


async def test_a_constant_that_is_read_before_it_is_changed_is_kept_as_it_was_read() -> None:
    kept: list[Any] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        if not kept:
            kept.append(anp.zeros(1))
        y = x + kept[0]
        kept[0][...] = 5
        return y

    assert [float((await f(anp.ones(1)))[0]) for _ in range(3)] == [1.0, 6.0, 6.0]


async def test_a_kept_array_that_depends_on_the_call_is_refused_with_the_remedy() -> None:
    kept: list[Any] = []

    @aj.jit
    def result(x: anp.Array) -> anp.Array:
        kept.append(x * 2)
        return x + 1

    @aj.jit
    def argument(x: anp.Array) -> anp.Array:
        kept.append(x)
        return x + 1

    for f, what in ((result, "an array made at"), (argument, "argument 'x'")):
        with pytest.raises(aj.CaptureError, match=what) as caught:
            f(anp.zeros(2))
        assert "self.m[...]" in str(caught.value)
    with pytest.raises(aj.CaptureError, match="outside"):
        kept[0] + 1
    with pytest.raises(aj.CaptureError, match="outside"):
        result(kept[0])
    with pytest.raises(aj.CaptureError, match="outside"):
        np.asarray(kept[0])
    with pytest.raises(aj.CaptureError, match="outside"):
        await kept[0]


async def test_arrays_in_reference_cycles_were_not_kept() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        cycle: list[Any] = [x * 2]
        cycle.append(cycle)
        return x + 1

    gc.disable()
    try:
        await f(anp.zeros(2))
    finally:
        gc.enable()
    assert len(f.captures) == 1


async def test_host_data_is_copied_when_it_is_met_and_fresh_in_each_replay() -> None:
    host = np.ones(2)

    @aj.jit
    def f(x: anp.Array) -> tuple[anp.Array, anp.Array]:
        constant = anp.asarray(host)
        before = constant * 1
        constant += x
        return before, constant

    for _ in range(3):
        before, after = await f(anp.ones(2))
        assert np.asarray(before).tolist() == [1.0, 1.0]
        assert np.asarray(after).tolist() == [2.0, 2.0]
        host[:] = 7


async def test_collection_in_the_middle_of_a_recording_changes_nothing() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        garbage: list[Any] = [anp.zeros(3) for _ in range(5)]
        garbage.append(garbage)
        del garbage
        y = x + 1
        gc.collect()
        return y * 2

    assert np.asarray(await f(anp.zeros(2))).tolist() == [2.0, 2.0]


# Who may record.


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


async def test_sources_of_calls_are_the_users_lines() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return anp.mean(x) + 1

    await f(anp.zeros(2))
    entry: Any = f.match(anp.zeros(2))
    lines = {call.source for call in entry.program.schedule.calls}
    assert len(lines) == 1
    assert here() in lines.pop()


def test_a_recording_under_trio_belongs_to_its_task() -> None:
    trio = pytest.importorskip("trio")

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return x + 1

    async def main() -> list[float]:
        result: list[float] = np.asarray(await f(anp.zeros(2))).tolist()
        return result

    assert trio.run(main) == [1.0, 1.0]
