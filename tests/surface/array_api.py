"""How functions of the array namespace are compared with those of array-api-strict.

Law: arrays are made by Hypothesis for the reference namespace and come to ours as NumPy arrays. A case is compared
where the reference gives a result; what it refuses is not looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import array_api_strict as reference
import numpy as np
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import asyncjit.numpy as anp
from tests.surface.immediate import immediate

__all__ = ["KINDS", "Case", "arrays", "check", "compare", "made", "operands", "quick", "quiet", "shapes"]

xps = make_strategies_namespace(reference, api_version="2024.12")

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: Dtypes by the words of the standard.
KINDS: Mapping[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "integer": _INTEGERS,
    "integer or bool": ("bool", *_INTEGERS),
    "real floating": ("float32", "float64"),
    "floating": ("float32", "float64", "complex64", "complex128"),
    "complex": ("complex64", "complex128"),
    "real": (*_INTEGERS, "float32", "float64"),
    "numeric": (*_INTEGERS, "float32", "float64", "complex64", "complex128"),
    "all": ("bool", *_INTEGERS, "float32", "float64", "complex64", "complex128"),
}

#: Positional arguments and keywords of one call; arrays are NumPy's.
Case = tuple[tuple[Any, ...], dict[str, Any]]

#: A handful of examples a function: there are 130 functions.
quick = settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def shapes(min_dims: int = 0, max_dims: int = 3, min_side: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return xps.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=3)


def elements(dtype: str, small: bool) -> st.SearchStrategy[Any] | None:
    """Of a dtype: all of them, or those whose sums and products stay exact."""
    if not small or dtype == "bool":
        return None
    whole = st.integers(0 if dtype.startswith("uint") else -3, 4)
    if dtype.startswith(("int", "uint")):
        return whole
    if dtype.startswith("float"):
        return whole.map(float)
    return st.builds(complex, whole, whole)


def made(dtype: str, shape: Any, small: bool = False) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """NumPy arrays of a dtype."""
    strict = xps.arrays(getattr(reference, dtype), shape, elements=elements(dtype, small))
    return strict.map(lambda each: each._array)


@st.composite
def arrays(
    draw: st.DrawFn, kind: str = "all", shape: Any = None, small: bool = False, **limits: int
) -> np.ndarray[Any, Any]:
    """One array of a kind of dtype."""
    extents = draw(shapes(**limits)) if shape is None else shape
    return draw(made(draw(st.sampled_from(KINDS[kind])), extents, small))


@st.composite
def operands(draw: st.DrawFn, kind: str, count: int = 2, small: bool = False) -> tuple[Any, ...]:
    """Arrays of dtypes that promote, whose shapes broadcast; in one of four cases, one of them a Python number."""
    names = [draw(st.sampled_from(KINDS[kind])) for _ in range(count)]
    try:
        reference.result_type(*(getattr(reference, name) for name in names))
    except TypeError:
        names = names[:1] * count
    found = draw(xps.mutually_broadcastable_shapes(count, max_dims=2, max_side=3)).input_shapes
    given = [draw(made(name, shape, small)) for name, shape in zip(names, found, strict=True)]
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, count - 1))
        number = draw(made(names[place - 1], (), small)).item()
        assume(count > 1)
        given[place] = number
    return tuple(given)


def _strict(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return reference.asarray(value, copy=True)
    if isinstance(value, np.dtype):
        return getattr(reference, value.name)
    return type(value)(map(_strict, value)) if type(value) in (list, tuple) else value


def _ours(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return anp.asarray(value)
    return type(value)(map(_ours, value)) if type(value) in (list, tuple) else value


def compare(ours: Any, wanted: Any, exact: bool = True) -> None:
    """Equal structure, shapes, dtypes and elements, of which floats may differ in the last places unless ``exact``."""
    if isinstance(wanted, tuple) and not hasattr(wanted, "dtype"):
        assert isinstance(ours, tuple)
        assert len(ours) == len(wanted)
        for one, other in zip(ours, wanted, strict=True):
            compare(one, other, exact)
    elif isinstance(wanted, reference._array_object.Array):
        host = np.asarray(ours)
        assert (host.dtype, host.shape) == (wanted._array.dtype, wanted._array.shape)
        if exact or host.dtype.kind not in "fc":
            np.testing.assert_array_equal(host, wanted._array)
        else:
            eps = float(np.finfo(host.dtype).eps)
            np.testing.assert_allclose(host, wanted._array, rtol=16 * eps, atol=float(np.finfo(host.dtype).tiny))
    else:
        assert ours == wanted


@contextmanager
def quiet() -> Iterator[None]:
    with immediate(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def check(name: str, case: Case, exact: bool = True) -> None:
    """Call ``name`` of both namespaces."""
    args, keywords = case
    with quiet():
        try:
            wanted = getattr(reference, name)(
                *map(_strict, args), **{key: _strict(value) for key, value in keywords.items()}
            )
        except (TypeError, ValueError, IndexError, OverflowError):
            return
        function: Callable[..., Any] = getattr(anp, name)
        compare(function(*map(_ours, args), **{key: _ours(value) for key, value in keywords.items()}), wanted, exact)
