"""Every elementwise operation equals NumPy's, over dtypes, layouts and constants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from asyncjit.errors import DeviceError
from asyncjit.ir import Access, Cost, Kernel
from asyncjit.numpy import _dispatch as dispatch
from asyncjit.numpy._elementwise import elementwise
from asyncjit.ops import DTYPES, REGISTRY, numpy_kernel
from asyncjit.ops.constants import decode, encode
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import DTYPE_NAMES, same_bits, sample

UFUNCS = [
    name for name, op in REGISTRY.items() if op.loop is not None and isinstance(getattr(np, name, None), np.ufunc)
]
UNARY = [name for name in UFUNCS if REGISTRY[name].arity == 1]
BINARY = [name for name in UFUNCS if REGISTRY[name].arity == 2 and name != "divmod"]
PROMOTED = ("add", "multiply", "divide", "less", "equal", "power", "floor_divide")


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


def numpy_or_error(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except (TypeError, OverflowError, ValueError) as error:
        return error


def compare(name: str, ours: list[Any], theirs: list[Any]) -> None:
    """Both give the same, or both refuse."""
    wanted = numpy_or_error(getattr(np, name), *theirs)
    if isinstance(wanted, Exception):
        with pytest.raises((TypeError, OverflowError, ValueError)):
            elementwise(name, ours, anp.Array)
    else:
        same_bits(elementwise(name, ours, anp.Array), wanted)


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations_equal_numpy_for_every_dtype(name: str) -> None:
    for dtype in DTYPE_NAMES:
        x = sample(dtype, (5, 7))
        compare(name, [anp.asarray(x)], [x])


@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_equal_numpy_for_every_dtype(name: str) -> None:
    for dtype in DTYPE_NAMES:
        x, y = sample(dtype, (5, 7), 1), sample(dtype, (7,), 2)
        compare(name, [anp.asarray(x), anp.asarray(y)], [x, y])


@pytest.mark.parametrize("name", PROMOTED)
def test_promotion_equals_numpy_for_every_pair_of_dtypes(name: str) -> None:
    for left, right in itertools.product(DTYPE_NAMES, repeat=2):
        x = np.array([1, 3, 0, 1], left)
        y = np.array([2, 1, 1, 1], right)
        compare(name, [anp.asarray(x), anp.asarray(y)], [x, y])


NUMBERS = (True, 3, -2, 1000, 2**40, 0.5, -0.0, float("nan"), float("inf"), 1.5 - 2j, np.float32(0.1), np.int64(5))


@pytest.mark.parametrize("name", [*PROMOTED, "subtract", "maximum", "greater", "not_equal", "logical_and", "arctan2"])
def test_python_numbers_are_weak_on_either_side(name: str) -> None:
    for dtype, number in itertools.product(DTYPE_NAMES, NUMBERS):
        x = sample(dtype, (40,))
        compare(name, [anp.asarray(x), number], [x, number])
        compare(name, [number, anp.asarray(x)], [number, x])


@pytest.mark.parametrize("name", ["add", "divide", "arctan2", "power", "equal"])
def test_numbers_alone_give_what_numpy_gives(name: str) -> None:
    for left, right in itertools.product(NUMBERS, repeat=2):
        compare(name, [left, right], [left, right])


def layouts(dtype: str) -> Iterator[tuple[np.ndarray, anp.Array]]:
    """The same elements in NumPy's memory and in ours, laid out alike."""
    base = sample(dtype, (6, 8, 4))
    ours = anp.asarray(base)
    yield base[0, 0, 0, ...], ours[0, 0, 0, ...]
    yield base[:0], ours[:0]
    yield base[::-1, ::2, 1:], ours[::-1, ::2, 1:]
    yield base.T, ours.T
    yield base.transpose(1, 0, 2)[:, ::-3], ours.transpose(1, 0, 2)[:, ::-3]
    yield np.broadcast_to(base[2, :1], (3, 8, 4)), anp.broadcast_to(ours[2, :1], (3, 8, 4))
    yield base[:, None, 3], ours[:, None, 3]


@pytest.mark.parametrize(
    "name", ["add", "exp", "sqrt", "square", "less", "maximum", "tanh", "power", "negative", "divide"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex64"])
def test_awkward_layouts_equal_numpy_writing_into_a_c_contiguous_output(name: str, dtype: str) -> None:
    arity = REGISTRY[name].arity
    for host, ours in layouts(dtype):
        assert host.strides == ours.strides
        ufunc = getattr(np, name)
        wanted = numpy_or_error(ufunc, *[host] * arity)
        if isinstance(wanted, Exception):
            continue
        out = np.empty(host.shape, np.asarray(wanted).dtype)
        ufunc(*[host] * arity, out=out)
        same_bits(elementwise(name, [ours] * arity, anp.Array), out)


def test_divmod_gives_quotient_and_remainder() -> None:
    x = np.arange(-6, 6, dtype=np.int32)
    for ours, wanted in zip(anp.divmod(anp.asarray(x), 4), np.divmod(x, 4), strict=True):
        same_bits(ours, wanted)
    for ours, wanted in zip(divmod(7.5, anp.asarray([2.0, -2.0])), np.divmod(7.5, [2.0, -2.0]), strict=True):
        same_bits(ours, wanted)


def test_where_equals_numpy_with_arrays_and_numbers() -> None:
    condition = sample("bool", (4, 5))
    for left, right in itertools.product(DTYPE_NAMES, repeat=2):
        x, y = sample(left, (4, 5), 1), sample(right, (5,), 2)
        same_bits(anp.where(condition, x, y), np.where(condition, x, y))
    x = sample("float32", (4, 5))
    ours = anp.asarray(x)
    same_bits(anp.where(ours > 0, ours, 0), np.where(x > 0, x, 0))
    same_bits(anp.where(ours > 0, 1.5, ours), np.where(x > 0, 1.5, x))
    same_bits(anp.where(ours > 0, 1, 2), np.where(x > 0, 1, 2))
    same_bits(anp.where(anp.asarray(3), 1.0, ours), np.where(3, 1.0, x))
    with pytest.raises(OverflowError, match="1000"):
        anp.where(ours > 0, sample("int8", (5,)), 1000)


def test_clip_equals_numpy_with_any_bounds() -> None:
    for dtype in DTYPE_NAMES:
        x = sample(dtype, (30,))
        for low, high in itertools.product((None, 1, -300, x[:1], 0.5), (None, 3, 300, x[1:2], 2.5)):
            wanted = numpy_or_error(np.clip, x, low, high)
            if isinstance(wanted, Exception):
                with pytest.raises((TypeError, OverflowError)):
                    anp.clip(x, low, high)
            else:
                same_bits(anp.clip(x, low, high), wanted)


def test_round_equals_numpy() -> None:
    for dtype, decimals in itertools.product(DTYPE_NAMES[1:], (0, 1, -1)):
        x = sample(dtype, (30,))
        same_bits(anp.round(anp.asarray(x), decimals), np.round(x, decimals))


def test_the_power_operator_takes_numpys_short_cuts() -> None:
    for dtype, exponent in itertools.product(DTYPE_NAMES[1:], (0, 1, 2, 3, -1, 0.5, 2.0, -1.0, 0.25)):
        x = sample(dtype, (40,))
        wanted = numpy_or_error(lambda a, b: a**b, x, exponent)
        if isinstance(wanted, Exception):
            with pytest.raises(ValueError, match="negative power"):
                anp.asarray(x) ** exponent
        else:
            same_bits(anp.asarray(x) ** exponent, wanted)


def test_a_plain_ufunc_is_its_own_kernel_and_constants_add_one_layer_at_most(sink: ImmediateSink) -> None:
    read_read_write = (Access.READ, Access.READ, Access.WRITE)
    assert numpy_kernel(Kernel("add", read_read_write), ()) is np.add
    assert numpy_kernel(Kernel("matmul", read_read_write), ()) is np.matmul
    x = anp.asarray(sample("float32", (3,)))
    x + 2
    kernel, operands, _ = sink.calls[-1]
    assert kernel == Kernel("add", (Access.READ, Access.WRITE), ((1, "float32", "0x1.0000000000000p+1"),))
    assert len(operands) == 2


def test_repeated_operations_share_one_kernel_and_differ_by_the_bits_of_constants(sink: ImmediateSink) -> None:
    x = anp.asarray([1.0, -1.0])
    results = [x * 0.0, x * -0.0, x * 0, x * 0.0]
    kernels = [kernel for kernel, _, _ in sink.calls[-4:]]
    assert kernels[0] is kernels[3]
    assert kernels[0] == kernels[2]
    assert kernels[0] != kernels[1]
    assert [np.signbit(np.asarray(each)).tolist() for each in results] == [[False, True], [True, False]] + [
        [False, True]
    ] * 2


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_constants_come_back_bit_for_bit(dtype: str) -> None:
    for value in sample(dtype, (60,)):
        constant = encode(value, DTYPES[dtype])
        hash(constant)
        back = decode(constant)
        assert back.dtype == dtype
        assert np.asarray(back).tobytes() == value.tobytes() or np.isnan(value)


def test_an_unknown_kernel_is_a_device_error_that_names_it() -> None:
    with pytest.raises(DeviceError, match="no operation 'frobnicate'"):
        numpy_kernel(Kernel("frobnicate", ()), ())


def test_a_users_kernel_is_its_implementation() -> None:
    def mine(x: object) -> None: ...

    assert numpy_kernel(Kernel("mine", (Access.READ,), (), mine), ()) is mine


def test_costs_count_operations_and_bytes(sink: ImmediateSink) -> None:
    x = anp.asarray(sample("float32", (8, 4)))
    x + 1
    assert sink.calls[-1][2] == Cost(32, 256)
    x @ x.T
    assert sink.calls[-1][2] == Cost(2 * 8 * 8 * 4, 2 * 128 + 256)
    x.sum(axis=0)
    assert sink.calls[-1][2] == Cost(32, 128 + 16)


def test_operands_that_do_not_broadcast_say_which_shapes() -> None:
    with pytest.raises(ValueError, match=r"add: shapes \(2, 3\) and \(4,\) do not broadcast"):
        anp.zeros((2, 3)) + anp.zeros(4)


def test_an_undefined_operation_names_its_dtypes() -> None:
    with pytest.raises(TypeError, match=r"floor_divide is not defined for \(complex64, float32\)"):
        anp.zeros(2, "complex64") // anp.zeros(2, "float32")


def test_a_python_int_out_of_range_is_refused_in_arithmetic_and_compared_by_value() -> None:
    x = anp.asarray(np.array([1, -1], np.int8))
    with pytest.raises(OverflowError):
        x + 1000
    same_bits(x < 1000, [True, True])
    same_bits(x < -(2**80), [False, False])


def test_the_cache_of_rules_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "CACHE_ENTRIES_MAX", 10)
    cache: dict[Any, Any] = {}
    for key in range(25):
        dispatch.bounded_put(cache, key, None)
        assert cache[key] is None
        assert len(cache) <= 10
