"""Discrete Fourier transforms of numbers given by their real and imaginary parts.

Law: NumPy's transforms, written into the output. Operands have a last axis of one element, real numbers, or of two, the
parts of complex ones; the transform runs along another axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register
from asyncjit.symbols import Int, upper

__all__: list[str] = []

_COMPLEX = {"f": np.dtype(np.complex64), "d": np.dtype(np.complex128)}


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The transform, and scratch for the half that a one-sided transform of complex numbers leaves out. Parameters:
    length, axis, whether it is inverse, whether one-sided."""
    length, axis, inverse, onesided = cast("tuple[Int, int, bool, bool]", params)
    (x,) = specs
    if x.dtype.char not in "fd":
        raise TypeError(f"dft takes float32 or float64, got {x.dtype}; use astype")
    if len(x.shape) < 2 or x.shape[-1] not in (1, 2) or axis == len(x.shape) - 1:
        raise ValueError(f"dft: expected real numbers (…, 1) or parts of complex ones (…, 2), given shape {x.shape}")
    count = length // 2 + 1 if onesided and not inverse else length
    parts = 1 if onesided and inverse else 2
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 : -1], parts)
    whole = (*x.shape[:axis], length, *x.shape[axis + 1 : -1], 2)
    needed = onesided and not inverse and x.shape[-1] == 2
    return Spec(shape, x.dtype), Spec(whole if needed else (0, 2), x.dtype)


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    size = outputs[0].size
    flops = int(5 * size * log2(max(upper(cast("Int", params[0])), 2)))
    return Cost(flops, inputs[0].nbytes + outputs[0].nbytes)


def _dft(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    length, axis, inverse, onesided = cast("tuple[int, int, bool, bool]", params)

    def run(x: Any, out: Any, scratch: Any) -> None:
        if not out.size:
            return
        paired = _COMPLEX[x.dtype.char]
        values = x[..., 0] if x.shape[-1] == 1 else x.view(paired)[..., 0]
        if inverse and onesided:
            np.fft.irfft(values, length, axis, out=out[..., 0])
            return
        target = out.view(paired)[..., 0]
        if inverse:
            np.fft.ifft(values, length, axis, out=target)
        elif not onesided:
            np.fft.fft(values, length, axis, out=target)
        elif x.shape[-1] == 1:
            np.fft.rfft(values, length, axis, out=target)
        else:
            whole = np.fft.fft(values, length, axis, out=scratch.view(paired)[..., 0])
            np.copyto(target, whole[(*(slice(None),) * axis, slice(0, target.shape[axis]))])

    return run


register(Op(name="dft", infer=_infer, kernel=_dft, cost=_cost))
