"""Symbolic operands in plans: bounded over their range inside, listed as they are outside, stored and read back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from asyncjit.errors import InternalError
from asyncjit.ir import Access, Call, Copy, Kernel, Operand, Schedule, Slot, SlotKind, View, new_buffer, operand_of
from asyncjit.plan import Plan, lower, verify_plan
from asyncjit.plan_data import plan_from_data, plan_to_data
from asyncjit.regions import outside_accesses
from asyncjit.symbols import Int, combine, same
from asyncjit.variables import Variable, evaluate
from tests.core._graphs import READ, WRITE, bytes_of

N, M = Variable("n", 0, 7), Variable("m", 1, 4)


def rows(start: Int, count: Int, buffer: Any = None) -> Operand:
    """Rows of 4 bytes of a table of 8 rows."""
    return operand_of(buffer or new_buffer("cpu", 32), (count, 4), (4, 1), "uint8", 1, start * 4)


def span(operand: Operand) -> tuple[int, int]:
    return operand.view.offset_bytes, operand.view.offset_bytes + operand.view.nbytes


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (rows(N, 1), (0, 32)),
        (rows(2, M), (8, 24)),
        (rows(M, 3), (4, 28)),
        (rows(N - combine("min", N, 2), 1), (0, 24)),
        (operand_of(new_buffer("cpu", 32), (M,), (-4,), "uint8", 1, 16), (4, 17)),
        (operand_of(new_buffer("cpu", 32), (3,), (M - 2,), "uint8", 1, 16), (12, 21)),
        (operand_of(new_buffer("cpu", 32), (N, 0), (4, 4), "uint8", 1, 16), (10, 10)),
        (operand_of(new_buffer("cpu", 32), (M,), (4,), "uint32", 4, 8), (8, 24)),
        # More than the buffer has is not looked at: a device checks what the ranges leave open.
        (operand_of(new_buffer("cpu", 32), (M,), (4,), "uint8", 1, 40 - 8 * M), (8, 32)),
        (operand_of(new_buffer("cpu", 4), (M,), (1,), "uint8", 1, 8), (4, 4)),
    ],
    ids=str,
)
def test_a_view_is_around_all_that_may_be_touched(operand: Operand, expected: tuple[int, int]) -> None:
    first, last = span(operand)
    if any(same(extent, 0) for extent in operand.shape):
        assert first == last
    else:
        assert (first, last) == expected
        assert operand.view.is_contiguous
    assert operand.is_symbolic


def test_the_ranges_say_whether_an_operand_stays_inside() -> None:
    assert rows(N, 1).stays_inside()
    assert not rows(N + 1, 1).stays_inside()
    assert operand_of(new_buffer("cpu", 4), (N, 0), (1, 1), "uint8", 1, 9).stays_inside()
    assert bytes_of(new_buffer("cpu", 4)).stays_inside()
    assert [
        Operand(View.contiguous(new_buffer("cpu", 16)), (1,), (1,), name, 0).itemsize
        for name in ("bool", "int8", "float16", "float32", "uint64", "complex128")
    ] == [1, 1, 2, 4, 8, 16]


def schedule_of_steps() -> Schedule:
    """A row is written, the rows so far are read, a column and some squares are written, a row is copied."""
    table, result = new_buffer("cpu", 32), new_buffer("cpu", 4)
    row, seen = rows(N, 1, table), rows(0, N + 1, table)
    column = operand_of(table, (8, 1), (4, 1), "uint8", 1, M - 1)
    squares = operand_of(table, (2, M, M), (16, 4, 1), "uint8", 1, 0)
    out = bytes_of(result)
    calls = (
        Call(Kernel("fill", (WRITE,), (("int64", N * M), "x")), (row,)),
        Call(Kernel("sum", (READ, WRITE)), (seen, out)),
        Call(Kernel("fill", (WRITE,)), (column,)),
        Call(Kernel("fill", (WRITE,)), (squares,)),
        Copy(rows(N - combine("min", N, 1), 1, table), rows(N, 1, table)),
    )
    slots = (Slot(SlotKind.INPUT, table, "table"), Slot(SlotKind.OUTPUT, result))
    return Schedule(calls, slots, "steps")


def test_a_plan_lists_symbolic_accesses_as_they_are() -> None:
    schedule = schedule_of_steps()
    assert set(schedule.symbols()) == {N.symbol, M.symbol}
    plan = lower(schedule)
    verify_plan(plan)
    listed = [access.operand for access in plan.writes]
    assert [operand is not None for operand in listed] == [True] * 4
    # Different rows of one bounding view each have an entry; the same row read and written once each.
    assert len({operand.layout for operand in listed if operand is not None}) == 4
    assert len({access.operand.layout for access in plan.reads if access.operand is not None}) == len(plan.reads)


def test_a_symbolic_access_covers_nothing_and_a_known_one_covers_it() -> None:
    table = new_buffer("cpu", 32)
    whole = bytes_of(table)
    slots = (Slot(SlotKind.INPUT, table),)

    def reads(*operands: Operand) -> list[bool]:
        calls = tuple(Call(Kernel("read", (READ,)), (operand,)) for operand in operands)
        return [access.operand is not None for access in lower(Schedule(calls, slots), segment_calls_first=1).reads]

    assert reads(rows(N, 1, table), whole) == [True, False]
    assert reads(whole, rows(N, 1, table)) == [False]
    assert reads(rows(N, 1, table), rows(N, 1, table), rows(N, M, table)) == [True, True]


def test_a_symbolic_write_counts_as_a_read_where_values_may_leave_gaps() -> None:
    calls = schedule_of_steps().calls
    counted = [[access for _, access in outside_accesses(call)] for call in calls]
    assert counted[0] == [Access.WRITE]
    assert counted[2] == [Access.WRITE]
    assert counted[3] == [Access.READ_WRITE]


def first_write(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, writes=(replace(plan.writes[0], **changes), *plan.writes[1:]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: first_write(plan, operand=rows(7 - N, 1, plan.writes[0].view.buffer)), "may write"),
        (lambda plan: first_write(plan, operand=rows(N, 2)), "not of the view of its operand"),
        (lambda plan: replace(plan, writes=plan.writes[1:]), "may write"),
    ],
)
def test_an_access_that_is_listed_wrongly_is_found(change: Callable[[Plan], Plan], message: str) -> None:
    plan = lower(schedule_of_steps())
    with pytest.raises(InternalError, match=message):
        verify_plan(change(plan))


def test_symbolic_plans_come_back_the_same() -> None:
    plan = lower(schedule_of_steps())
    data = json.loads(json.dumps(plan_to_data(plan)))
    again = plan_from_data(data)
    assert plan_to_data(again) == data
    assert again.schedule.symbols() == plan.schedule.symbols()
    for old, new in zip(plan.schedule.calls, again.schedule.calls, strict=True):
        assert [each.layout for each in old.operands] == [each.layout for each in new.operands]
    fill = again.schedule.calls[0]
    assert isinstance(fill, Call)
    assert fill.kernel.params == (("int64", N * M), "x")


#: What may stand for a symbolic integer, and what the message says of it.
WRONG: list[tuple[object, str]] = [
    ("n", "must be an integer"),
    ({}, "is missing"),
    ({"sum": 3}, "must be a list"),
    ({"sum": [[]]}, "must be a term"),
    ({"sum": [["x"]]}, "must be an integer"),
    ({"sum": [[1, ["n", 3, 1]]]}, "a variable with a name and a range"),
    ({"sum": [[1, ["", 1, 3]]]}, "a variable with a name and a range"),
    ({"sum": [[1, ["n", 1]]]}, "a list of more than 2"),
    ({"sum": [[1, ["^", [[1]], [[2]]]]]}, "a quotient, remainder"),
    ({"sum": [[1, ["//", [[1, ["n", 0, 3]]], [[1, ["n", 0, 3]]]]]]}, "a quotient, remainder"),
    ({"sum": [[-1, ["n", 0, 3]]]}, "inside its view"),
    ({"sum": [[1, *[["n", 0, 3]] * 65]]}, "of at most 64 terms or factors"),
    ({"sum": [[1, [f"v{index}", 0, 3]] for index in range(65)]}, "of at most 64 terms or factors"),
    ({"sum": [[2**300]]}, "of at most 64 terms or factors"),
    # A product of two quotients that come out as sums of nine terms each.
    ({"sum": [[1, *[["//", [[1, [f"v{index}", 0, 3]] for index in range(9)], [[1]]]] * 2]]}, "at most 64 terms"),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=[str(value) for value, _ in WRONG])
def test_what_is_no_symbolic_integer_is_refused(value: object, message: str) -> None:
    data = plan_to_data(lower(schedule_of_steps()))
    data["schedule"]["calls"][0]["operands"][0]["offset_bytes"] = value
    with pytest.raises(ValueError, match=message):
        plan_from_data(data)


def test_an_expression_that_could_not_be_read_is_not_written() -> None:
    long: Any = sum((Variable(f"v{index}", 0, 3) for index in range(65)), 0)
    large: Any = N * 2**300
    for expr in (long, large, long // 3, N.at_least(large)):
        keeper = Call(Kernel("k", (WRITE,), (expr,)), (bytes_of(new_buffer("cpu", 1)),))
        with pytest.raises(ValueError, match="more than 64 terms or factors"):
            plan_to_data(lower(Schedule((keeper,))))


def test_every_kind_of_expression_is_read_as_it_was() -> None:
    for expr in (
        *(N + 3, 2 * N * M - M, N // 3, (N + M) % 5, N.at_most(4), M.at_least(N) * 3, N // M, (7 * N) % (M + 1)),
    ):
        data = plan_to_data(lower(schedule_of_steps()))
        changed = copy.deepcopy(data)
        params = changed["schedule"]["calls"][0]["kernel"]["params"]
        keeper = Call(Kernel("k", (WRITE,), (expr,)), (bytes_of(new_buffer("cpu", 1)),))
        stored = plan_to_data(lower(Schedule((keeper,))))
        params[0] = json.loads(json.dumps(stored["schedule"]["calls"][0]["kernel"]["params"][0]))
        call = plan_from_data(changed).schedule.calls[0]
        assert isinstance(call, Call)
        found: Any = call.kernel.params[0]
        assert same(found, expr)
        assert evaluate(found, {N.symbol: 5, M.symbol: 3}) == evaluate(expr, {N.symbol: 5, M.symbol: 3})
