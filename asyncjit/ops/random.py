"""Operations that draw random numbers: one operand is the state of a generator, read and moved on.

Law: element ``i`` of a draw depends on the key, the counter before the draw and ``i`` alone; a draw takes a number of
blocks that its size decides, never its values. So the same draws give the same numbers however they are cut up.

The state is an array of two uint64: the key, and the number of the next block (see ``_philox``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._philox import advance, chunks
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register

__all__ = ["STATE"]

#: What the state of a generator looks like.
STATE = Spec((2,), np.dtype("uint64"))

Words = np.ndarray[Any, np.dtype[np.uint64]]
#: From words 0 and 2, and 1 and 3, of n blocks to (elements a block, n) values.
Make = Callable[[Words, Words], np.ndarray[Any, Any]]

_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
# About 100 operations a block of integers, and up to 40 an element for what is made of them.
_BLOCK_FLOPS, _ELEMENT_FLOPS = 100, 40


def _infer_drawn(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """Parameters end with the shape and the dtype's name."""
    shape, dtype = cast("tuple[tuple[int, ...], str]", params[-2:])
    if (specs[0].shape, specs[0].dtype) != (STATE.shape, STATE.dtype):
        raise ValueError(f"the state of a generator is uint64[2], got {specs[0].dtype}{list(specs[0].shape)}")
    if any(extent < 0 for extent in shape):
        raise ValueError(f"a shape has no negative extents, got {shape}")
    return (Spec(shape, np.dtype(dtype)),)


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    size = outputs[0].size
    return Cost(size * (_BLOCK_FLOPS // 2 + _ELEMENT_FLOPS), outputs[0].nbytes + 3 * STATE.nbytes)


def _draw(state: Words, out: np.ndarray[Any, Any], a_block: int, make: Make) -> None:
    """Fill ``out`` in C order, ``a_block`` elements a block, and move the state on."""
    assert out.flags.c_contiguous
    flat = out.reshape(-1)
    count = -(-flat.size // a_block)
    for start, even, odd in chunks(state, count):
        values = make(even, odd)
        rest = flat[start * a_block : (start + values.shape[1]) * a_block]
        whole = rest.size // a_block
        rest[: whole * a_block].reshape(whole, a_block).T[...] = values[:, :whole]
        if whole < values.shape[1]:
            # The last block gives more than is needed.
            rest[whole * a_block :] = values[: rest.size - whole * a_block, whole]
    advance(state, count)


def _bits(even: Words, odd: Words) -> Words:
    """Two 64-bit numbers a block."""
    return (odd << _HALF) | even


def _doubles(even: Words, odd: Words) -> Any:
    """Multiples of 2**-53 in [0, 1): every one as likely."""
    return (_bits(even, odd) >> np.uint64(11)) * 2.0**-53


def _floats(even: Words, odd: Words) -> Any:
    """Multiples of 2**-24 in [0, 1)."""
    words = np.stack((even[0], odd[0], even[1], odd[1]))
    return (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def _normal_doubles(even: Words, odd: Words) -> Any:
    """Box and Muller, "A note on the generation of random normal deviates", 1958: two from two uniform ones."""
    uniform = _bits(even, odd) >> np.uint64(11)
    radius = np.sqrt(-2.0 * np.log((uniform[0] + np.uint64(1)) * 2.0**-53))
    angle = uniform[1] * (2.0 * np.pi * 2.0**-53)
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)))


def _normal_floats(even: Words, odd: Words) -> Any:
    """The same in single precision, four a block. The uniform ones keep 24 bits next to 0 too, where tails come from:
    values reach 6.7."""
    near_zero = (even.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    radius = np.sqrt(np.float32(-2.0) * np.log(near_zero))
    angle = odd.astype(np.float32) * np.float32(2.0 * np.pi * 2.0**-32)
    pairs = radius * np.cos(angle), radius * np.sin(angle)
    return np.stack((pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]))


def _high_product(bits: Words, factor: int) -> Any:
    """The upper 64 bits of a product of two 64-bit numbers, from four products of their halves."""
    high, low = bits >> _HALF, bits & _MASK
    factor_high, factor_low = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    middle = high * factor_low + (low * factor_low >> _HALF)
    if factor < 1 << 32:
        return middle >> _HALF
    other = low * factor_high + (middle & _MASK)
    return high * factor_high + (middle >> _HALF) + (other >> _HALF)


def _integers(low: int, count: int, dtype: np.dtype[Any], even: Words, odd: Words) -> Any:
    """``low`` and the ``count - 1`` integers above it. Lemire, "Fast random integer generation in an interval", 2019,
    without the rejection: the probability of each is 1/count to within 2**-64."""
    bits = _bits(even, odd)
    scaled = bits if count == 1 << 64 else _high_product(bits, count)
    # Modulo 2**64, which the dtype takes back.
    values = scaled + np.uint64(low % (1 << 64))
    return values if dtype.kind == "u" else values.view(np.int64)


def _uniform_kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    single = params[-1] == "float32"
    return partial(_draw, a_block=4 if single else 2, make=_floats if single else _doubles)


def _normal_kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    single = params[-1] == "float32"
    return partial(_draw, a_block=4 if single else 2, make=_normal_floats if single else _normal_doubles)


def _integers_kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    low, count, _, dtype = cast("tuple[int, int, object, str]", params)
    return partial(_draw, a_block=2, make=partial(_integers, low, count, np.dtype(dtype)))


def _permutation_kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    def run(state: Words, out: Any) -> None:
        # Two of n keys are equal with probability n * n / 2**65.
        keys = np.empty(out.shape, np.uint64)
        _draw(state, keys, 2, _bits)
        out[...] = keys.argsort(kind="stable")

    return run


register(Op(name="random_uniform", infer=_infer_drawn, kernel=_uniform_kernel, cost=_cost, updates=1))
register(Op(name="random_normal", infer=_infer_drawn, kernel=_normal_kernel, cost=_cost, updates=1))
register(Op(name="random_integers", infer=_infer_drawn, kernel=_integers_kernel, cost=_cost, updates=1))
register(Op(name="random_permutation", infer=_infer_drawn, kernel=_permutation_kernel, cost=_cost, updates=1))
