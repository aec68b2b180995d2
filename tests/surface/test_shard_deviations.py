"""Variances and standard deviations of sharded arrays, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from tests.surface.test_shard import DEVICES, HOST, engine

__all__ = ["engine"]


@pytest.mark.parametrize("sharded", [0, 1, None])
@pytest.mark.parametrize("over", [0, 1, None])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_deviations_meet_over_the_sharded_axis_only(sharded: int | None, over: Any, dtype: str) -> None:
    host = (HOST - (2j if dtype == "complex128" else 0)).astype(dtype)
    x = anp.shard(host, DEVICES, sharded)
    axis = None if over is None or sharded is None or sharded == over else max(0, sharded - 1)
    for ddof, keepdims in ((0, False), (1, True), (0.5, False)):
        for name in ("var", "std"):
            found = getattr(x, name)(over, ddof=ddof, keepdims=keepdims)
            wanted = getattr(np, name)(host, axis=over, ddof=ddof, keepdims=keepdims)
            assert (found.axis, found.dtype) == (sharded if keepdims and axis is not None else axis, wanted.dtype)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6 if dtype == "float32" else 1e-13)
    np.testing.assert_allclose(np.asarray(anp.std(x, axis=over)), np.std(host, axis=over), rtol=1e-6)


def test_a_variance_of_small_floats_is_summed_in_single_precision() -> None:
    host = np.linspace(0, 1000, 400).astype("float16")
    found = anp.var(anp.shard(host / 10, DEVICES))
    assert found.dtype == np.float16
    # Squares of up to 50 would sum up to more than halves can hold.
    assert np.allclose(np.asarray(found), (host / 10).astype("float64").var(), rtol=1e-2)
