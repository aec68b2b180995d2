"""Between real numbers and the small integers that stand for them: ``real = (integer - zero) * scale``.

Law: integers are computed with as float32 or float64, which hold them exactly; who calls sees to it that sums stay
below 2**24 or 2**53. Halves are rounded to even. Scales and zeros broadcast to the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._blocks import BLOCK_ELEMENTS, leading_blocks
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, broadcast, dtype_named, register, same_shape
from asyncjit.symbols import same

__all__ = ["RANGES"]

#: Smallest and largest value of the integers that numbers are quantised to.
RANGES: dict[str, tuple[int, int]] = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    **{name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in ("int8", "uint8", "int16", "uint16")},
    # What float32 holds of int32 from above.
    "int32": (-(2**31), 2**31 - 128),
}

# The ufunc behind np.clip, which takes its output by position.
_clip: Any = np._core.umath.clip  # type: ignore[attr-defined]


def _dtype(name: object) -> np.dtype[Any]:
    dtype = dtype_named(cast(str, name))
    assert dtype is not None
    return dtype


def _is_one(spec: Spec) -> bool:
    return all(same(extent, 1) for extent in spec.shape)


def _check(name: str, x: Spec, others: Sequence[Spec]) -> None:
    for each in others:
        if not same_shape(broadcast(name, [x.shape, each.shape]), x.shape):
            raise ValueError(f"{name}: a scale or zero of shape {each.shape} does not broadcast to {x.shape}")


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    return Cost(5 * inputs[0].size, inputs[0].nbytes + outputs[0].nbytes)


def _flat(arrays: Sequence[Any], others: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Arrays as one axis and others as numbers, where one number serves all; that way blocks have any size."""
    if all(each.size == 1 for each in others) and all(each.flags.c_contiguous for each in arrays):
        return [each.reshape(-1) for each in arrays], [each.reshape(()) for each in others]
    return arrays, others


# --------------------------------------------------------------------------------------------------------- quantise


def _infer_quantize(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The integers for float ``x``, scale and, where the parameters say so, zero; and scratch. Parameters: dtype,
    whether there is a zero, and whether elements are multiplied by the scale instead of divided."""
    dtype, _, _ = cast("tuple[str, bool, bool]", params)
    x, *others = specs
    if x.dtype.char not in "fd" or others[0].dtype is not x.dtype:
        raise TypeError(f"quantize takes float32 or float64, got {x.dtype} with a scale of {others[0].dtype}")
    _check("quantize", x, others)
    count = min(x.size, BLOCK_ELEMENTS) if all(map(_is_one, others)) else x.size
    return Spec(x.shape, _dtype(dtype)), Spec((count,), x.dtype)


def _quantize(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    dtype, has_zero, multiplies = cast("tuple[str, bool, bool]", params)
    low, high = RANGES[dtype]
    scaled: Any = np.multiply if multiplies else np.divide

    def run(x: Any, scale: Any, *rest: Any) -> None:
        out, scratch = rest[-2:]
        if scratch.size < x.size and not (x.flags.c_contiguous and out.flags.c_contiguous):
            x = np.ascontiguousarray(x)
        (x, out), (scale, *zeros) = _flat((x, out), (scale, *rest[:-2]))
        whole = (x, out) if scratch.size == x.size else None
        for x_part, out_part in [whole] if whole is not None else leading_blocks(x.shape, x, out):
            part = scratch[: x_part.size].reshape(x_part.shape)
            scaled(x_part, scale, part)
            np.rint(part, part)
            if has_zero:
                np.add(part, zeros[0], part, casting="unsafe")
            _clip(part, low, high, part)
            np.copyto(out_part, part, casting="unsafe")

    return run


def _infer_dynamic_quantize(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """Of float32 ``x``: the integers, scale, zero, and scratch."""
    (x,) = specs
    if x.dtype != np.float32:
        raise TypeError(f"dynamic_quantize takes float32, got {x.dtype}")
    unsigned = np.dtype(np.uint8)
    return Spec(x.shape, unsigned), Spec((), x.dtype), Spec((), unsigned), Spec((min(x.size, BLOCK_ELEMENTS),), x.dtype)


def _dynamic_quantize(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    quantize = _quantize(("uint8", True, False), ())
    one = np.float32(1)

    def run(x: Any, out: Any, scale: Any, zero: Any, scratch: Any) -> None:
        low, high = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
        scale[...] = (high - low if high != low else one) / np.float32(255)
        zero[...] = np.rint(np.clip(-low / scale, 0, 255))
        quantize(x, scale, zero, out, scratch)

    return run


# -------------------------------------------------------------------------------------------------------- dequantise


def _infer_dequantize(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """``(x - zero) * scale``. Parameters: the dtype of the result, and whether there are a zero and a scale."""
    dtype, _, _ = cast("tuple[str, bool, bool]", params)
    x, *others = specs
    _check("dequantize", x, others)
    return (Spec(x.shape, _dtype(dtype)),)


def _dequantize(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    _, has_zero, has_scale = cast("tuple[str, bool, bool]", params)

    def run(x: Any, *rest: Any) -> None:
        (x, out), others = _flat((x, rest[-1]), rest[:-1])
        parts = leading_blocks(x.shape, x, out) if all(each.ndim == 0 for each in others) and x.ndim else [(x, out)]
        for x_part, out_part in parts:
            np.copyto(out_part, x_part, casting="unsafe")
            if has_zero:
                np.subtract(out_part, others[0], out_part, casting="unsafe")
            if has_scale:
                np.multiply(out_part, others[-1], out_part)

    return run


register(Op(name="quantize", infer=_infer_quantize, kernel=_quantize, cost=_cost))
register(Op(name="dynamic_quantize", infer=_infer_dynamic_quantize, kernel=_dynamic_quantize, cost=_cost))
register(Op(name="dequantize", infer=_infer_dequantize, kernel=_dequantize, cost=_cost))
