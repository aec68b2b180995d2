"""Basic indexing, reshape and transposes are the views that NumPy gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncjit.numpy as anp
from asyncjit.numpy._layout import reshape
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import pair, same_bits, same_view, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_basic_index_gives_the_view_that_numpy_gives(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
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
