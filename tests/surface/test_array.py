"""The Array class: operators, identity, reading, copies."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from asyncjit.errors import DeviceError, WouldBlockError
from asyncjit.ir import Access
from asyncjit.numpy import Array
from asyncjit.numpy import _handle as handle
from tests.surface.immediate import ImmediateSink, ImmediateStorage, immediate
from tests.surface.samples import DTYPE_NAMES, pair, same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


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
        range(ours)
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


def test_copying_and_pickling_go_by_value() -> None:
    host, ours = pair((2, 3))
    for other in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours.T)).T):
        same_bits(other, host)
        assert other._storage is not ours._storage


def test_operands_of_two_devices_are_refused(sink: ImmediateSink) -> None:
    here = anp.ones(2)
    with immediate("elsewhere"):
        there = anp.ones(2)
        with pytest.raises(DeviceError, match=r"operands on cpu and elsewhere"):
            here + there
        assert (here + 1).device == "cpu"
    assert here.to_device("cpu") is here


def test_the_namespace_of_an_array_is_this_one() -> None:
    assert anp.ones(1).__array_namespace__() is anp
