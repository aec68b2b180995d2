"""A user's own kernels: ordered by the access they declare, in captures and outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


@aj.kernel(writes="out")
def scaled(out: Any, src: Any, factor: float = 2.0, *more: Any, offset: float = 0.0) -> None:
    """Scale src into out."""
    np.multiply(src, factor, out=out)
    out += offset
    for each in more:
        out += each


@aj.kernel(reads_writes=("x",))
def bump(x: Any, by: int) -> str:
    x += by
    return "ignored"


async def test_a_kernel_runs_eagerly_on_numpy_views() -> None:
    out, src = anp.empty(3), anp.arange(3, dtype="float64")
    scaled(out, src, 3.0)
    assert np.asarray(await out).tolist() == [0.0, 3.0, 6.0]
    scaled(out[::2], src[1:], factor=10.0, offset=1.0)
    assert np.asarray(await out).tolist() == [11.0, 3.0, 21.0]
    scaled(out, src, 1.0, src, np.ones(3), offset=0.5)
    assert np.asarray(await out).tolist() == [1.5, 3.5, 5.5]


async def test_a_kernel_in_a_capture_is_one_call_of_it() -> None:
    state = anp.zeros(2)

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        out = anp.empty(2)
        scaled(out, x + 1, 2.0)
        bump(state, 1)
        return out + state

    results = [np.asarray(await f(anp.ones(2))).tolist() for _ in range(3)]
    assert results == [[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]]
    assert len(f.captures) == 1


async def test_kernels_and_operations_are_ordered_by_what_they_touch() -> None:
    x = anp.zeros(4)
    for _ in range(20):
        bump(x, 1)
        x += 1
        bump(x[1:3], 2)
    assert np.asarray(await x).tolist() == [40.0, 80.0, 80.0, 40.0]


@pytest.mark.parametrize(
    "operands",
    [
        lambda x: (x, x),
        lambda x: (x[:3], x[1:4]),
        lambda x: (x[::2], x[0:3:2]),
    ],
)
async def test_a_written_operand_that_overlaps_another_is_refused_at_the_call(operands: Any) -> None:
    x = anp.zeros(4)
    out, src = operands(x)
    with pytest.raises(aj.AliasError, match="'out' and 'src'.*reads_writes") as caught:
        scaled(out, src)
    assert caught.value.names == ("out", "src")

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        scaled(*operands(x))
        return x

    with pytest.raises(aj.AliasError):
        f(x)


async def test_two_written_operands_that_overlap_are_refused() -> None:
    @aj.kernel(writes=("low", "high"))
    def split(low: Any, high: Any, x: Any) -> None:
        low[...], high[...] = x, x

    out = anp.zeros(4)
    with pytest.raises(aj.AliasError, match="'low' and 'high'"):
        split(out[:3], out[2:], anp.zeros(1))
    split(out[:2], out[2:], anp.ones(2))
    split(out[::2], out[1::2], anp.ones(2))
    assert np.asarray(await out).tolist() == [1.0] * 4


async def test_read_operands_may_overlap() -> None:
    out, x = anp.empty(2), anp.ones(3)
    scaled(out, x[:2], 1.0, x[1:], x[:2])
    assert np.asarray(await out).tolist() == [3.0, 3.0]


async def test_what_a_kernel_only_reads_it_cannot_write() -> None:
    @aj.kernel(writes="out")
    def careless(out: Any, src: Any) -> None:
        src += 1
        out[...] = src

    out, src = anp.zeros(2), anp.zeros(2)
    careless(out, src)
    with pytest.raises(aj.AsyncJitError) as caught:
        await out
    chain: BaseException | None = caught.value
    while chain is not None and not isinstance(chain, aj.KernelError):
        chain = chain.__cause__
    assert isinstance(chain, aj.KernelError)
    assert isinstance(chain.__cause__, ValueError)
    assert np.asarray(await src).tolist() == [0.0, 0.0]


async def test_equal_calls_are_one_program_and_different_values_are_not() -> None:
    out, src = anp.empty(2), anp.ones(2)
    programs = aj.default_engine().eager_programs
    scaled(out, src, 3.0)
    before = len(programs)
    for _ in range(10):
        scaled(out, src, 3.0)
    assert len(programs) == before
    scaled(out, src, -0.0)
    scaled(out, src, 0.0)
    assert len(programs) == before + 2
    assert np.signbit(np.asarray(await out)).tolist() == [False, False]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: scaled(np.zeros(2), np.zeros(2)), aj.CaptureError, "writes 'out', which must be an array"),
        (lambda: scaled(None, 3), aj.CaptureError, "NoneType"),
        (lambda: scaled(anp.zeros(1), [1]), aj.CaptureError, "'src'.*cannot be hashed"),
        (lambda: scaled(), TypeError, "missing"),  # type: ignore[call-arg]
    ],
)
def test_a_call_that_cannot_be_bound_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"writes": "target"}, "no parameter 'target'"),
        ({"writes": ("more",)}, "no parameter 'more'"),
        ({"writes": "out", "reads_writes": "out"}, "writes= and in reads_writes="),
    ],
)
def test_names_that_are_no_parameters_are_refused_where_they_are_given(options: Any, message: str) -> None:
    def plain(out: Any, *more: Any) -> None: ...

    with pytest.raises(ValueError, match=message):
        aj.kernel(**options)(plain)


def test_a_kernel_keeps_the_name_and_the_words_of_its_function() -> None:
    assert scaled.__name__ == "scaled"
    assert scaled.__doc__ == "Scale src into out."
    assert repr(scaled) == "<kernel scaled>"
