"""Values and layouts on which array operations are compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.ops import DTYPES

DTYPE_NAMES = tuple(DTYPES)


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small values of both signs with zeros and repeats; extremes of the dtype and, for floats, inf, nan and -0.0."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(0 if kind == "u" else -7, 8, shape).astype(dtype)
        specials: list[Any] = [info.min, info.max]
    elif kind == "f":
        values = (rng.standard_normal(shape) * 3).astype(dtype)
        specials = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny]
    else:
        values = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        specials = [0.0, -0.0, 1j, complex(np.inf, 0)]
    flat = values.reshape(-1)
    if flat.size > 2 * len(specials):
        flat[rng.permutation(flat.size)[: len(specials)]] = np.array(specials, dtype)
    return values


def same_bits(ours: Array, wanted: Any) -> None:
    """Assert equal shape, dtype and elements; -0.0 differs from 0.0, nan equals nan."""
    reference = np.asarray(wanted)
    host = np.asarray(ours)
    assert ours.shape == reference.shape
    assert ours.dtype == reference.dtype
    np.testing.assert_array_equal(host, reference)
    if reference.dtype.kind in "fc":
        parts = [(host.real, reference.real), (host.imag, reference.imag)]
        for left, right in parts if reference.dtype.kind == "c" else [(host, reference)]:
            assert np.array_equal(np.signbit(left[~np.isnan(left)]), np.signbit(right[~np.isnan(right)]))


def pair(shape: tuple[int, ...], dtype: str = "int32") -> tuple[np.ndarray, Array]:
    host = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    return host, anp.asarray(host)


def same_view(ours: Array, host: np.ndarray, base: np.ndarray) -> None:
    """Same elements at the same place: offset, shape and strides are NumPy's."""
    assert ours.shape == host.shape
    assert ours.strides == host.strides
    start = base.__array_interface__["data"][0]
    assert ours._offset == host.__array_interface__["data"][0] - start
    same_bits(ours, host)
