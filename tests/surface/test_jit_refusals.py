"""Arguments that are refused: what cannot be told apart, and what ``strict`` does not admit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def probe(**options: Any) -> Any:
    """A function of an array and anything."""

    def probed(x: anp.Array, other: Any = None) -> anp.Array:
        return x + 1

    return aj.jit(probed, captures_max=100, **options)


@dataclass
class Mutable:
    items: list[int]

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("given", [{1, 2}, object(), lambda: 1, range(3), slice(1), bytearray(b"x")], ids=repr)
def test_what_cannot_be_told_apart_is_refused_with_the_remedy(given: Any) -> None:
    with pytest.raises(aj.CaptureError, match=r"'other'.*static=") as caught:
        probe()(anp.zeros(1), given)
    assert caught.value.name == "other"
    assert caught.value.given is type(given)


def test_the_place_inside_a_structure_is_named() -> None:
    with pytest.raises(aj.CaptureError, match=r"other\['layers'\]\[1\]"):
        probe()(anp.zeros(1), {"layers": [1, {2}]})


@pytest.mark.parametrize("given", [[1], Mutable([1]), {"a": 1}, (1, [2])], ids=repr)
def test_an_unhashable_static_argument_is_refused_with_the_remedy(given: Any) -> None:
    with pytest.raises(aj.CaptureError, match="cannot be hashed; pass a tuple"):
        probe(static="other")(anp.zeros(1), given)


def test_a_static_array_is_refused() -> None:
    with pytest.raises(aj.CaptureError, match="'other' is static, but was given an array"):
        probe(static="other")(anp.zeros(1), anp.zeros(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ma.masked_array([1.0], [True]), "mask would be lost"),
        (np.array(["a"]), "not supported"),
        (np.array([None]), "not supported"),
    ],
    ids=["masked", "text", "objects"],
)
def test_numpy_arrays_that_no_device_holds_are_refused(given: Any, message: str) -> None:
    with pytest.raises(aj.CaptureError, match=message):
        probe()(anp.zeros(1), given)


async def test_a_replay_as_an_argument_is_refused_with_the_remedy() -> None:
    f = probe()
    replay = f(anp.zeros(1))
    with pytest.raises(aj.CaptureError, match=r"replay\.result"):
        f(replay)
    assert np.asarray(await f(replay.result)).tolist() == [2.0]


async def test_strict_refuses_a_second_signature_and_names_the_argument() -> None:
    @aj.jit(strict=True)
    def f(x: anp.Array, *rest: Any, scale: float = 1.0) -> anp.Array:
        return x * scale

    await f(anp.zeros((2, 3)))
    await f(anp.ones((2, 3)), scale=3.0)
    with pytest.raises(aj.ReplayMismatchError) as caught:
        f(anp.zeros((2, 4)))
    assert caught.value.name == "x"
    assert caught.value.captured == "float64[2, 3]"
    assert caught.value.given == "float64[2, 4]"
    with pytest.raises(aj.ReplayMismatchError, match="'rest'"):
        f(anp.zeros((2, 3)), 1)
    assert len(f.captures) == 1


async def test_strict_refuses_another_number_of_arguments() -> None:
    @aj.jit(strict=True)
    def f(*xs: anp.Array) -> anp.Array:
        return xs[0] + 1

    await f(anp.zeros(1))
    with pytest.raises(aj.ReplayMismatchError, match="the number of arguments"):
        f(anp.zeros(1), anp.zeros(1))
