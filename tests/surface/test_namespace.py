"""Functions that create and rearrange equal NumPy's; kernels write into what they are given."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from asyncjit.errors import DeviceError
from asyncjit.ir import Access, Kernel
from asyncjit.numpy import Array
from asyncjit.numpy._creation import asarray
from asyncjit.ops import REGISTRY, numpy_kernel
from tests._source import CHECKOUT
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


def test_rearranging_functions_equal_numpy() -> None:
    host = np.arange(24, dtype="int16").reshape(2, 3, 4)
    ours = anp.asarray(host)
    cases: list[tuple[Array, np.ndarray]] = [
        (anp.reshape(ours, (4, 6)), host.reshape(4, 6)),
        (anp.permute_dims(ours, (2, 0, 1)), host.transpose(2, 0, 1)),
        (anp.transpose(ours), host.T),
        (anp.matrix_transpose(ours), host.swapaxes(-1, -2)),
        (anp.swapaxes(ours, 0, 1), host.swapaxes(0, 1)),
        (anp.moveaxis(ours, 0, -1), np.moveaxis(host, 0, -1)),
        (anp.moveaxis(ours, (0, 1), (1, 0)), np.moveaxis(host, (0, 1), (1, 0))),
        (anp.expand_dims(ours, 1), np.expand_dims(host, 1)),
        (anp.expand_dims(ours, (0, -1)), np.expand_dims(host, (0, -1))),
        (anp.squeeze(ours[:, :1]), host[:, :1].squeeze()),
        (anp.flip(ours), np.flip(host)),
        (anp.flip(ours, axis=1), np.flip(host, axis=1)),
        (anp.broadcast_to(ours[:, :1], (5, 2, 3, 4)), np.broadcast_to(host[:, :1], (5, 2, 3, 4))),
    ]
    for given, wanted in cases:
        same_bits(given, wanted)
        assert given._storage is ours._storage
        # np.expand_dims reshapes, which gives the new axis another stride that nobody takes.
        strides = zip(given.strides, wanted.strides, wanted.shape, strict=True)
        assert all(one == two for one, two, extent in strides if extent > 1)
    one, two = anp.broadcast_arrays(ours[0, 0], ours[:, :1, :1])
    assert one.shape == two.shape == (2, 1, 4)
    with pytest.raises(ValueError, match="does not broadcast"):
        anp.broadcast_to(ours, (4, 3))
    with pytest.raises(ValueError, match="2 axes do not go to 1"):
        anp.moveaxis(ours, (0, 1), 0)


def test_joining_and_repeating_functions_equal_numpy() -> None:
    x, y = sample("int16", (2, 3)), sample("float32", (2, 3))
    for axis in (0, 1, -1, None):
        same_bits(anp.concat([x, y, x], axis=axis), np.concatenate([x, y, x], axis=axis))
    for axis in (0, 1, 2, -1):
        same_bits(anp.stack([x, y], axis=axis), np.stack([x, y], axis=axis))
    for shift, axis in itertools.product((0, 1, -4, 7), (None, 0, 1)):
        same_bits(anp.roll(y, shift, axis=axis), np.roll(y, shift, axis=axis))
    same_bits(anp.roll(np.zeros((0, 2)), 1, axis=0), np.zeros((0, 2)))
    for axis in (None, 0, 1):
        same_bits(anp.repeat(x, 3, axis=axis), np.repeat(x, 3, axis=axis))
        same_bits(anp.take(x, [1, 0, -1], axis=axis), np.take(x, [1, 0, -1], axis=axis))
    for counts in (2, (2, 3), (2, 1, 3)):
        same_bits(anp.tile(x, counts), np.tile(x, counts))
    for parts in (3, [1], [0, 2]):
        for given, wanted in zip(anp.split(anp.asarray(x), parts, 1), np.split(x, parts, 1), strict=True):
            same_bits(given, wanted)
    for given, wanted in zip(anp.unstack(anp.asarray(x), axis=1), x.T, strict=True):
        same_bits(given, wanted)
    for k in (-1, 0, 2):
        square = sample("float32", (2, 4, 4))
        same_bits(anp.tril(square, k), np.tril(square, k))
        same_bits(anp.triu(square, k), np.triu(square, k))
    for call, message in [
        (lambda: anp.concat([]), "at least one"),
        (lambda: anp.concat([x, x[0]]), "equal ndim"),
        (lambda: anp.concat([x, x[:, :2]]), "along axis 0 only"),
        (lambda: anp.stack([x, x[0]]), "one shape"),
        (lambda: anp.split(x, 2, 1), "does not divide"),
        (lambda: anp.tril(x[0]), "two axes"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_created_arrays_equal_numpys() -> None:
    same_bits(anp.zeros((2, 3)), np.zeros((2, 3)))
    same_bits(anp.ones(4, "int8"), np.ones(4, "int8"))
    for value in (True, 3, 2.5, 1j, np.float32(0.1), [1, 2], float("nan"), -0.0):
        same_bits(anp.full((3, 2), value), np.full((3, 2), value))
    same_bits(anp.full_like(anp.zeros(2, "int8"), 7), np.full(2, 7, "int8"))
    same_bits(anp.zeros_like(anp.ones(2, "float32")), np.zeros(2, "float32"))
    same_bits(anp.ones_like(anp.ones(2), dtype="bool"), np.ones(2, bool))
    assert anp.empty((2, 2), "int32").shape == anp.empty_like(anp.zeros((2, 2))).shape
    for arguments in [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0, 1, 0.1), (5, 2), (0.5, 3)]:
        same_bits(anp.arange(*arguments), np.arange(*arguments))
    same_bits(anp.arange(3, dtype="float32"), np.arange(3, dtype="float32"))
    same_bits(anp.linspace(0, 1, 7), np.linspace(0, 1, 7))
    same_bits(anp.linspace(-3, 1, 4, endpoint=False, dtype="float32"), np.linspace(-3, 1, 4, False, dtype="float32"))
    same_bits(anp.eye(3, 4, 1), np.eye(3, 4, 1))
    same_bits(anp.eye(2, dtype="int8"), np.eye(2, dtype="int8"))
    for call, error in [
        (lambda: anp.zeros((2, -1)), ValueError),
        (lambda: anp.zeros(2.5), TypeError),
        (lambda: anp.full(2, 300, "int8"), OverflowError),
        (lambda: anp.arange(0, 3, 0), ValueError),
        (lambda: anp.zeros(2, "datetime64[s]"), TypeError),
        (lambda: anp.zeros(2, device="mars"), DeviceError),
    ]:
        with pytest.raises(error):
            call()


def test_asarray_takes_whatever_holds_numbers(sink: ImmediateSink) -> None:
    same_bits(anp.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    same_bits(anp.asarray(2.5), np.array(2.5))
    host = sample("float32", (3, 4))
    same_bits(anp.asarray(host.T), host.T)
    same_bits(anp.asarray(host[::-1, ::2], dtype="float64"), host[::-1, ::2].astype("float64"))
    same_bits(anp.asarray(np.arange(3, dtype=">i4")), np.arange(3, dtype="int32"))
    ours = anp.asarray(host)
    assert anp.asarray(ours) is ours
    assert anp.asarray(ours, device="cpu") is ours
    assert anp.asarray(ours, copy=True)._storage is not ours._storage
    same_bits(anp.asarray(ours, dtype="float64"), host.astype("float64"))
    same_bits(anp.asarray([ours[0], ours[1]], dtype="float64"), host[:2].astype("float64"))
    host[...] = 0
    assert np.asarray(ours).any()
    for call, error in [
        (lambda: anp.asarray(host, copy=False), ValueError),
        (lambda: anp.asarray(ours, dtype="int8", copy=False), ValueError),
        (lambda: anp.asarray("text"), TypeError),
        (lambda: anp.asarray([object()]), TypeError),
        (lambda: anp.asarray(host, device="mars"), DeviceError),
        (lambda: anp.asarray(host * 1j, dtype="float32"), TypeError),
    ]:
        with pytest.raises(error):
            call()


def test_questions_about_dtypes_have_numpys_answers() -> None:
    assert anp.result_type(anp.ones(1, "int8"), "float32", 1.5) == np.result_type("int8", "float32")
    assert anp.result_type(anp.ones(1, "float32"), 1.5) == "float32"
    assert anp.can_cast("int8", "int16")
    assert not anp.can_cast(anp.ones(1), "float32")
    assert anp.isdtype("float32", "real floating")
    assert anp.finfo(anp.ones(1, "float32")).bits == 32
    assert anp.iinfo("int8").max == anp.iinfo(anp.ones(1, "int8")).max == 127
    assert anp.ones(1, anp.float32).dtype == anp.float32


def test_names_are_sorted_and_every_alias_is_its_function() -> None:
    assert sorted(anp.__all__) == sorted(set(anp.__all__))
    assert all(hasattr(anp, name) for name in anp.__all__)
    assert anp.concat is anp.concatenate
    assert anp.acos is anp.arccos
    assert all(getattr(anp, name).__doc__ for name in anp.__all__ if callable(getattr(anp, name)))


ALLOCATION_CASES: dict[str, Any] = {
    "sum": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(axis=0),
    "var": lambda x: x.var(axis=0),
    "max": lambda x: x.max(axis=1),
    # Along any axis but the last NumPy itself transposes into a copy.
    "argmax": lambda x: x.argmax(axis=1),
    "cumsum": lambda x: x.cumsum(axis=1),
    "matmul": lambda x: x @ x,
    "vecdot": lambda x: anp.vecdot(x, x),
    "concatenate": lambda x: anp.concat([x, x]),
    "take": lambda x: anp.take(x, [3, 1, 2] * 200, axis=0),
    "copy": lambda x: x.T.copy(),
    "astype": lambda x: x.astype("float32"),
    "where": lambda x: anp.where(x > 0, x, 0),
    "clip": lambda x: anp.clip(x, 0, 1),
    "full": lambda x: anp.zeros((512, 512)),
    "fill": lambda x: x.__setitem__(..., 1),
    "round": lambda x: anp.round(x),
    **{
        name: (lambda x, name=name: getattr(anp, name)(x)) for name in ("exp", "tanh", "isnan", "sign", "sqrt", "log1p")
    },
    **{name: (lambda x, name=name: getattr(anp, name)(x, x)) for name in ("add", "divide", "maximum", "pow", "less")},
    "erf": anp.erf,
    "erf of float32": lambda x: anp.erf(x.astype("float32")),
    "sort": anp.sort,
    "argsort": lambda x: anp.argsort(x, axis=0),
    "top_k": lambda x: anp.top_k(x, 300),
    "searchsorted": lambda x: anp.searchsorted(x[0], x),
    "take_along_axis": lambda x: anp.take_along_axis(x, anp.asarray([[3, 1, 2]] * 512)),
    "gather_nd": lambda x: anp.gather_nd(x, [[1], [2]] * 300),
    "scatter_nd": lambda x: anp.scatter_nd(x, [[1], [2]], x[:2]),
    "einsum": lambda x: anp.einsum("ij,kj->ik", x, x),
    "mixed dtypes": lambda x: x + anp.ones((512, 512), "float32"),
    "constant": lambda x: 2 / x + 1,
}


@pytest.mark.parametrize("name", ALLOCATION_CASES)
def test_kernels_write_into_their_outputs_and_allocate_nothing_of_their_size(name: str) -> None:
    """Two megabytes an operand; NumPy's cast buffers (64 KiB) are what may show."""
    with immediate() as sink:
        x = asarray(np.random.default_rng(1).random((512, 512)))
        sink.calls.clear()
        ALLOCATION_CASES[name](x)
        calls = list(sink.calls)
    assert calls
    for kernel, operands, _ in calls:
        views = [storage.view(offset, spec.shape, spec.strides, spec.dtype) for storage, offset, spec in operands]  # type: ignore[attr-defined]
        function = numpy_kernel(kernel, ())
        function(*views)
        tracemalloc.start()
        try:
            function(*views)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 300_000, f"{kernel.name} allocated {peak} bytes"


def test_every_operation_is_reached_by_the_surface() -> None:
    """An entry that no function names would be dead."""
    surfaces = ("asyncjit/numpy", "asyncjit/nn", "asyncjit/random")
    text = "".join(path.read_text(encoding="utf-8") for each in surfaces for path in (CHECKOUT / each).rglob("*.py"))
    assert [name for name in REGISTRY if f'"{name}"' not in text] == []


def test_a_kernel_declares_inputs_read_and_outputs_written(sink: ImmediateSink) -> None:
    x = anp.ones(3)
    divmod(x, 2)
    assert sink.calls[-1][0].access == (Access.READ, Access.WRITE, Access.WRITE)
    x[anp.asarray([1])] = 5
    assert sink.calls[-1][0] == Kernel("scatter", (Access.READ, Access.READ, Access.READ_WRITE), (0,))
    anp.empty(3)
    assert sink.calls[-1][0].name == "scatter"
