"""The words of a schedule, and the check of one."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given

from asyncjit.errors import InternalError
from asyncjit.ir import (
    Access,
    Call,
    Copy,
    Cost,
    Kernel,
    Operand,
    Schedule,
    Slot,
    SlotKind,
    View,
    new_buffer,
    operand_of,
    verify_schedule,
)
from tests.core._graphs import BOTH, READ, WRITE, bytes_of, call, column, schedule_of


def bytes_of_elements(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, offset: int) -> set[int]:
    starts = (
        offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    )
    return {byte for start in starts for byte in range(start, start + itemsize)}


def bytes_of_view(view: View) -> set[int]:
    starts = (view.offset_bytes + block * view.stride_bytes for block in range(view.count))
    return {byte for start in starts for byte in range(start, start + view.block_bytes)}


def test_serials_are_never_used_again() -> None:
    serials = [new_buffer("cpu", 1).serial for _ in range(100)]
    assert sorted(set(serials)) == serials


def test_access_says_what_is_read_and_what_is_written() -> None:
    assert [(access.reads, access.writes) for access in Access] == [(True, False), (False, True), (True, True)]


def test_a_contiguous_view_is_the_rest_of_its_buffer_or_the_part_named() -> None:
    buffer = new_buffer("cpu", 32)
    assert View.contiguous(buffer).is_whole
    assert View.contiguous(buffer).is_contiguous
    rest, part = View.contiguous(buffer, 8), View.contiguous(buffer, 8, 4)
    assert (rest.nbytes, part.nbytes) == (24, 4)
    assert not rest.is_whole
    assert not View.contiguous(buffer, 0, 4).is_whole
    assert not View(buffer, 0, 32, 8, 12, 3).is_whole


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """A slice, maybe reversed, transposed or broadcast, of a C-contiguous array."""
    itemsize = draw(st.sampled_from([1, 4]))
    shape, strides, offset, size = [], [], 0, itemsize
    for _ in range(draw(st.integers(0, 3))):
        extent = draw(st.integers(1, 4))
        start = draw(st.integers(0, extent))
        step = draw(st.sampled_from([1, 2, -1]))
        taken = range(extent)[start:] if step > 0 else range(extent)[start::-1]
        taken = taken[:: abs(step)]
        offset += size * taken.start if taken else 0
        shape.append(len(taken))
        strides.append(size * (taken.step if step > 0 else -1))
        size *= extent
    if draw(st.booleans()):
        shape.append(3)
        strides.append(0)
    order = draw(st.permutations(range(len(shape))))
    return tuple(shape[i] for i in order), tuple(strides[i] for i in order), itemsize, offset


@given(layouts())
def test_the_view_of_an_operand_holds_its_bytes_and_ends_with_them(
    layout: tuple[tuple[int, ...], tuple[int, ...], int, int],
) -> None:
    shape, strides, itemsize, offset = layout
    operand = operand_of(new_buffer("cpu", 1000), shape, strides, "int8", itemsize, offset)
    touched, viewed = bytes_of_elements(shape, strides, itemsize, offset), bytes_of_view(operand.view)
    assert touched <= viewed
    if touched:
        assert (min(touched), max(touched)) == (min(viewed), max(viewed))
        assert operand.view.nbytes == max(touched) + 1 - min(touched)
    else:
        assert operand.view.nbytes == 0
        assert not viewed


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), (), (16, 4, 4, 4, 1)),
        ((2, 3), (12, 4), (16, 24, 24, 24, 1)),
        ((3, 2), (4, 12), (16, 24, 24, 24, 1)),
        ((3,), (-4,), (8, 12, 12, 12, 1)),
        ((3, 1), (24, 4), (16, 52, 4, 24, 3)),
        ((2, 2, 2), (96, 48, 4), (16, 152, 8, 48, 4)),
        ((2, 3), (100, 8), (16, 120, 120, 120, 1)),
        ((5, 3), (0, 4), (16, 12, 12, 12, 1)),
        ((4, 4), (4, 4), (16, 28, 28, 28, 1)),
        ((2, 3), (2, 4), (16, 14, 14, 14, 1)),
        ((0, 3), (12, 4), (16, 0, 0, 0, 0)),
    ],
    ids=str,
)
def test_an_operand_is_one_block_or_a_row_of_blocks_or_its_extent(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    buffer = new_buffer("cpu", 1000)
    operand = operand_of(buffer, shape, strides, "float32", 4, 16)
    view = operand.view
    assert (view.offset_bytes, view.nbytes, view.block_bytes, view.stride_bytes, view.count) == expected
    assert operand.offset_bytes == 16


def test_a_call_runs_where_its_operands_are_and_a_copy_on_the_device_of_its_target() -> None:
    here, there = bytes_of(new_buffer("cpu", 8)), bytes_of(new_buffer("sim", 8))
    copy, kernel = Copy(there, here), call((here, READ), (bytes_of(new_buffer("cpu", 8)), WRITE), name="add")
    assert (kernel.name, kernel.device, kernel.lane) == ("add", "cpu", "compute")
    assert (copy.name, copy.device, copy.lane) == ("copy", "sim", "copy")
    assert copy.operands == (there, here)
    assert list(copy.accesses()) == [(there.view, WRITE), (here.view, READ)]
    assert copy.cost == Cost(0, 16)


def test_costs_add_up() -> None:
    assert Cost(1, 2) + Cost(10, 20) == Cost(11, 22)


def test_what_is_in_no_slot_is_an_intermediate_in_order_of_first_use() -> None:
    x, a, b = (new_buffer("cpu", 8) for _ in range(3))
    schedule = schedule_of(
        [call((bytes_of(x), READ), (bytes_of(b), WRITE)), call((bytes_of(b), READ), (bytes_of(a), WRITE))],
        [Slot(SlotKind.INPUT, x)],
    )
    verify_schedule(schedule)
    assert schedule.intermediates() == (b, a)
    assert schedule.slot_of(x) == 0
    assert schedule.slot_of(a) is None


BUFFER, OTHER = new_buffer("cpu", 16), new_buffer("cpu", 16)


def one(*operands: tuple[Operand, Access]) -> Schedule:
    return schedule_of([call(*operands)])


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (schedule_of([], [Slot(SlotKind.INPUT, BUFFER), Slot(SlotKind.STATE, BUFFER)]), "two slots"),
        (one(), "no operand"),
        (
            schedule_of([Call(Kernel("add", (READ, WRITE)), (bytes_of(BUFFER),))]),
            "has 1 operands, its kernel declares 2",
        ),
        (one((bytes_of(BUFFER, 8, 17), WRITE)), "touches bytes 8:17 of a buffer of 16"),
        (one((bytes_of(BUFFER, -1, 4), READ)), "touches bytes -1:4"),
        (one((Operand(View.contiguous(BUFFER), (4,), (4, 1), "int8", 0), READ)), "unequal length"),
        (one((Operand(View(BUFFER, 0, 16, 4, 8, 2), (4,), (4,), "int8", 0), READ)), "blocks span 12, not 16"),
        (one((bytes_of(BUFFER, 0, 8), WRITE), (bytes_of(BUFFER, 7, 9), BOTH)), "two operands that overlap"),
    ],
)
def test_a_schedule_that_nothing_can_run_is_refused(schedule: Schedule, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify_schedule(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        one((bytes_of(BUFFER, 0, 8), WRITE), (bytes_of(BUFFER, 8, 16), WRITE)),
        one((bytes_of(BUFFER, 8, 16), WRITE), (bytes_of(BUFFER, 0, 8), WRITE)),
        one((bytes_of(BUFFER), WRITE), (bytes_of(OTHER), WRITE)),
        one((bytes_of(BUFFER), READ), (bytes_of(BUFFER), BOTH)),
        schedule_of([Copy(bytes_of(OTHER), bytes_of(BUFFER))]),
        one((column(BUFFER, 0, 2, 4, 4), READ), (bytes_of(OTHER, 3, 3), WRITE)),
        one((operand_of(BUFFER, (0,), (1,), "int8", 1), READ)),
    ],
)
def test_a_sound_schedule_passes(schedule: Schedule) -> None:
    verify_schedule(schedule)
