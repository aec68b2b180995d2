"""A capture as a table to read: calls, streams, waits, bytes, estimates.

Law: text from a plan; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asyncjit import ir
from asyncjit.jit.captures import Entry
from asyncjit.plan import Plan, Segment
from asyncjit.program import call_costs

__all__ = ["explain_table"]

_CALL_HEADS = ("call", "kernel", "stream", "waits for", "flops", "bytes", "result", "source")
_SEGMENT_HEADS = ("segment", "stream", "waits for", "calls", "flops", "bytes", "estimated")


def explain_table(title: str, entry: Entry) -> str:
    """Totals, one line a call in the order in which the plan issues them, and one line a segment if there are several.

    Flops and bytes are those of a replay, counted from shapes; times follow from them for one core, and are rough.
    """
    program = entry.programs()[0]
    plan, schedule = program.plan, program.schedule
    form = "lowered" if program.lowered else "in program order, until it is lowered"
    costs_s = call_costs(schedule)
    waits = sum(len(segment.waits) for segment in plan.segments)
    frame = sum(plan.frame_nbytes.values())
    sizes = ", ".join(
        (
            _counted(len(schedule.calls), "call"),
            _counted(len(plan.segments), "segment"),
            _counted(len(plan.streams), "stream"),
            _counted(waits, "wait"),
        )
    )
    lines = [
        title,
        f"  {sizes}; a replay {_work(plan.cost)}, about {_time(sum(costs_s))} on one core",
        f"  {', '.join(_slots(schedule, kind) for kind in ir.SlotKind)}; frame {frame:,} bytes",
        f"  {form}; {entry.replays:,} replays",
        *_table([_CALL_HEADS, *_call_rows(plan)]),
    ]
    if len(plan.segments) > 1:
        lines += _table([_SEGMENT_HEADS, *(_segment_row(plan, segment, costs_s) for segment in plan.segments)])
    return "\n".join(lines)


def _call_rows(plan: Plan) -> Iterable[tuple[str, ...]]:
    for segment in plan.segments:
        for position, index in enumerate(segment.calls):
            call = plan.schedule.calls[index]
            # The last call of each segment that is waited for.
            awaited = [str(plan.segments[wait].calls[-1]) for wait in segment.waits] if position == 0 else []
            result = call.operands[-1] if isinstance(call, ir.Call) else call.target
            shape = f"{result.dtype}{list(result.shape)}"
            cost = call.cost
            stream = str(segment.stream)
            yield (
                *(str(index), call.name, stream, " ".join(awaited)),
                *(f"{cost.flops:,}", f"{cost.nbytes:,}", shape, call.source),
            )


def _segment_row(plan: Plan, segment: Segment, costs_s: Sequence[float]) -> tuple[str, ...]:
    cost = sum((plan.schedule.calls[index].cost for index in segment.calls), ir.Cost())
    return (
        *(str(segment.index), str(segment.stream), " ".join(map(str, segment.waits)), str(len(segment.calls))),
        *(f"{cost.flops:,}", f"{cost.nbytes:,}", _time(sum(costs_s[index] for index in segment.calls))),
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [line.rstrip() for line in lines]


def _work(cost: ir.Cost) -> str:
    return f"{cost.flops:,} flops and {cost.nbytes:,} bytes"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:,.1f} ms"


def _slots(schedule: ir.Schedule, kind: ir.SlotKind) -> str:
    slots = [slot for slot in schedule.slots if slot.kind is kind]
    return f"{_counted(len(slots), f'{kind.value} slot')} of {sum(slot.buffer.nbytes for slot in slots):,} bytes"
