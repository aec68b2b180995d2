"""Generators, and the one that is used where none is named.

Law: names and arguments; what is drawn is in ``ops/random``. Imports ``numpy`` (the arrays) and below.
"""

from __future__ import annotations

import operator
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from asyncjit.engine import current_engine
from asyncjit.numpy import Array, asarray, take
from asyncjit.numpy._dispatch import apply, dtype_of
from asyncjit.numpy._handle import array_spec
from asyncjit.ops.random import STATE

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "integers",
    "normal",
    "permutation",
    "seed",
    "uniform",
]

Size: TypeAlias = "int | Sequence[int] | None"
Real: TypeAlias = "float | Array"


@dataclass(frozen=True, init=False, eq=False)
class Generator:
    """A sequence of random numbers, Philox4x32-10 under a 64-bit key; see ``asyncjit.random``.

    ``seed`` (0 to 2**64 - 1) is the key: different seeds give sequences that have nothing in common. ``state`` is an
    array like others: copy it and assign it to return to a point of the sequence. A captured function may close over a
    generator or take it as an argument. One made inside a captured function begins anew at each replay, as it would at
    each call.

    Raises:
        ValueError: the seed is out of range.
    """

    state: Array

    def __init__(self, seed: int) -> None:
        object.__setattr__(self, "state", asarray(_fresh(seed)))

    def __repr__(self) -> str:
        return f"<random generator, state on {self.state.device!r}>"

    def seed(self, seed: int) -> None:
        """Begin the sequence of ``seed``, in ticket order like every write; inside a captured function, at each
        replay."""
        self.state[...] = _fresh(seed)

    def random(self, size: Size = None, dtype: Any = "float64") -> Array:
        """Uniform in [0, 1): multiples of 2**-53 for float64, of 2**-24 for float32."""
        return self._draw("random_uniform", (), size, _float(dtype, "random"))

    def uniform(self, low: Real = 0.0, high: Real = 1.0, size: Size = None, dtype: Any = "float64") -> Array:
        """``random() * (high - low) + low``, which rounding may make ``high``. Bounds may be arrays; without ``size``
        the shape is theirs."""
        drawn = self.random(_size_for(size, low, high), dtype)
        if _is_number(low, 0.0) and _is_number(high, 1.0):
            return drawn
        return drawn * (high - low) + low

    def standard_normal(self, size: Size = None, dtype: Any = "float64") -> Array:
        """Normal with mean 0 and standard deviation 1, by the transform of Box and Muller, in float64 or float32."""
        return self._draw("random_normal", (), size, _float(dtype, "standard_normal"))

    def normal(self, loc: Real = 0.0, scale: Real = 1.0, size: Size = None, dtype: Any = "float64") -> Array:
        """Normal with mean ``loc`` and standard deviation ``scale``, which may be arrays; without ``size`` the shape is
        theirs. A negative scale is not refused: its values are not known at the call."""
        drawn = self.standard_normal(_size_for(size, loc, scale), dtype)
        if _is_number(loc, 0.0) and _is_number(scale, 1.0):
            return drawn
        return drawn * scale + loc

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        dtype: Any = "int64",
        endpoint: bool = False,
    ) -> Array:
        """Integers from ``low`` up to and without ``high`` (with ``endpoint`` up to and with it), or from 0 to ``low``.

        Each has the same probability to within 2**-64. The bounds belong to the signature of a captured function.

        Raises:
            TypeError: a bound is no int. ValueError: there is none between the bounds, or ``dtype`` does not hold them.
        """
        first, last = (0, low) if high is None else (low, high)
        try:
            first, last = operator.index(first), operator.index(last) - (not endpoint)
        except TypeError:
            raise TypeError(
                f"integers: bounds are ints that are known at the call, got {low!r} and {high!r}; for bounds that are "
                "arrays draw with random() and scale the result"
            ) from None
        target = dtype_of(dtype)
        if target.kind not in "iu":
            raise TypeError(
                f"integers: dtype {target} has no integers; pass an integer dtype, or use bernoulli for bool"
            )
        limits = np.iinfo(target)
        if first > last or first < limits.min or last > limits.max:
            raise ValueError(
                f"integers: no range from {first} to {last} (both included) in {target}; it needs at least one integer "
                f"between {limits.min} and {limits.max}"
            )
        return self._draw("random_integers", (first, last - first + 1), size, target)

    def bernoulli(self, p: Real = 0.5, size: Size = None) -> Array:
        """True with probability ``p``, a number or an array; without ``size`` the shape is that of ``p``."""
        return self.random(_size_for(size, p)) < p

    def permutation(self, x: int | Array, axis: int = 0) -> Array:
        """0 to ``x - 1`` in random order, or a copy of the array with its slices along ``axis`` in random order."""
        if not isinstance(x, Array):
            return self._draw("random_permutation", (), operator.index(x), np.dtype("int64"))
        if x.ndim == 0:
            raise ValueError("permutation: an array without axes has nothing to reorder; pass an int for 0 to x - 1")
        return take(x, self.permutation(x.shape[axis]), axis=axis)

    def _draw(self, name: str, params: tuple[int, ...], size: Size, dtype: np.dtype[Any]) -> Array:
        extents = () if size is None else size if isinstance(size, (tuple, list)) else (size,)
        shape = tuple(operator.index(cast(int, extent)) for extent in extents)
        return apply(name, (self.state,), (*params, shape, dtype.name))


def _fresh(seed: int) -> np.ndarray[Any, Any]:
    key = operator.index(seed)
    if not 0 <= key < 1 << 64:
        raise ValueError(f"a seed is an int from 0 to 2**64 - 1, got {seed}; take it modulo 2**64")
    return np.array([key, 0], STATE.dtype)


def _float(dtype: Any, name: str) -> np.dtype[Any]:
    target = dtype_of(dtype)
    if target.name not in ("float32", "float64"):
        raise TypeError(f"{name}: draws are float32 or float64, not {target}; convert the result with astype")
    return target


def _is_number(value: Real, number: float) -> bool:
    return not isinstance(value, Array) and value == number


def _size_for(size: Size, *parameters: Real) -> Size:
    if size is not None:
        return size
    return np.broadcast_shapes(*(each.shape for each in parameters if isinstance(each, Array)))


_making = threading.Lock()


def default_generator() -> Generator:
    """The generator of the engine in use here, which the functions of this module draw from.

    Each engine has one; it begins with a seed from the operating system, until ``seed`` is called.
    """
    engine = current_engine()
    if engine.generator is None:
        with _making:
            if engine.generator is None:
                # Memory of its own even where a function is being recorded: it outlives every recording.
                storage = engine.constant(_fresh(secrets.randbits(64)), at_once=True)
                spec = array_spec(STATE.shape, (STATE.dtype.itemsize,), STATE.dtype, False, storage.device)
                made = object.__new__(Generator)
                object.__setattr__(made, "state", Array._of(storage, 0, spec))
                engine.generator = made
    generator: Generator = engine.generator
    return generator


def seed(seed: int) -> None:
    """``Generator.seed`` of the default generator of the engine in use here."""
    default_generator().seed(seed)


def uniform(low: Real = 0.0, high: Real = 1.0, size: Size = None, dtype: Any = "float64") -> Array:
    """``Generator.uniform`` of the default generator."""
    return default_generator().uniform(low, high, size, dtype)


def normal(loc: Real = 0.0, scale: Real = 1.0, size: Size = None, dtype: Any = "float64") -> Array:
    """``Generator.normal`` of the default generator."""
    return default_generator().normal(loc, scale, size, dtype)


def integers(
    low: int, high: int | None = None, size: Size = None, dtype: Any = "int64", endpoint: bool = False
) -> Array:
    """``Generator.integers`` of the default generator."""
    return default_generator().integers(low, high, size, dtype, endpoint)


def bernoulli(p: Real = 0.5, size: Size = None) -> Array:
    """``Generator.bernoulli`` of the default generator."""
    return default_generator().bernoulli(p, size)


def permutation(x: int | Array, axis: int = 0) -> Array:
    """``Generator.permutation`` of the default generator."""
    return default_generator().permutation(x, axis)
