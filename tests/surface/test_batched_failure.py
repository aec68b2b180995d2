"""Batched functions when something fails: each caller has its own error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.batches import BACKENDS, FOREVER_S, callers, rows, run

backends = pytest.mark.parametrize("backend", BACKENDS)

UNLUCKY = 13.0


@aj.kernel(writes="out")
def _check(out: Any, src: Any) -> None:
    if (src == UNLUCKY).any():
        raise ZeroDivisionError("unlucky")
    out[...] = src


@aj.jit
def checked(x: Any) -> Any:
    out = anp.empty(x.shape)
    _check(out, x)
    return out * 2


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


@backends
def test_only_the_call_whose_rows_fail_fails(backend: str) -> None:
    one = checked.batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(0))
            for name, first in (("a", 1.0), ("unlucky", UNLUCKY), ("b", 2.0)):
                await calls.started(name, one, rows(first))
            await calls.finish()
            assert [calls.values(name)[0][0] for name in ("a", "b")] == [2.0, 4.0]
            assert isinstance(calls.errors["unlucky"], aj.KernelError)
        assert one.statistics().retried == 3

    run(main, backend)


async def test_a_batch_that_writes_state_runs_once_and_each_call_gets_an_error_of_its_own() -> None:
    async with callers() as calls:
        count = anp.zeros(1)

        @aj.jit
        def counted(x: Any) -> Any:
            count[...] = count + 1
            return checked(x)

        one = counted.batched(8, FOREVER_S)
        await calls.started("first", one, rows(0))
        for name, first in (("a", 1.0), ("unlucky", UNLUCKY)):
            await calls.started(name, one, rows(first))
        await calls.finish()
        assert set(calls.errors) == {"a", "unlucky"}
        assert all(isinstance(error, aj.KernelError) for error in calls.errors.values())
        assert calls.errors["a"] is not calls.errors["unlucky"]
        assert one.statistics().retried == 0


async def test_a_function_that_cannot_be_recorded_fails_each_call_with_an_error_of_its_own() -> None:
    @aj.jit
    def broken(x: Any) -> Any:
        if x.shape[0] > 1:
            raise ArithmeticError("too many")
        if x[0, 0] > 0:
            return x
        return x

    one = broken.batched(8, FOREVER_S)
    held = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        await calls.started("held", held, rows(1))
        await calls.started("a", one, rows(1))
        assert isinstance(calls.errors["a"], aj.HostReadError)
        # Nothing is in flight: each call starts at once, and fails at once.
        for name in "bc":
            await calls.started(name, one, rows(1, 2))
        assert all(isinstance(calls.errors[name], ArithmeticError) for name in "bc")
        assert calls.errors["b"] is not calls.errors["c"]
        await calls.finish()


async def test_a_call_that_is_no_rows_fails_alone() -> None:
    one = checked.batched(8, FOREVER_S)

    @aj.jit
    def pair(x: Any, y: Any, z: Any = None) -> Any:
        return x + y

    two = pair.batched(8, FOREVER_S)
    bad: dict[str, tuple[Any, tuple[Any, ...], type[Exception], str]] = {
        "0-d": (one, (np.array(3.0),), ValueError, r"'x'.*shape \(\).*x\[None\]"),
        "none": (one, (np.empty((0, 2)),), ValueError, r"shape \(0, 2\)"),
        "no array": (one, (3,), ValueError, "no array"),
        "number": (one, (np.float64(3),), ValueError, "no array"),
        "uneven": (two, (rows(1, 2), rows(1)), ValueError, "'x' and 'y'.* 2 and 1 rows"),
        "nested": (two, (rows(1), rows(1), [rows(1)]), aj.CaptureError, "container"),
        "text": (one, (np.array([["a"]]),), aj.CaptureError, "'x'.*dtype"),
        "missing": (two, (rows(1),), TypeError, r"pair\(\)"),
    }
    async with callers() as calls:
        await calls.started("first", one, rows(0))
        await calls.started("a", one, rows(1))
        for name, (call, args, _, _) in bad.items():
            await calls.started(name, call, *args)
        await calls.finish()
        assert set(calls.results) == {"first", "a"}
        for name, (_, _, kind, match) in bad.items():
            with pytest.raises(kind, match=match):
                raise calls.errors[name]


async def test_a_pending_argument_that_fails_fails_its_call_alone() -> None:
    one = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        broken = checked(rows(UNLUCKY)).result
        await calls.started("first", one, rows(0))
        await calls.started("broken", one, broken)
        await calls.started("a", one, rows(1))
        await calls.finish()
        assert calls.values("a") == [[2.0, 2.0]]
        assert isinstance(calls.errors["broken"], aj.DependencyError)


async def test_an_output_that_is_not_rows_is_refused_by_name_and_shape() -> None:
    @aj.jit
    def mixed(x: Any) -> Any:
        return {"rows": x + 1, "mean": x.mean(axis=0)}

    one = mixed.batched(8, FOREVER_S)
    async with callers() as calls:
        await calls.started("a", one, rows(1, 2, 3, width=5))
        await calls.finish()
        with pytest.raises(aj.CaptureError, match=r"output\['mean'\].*shape \(5,\); expected 4 rows") as caught:
            raise calls.errors["a"]
        assert (caught.value.shape, caught.value.rows) == ((5,), 4)


async def test_calls_that_gather_when_the_engine_closes_are_told_so() -> None:
    one = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        for name in "abc":
            await calls.started(name, one, rows(1))
        engine = aj.current_engine()
        calls.start("closed", engine.aclose)
        while engine._unusable is None:
            await calls.settle()
        await calls.finish()
        assert {"a"} <= set(calls.results)
        assert all(isinstance(calls.errors[name], aj.EngineClosedError) for name in "bc")
        assert calls.errors["b"] is not calls.errors["c"]


async def test_signatures_that_nobody_calls_with_any_more_are_forgotten() -> None:
    one = twice.batched(1, 0.0)
    for width in range(1, 101):
        await one(rows(1, width=width))
    assert one.statistics().calls == 100
    assert len(one._gatherings) < 70
