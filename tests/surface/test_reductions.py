"""Reductions, running sums and matrix products equal NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import DTYPE_NAMES, same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


AXES: list[Any] = [None, 0, -1, (0, 2), (1,), (2, 0, 1), ()]


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_reductions_equal_numpy_over_axes_and_dtypes(name: str) -> None:
    for dtype, axis, keepdims in itertools.product(DTYPE_NAMES, AXES, (False, True)):
        host = sample(dtype, (3, 4, 5))
        if name == "prod" and dtype in ("float16", "complex64"):
            host = (host * 0 + 1).astype(dtype)
        wanted = getattr(np, name)(host, axis=axis, keepdims=keepdims)
        same_bits(getattr(anp, name)(anp.asarray(host), axis=axis, keepdims=keepdims), wanted)
        same_bits(getattr(anp.asarray(host), name)(axis, keepdims=keepdims), wanted)


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_equal_numpy_over_axes_and_dtypes(name: str) -> None:
    for dtype, axis, keepdims in itertools.product(DTYPE_NAMES, AXES, (False, True)):
        host = sample(dtype, (3, 4, 5))
        host = np.where(np.isfinite(host) & (np.abs(host) < 1000), host, 1).astype(dtype)
        wanted = getattr(np, name)(host, axis=axis, keepdims=keepdims)
        same_bits(getattr(anp, name)(anp.asarray(host), axis=axis, keepdims=keepdims), wanted)


def test_variance_takes_degrees_of_freedom_off() -> None:
    host = sample("float64", (4,), 3)
    ours = anp.asarray(host)
    same_bits(anp.var(ours, correction=1), np.var(host, ddof=1))
    same_bits(anp.std(ours, ddof=1), np.std(host, ddof=1))
    np.testing.assert_allclose(np.asarray(anp.var(ours, correction=0.5)), np.var(host, ddof=0.5))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes_equal_numpy(name: str) -> None:
    for dtype, axis, keepdims in itertools.product(DTYPE_NAMES, (None, 0, 1, -1), (False, True)):
        host = sample(dtype, (4, 6))
        wanted = getattr(np, name)(host, axis=axis, keepdims=keepdims)
        same_bits(getattr(anp, name)(anp.asarray(host), axis=axis, keepdims=keepdims), wanted)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products_equal_numpy(name: str) -> None:
    for dtype, axis in itertools.product(("bool", "int8", "uint16", "float32", "complex64"), (None, 0, 1)):
        host = (sample(dtype, (3, 4)) != 0).astype(dtype)
        same_bits(getattr(anp, name)(anp.asarray(host), axis=axis), getattr(np, name)(host, axis=axis))
    same_bits(anp.cumulative_sum([1, 2, 3]), np.cumsum([1, 2, 3]))
    same_bits(anp.cumulative_prod(np.ones((2, 2)), axis=1, dtype="float32"), np.ones((2, 2), "float32"))
    with pytest.raises(ValueError, match="needs axis="):
        anp.cumulative_sum(anp.zeros((2, 2)))


def test_reductions_of_views_and_empty_arrays_equal_numpy() -> None:
    host = sample("float64", (6, 5))
    ours = anp.asarray(host)
    for view, our_view in [(host.T, ours.T), (host[::-2, 1:], ours[::-2, 1:]), (host[:, 0], ours[:, 0])]:
        same_bits(our_view.max(axis=0), view.max(axis=0))
        same_bits(our_view.sum(), view.sum())
        same_bits(our_view.argmin(), view.argmin())
    same_bits(anp.sum(np.zeros((0, 3)), axis=0), np.zeros(3))
    same_bits(anp.max(np.zeros((0, 3)), axis=1), np.zeros(0))
    same_bits(anp.count_nonzero(host > 0, axis=0), np.count_nonzero(host > 0, axis=0))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=f"{name} over an axis of extent 0"):
            getattr(anp, name)(np.zeros((0, 3)), axis=0)
    with pytest.raises(ValueError, match="out of bounds"):
        ours.sum(axis=2)
    with pytest.raises(ValueError, match="twice"):
        ours.sum(axis=(0, -2))


def test_sums_take_a_dtype() -> None:
    host = sample("int16", (9,))
    same_bits(anp.sum(host, dtype="float32"), np.sum(host, dtype="float32"))
    same_bits(anp.mean(host, dtype="float32"), np.mean(host, dtype="float32"))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((3,), (5, 3, 2)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
    ],
)
def test_matmul_equals_numpy_for_vectors_and_batches(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    for one, two in [("float32", "float32"), ("float64", "int8"), ("int32", "int32"), ("complex64", "float32")]:
        x, y = sample(one, left, 1), sample(two, right, 2)
        same_bits(anp.matmul(anp.asarray(x), anp.asarray(y)), np.matmul(x, y))
    same_bits(anp.asarray(x).T @ y if len(left) == 1 == len(right) else anp.asarray(x) @ y, x @ y)


def test_products_made_of_matmul_equal_numpy() -> None:
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(4, 3, 2)
    same_bits(anp.tensordot(x, y, axes=([1, 2], [1, 0])), np.tensordot(x, y, axes=([1, 2], [1, 0])))
    same_bits(anp.tensordot(x, y, axes=1), np.tensordot(x, y, axes=1))
    same_bits(anp.tensordot(x[0, 0], y[:, 0, 0], axes=1), np.tensordot(x[0, 0], y[:, 0, 0], axes=1))
    same_bits(anp.vecdot(x, x[1, 1]), np.vecdot(x, x[1, 1]))
    same_bits(anp.vecdot(x, x, axis=0), np.vecdot(x, x, axis=0))  # type: ignore[call-overload]
    same_bits(anp.outer(x[0], y[:, 0]), np.outer(x[0], y[:, 0]))
    same_bits(anp.dot(x[0], y[:, 0]), np.dot(x[0], y[:, 0]))
    same_bits(anp.dot(2.0, 3.0), np.dot(2.0, 3.0))
    with pytest.raises(ValueError, match="3 columns on the left, 2 rows on the right"):
        anp.zeros((2, 3)) @ anp.zeros((2, 3))
    with pytest.raises(ValueError, match="0-d"):
        anp.zeros(3) @ 2.0
    with pytest.raises(ValueError, match="at most two axes"):
        anp.dot(x, y)
    with pytest.raises(ValueError, match="differ on the paired axes"):
        anp.tensordot(x, y)
    with pytest.raises(ValueError, match="last axes differ"):
        anp.vecdot(x, y)
