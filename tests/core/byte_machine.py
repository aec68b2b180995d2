"""A tiny machine that runs schedules on bytearrays, in any order that streams and waits allow.

Law: its own reading of what calls do and when they may; of the code under test it knows only the words of ``ir`` and
the shape of a placement. A call writes bytes that depend on the call, on every byte that it reads and, where it reads
and writes, on what was there, so that one byte too late, too early or in the wrong place changes a result.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence

from asyncjit.ir import (
    Access,
    Buffer,
    Call,
    Copy,
    Kernel,
    Operand,
    Schedule,
    Slot,
    SlotKind,
    View,
    new_buffer,
    operand_of,
)

Place = tuple[bytearray, int]


def whole(buffer: Buffer) -> Operand:
    return operand_of(buffer, (buffer.nbytes,), (1,), "uint8", 1)


def part(buffer: Buffer, offset_bytes: int, nbytes: int) -> Operand:
    return operand_of(buffer, (nbytes,), (1,), "uint8", 1, offset_bytes)


def call_of(reads: Sequence[Operand], writes: Sequence[Operand], updates: Sequence[Operand] = ()) -> Call:
    access = (*[Access.READ] * len(reads), *[Access.READ_WRITE] * len(updates), *[Access.WRITE] * len(writes))
    return Call(Kernel("mix", access), (*reads, *updates, *writes))


def bytes_of(view: View) -> list[int]:
    """Positions of the bytes of a view in its buffer."""
    blocks = range(view.offset_bytes, view.offset_bytes + view.count * view.stride_bytes, view.stride_bytes or 1)
    return [start + byte for start in blocks[: view.count] for byte in range(view.block_bytes)]


def run_call(schedule: Schedule, index: int, places: Mapping[Buffer, Place]) -> None:
    call = schedule.calls[index]
    digest = hashlib.blake2b(b"copy" if isinstance(call, Copy) else index.to_bytes(4, "little"))
    for view, access in call.accesses():
        if access.reads:
            memory, base = places[view.buffer]
            digest.update(bytes(memory[base + byte] for byte in bytes_of(view)))
    for view, access in call.accesses():
        if access.writes:
            memory, base = places[view.buffer]
            fresh = random.Random(digest.digest()).randbytes(view.nbytes)
            for byte, value in zip(bytes_of(view), fresh, strict=False):
                memory[base + byte] = value


def _slot_contents(schedule: Schedule) -> dict[Buffer, Place]:
    rng = random.Random(len(schedule.calls))
    return {slot.buffer: (bytearray(rng.randbytes(slot.buffer.nbytes)), 0) for slot in schedule.slots}


def _results(schedule: Schedule, places: Mapping[Buffer, Place]) -> list[bytes]:
    return [bytes(places[slot.buffer][0]) for slot in schedule.slots]


def run_in_program_order(schedule: Schedule) -> list[bytes]:
    """Contents of all slots afterwards, every intermediate on bytes of its own."""
    places = _slot_contents(schedule)
    places.update((buffer, (bytearray(buffer.nbytes), 0)) for buffer in schedule.intermediates())
    for index in range(len(schedule.calls)):
        run_call(schedule, index, places)
    return _results(schedule, places)


def run_interleaved(
    schedule: Schedule,
    streams: Sequence[Sequence[int]],
    waits: Sequence[Sequence[int]],
    offsets: Mapping[Buffer, int],
    frame_nbytes: Mapping[str, int],
    seed: int,
) -> list[bytes]:
    """Contents of all slots after one order of the calls, drawn from those that streams and waits allow."""
    rng = random.Random(seed)
    frames = {device: bytearray(rng.randbytes(nbytes)) for device, nbytes in frame_nbytes.items()}
    places = _slot_contents(schedule)
    places.update((buffer, (frames[buffer.device], offset)) for buffer, offset in offsets.items())
    left = [list(calls) for calls in streams]
    done: set[int] = set()
    while any(left):
        ready = [calls for calls in left if calls and done.issuperset(waits[calls[0]])]
        # Runs of one stream as often as single calls: both far ahead and close together must be right.
        calls = rng.choice(ready)
        for _ in range(rng.choice((1, 1, 8))):
            if calls and done.issuperset(waits[calls[0]]):
                done.add(calls[0])
                run_call(schedule, calls.pop(0), places)
    return _results(schedule, places)


def random_schedule(seed: int, *, calls: int = 24, devices: int = 1) -> Schedule:
    """Calls on inputs, state, an output and intermediates: whole, in parts and in columns, with copies between devices.

    Bytes of intermediates and of the output are read only after a call has written them.
    """
    rng = random.Random(seed)
    slots = [
        Slot(kind, new_buffer(f"d{rng.randrange(devices)}", rng.choice((16, 48, 64, 96))), f"{kind.value} {index}")
        for index, kind in enumerate(rng.choices(list(SlotKind), k=5))
    ]
    readable = [whole(slot.buffer) for slot in slots if slot.kind is not SlotKind.OUTPUT]
    listed: list[Call | Copy] = []
    while len(listed) < calls:
        device = f"d{rng.randrange(devices)}"
        local = [operand for operand in readable if operand.view.buffer.device == device][-6:]
        sources = [_some_part(rng, rng.choice(local)) for _ in range(rng.randint(0, 2)) if local]
        act = rng.random()
        if act < 0.2 and readable:
            source = rng.choice(readable[-6:])
            target = operand_of(new_buffer(device, source.view.nbytes), source.shape, (1,), "uint8", 1)
            listed.append(Copy(target, source))
            readable.append(target)
        elif act < 0.5:
            slot = rng.choice(slots)
            target = _some_part(rng, whole(slot.buffer))
            if slot.buffer.device == device and not any(_meet(target, source) for source in sources):
                updates = slot.kind is not SlotKind.OUTPUT and rng.random() < 0.5
                listed.append(call_of(sources, [], [target]) if updates else call_of(sources, [target]))
        else:
            buffer = new_buffer(device, rng.choice((0, 1, 8, 60, 64, 100, 256)))
            middle = buffer.nbytes // 2
            halves = [part(buffer, 0, middle), part(buffer, middle, buffer.nbytes - middle)]
            targets = halves if rng.random() < 0.3 else [whole(buffer)]
            listed += [call_of([_some_part(rng, source) for source in sources], [target]) for target in targets]
            readable.append(whole(buffer))
    return Schedule(tuple(listed), tuple(slots), f"random {seed}")


def _some_part(rng: random.Random, operand: Operand) -> Operand:
    """All of it, a range of it, or a column of it as a matrix of rows of 8."""
    view = operand.view
    kind = rng.randrange(3)
    if kind == 1 and view.nbytes >= 2:
        start = rng.randrange(view.nbytes)
        return part(view.buffer, view.offset_bytes + start, rng.randint(0, view.nbytes - start))
    if kind == 2 and view.nbytes >= 16:
        return operand_of(view.buffer, (view.nbytes // 8, 2), (8, 1), "uint8", 1, view.offset_bytes + rng.randrange(6))
    return operand


def _meet(a: Operand, b: Operand) -> bool:
    return a.view.buffer is b.view.buffer and not set(bytes_of(a.view)).isdisjoint(bytes_of(b.view))
