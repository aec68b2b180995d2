"""The Array class: views as NumPy's, assignment, reading, identity."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncjit.numpy as anp
from asyncjit.errors import CaptureError, DeviceError, WouldBlockError
from asyncjit.ir import Access
from asyncjit.numpy import Array
from asyncjit.numpy import _handle as handle
from asyncjit.numpy._layout import reshape
from tests.surface.immediate import ImmediateSink, ImmediateStorage, immediate
from tests.surface.samples import DTYPE_NAMES, same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def pair(shape: tuple[int, ...], dtype: str = "int32") -> tuple[np.ndarray, Array]:
    host = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    return host, anp.asarray(host)


def same_view(ours: Array, host: np.ndarray, base: np.ndarray) -> None:
    """Same elements at the same place: offset, shape and strides are NumPy's."""
    assert ours.shape == host.shape
    assert ours.strides == host.strides
    start = base.__array_interface__["data"][0]
    assert ours._offset == host.__array_interface__["data"][0] - start
    same_bits(ours, host)


shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_basic_index_gives_the_view_that_numpy_gives(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    with immediate():
        host, ours = pair(shape)
        wanted = host[key]
        if isinstance(wanted, np.ndarray) and wanted.size:
            same_view(ours[key], wanted, host)
        else:
            # Strides of an empty array lead nowhere; NumPy's depend on how it was made.
            same_bits(ours[key], wanted)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_reshape_is_a_view_exactly_where_numpys_is(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=6))
    order = data.draw(st.permutations(range(len(shape))))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    with immediate():
        host, ours = pair(shape)
        host_view, our_view = host[steps].transpose(order), ours[steps].transpose(order)
        factors = [factor for extent in host_view.shape for factor in _factors(extent)]
        target = _regroup(data.draw(st.permutations(factors)) if data.draw(st.booleans()) else factors, data)
        wanted, given_back = host_view.reshape(target), our_view.reshape(target)
        same_bits(given_back, wanted)
        assert (given_back._storage is ours._storage) == np.shares_memory(wanted, host)
        if np.shares_memory(wanted, host):
            same_view(given_back, wanted, host)


def _factors(extent: int) -> list[int]:
    for divisor in (2, 3, 5):
        if extent % divisor == 0:
            return [divisor, *_factors(extent // divisor)]
    return []


def _regroup(factors: list[int], data: st.DataObject) -> tuple[int, ...]:
    groups = [1]
    for factor in factors:
        if data.draw(st.booleans()):
            groups.append(1)
        groups[-1] *= factor
    return tuple(groups)


def test_a_reshape_that_would_need_a_gap_is_no_view() -> None:
    assert reshape((2, 3), (24, 4), (6,)) is None
    assert reshape((2, 3), (12, 4), (6,)) == (4,)
    assert reshape((4,), (0,), (2, 2)) == (0, 0)


def test_an_extent_of_minus_one_is_worked_out_and_nonsense_is_refused() -> None:
    _, ours = pair((2, 6))
    assert ours.reshape(3, -1).shape == (3, 4)
    assert ours.reshape((-1,)).shape == (12,)
    assert anp.zeros((0, 3)).reshape(3, 0).shape == (3, 0)
    for shape, message in [
        ((5, -1), "do not divide"),
        ((-1, -1), "at most one"),
        ((5,), "has 5 elements, the array 12"),
    ]:
        with pytest.raises(ValueError, match=message):
            ours.reshape(shape)


def test_transposes_are_views() -> None:
    host, ours = pair((2, 3, 4))
    same_view(ours.T, host.T, host)
    same_view(ours.mT, host.swapaxes(-1, -2), host)
    same_view(ours.transpose(1, 0, 2), host.transpose(1, 0, 2), host)
    same_view(ours.transpose((2, 0, 1)), host.transpose(2, 0, 1), host)
    same_view(ours.swapaxes(0, -1), host.swapaxes(0, -1), host)
    same_view(ours[:, :1].squeeze(), host[:, :1].squeeze(), host)
    same_view(ours[:, :1].squeeze(1), host[:, :1].squeeze(1), host)
    with pytest.raises(ValueError, match="each axis"):
        ours.transpose(0, 1)
    with pytest.raises(ValueError, match="twice"):
        ours.transpose(0, 0, 1)
    with pytest.raises(ValueError, match="more than one element"):
        ours.squeeze(0)
    with pytest.raises(ValueError, match="out of bounds"):
        ours.swapaxes(0, 3)


def test_real_and_imaginary_parts_are_views_of_complex_arrays() -> None:
    host = sample("complex64", (3, 4))
    ours = anp.asarray(host)
    same_view(ours.real, host.real, host)
    same_view(ours.T.imag, host.T.imag, host)
    plain = anp.ones(3)
    assert plain.real is plain
    same_bits(plain.imag, np.ones(3).imag)


def test_iteration_gives_views_of_the_first_axis() -> None:
    host, ours = pair((3, 2))
    assert len(ours) == 3
    for our_row, row in zip(ours, host, strict=True):
        same_view(our_row, row, host)
    for refused in (iter, len):
        with pytest.raises(TypeError, match="0-d"):
            refused(anp.asarray(1.0))


@pytest.mark.parametrize(
    "key",
    [
        (np.array([2, 0, -1]),),
        ([0, 1],),
        (slice(None), np.array([[0, 1], [2, 3]])),
        (np.array([0, 1]), np.array([1, 3])),
        (np.array([[0], [1]]), slice(None, None, -1), np.array([4, 0])),
        (1, slice(None), np.array([4, 0])),
        (slice(1), np.array([0, 1]), 2),
        (None, np.array([1, 1]), None, np.array([0, 2])),
        (Ellipsis, np.array([], dtype=int)),
    ],
)
def test_integer_arrays_gather_and_scatter_as_in_numpy(key: tuple[Any, ...]) -> None:
    host, ours = pair((3, 4, 5), "float32")
    our_key = tuple(anp.asarray(part) if isinstance(part, np.ndarray) else part for part in key)
    same_bits(ours[our_key], host[key])
    host[key] = -1.5
    ours[our_key] = -1.5
    same_bits(ours, host)


def test_a_gathering_index_out_of_bounds_fails_in_the_kernel() -> None:
    _, ours = pair((3, 4))
    with pytest.raises(IndexError, match="axis 0 of extent 3"):
        ours[anp.asarray([0, 3])]
    with pytest.raises(IndexError, match="axis 1"):
        ours[:, anp.asarray([-5])]


def test_a_zero_dimensional_integer_array_selects_by_value() -> None:
    host, ours = pair((3, 4))
    same_bits(ours[anp.asarray(2)], host[2])


def test_bad_keys_say_what_a_key_may_be() -> None:
    _, ours = pair((3, 4))
    for key, message in [
        (3, "out of bounds for axis 0 of extent 3"),
        ((0, -5), "out of bounds for axis 1"),
        ((0, 0, 0), "3 indices for an array of 2"),
        ((..., ...), "at most one Ellipsis"),
        (1.5, "1.5 is no index"),
        (True, "True is no index"),
    ]:
        with pytest.raises(IndexError, match=message):
            ours[key]
    with pytest.raises(CaptureError, match="where"):
        ours[ours > 3]
    with pytest.raises(TypeError, match="float64"):
        ours[anp.asarray([0.0, 1.0])]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_assignment_casts_and_broadcasts_as_numpys(dtype: str) -> None:
    for value in (1, 0.0, True, sample("float32", (4,)) * 0 + 2, np.int8(3), [[1], [2], [3]], np.ones((1, 3, 4))):
        host = sample(dtype, (3, 4))
        ours = anp.asarray(host)
        with np.errstate(all="ignore"):
            host[::-1, ::1] = value
            ours[::-1, ::1] = value
            same_bits(ours, host)
            host[1:, 2] = host[0, 3]
            ours[1:, 2] = ours[0, 3]
            same_bits(ours, host)
    ours[...] = ours.T.T
    same_bits(ours, host)


def test_a_mask_chooses_where_one_value_is_assigned() -> None:
    host = sample("float32", (3, 4))
    ours = anp.asarray(host)
    host[np.isnan(host)] = 1
    ours[anp.isnan(ours)] = 1
    same_bits(ours, host)
    rows = np.array([True, False, True])
    host[rows] = 2.5
    ours[rows] = 2.5
    same_bits(ours, host)
    with pytest.raises(ValueError, match="masked assignment takes one value"):
        ours[ours > 0] = [1.0, 2.0]
    with pytest.raises(IndexError, match="leading axes"):
        ours[np.array([True, False])] = 1


def test_assignments_that_numpy_refuses_are_refused() -> None:
    ours = anp.zeros((2, 3), "int8")
    for value, error in [(300, OverflowError), (1j, TypeError), (np.ones(2, complex), TypeError), ("text", Exception)]:
        with pytest.raises(error):
            ours[...] = value
    with pytest.raises(ValueError, match=r"gives shape \(4,\)"):
        ours[0] = np.zeros(4)
    with pytest.raises(ValueError, match="broadcast array"):
        anp.broadcast_to(ours, (5, 2, 3))[...] = 1
    with pytest.raises(ValueError, match="broadcast array"):
        anp.broadcast_to(ours, (5, 2, 3))[...] += 1


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_operators_equal_numpys_forward_reflected_and_in_place(symbol: str, dtype: str, sink: ImmediateSink) -> None:
    host, other = sample(dtype, (4, 4), 1), sample(dtype, (4, 4), 2)
    if symbol in ("<<", ">>", "**") and dtype == "int16":
        other = np.abs(other) % 3
    expressions = [
        f"a {symbol} b",
        f"b {symbol} a",
        f"a {symbol} 2",
        f"2 {symbol} a",
        f"a {symbol} host_b",
        f"host_b {symbol} a",
    ]
    with np.errstate(all="ignore"):
        for expression in expressions:
            ours = _value(expression, a=anp.asarray(host), b=anp.asarray(other), host_b=other)
            wanted = _value(expression, a=host, b=other, host_b=other)
            if isinstance(wanted, type):
                assert isinstance(ours, type), expression
            else:
                assert type(ours) is Array
                same_bits(ours, wanted)
        _check_in_place(symbol, host, other)


def _value(expression: str, **names: Any) -> Any:
    try:
        return eval(expression, names)
    except (TypeError, ValueError) as error:
        return type(error)


def _check_in_place(symbol: str, host: np.ndarray, other: np.ndarray) -> None:
    ours = anp.asarray(host)
    names = {"a": ours, "b": anp.asarray(other)}
    wanted = {"a": host.copy(), "b": other}
    try:
        exec(f"a {symbol}= b", wanted)
    except TypeError:
        with pytest.raises(TypeError):
            exec(f"a {symbol}= b", names)
        return
    exec(f"a {symbol}= b", names)
    assert names["a"] is ours
    same_bits(ours, wanted["a"])


def test_in_place_on_a_view_writes_the_shared_elements_and_declares_it(sink: ImmediateSink) -> None:
    host, ours = pair((4, 4), "float64")
    host[1:, ::2] += host[:-1, 1::2]
    ours[1:, ::2] += ours[:-1, 1::2]
    same_bits(ours, host)
    calls = [kernel for kernel, _, _ in sink.calls if kernel.name == "add"]
    assert calls[-1].access == (Access.READ, Access.READ, Access.WRITE)
    host[1:] *= 3
    ours[1:] *= 3
    same_bits(ours, host)


def test_unary_and_comparison_operators_equal_numpys() -> None:
    host = sample("int32", (10,))
    ours = anp.asarray(host)
    for expression in ("-a", "+a", "abs(a)", "~a", "a == 3", "a != 3", "a < 3", "3 < a", "a >= 0", "divmod(a, 3)[1]"):
        same_bits(_value(expression, a=ours), _value(expression, a=host))


def test_an_operator_leaves_unknown_types_to_the_other_side() -> None:
    class Other:
        def __radd__(self, other: object) -> str:
            return "theirs"

    assert anp.ones(2) + Other() == "theirs"
    assert (anp.ones(2) == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        _ = anp.ones(2) < "text"
    with pytest.raises(TypeError):
        anp.ones(2) @ Other()


def test_weak_numbers_adapt_like_python_numbers() -> None:
    storage = anp.asarray(0.1)._storage
    weak = Array(storage, 0, (), (), np.dtype("float64"), weak=True)
    for dtype in DTYPE_NAMES:
        host = sample(dtype, (20,))
        ours = anp.asarray(host)
        with np.errstate(all="ignore"):
            same_bits(ours + weak, host + 0.1)
            same_bits(weak * ours, 0.1 * host)
            same_bits(anp.maximum(ours, weak), np.maximum(host, 0.1))
            same_bits(ours * (weak * 2 + 1), host * (0.1 * 2 + 1))
            same_bits(anp.where(ours == 0, weak, ours), np.where(host == 0, 0.1, host))
    assert (weak * 2)._weak
    assert (-weak)._weak
    assert (2 / weak)._weak
    assert not anp.exp(weak)._weak
    assert not (weak < 1)._weak
    assert (weak + 1j)._weak
    same_bits(anp.exp(weak) * anp.ones(2, "float32"), np.exp(0.1) * np.ones(2, "float32"))


def test_equal_layouts_have_the_identical_spec_while_anybody_holds_it() -> None:
    one, two = anp.zeros((3, 4)), anp.ones((3, 4))
    assert one._spec is two._spec
    assert one[1:]._spec is two[:2]._spec
    assert one.T._spec is not two._spec
    assert one._spec is handle.array_spec((3, 4), (32, 8), np.dtype("float64"), False, "cpu")
    assert one._spec is not handle.array_spec((3, 4), (32, 8), np.dtype("float64"), True, "cpu")


def test_specs_of_layouts_that_nobody_uses_are_forgotten() -> None:
    before = len(handle._interned)
    for extent in range(100_000, 101_000):
        handle.array_spec((extent,), (4,), np.dtype("float32"))
    gc.collect()
    handle.array_spec((1, 2, 3, 4, 5), (1,) * 5, np.dtype("int8"))
    assert len(handle._interned) < before + 10


def test_a_spec_knows_contiguity_and_the_bytes_it_touches() -> None:
    ours = anp.zeros((4, 6), "int16")
    assert ours._spec.is_contiguous
    assert ours[:1, ::2]._spec.extent == (0, 10)
    assert ours[::-1]._spec.extent == (-36, 12)
    assert not ours.T._spec.is_contiguous
    assert ours[:, :0]._spec.is_contiguous
    assert ours[:, :0]._spec.extent == (0, 0)
    assert (ours.size, ours.nbytes, ours.itemsize, ours.ndim, ours.device) == (24, 48, 2, 2, "cpu")
    assert repr(ours.T._spec) == "ArraySpec((6, 4), int16, 'cpu', strides=(2, 12))"


def test_arrays_are_keys_by_identity() -> None:
    one, two = anp.zeros(2), anp.zeros(2)
    table = {one: "one", two: "two"}
    assert table[one] == "one"
    assert table[two] == "two"


def test_reading_gives_host_objects() -> None:
    host, ours = pair((2, 3), "float32")
    assert np.asarray(ours).tolist() == ours.tolist() == host.tolist()
    assert not np.asarray(ours).flags.writeable
    assert np.array(ours).flags.writeable
    assert np.asarray(ours, dtype="float64").dtype == "float64"
    with pytest.raises(ValueError, match="needs a copy"):
        np.array(ours, dtype="int8", copy=False)
    assert ours.item(1, 2) == 5.0
    one = anp.asarray(3)
    assert (int(one), float(one), complex(one), bool(one), [10, 11, 12, 13][one], f"{one:03d}") == (
        3,
        3,
        3,
        True,
        13,
        "003",
    )
    assert 4.0 in ours
    assert 9.0 not in ours
    for convert in (int, float, complex):
        with pytest.raises(TypeError, match="one element"):
            convert(ours)
    with pytest.raises(TypeError, match="index"):
        range(ours)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(ours)


def test_dlpack_goes_both_ways() -> None:
    host, ours = pair((2, 3), "float32")
    assert np.from_dlpack(ours[:, ::2]).tolist() == host[:, ::2].tolist()
    old_style = ours.__dlpack__()
    assert type(old_style).__name__ == "PyCapsule"
    assert ours.__dlpack_device__() == (1, 0)

    class Producer:
        def __dlpack__(self, **options: Any) -> Any:
            return host.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    same_bits(anp.from_dlpack(Producer()), host)


def test_repr_shows_values_only_when_they_are_there() -> None:
    ours = anp.asarray(np.array([1.5, 2.0], np.float32))
    assert repr(ours) == "Array([1.5, 2. ], dtype=float32)"
    assert str(ours) == "[1.5 2. ]"
    assert repr(anp.zeros((0, 2))) == "Array([], shape=(0, 2), dtype=float64)"
    storage = ours._storage
    assert isinstance(storage, ImmediateStorage)
    storage.is_ready = False
    assert repr(ours) == str(ours) == "Array(shape=(2,), dtype=float32, device='cpu', pending)"


def test_repr_takes_an_array_that_became_unreadable_for_pending() -> None:
    class Late(ImmediateStorage):
        def read_host(self, *given: Any) -> np.ndarray:
            raise WouldBlockError("not yet")

    assert "pending" in repr(Array(Late(np.zeros(2)), 0, (2,), (8,), np.dtype("float64")))


async def test_awaiting_an_array_gives_the_array() -> None:
    ours = anp.ones(3)
    assert await ours is ours


def test_astype_and_copies() -> None:
    host, ours = pair((2, 3), "float32")
    same_bits(ours.T.copy(), host.T)
    assert ours.T.copy().strides == (8, 4)
    assert ours.astype("float32", copy=False) is ours
    assert ours.astype("float32") is not ours
    same_bits(ours.flatten(), host.flatten())
    assert ours.ravel()._storage is ours._storage
    assert ours.flatten()._storage is not ours._storage
    for source in DTYPE_NAMES:
        x = sample(source, (30,))
        for target in DTYPE_NAMES:
            if source.startswith("complex") and not target.startswith(("complex", "bool")):
                with pytest.warns(np.exceptions.ComplexWarning):
                    given = anp.asarray(x).astype(target)
                with np.errstate(all="ignore"):
                    same_bits(given, x.real.astype(target))
            else:
                with np.errstate(all="ignore"):
                    same_bits(anp.asarray(x).astype(target), x.astype(target))
    with pytest.raises(TypeError, match="object is not supported"):
        ours.astype(object)


def test_operands_of_two_devices_are_refused(sink: ImmediateSink) -> None:
    here = anp.ones(2)
    with immediate("elsewhere"):
        there = anp.ones(2)
        with pytest.raises(DeviceError, match=r"operands on cpu and elsewhere"):
            here + there
        with pytest.raises(DeviceError, match="new arrays are made on 'elsewhere'"):
            here + 1
    with pytest.raises(DeviceError, match="no copy from 'cpu'"):
        here.to_device("elsewhere")
    assert here.to_device("cpu") is here


def test_the_namespace_of_an_array_is_this_one() -> None:
    assert anp.ones(1).__array_namespace__() is anp
