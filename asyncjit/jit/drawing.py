"""Captures as a drawing: calls as boxes, streams as lanes, waits as arrows.

Law: SVG from plans, written by hand; decides nothing. Standard library and plans only.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from asyncjit.plan import Plan

__all__ = ["drawing_of"]

# All in pixels. A box holds about 16 characters; longer names are cut, the tooltip has them whole.
BOX_WIDTH, BOX_HEIGHT = 112, 26
STEP, LANE_HEIGHT = 136, 50
LEFT, HEAD, MARGIN = 150, 34, 12
NAME_MAX = 15

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.lane{fill:#f4f4f4}.segment{fill:#dde6f0}"
    ".call{fill:#fff;stroke:#456}.wait{stroke:#b33;fill:none;stroke-width:1.5}"
)


def drawing_of(captures: Sequence[tuple[str, Plan]]) -> str:
    """One SVG document with a part for each capture, its title above it.

    Each stream is a lane, time goes to the right: a call stands behind all that it follows, by its stream or by a wait.
    Widths say nothing of durations. Calls of one segment share a background; pointing at a call shows what it is.
    """
    parts: list[str] = []
    top, width = MARGIN, 0
    for title, plan in captures:
        body, right, height = _part(title, plan, top)
        parts += body
        width, top = max(width, right), top + height + MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + MARGIN}" height="{top}">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#b33"/></marker></defs>',
            *parts,
            "</svg>\n",
        )
    )


def _columns(plan: Plan) -> dict[int, int]:
    """A column for each call: behind the one before it on its stream, and behind those that its segment waits for."""
    columns: dict[int, int] = {}
    free = [0] * len(plan.streams)
    for segment in plan.segments:
        waited = [columns[plan.segments[wait].calls[-1]] + 1 for wait in segment.waits]
        first = max([free[segment.stream], *waited])
        columns.update((call, first + place) for place, call in enumerate(segment.calls))
        free[segment.stream] = first + len(segment.calls)
    return columns


def _part(title: str, plan: Plan, top: int) -> tuple[list[str], int, int]:
    """Elements of one capture, where it ends on the right, and its height."""
    columns = _columns(plan)
    right = LEFT + STEP * (max(columns.values(), default=0) + 1)
    parts = [f"<g><title>{escape(title)}</title>", _text(MARGIN, top + 16, title, "title")]
    for stream, spec in enumerate(plan.streams):
        y = top + HEAD + stream * LANE_HEIGHT
        parts.append(_box(0, y, right, LANE_HEIGHT - 4, "lane") + "/>")
        parts.append(_text(MARGIN, y + LANE_HEIGHT // 2 + 2, f"{stream}: {spec.device}, {spec.lane}"))
    for segment in plan.segments:
        y = top + HEAD + segment.stream * LANE_HEIGHT + 4
        x = LEFT + columns[segment.calls[0]] * STEP - 6
        width = STEP * (len(segment.calls) - 1) + BOX_WIDTH + 12
        parts.append(_box(x, y, width, LANE_HEIGHT - 12, "segment") + f' data-segment="{segment.index}"/>')
        parts += (_call(plan, call, LEFT + columns[call] * STEP, y + 6) for call in segment.calls)
        for wait in segment.waits:
            earlier = plan.segments[wait]
            x_from = LEFT + columns[earlier.calls[-1]] * STEP + BOX_WIDTH
            y_from = top + HEAD + earlier.stream * LANE_HEIGHT + 10 + BOX_HEIGHT // 2
            x_to, y_to = x + 6, y + 6 + BOX_HEIGHT // 2
            bend = (x_to - x_from) // 2
            path = f"M{x_from},{y_from} C{x_from + bend},{y_from} {x_to - bend},{y_to} {x_to},{y_to}"
            parts.append(
                f'<path class="wait" d="{path}" marker-end="url(#end)" data-from="{wait}" data-to="{segment.index}"/>'
            )
    parts.append("</g>")
    return parts, right, HEAD + len(plan.streams) * LANE_HEIGHT


def _call(plan: Plan, index: int, x: int, y: int) -> str:
    call = plan.schedule.calls[index]
    name = call.name if len(call.name) <= NAME_MAX else call.name[: NAME_MAX - 1] + "…"
    operands = ", ".join(f"{operand.dtype}{list(operand.shape)}" for operand in call.operands)
    told = (
        f"call {index}: {call.name}({operands})\n{call.cost.flops:,} flops, {call.cost.nbytes:,} bytes\n{call.source}"
    )
    box = _box(x, y, BOX_WIDTH, BOX_HEIGHT, "call")
    return f'<g data-call="{index}"><title>{escape(told)}</title>{box} rx="3"/>{_text(x + 6, y + 17, name)}</g>'


def _box(x: int, y: int, width: int, height: int, kind: str) -> str:
    """An element that is still open, for more attributes."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"'


def _text(x: int, y: int, text: str, kind: str = "label") -> str:
    return f'<text class={quoteattr(kind)} x="{x}" y="{y}">{escape(text)}</text>'
