"""Operations without inputs: they fill a new array from parameters.

Law: values come from NumPy's own creation functions, made once when the kernel is bound, and copied at each replay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from operator import methodcaller
from typing import Any, cast

import numpy as np

from asyncjit.ir import Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, register
from asyncjit.ops.constants import Constant, decode
from asyncjit.symbols import Expr, Int, combine
from asyncjit.variables import has_symbols

__all__ = ["arange_length"]


def arange_length(start: float | Expr, stop: float | Expr, step: float | Expr) -> Int:
    """Number of elements of ``arange``, by NumPy's formula; of integers, where one is symbolic."""
    if step == 0:
        raise ValueError(f"arange: step is 0 between {start} and {stop}")
    if has_symbols((start, stop, step)):
        count: Any = -((cast(Any, start) - stop) // step)
        return combine("max", count, 0)
    return max(0, ceil((cast(float, stop) - cast(float, start)) / cast(float, step)))


def _infer_shaped(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """Parameters end with the shape and the dtype's name."""
    shape, dtype = cast("tuple[Shape, str]", params[-2:])
    if any(extent < 0 for extent in shape):
        raise ValueError(f"a shape has no negative extents, got {shape}")
    return (Spec(shape, np.dtype(dtype)),)


def _fill(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    return methodcaller("fill", decode(cast(Constant, params[0]))[()])


def _made_once(make: Callable[[Params], Any], params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    values = make(params)

    def run(out: Any) -> None:
        np.copyto(out, values, casting="unsafe")

    return run


def _number(constant: object) -> Any:
    return decode(cast(Constant, constant)).item()


def _arange(params: Params) -> Any:
    start, stop, step, _, dtype = params
    return np.arange(_number(start), _number(stop), _number(step), dtype=cast(str, dtype))


def _linspace(params: Params) -> Any:
    start, stop, endpoint, shape, dtype = params
    (count,) = cast("tuple[int]", shape)
    return np.linspace(_number(start), _number(stop), count, endpoint=bool(endpoint), dtype=cast(str, dtype))


def _eye(params: Params) -> Any:
    diagonal, shape, dtype = params
    rows, columns = cast("tuple[int, int]", shape)
    return np.eye(rows, columns, cast(int, diagonal), dtype=cast(str, dtype))


register(Op(name="full", infer=_infer_shaped, kernel=_fill, params_bound=1))
register(Op(name="arange", infer=_infer_shaped, kernel=partial(_made_once, _arange)))
register(Op(name="linspace", infer=_infer_shaped, kernel=partial(_made_once, _linspace)))
register(Op(name="eye", infer=_infer_shaped, kernel=partial(_made_once, _eye)))
