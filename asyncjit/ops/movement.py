"""Operations that move elements without computing on them: copies, casts, joins, gathers.

Law: whatever NumPy can express as a view is no operation at all (``asyncjit.numpy`` does it with offsets and strides);
here is what must touch memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from asyncjit.ir import Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, broadcast, register, same_shape
from asyncjit.symbols import Int

__all__ = ["gather_shape"]


def _copy(source: Any, out: Any) -> None:
    np.copyto(out, source, casting="unsafe")


def _copy_real(source: Any, out: Any) -> None:
    # The surface has warned that the imaginary part goes; a kernel must not warn at each replay.
    np.copyto(out, source.real, casting="unsafe")


def _kernel_copy(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    drops = bool(operands) and operands[0].dtype.startswith("complex") and not operands[1].dtype.startswith(("c", "b"))
    return _copy_real if drops else _copy


def _infer_copy(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return (Spec(specs[0].shape, specs[0].dtype),)


def _infer_astype(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return (Spec(specs[0].shape, np.dtype(cast(str, params[0]))),)


def _infer_concatenate(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (axis,) = cast("tuple[int]", params)
    first = specs[0].shape
    for spec in specs:
        if not (same_shape(spec.shape[:axis], first[:axis]) and same_shape(spec.shape[axis + 1 :], first[axis + 1 :])):
            listed = ", ".join(str(each.shape) for each in specs)
            raise ValueError(f"concatenate: shapes {listed} may differ along axis {axis} only")
    total: Int = sum(spec.shape[axis] for spec in specs)
    dtype = np.result_type(*(spec.dtype for spec in specs))
    return (Spec((*first[:axis], total, *first[axis + 1 :]), dtype),)


def _concatenate(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (axis,) = cast("tuple[int]", params)

    def run(*views: Any) -> None:
        np.concatenate(views[:-1], axis, views[-1])

    return run


def _check_index(name: str, index: Spec) -> None:
    if index.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: an index array has integers, got {index.dtype}; for a boolean mask use where(mask, a, b), "
            "because the number of selected elements is not known at capture"
        )


def _infer_take(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (axis,) = cast("tuple[int]", params)
    source, index = specs
    _check_index("take", index)
    return (Spec((*source.shape[:axis], *index.shape, *source.shape[axis + 1 :]), source.dtype),)


def _take(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (axis,) = cast("tuple[int]", params)

    def run(source: Any, index: Any, out: Any) -> None:
        # With mode="raise" NumPy buffers the whole output; checked here, "wrap" writes straight into it.
        extent = source.shape[axis]
        if index.size and not (-extent <= index.min() and index.max() < extent):
            raise IndexError(f"take: index out of bounds for axis {axis} of extent {extent}")
        if out.size:
            source.take(index, axis, out, "wrap")

    return run


def gather_shape(source: Shape, axes: tuple[int, ...], index: Shape) -> Shape:
    """Shape of ``source`` indexed by arrays of shape ``index`` on ``axes``: in their place when the axes are
    neighbours, else in front (NumPy's rule)."""
    kept = [extent for axis, extent in enumerate(source) if axis not in axes]
    place = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return (*kept[:place], *index, *kept[place:])


def _infer_gather(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    axes = cast("tuple[int, ...]", params)
    source, *indices = specs
    for index in indices:
        _check_index("gather", index)
    shape = broadcast("gather", [index.shape for index in indices])
    return (Spec(gather_shape(source.shape, axes, shape), source.dtype),)


def _key(axes: tuple[int, ...], indices: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    placed = dict(zip(axes, indices, strict=True))
    return tuple(placed.get(axis, slice(None)) for axis in range(ndim))


def _gather(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axes = cast("tuple[int, ...]", params)

    def run(source: Any, *rest: Any) -> None:
        rest[-1][...] = source[_key(axes, rest[:-1], source.ndim)]

    return run


def _scatter(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axes = cast("tuple[int, ...]", params)

    def run(values: Any, *rest: Any) -> None:
        target = rest[-1]
        target[_key(axes, rest[:-1], target.ndim)] = values

    return run


def _infer_scatter(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """Only with an output that exists; what is checked is what the output does not show."""
    for index in specs[1:]:
        _check_index("assignment", index)
    return (Spec((), specs[0].dtype),)


def _triangle(upper: bool, params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (diagonal,) = cast("tuple[int]", params)
    if not operands or operands[0].is_symbolic:
        known = None
    else:
        known = _kept(cast("tuple[int, ...]", operands[0].shape), diagonal, upper)

    def run(source: Any, out: Any) -> None:
        out.fill(0)
        np.copyto(out, source, where=_kept(source.shape, diagonal, upper) if known is None else known)

    return run


def _kept(shape: tuple[int, ...], diagonal: int, upper: bool) -> Any:
    rows, columns = shape[-2:]
    return np.tri(rows, columns, diagonal - upper, dtype=np.bool_) ^ upper


def _round(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (decimals,) = cast("tuple[int]", params)

    def run(source: Any, out: Any) -> None:
        source.round(decimals, out)

    def run_integers(source: Any, out: Any) -> None:
        # Tens of an integer: NumPy goes through floats, and refuses to do so into an integer output.
        np.copyto(out, source.round(decimals), casting="unsafe")

    return run_integers if operands and operands[0].dtype.startswith(("int", "uint")) else run


register(Op(name="copy", infer=_infer_copy, kernel=_kernel_copy, assigns=True))
register(Op(name="astype", infer=_infer_astype, kernel=_kernel_copy, assigns=True))
register(Op(name="concatenate", infer=_infer_concatenate, kernel=_concatenate))
register(Op(name="take", infer=_infer_take, kernel=_take))
register(Op(name="gather", infer=_infer_gather, kernel=_gather))
register(Op(name="scatter", infer=_infer_scatter, kernel=_scatter, assigns=True, reads_output=True))
register(Op(name="tril", infer=_infer_copy, kernel=partial(_triangle, False)))
register(Op(name="triu", infer=_infer_copy, kernel=partial(_triangle, True)))
register(Op(name="round", infer=_infer_copy, kernel=_round))
