"""Fourier transforms equal NumPy's of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate

Values = np.ndarray[Any, Any]
TOLERANCE = {"float16": 3e-2, "float32": 2e-4, "float64": 1e-10}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def parts(values: Values) -> Values:
    return np.stack([values.real, values.imag], axis=-1)


def close(ours: Any, wanted: Values, dtype: str) -> None:
    host = np.asarray(ours)
    assert host.dtype == dtype
    assert host.shape == wanted.shape
    np.testing.assert_allclose(host.astype("float64"), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(data=st.data(), dtype=st.sampled_from(list(TOLERANCE)), inverse=st.booleans(), onesided=st.booleans())
def test_transforms_equal_numpy(data: st.DataObject, dtype: str, inverse: bool, onesided: bool) -> None:
    extents = tuple(data.draw(st.integers(2, 6)) for _ in range(data.draw(st.integers(1, 3))))
    axis = data.draw(st.integers(0, len(extents) - 1))
    is_complex = data.draw(st.booleans())
    length = data.draw(st.one_of(st.none(), st.integers(2, 9)))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x = rng.standard_normal((*extents, 2 if is_complex else 1)).astype(dtype)
    values = x[..., 0].astype("float64") + (1j * x[..., 1] if is_complex else 0)
    count = length or (2 * (extents[axis] - 1) if inverse and onesided else extents[axis])
    if inverse:
        wanted = np.fft.irfft(values, count, axis)[..., None] if onesided else parts(np.fft.ifft(values, count, axis))
    else:
        kept = range(count // 2 + 1 if onesided else count)
        wanted = parts(np.fft.fft(values, count, axis).take(kept, axis))
    with immediate():
        for place in (axis, axis - len(extents) - 1):
            close(nn.dft(x, length, axis=place, inverse=inverse, onesided=onesided), wanted, dtype)
        swapped = anp.moveaxis(anp.asarray(np.moveaxis(x, -1, 0).copy()), 0, -1)
        close(nn.dft(swapped, length, axis=axis, inverse=inverse, onesided=onesided), wanted, dtype)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
def test_frames_are_cut_weighted_and_transformed(is_complex: bool, onesided: bool) -> None:
    rng = np.random.default_rng(0)
    x, window = rng.standard_normal((2, 23, 1 + is_complex)), rng.standard_normal(8)
    values = x[..., 0] + (1j * x[..., 1] if is_complex else 0)
    frames = np.stack([values[:, at : at + 8] for at in range(0, 16, 3)], axis=1)
    bins = 5 if onesided else 8
    close(nn.stft(x, 3, window=window, onesided=onesided), parts(np.fft.fft(frames * window)[..., :bins]), "float64")
    close(nn.stft(x, 3, length=8, onesided=onesided), parts(np.fft.fft(frames)[..., :bins]), "float64")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.dft(np.zeros((4, 3))), r"given shape \(4, 3\)"),
        (lambda: nn.dft(np.zeros((4, 2)), axis=1), "expected real numbers"),
        (lambda: nn.stft(np.zeros((1, 9, 1)), 3), "a window or a length"),
        (lambda: nn.stft(np.zeros((1, 9, 1)), 0, length=4), "frames of 4, 0 apart"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
