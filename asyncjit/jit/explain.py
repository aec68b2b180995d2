"""A capture as a table to read: calls, streams, waits, bytes.

Law: text from a plan; decides nothing.
"""

from __future__ import annotations

from asyncjit import ir
from asyncjit.jit.captures import Entry
from asyncjit.plan import Plan

__all__ = ["explain_table"]


def explain_table(title: str, entry: Entry) -> str:
    """One line a call, in the order in which the plan issues them, under a head with the totals."""
    program = entry.programs()[0]
    plan, schedule = program.plan, program.schedule
    form = "lowered" if program.lowered else "in program order, until it is lowered"
    frame = sum(plan.frame_nbytes.values())
    waits = sum(len(segment.waits) for segment in plan.segments)
    head = [
        title,
        f"  {len(schedule.calls)} calls in {len(plan.segments)} segments on {len(plan.streams)} streams, {waits} waits",
        f"  {', '.join(_count(schedule, kind) for kind in ir.SlotKind)}; frame {frame:,} bytes",
        f"  {form}; {entry.replays:,} replays",
    ]
    rows = [("call", "kernel", "stream", "waits for", "bytes", "result", "source")]
    for segment in plan.segments:
        for position, index in enumerate(segment.calls):
            call = schedule.calls[index]
            waits_for = " ".join(map(str, _awaited(plan, segment.waits))) if position == 0 else ""
            result = call.operands[-1] if isinstance(call, ir.Call) else call.target
            shape = f"{result.dtype}{list(result.shape)}"
            rows.append(
                (str(index), call.name, str(segment.stream), waits_for, f"{call.cost.nbytes:,}", shape, call.source)
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in head + lines)


def _awaited(plan: Plan, segments: tuple[int, ...]) -> list[int]:
    """The last call of each segment that is waited for."""
    return [plan.segments[index].calls[-1] for index in segments]


def _count(schedule: ir.Schedule, kind: ir.SlotKind) -> str:
    slots = [slot for slot in schedule.slots if slot.kind is kind]
    return f"{len(slots)} {kind.value} slots of {sum(slot.buffer.nbytes for slot in slots):,} bytes"
