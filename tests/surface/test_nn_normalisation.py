"""Softmax and the normalisations equal a plain NumPy computation in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.ops import _blocks
from tests.surface.immediate import ImmediateSink, immediate

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


@pytest.fixture(params=[7, _blocks.BLOCK_ELEMENTS], ids=["small blocks", "usual blocks"])
def block_elements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_ELEMENTS", request.param)
    monkeypatch.setattr("asyncjit.ops.normalisation.BLOCK_ELEMENTS", request.param)


def values(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def close(ours: Any, wanted: Any, dtype: str) -> None:
    host = np.asarray(ours)
    assert host.dtype == dtype
    assert host.shape == wanted.shape
    np.testing.assert_allclose(host.astype("float64"), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x.astype("float64") - x.astype("float64").max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    wide = x.astype("float64")
    deviations = wide - wide.mean(axes, keepdims=True)
    return np.asarray(deviations / np.sqrt((deviations**2).mean(axes, keepdims=True) + epsilon))


@given(shape=SHAPES, dtype=st.sampled_from(list(TOLERANCE)), data=st.data())
def test_softmax_and_its_logarithm_equal_numpy(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = values(shape, dtype)
    with immediate():
        for ours, host in ((anp.asarray(x), x), (anp.asarray(x).T, x.T)):
            close(nn.softmax(ours, axis), softmax(host, axis), dtype)
            close(nn.log_softmax(ours, axis), np.log(softmax(host, axis)), dtype)


@pytest.mark.usefixtures("block_elements")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_in_blocks_equals_softmax_at_once(axis: int) -> None:
    x = values((5, 3, 11))
    close(nn.softmax(anp.asarray(x), axis), softmax(x, axis), "float32")
    close(nn.log_softmax(anp.asarray(x), axis), np.log(softmax(x, axis)), "float32")


def test_softmax_takes_large_values_infinities_and_nothing() -> None:
    x = np.array([[1e30, 0, -1e30], [np.inf, 0, 0], [-np.inf, 0, 0]], "float32")
    with np.errstate(invalid="ignore"):
        ours = np.asarray(nn.softmax(anp.asarray(x)))
    np.testing.assert_array_equal(ours[0], [1, 0, 0])
    assert np.isnan(ours[1, 0])
    np.testing.assert_array_equal(ours[2], [0, 0.5, 0.5])
    assert nn.softmax(anp.zeros((0, 3), "float32")).shape == (0, 3)
    assert nn.softmax(anp.zeros((3, 0), "float32")).shape == (3, 0)


def test_softmax_of_integers_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        TypeError, match="softmax takes operands of one dtype, float32 or float64, got int32; use astype"
    ):
        nn.softmax(anp.zeros((2, 3), "int32"))


@given(shape=SHAPES, dtype=st.sampled_from(list(TOLERANCE)), affine=st.booleans(), data=st.data())
def test_layer_norm_and_rms_norm_equal_numpy(
    shape: tuple[int, ...], dtype: str, affine: bool, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    axes = tuple(range(axis % len(shape), len(shape)))
    x = values(shape, dtype)
    scale, bias = (values(shape[axes[0] :], dtype, seed) if affine else None for seed in (1, 2))
    factor, summand = (1, 0) if scale is None or bias is None else (scale.astype("float64"), bias.astype("float64"))
    wide = x.astype("float64")
    with immediate():
        ours, mean, inverse = nn.layer_norm_with_statistics(x, scale, bias, axis=axis, epsilon=1e-3)
        close(ours, standardized(x, axes, 1e-3) * factor + summand, dtype)
        close(mean, wide.mean(axes, keepdims=True), "float64" if dtype == "float64" else "float32")
        wanted = 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-3)
        close(inverse, wanted, "float64" if dtype == "float64" else "float32")
        root = np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-3)
        close(nn.rms_norm(x, scale, axis=axis, epsilon=1e-3), wide / root * factor, dtype)


@pytest.mark.usefixtures("block_elements")
def test_rows_in_blocks_equal_rows_at_once() -> None:
    x, scale, bias = values((9, 5)), values((5,), seed=1), values((5,), seed=2)
    close(nn.layer_norm(x, scale, bias), standardized(x, (1,), 1e-5) * scale + bias, "float32")
    x, scale, bias = values((3, 4, 5)), values((4,), seed=1), values((4,), seed=2)
    wanted = standardized(x, (2,), 1e-5) * scale[:, None] + bias[:, None]
    close(nn.instance_norm(x, scale, bias), wanted, "float32")


def test_a_factor_of_any_shape_that_broadcasts_is_applied() -> None:
    x, scale = values((2, 3, 4)), values((3, 1), seed=1)
    close(nn.layer_norm(x, scale, np.float32(2)), standardized(x, (2,), 1e-5) * scale + 2, "float32")


@pytest.mark.usefixtures("block_elements")
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 3, 3), (0, 4, 2), (2, 4, 0)])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_batch_norm_equals_numpy(shape: tuple[int, ...], dtype: str) -> None:
    x = values(shape, dtype)
    scale, bias, mean = (values(shape[1:2], dtype, seed) for seed in (1, 2, 3))
    variance = np.abs(values(shape[1:2], dtype, 4))
    column = [each.astype("float64").reshape(-1, *(1,) * (len(shape) - 2)) for each in (scale, bias, mean, variance)]
    wanted = (x - column[2]) / np.sqrt(column[3] + 1e-2) * column[0] + column[1]
    close(nn.batch_norm(x, scale, bias, mean, variance, epsilon=1e-2), wanted, dtype)
    swapped = anp.asarray(np.moveaxis(x, 1, -1).copy())
    close(nn.batch_norm(anp.moveaxis(swapped, -1, 1), scale, bias, mean, variance, epsilon=1e-2), wanted, dtype)


@pytest.mark.usefixtures("block_elements")
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm_equals_numpy(groups: int) -> None:
    x, scale, bias = values((3, 4, 2, 5)), values((4,), seed=1), values((4,), seed=2)
    parts = standardized(x.reshape(3, groups, -1), (2,), 1e-5).reshape(x.shape)
    wanted = parts * scale[:, None, None] + bias[:, None, None]
    close(nn.group_norm(x, groups, scale, bias), wanted, "float32")


@pytest.mark.parametrize("p", [1, 2])
def test_lp_norm_equals_numpy_and_leaves_zeros(p: int) -> None:
    x = values((3, 4))
    x[1] = 0
    norms = np.linalg.norm(x.astype("float64"), p, axis=1, keepdims=True)
    close(nn.lp_norm(x, p=p), np.divide(x, norms, out=np.zeros((3, 4)), where=norms > 0), "float32")


def test_mean_variance_norm_equals_numpy() -> None:
    x = values((2, 3, 4, 5))
    close(nn.mean_variance_norm(x), standardized(x, (0, 2, 3), 0), "float32")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.lp_norm(np.ones(2, "float32"), p=3), "p is 1 or 2, given 3"),
        (lambda: nn.group_norm(np.ones((1, 4, 2), "float32"), 3, np.ones(4), np.ones(4)), "c a multiple of 3"),
        (lambda: nn.instance_norm(np.ones((1, 4), "float32"), np.ones(4), np.ones(4)), "an axis to normalise over"),
        (lambda: nn.batch_norm(np.ones((1, 4), "float32"), *[np.ones(3)] * 4), r"shape \(c,\), got \(3,\)"),
        (lambda: nn.layer_norm(np.ones((1, 4), "float32"), np.ones(3)), "do not broadcast"),
        (lambda: nn.softmax(np.ones((1, 4), "float32"), axis=2), "axis 2 is out of bounds"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
