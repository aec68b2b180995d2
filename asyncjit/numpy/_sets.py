"""Results whose shape depends on values: positions that are not zero, and sets of distinct values.

Law: values are read on the host, so arrays must have been awaited (in a running loop), and inside a captured function
these raise ``HostReadError``. What has a fixed shape is in ``_sorting``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import asarray
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array

__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "nonzero",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Array
    inverse_indices: Array


def _read(x: ArrayLike, what: str) -> tuple[np.ndarray, str]:
    array = as_array(x)
    return array._host(f"{what}, whose shape depends on values,"), array.device


def nonzero(x: ArrayLike, /) -> tuple[Array, ...]:
    """Positions of elements that are not zero, one int64 array an axis, in C order.

    Raises:
        HostReadError: in a captured function; use where(mask, a, b), or a fixed number of elements with top_k.
        WouldBlockError: in a running loop, for an array that was not awaited. ValueError: ``x`` has no axes.
    """
    host, device = _read(x, "nonzero")
    if not host.ndim:
        raise ValueError("nonzero takes an array with at least one axis; reshape it to (1,)")
    return tuple(asarray(each, device=device) for each in np.nonzero(host))


def unique_values(x: ArrayLike, /) -> Array:
    """Distinct elements, in ascending order; each nan is one. Raises as ``nonzero``."""
    host, device = _read(x, "unique_values")
    return asarray(np.unique(host, equal_nan=False), device=device)


def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """Distinct elements in ascending order, and how often each occurs. Raises as ``nonzero``."""
    host, device = _read(x, "unique_counts")
    return UniqueCounts(*(asarray(each, device=device) for each in np.unique_counts(host)))


def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """Distinct elements in ascending order, and for each element of ``x`` the position of its value in them. Raises as
    ``nonzero``."""
    host, device = _read(x, "unique_inverse")
    return UniqueInverse(*(asarray(each, device=device) for each in np.unique_inverse(host)))


def unique_all(x: ArrayLike, /) -> UniqueAll:
    """``unique_inverse`` and ``unique_counts`` in one, and where in the flattened ``x`` each value comes first. Raises
    as ``nonzero``."""
    host, device = _read(x, "unique_all")
    return UniqueAll(*(asarray(each, device=device) for each in np.unique_all(host)))
