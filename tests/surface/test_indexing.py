"""Gather, scatter, assignment and keys that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.numpy._dispatch import recording
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import DTYPE_NAMES, pair, same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


@pytest.mark.parametrize(
    "key",
    [
        (np.array([2, 0, -1]),),
        ([0, 1],),
        (slice(None), np.array([[0, 1], [2, 3]])),
        (np.array([0, 1]), np.array([1, 3])),
        (np.array([[0], [1]]), slice(None, None, -1), np.array([4, 0])),
        (1, slice(None), np.array([4, 0])),
        (slice(1), np.array([0, 1]), 2),
        (None, np.array([1, 1]), None, np.array([0, 2])),
        (Ellipsis, np.array([], dtype=int)),
    ],
)
def test_integer_arrays_gather_and_scatter_as_in_numpy(key: tuple[Any, ...]) -> None:
    host, ours = pair((3, 4, 5), "float32")
    our_key = tuple(anp.asarray(part) if isinstance(part, np.ndarray) else part for part in key)
    same_bits(ours[our_key], host[key])
    host[key] = -1.5
    ours[our_key] = -1.5
    same_bits(ours, host)


def test_a_gathering_index_out_of_bounds_fails_in_the_kernel() -> None:
    _, ours = pair((3, 4))
    with pytest.raises(IndexError, match="axis 0 of extent 3"):
        ours[anp.asarray([0, 3])]
    with pytest.raises(IndexError, match="axis 1"):
        ours[:, anp.asarray([-5])]


def test_a_zero_dimensional_integer_array_selects_by_value() -> None:
    host, ours = pair((3, 4))
    same_bits(ours[anp.asarray(2)], host[2])


def test_bad_keys_say_what_a_key_may_be() -> None:
    _, ours = pair((3, 4))
    for key, message in [
        (3, "out of bounds for axis 0 of extent 3"),
        ((0, -5), "out of bounds for axis 1"),
        ((0, 0, 0), "3 indices for an array of 2"),
        ((..., ...), "at most one Ellipsis"),
        (1.5, "1.5 is no index"),
        (True, "True is no index"),
    ]:
        with pytest.raises(IndexError, match=message):
            ours[key]
    for mask in (ours[:2] > 3, (slice(None), ours > 3)):
        with pytest.raises(IndexError, match="does not lie on axes from"):
            ours[mask]
    with pytest.raises(IndexError, match="behind an Ellipsis"):
        ours[..., ours[0] > 3]
    with pytest.raises(TypeError, match="float64"):
        ours[anp.asarray([0.0, 1.0])]


def test_a_mask_selects_as_numpys_does_where_its_values_may_be_read() -> None:
    host = sample("float32", (3, 4, 2))
    ours = anp.asarray(host)
    mask, rows, columns = host > 0, np.array([True, False, True]), np.array([False, True, True, False])
    for key in (
        mask,
        rows,
        (rows, 1),
        (slice(None), columns),
        (slice(1, 3), columns, 0),
        mask[:, :, 0],
        (rows, [1, 2]),
    ):
        ours_key = tuple(map(_ours, key)) if isinstance(key, tuple) else _ours(key)
        same_bits(ours[ours_key], host[key])
        same_bits(ours[key], host[key])


def _ours(part: Any) -> Any:
    return anp.asarray(part) if isinstance(part, np.ndarray) else part


def test_a_mask_is_refused_in_a_captured_function_and_in_a_loop_before_it_was_awaited() -> None:
    @aj.jit
    def positive(x: aj.Array) -> aj.Array:
        return x[x > 0]

    async def main() -> None:
        x = anp.asarray([1.0, -2.0, 3.0])
        mask = x > 0
        with pytest.raises(aj.WouldBlockError, match="boolean mask"):
            x[mask]
        await mask
        assert np.asarray(await x[mask]).tolist() == [1, 3]
        with pytest.raises(aj.HostReadError, match=r"boolean mask.*float\(x\)|boolean mask.*where"):
            await positive(x)

    token = recording.set(None)
    try:
        asyncio.run(main())
    finally:
        recording.reset(token)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_assignment_casts_and_broadcasts_as_numpys(dtype: str) -> None:
    for value in (1, 0.0, True, sample("float32", (4,)) * 0 + 2, np.int8(3), [[1], [2], [3]], np.ones((1, 3, 4))):
        host = sample(dtype, (3, 4))
        ours = anp.asarray(host)
        with np.errstate(all="ignore"):
            host[::-1, ::1] = value
            ours[::-1, ::1] = value
            same_bits(ours, host)
            host[1:, 2] = host[0, 3]
            ours[1:, 2] = ours[0, 3]
            same_bits(ours, host)
    ours[...] = ours.T.T
    same_bits(ours, host)


def test_a_mask_chooses_where_one_value_is_assigned() -> None:
    host = sample("float32", (3, 4))
    ours = anp.asarray(host)
    host[np.isnan(host)] = 1
    ours[anp.isnan(ours)] = 1
    same_bits(ours, host)
    rows = np.array([True, False, True])
    host[rows] = 2.5
    ours[rows] = 2.5
    same_bits(ours, host)
    with pytest.raises(IndexError, match="does not lie on axes from 0"):
        ours[np.array([True, False])] = 1


def test_a_mask_chooses_where_one_value_each_is_assigned() -> None:
    host = sample("float32", (3, 4))
    ours = anp.asarray(host)
    columns = np.array([True, False, True, True])
    for key, value in [
        (host > 0, np.arange((host > 0).sum(), dtype="float32")),
        ((slice(None), columns), np.ones((3, 3), "float32")),
        ((slice(1, None), columns), -1),
        ((1, columns), [7.0, 8.0, 9.0]),
        (np.zeros((3, 4), bool), np.zeros(0)),
    ]:
        host[key] = value
        ours[key] = value
        same_bits(ours, host)
    with pytest.raises(ValueError, match="scatter|broadcast"):
        ours[columns[None].repeat(3, 0)] = np.zeros(2)


def test_assignments_that_numpy_refuses_are_refused() -> None:
    ours = anp.zeros((2, 3), "int8")
    for value, error in [(300, OverflowError), (1j, TypeError), (np.ones(2, complex), TypeError), ("text", Exception)]:
        with pytest.raises(error):
            ours[...] = value
    with pytest.raises(ValueError, match=r"gives shape \(4,\)"):
        ours[0] = np.zeros(4)
    with pytest.raises(ValueError, match="broadcast array"):
        anp.broadcast_to(ours, (5, 2, 3))[...] = 1
    with pytest.raises(ValueError, match="broadcast array"):
        anp.broadcast_to(ours, (5, 2, 3))[...] += 1
