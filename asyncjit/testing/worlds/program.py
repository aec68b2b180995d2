"""Programs for the scheduler: calls that touch ranges of bytes, what they compute, and random ones.

Law: data and arithmetic; nothing is scheduled here. What a segment writes depends on everything it read, so that one
wrong byte shows in all that follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from asyncjit.deps import Region
from asyncjit.ir import Cost, Schedule
from asyncjit.plan import Plan, Segment, StreamSpec
from asyncjit.runs import Footprint, Touch, gate_fronts
from asyncjit.scheduler import Scheduler

Choose = Callable[[int], int]

STATE_BYTES = 8
OUTPUT_BYTES = 4
OUTPUTS_FROM = 100

#: Devices of the world; the second takes work whose first segment still waits.
CPU, GPU = "cpu", "gpu"


@dataclass(frozen=True)
class Span:
    """Bytes of a state buffer, or with ``call`` those of the output of an earlier call."""

    buffer: int
    start: int = 0
    stop: int = STATE_BYTES
    block: int = 0
    stride: int = 0

    def offsets(self) -> list[int]:
        if not self.block:
            return list(range(self.start, self.stop))
        return [at + i for at in range(self.start, self.stop, self.stride) for i in range(self.block)]

    def region(self) -> Region:
        return Region(self.buffer, self.start, self.stop, self.block, self.stride)


def output_of(call: int) -> Span:
    return Span(OUTPUTS_FROM + call, 0, OUTPUT_BYTES)


@dataclass(frozen=True)
class Part:
    """One segment: what it reads, then writes; its stream, and the segments of other streams that it waits for."""

    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    stream: int = 0
    waits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Call:
    """One call of a program. ``fails_at`` is a segment; ``signature`` None means that it was captured long ago."""

    parts: tuple[Part, ...]
    group: int = 0
    device: str = CPU
    has_output: bool = False
    weights: tuple[Span, ...] = ()
    weights_part: int = 0
    fails_at: int | None = None
    is_inline: bool = False
    signature: str | None = None

    def reads(self) -> list[Span]:
        return [*self.weights, *(span for part in self.parts for span in part.reads)]

    def writes(self) -> list[Span]:
        return [span for part in self.parts for span in part.writes]

    def sources(self) -> list[int]:
        """Earlier calls whose outputs it touches."""
        spans = [*self.reads(), *self.writes()]
        return sorted({span.buffer - OUTPUTS_FROM for span in spans if span.buffer >= OUTPUTS_FROM})

    def before(self, index: int) -> list[int]:
        """Segments that come before this one inside the plan."""
        stream = self.parts[index].stream
        same = [i for i in range(index) if self.parts[i].stream == stream][-1:]
        return [*same, *self.parts[index].waits]


def footprint_of(call: Call, scheduler: Scheduler) -> tuple[Footprint, list[int]]:
    """What the engine makes of a plan, and the keys that its slots are bound to."""
    keys: list[int] = []
    seen: set[tuple[Span, bool]] = set()
    groups: list[tuple[int, tuple[Touch, ...], tuple[Touch, ...]]] = []

    def touches(spans: Sequence[Span], writes: bool) -> tuple[Touch, ...]:
        found = []
        for span in spans:
            if (span, writes) not in seen:
                seen.add((span, writes))
                if span.buffer not in keys:
                    keys.append(span.buffer)
                slot = keys.index(span.buffer)
                found.append(Touch(slot, span.start, span.stop, span.block, span.stride))
        return tuple(found)

    for index, part in enumerate(call.parts):
        groups.append((index, touches(part.reads, False), touches(part.writes, True)))
    read_set = scheduler.read_set([span.region() for span in call.weights]) if call.weights else None
    firsts = {index for index, reads, writes in groups if reads or writes} | {call.weights_part}
    fronts = gate_fronts(plan_of(call), firsts)
    return Footprint(tuple(groups), read_set, call.weights_part, fronts), keys


def plan_of(call: Call) -> Plan:
    streams = tuple(StreamSpec(call.device, "compute") for _ in range(1 + max(part.stream for part in call.parts)))
    segments = tuple(Segment(i, part.stream, (i,), part.waits) for i, part in enumerate(call.parts))
    return Plan(Schedule(()), streams, segments, {}, {}, (), (), Cost())


def execute(
    call: Call,
    index: int,
    part: int,
    memory: dict[int, bytearray],
    digests: Mapping[int, bytes],
    *,
    spoilt: bool = False,
) -> bytes:
    """Run a segment on ``memory``: its digest covers what it read and what came before it; it writes its digest."""
    spans = (*call.parts[part].reads, *(call.weights if part >= call.weights_part else ()))
    read = bytes(content_of(memory, span.buffer)[at] for span in spans for at in span.offsets())
    before = b"".join(digests[other] for other in call.before(part))
    digest = hashlib.blake2b(repr((index, part)).encode() + read + before, digest_size=16).digest()
    for span in call.parts[part].writes:
        content = content_of(memory, span.buffer)
        for at in span.offsets():
            content[at] = 0xEE if spoilt else digest[at]
    return digest


def content_of(memory: dict[int, bytearray], buffer: int) -> bytearray:
    return memory.setdefault(buffer, bytearray(STATE_BYTES if buffer < OUTPUTS_FROM else OUTPUT_BYTES))


def output(digests: Mapping[int, bytes], *, spoilt: bool = False) -> bytearray:
    joined = b"".join(digests[part] for part in sorted(digests))
    digest = hashlib.blake2b(joined, digest_size=OUTPUT_BYTES).digest()
    return bytearray(b"\xee" * OUTPUT_BYTES) if spoilt else bytearray(digest)


# Random ones.

#: Buffer 3 is a matrix of two rows and four columns, written by column; 1 and 2 are written by ranges.
RANGES = [Span(buffer, start, stop) for buffer in (1, 2) for start, stop in ((0, 8), (0, 4), (4, 8), (2, 6), (5, 6))]
COLUMNS = [Span(3, column, column + 5, 1, 4) for column in range(4)]
READABLE = [*RANGES, *COLUMNS, Span(3)]
WRITABLE = [*RANGES, *COLUMNS]


def random_call(choose: Choose, index: int, has_output: Sequence[bool]) -> Call:
    def some(spans: Sequence[Span], most: int) -> tuple[Span, ...]:
        return tuple(dict.fromkeys(spans[choose(len(spans))] for _ in range(choose(most + 1))))

    outputs = [output_of(call) for call in range(index) if has_output[call]][-3:]
    parts = [
        Part((*some(READABLE, 2), *(some(outputs, 1) if outputs else ())), some(WRITABLE, 1) if choose(2) else ())
        for _ in range(1 + choose(3))
    ]
    if outputs and not choose(6):
        parts.append(Part((), (outputs[-1],)))
    written = {span.buffer for part in parts for span in part.writes}
    fixed = [span for span in (*READABLE, *outputs) if span.buffer not in written]
    if fixed and not choose(3):  # a second stream that only reads what nobody here writes
        shared = some(fixed, 2)
        parts[0] = Part((*parts[0].reads, *shared), parts[0].writes)
        parts.append(Part(shared, (), stream=1, waits=(0,) if choose(2) else ()))
    weights = some(fixed, 2) if fixed and not choose(2) else ()
    return Call(
        tuple(parts),
        group=choose(3),
        device=(CPU, CPU, GPU)[choose(3)],
        has_output=has_output[index],
        weights=weights,
        weights_part=choose(len(parts)) if weights else 0,
        fails_at=choose(len(parts)) if not choose(7) else None,
        is_inline=not choose(3),
        signature=None if choose(3) else f"s{choose(2)}",
    )


def random_program(choose: Choose, length: int) -> list[Call]:
    has_output = [bool(choose(2)) for _ in range(length)]
    return [random_call(choose, index, has_output) for index in range(length)]
