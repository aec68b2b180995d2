"""Recording: what is refused while a function runs, and which calls remain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def here() -> str:
    return __file__


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


async def test_sources_of_calls_are_the_users_lines() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return anp.mean(x) + 1

    await f(anp.zeros(2))
    entry: Any = f.match(anp.zeros(2))
    lines = {call.source for call in entry.program.schedule.calls}
    assert len(lines) == 1
    assert here() in lines.pop()
