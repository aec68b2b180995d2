"""Schedules to plan: an MLP training step, a wide inference graph, random graphs. No values, only shapes of memory."""

from __future__ import annotations

import random
from collections.abc import Sequence

from asyncjit.ir import Access, Buffer, Call, Cost, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of

__all__ = ["mlp_step", "random_graph", "wide_inference"]


class _Builder:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.slots: list[Slot] = []

    def slot(self, kind: SlotKind, nbytes: int) -> Buffer:
        buffer = new_buffer("cpu", nbytes)
        self.slots.append(Slot(kind, buffer))
        return buffer

    def call(self, reads: Sequence[Buffer], nbytes: int, target: Buffer | None = None, flops: int = 0) -> Buffer:
        out = target or new_buffer("cpu", nbytes)
        operands = tuple(operand_of(each, (each.nbytes,), (1,), "uint8", 1) for each in (*reads, out))
        kernel = Kernel("work", (*(Access.READ for _ in reads), Access.WRITE))
        moved = sum(each.nbytes for each in (*reads, out))
        self.calls.append(Call(kernel, operands, Cost(flops, moved)))
        return out

    def schedule(self, name: str) -> Schedule:
        order = {SlotKind.INPUT: 0, SlotKind.STATE: 1, SlotKind.OUTPUT: 2}
        return Schedule(tuple(self.calls), tuple(sorted(self.slots, key=lambda slot: order[slot.kind])), name)


def mlp_step(layers: int = 8, width: int = 256, batch: int = 64) -> Schedule:
    """Forward, backward and the update of each weight in place."""
    build = _Builder()
    act, weight = 4 * batch * width, 4 * width * width
    flops = 2 * batch * width * width
    weights = [build.slot(SlotKind.STATE, weight) for _ in range(layers)]
    value = build.slot(SlotKind.INPUT, act)
    kept = [value]
    for w in weights:
        product = build.call([value, w], act, flops=flops)
        value = build.call([product], act)
        kept.append(value)
    slope = build.call([value], act)
    for index in reversed(range(layers)):
        masked = build.call([slope, kept[index + 1]], act)
        gradient = build.call([kept[index], masked], weight, flops=flops)
        slope = build.call([masked, weights[index]], act, flops=flops)
        step = build.call([gradient], weight)
        build.call([weights[index], step], weight, target=weights[index])
    build.call([slope], act, target=build.slot(SlotKind.OUTPUT, act))
    return build.schedule("mlp training step")


def wide_inference(branches: int = 8, depth: int = 12, nbytes: int = 1 << 16) -> Schedule:
    """Branches of one input that meet at the end, blocks of them in a row."""
    build = _Builder()
    value = build.slot(SlotKind.INPUT, nbytes)
    for _ in range(3):
        ends = []
        for branch in range(branches):
            inner = value
            for level in range(depth):
                inner = build.call([inner], nbytes * (1 + (branch + level) % 3) // 2)
            ends.append(inner)
        value = build.call(ends, nbytes)
    build.call([value], nbytes, target=build.slot(SlotKind.OUTPUT, nbytes))
    return build.schedule("wide inference")


def random_graph(calls: int, seed: int, reach: int = 24) -> Schedule:
    """Each call reads one to three of the last ``reach`` results."""
    rng = random.Random(seed)
    build = _Builder()
    made = [build.slot(SlotKind.INPUT, 4096)]
    for _ in range(calls - 1):
        recent = made[-reach:]
        reads = rng.sample(recent, min(len(recent), rng.randint(1, 3)))
        made.append(build.call(reads, 64 * rng.randint(1, 1024)))
    build.call(made[-3:], 4096, target=build.slot(SlotKind.OUTPUT, 4096))
    return build.schedule(f"random {calls} seed {seed}")
