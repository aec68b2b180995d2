"""Where intermediates live: the layout of a frame.

Law: offsets from a graph and a placement, and the check of such offsets; allocates nothing and adds no order.
Imports ``errors``, ``ir``, ``graph`` and ``placement`` only.

A buffer may take bytes of another only where every use of the old one finishes before any use of the new one starts, in
the order that the placement's streams and waits give already. So sharing bytes adds no edge and costs no parallelism: a
planner that takes lifetimes from the program order makes two calls of different streams depend on each other whenever
their buffers meet, which is what this one exists to avoid. A call's output never takes the bytes of its own input.

Offsets are found greedily, largest buffer first, each in the smallest gap that it fits (Pisarchyk and Lee, "Efficient
Memory Management for Deep Neural Net Inference", 2020), here over a partial order instead of a line: two buffers that
neither precede each other keep apart. Where that misses the lower bound, the bytes alive at once in issue order, two
more passes are tried: in order of first use, and by bytes times the length of the life.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise

from asyncjit.errors import InternalError
from asyncjit.graph import Graph
from asyncjit.ir import Buffer, Schedule
from asyncjit.placement import Placement

__all__ = ["ALIGNMENT_BYTES", "FrameLayout", "align", "calls_before", "plan_memory", "verify_bytes", "verify_layout"]

#: A cache line, and the widest vector register.
ALIGNMENT_BYTES = 64

# A buffer with more unordered last (first) uses than this never passes its bytes on (never takes over others). Each
# such use costs one sweep over the graph, and only placements of more streams than this can have them.
_UNORDERED_USES_MAX = 64

# Each pass over 10,000 buffers takes a second and more, for a few percent of the bytes at best: 2 % on average on
# random graphs of 150 calls on one stream.
_MORE_PASSES_BUFFERS_MAX = 2_000

# Binary digits as zero and one bytes, which itertools.compress takes as selectors.
_BITS = bytes.maketrans(b"01", b"\x00\x01")


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Offset of each planned intermediate in the arena of its device, and the bytes of each arena."""

    offsets: dict[Buffer, int]
    nbytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Life:
    """A buffer, its uses that none of its uses precedes, those that precede none, and its span in the issue order."""

    buffer: Buffer
    nbytes: int
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    born: int
    died: int


def align(nbytes: int) -> int:
    """``nbytes``, rounded up to the alignment."""
    return (nbytes + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def plan_memory(graph: Graph, placement: Placement, held: Set[Buffer] = frozenset()) -> FrameLayout:
    """Give every intermediate that is not ``held`` an offset in the arena of its device.

    Offsets are 64-byte aligned; empty buffers get offset 0. Any execution that respects the streams and waits of
    ``placement`` may use the layout. Deterministic. Takes one to six seconds for
    10,000 calls, the more the more buffers live at once.
    """
    before = calls_before(placement)
    by_device: dict[str, list[_Life]] = {}
    offsets: dict[Buffer, int] = {}
    for life in _lives(graph.schedule, placement, before, held):
        if life.nbytes:
            by_device.setdefault(life.buffer.device, []).append(life)
        else:
            offsets[life.buffer] = 0
    nbytes = dict.fromkeys((buffer.device for buffer in offsets), 0)
    for device, lives in by_device.items():
        lives.sort(key=lambda life: (-life.nbytes, life.born))
        places, nbytes[device] = _pack_best(lives, _conflicts(lives, placement))
        offsets.update((life.buffer, place) for life, place in zip(lives, places, strict=True))
    return FrameLayout(offsets, nbytes)


def _waits_and_previous(placement: Placement) -> list[tuple[int, ...]]:
    """The calls that each call follows directly: the one before it on its stream, and those it waits for."""
    direct = list(placement.waits)
    for calls in placement.streams:
        for earlier, later in pairwise(calls):
            direct[later] = (earlier, *direct[later])
    return direct


def calls_before(placement: Placement) -> list[int]:
    """For each call, the calls that have finished when it starts, as bits: what streams and waits imply."""
    direct = _waits_and_previous(placement)
    before = [0] * len(direct)
    for call in placement.order:
        for earlier in direct[call]:
            before[call] |= before[earlier] | 1 << earlier
    return before


def _lives(schedule: Schedule, placement: Placement, before: Sequence[int], held: Set[Buffer]) -> list[_Life]:
    """The lives of the intermediates outside ``held``, in the order of their first use."""
    uses: dict[Buffer, list[int]] = {}
    for position, call in enumerate(placement.order):
        for view, _ in schedule.calls[call].accesses():
            uses.setdefault(view.buffer, []).append(position)
    lives = []
    for buffer, positions in uses.items():
        if buffer in held or schedule.slot_of(buffer) is not None:
            continue
        calls = [placement.order[position] for position in positions]
        # Of the uses on one stream only the first and the last can be first and last of all.
        openers = {placement.stream_of[call]: call for call in reversed(calls)}
        closers = {placement.stream_of[call]: call for call in calls}
        opening = _bits(openers.values())
        firsts = tuple(call for call in openers.values() if not before[call] & opening)
        lasts = tuple(c for c in closers.values() if not any(before[other] >> c & 1 for other in closers.values()))
        lives.append(_Life(buffer, align(buffer.nbytes), firsts, lasts, positions[0], positions[-1]))
    return lives


def _bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _conflicts(lives: Sequence[_Life], placement: Placement) -> list[int]:
    """For each buffer, the buffers that must keep apart from it, as bits by position in ``lives``."""
    direct = _waits_and_previous(placement)
    following: list[list[int]] = [[] for _ in direct]
    for call, earlier_calls in enumerate(direct):
        for earlier in earlier_calls:
            following[earlier].append(call)
    # Buffer A precedes B when each last use of A is before each first use of B. "The i-th last use of A is before this
    # call" travels along the edges as one bit of A; so does "the i-th first use of B is after this call" against them.
    gone = _joint(lives, placement.order, direct, lambda life: life.lasts, lambda life: life.firsts)
    due = _joint(lives, placement.order[::-1], following, lambda life: life.firsts, lambda life: life.lasts)
    everyone = (1 << len(lives)) - 1
    return [everyone & ~(gone[i] | due[i] | 1 << i) for i in range(len(lives))]


def _joint(
    lives: Sequence[_Life],
    order: Sequence[int],
    direct: Sequence[Sequence[int]],
    given: Callable[[_Life], tuple[int, ...]],
    asked: Callable[[_Life], tuple[int, ...]],
) -> list[int]:
    """For each buffer, those whose ``given`` calls are all passed, along ``direct``, at each of its ``asked`` calls."""
    everyone = (1 << len(lives)) - 1
    common = [everyone if len(asked(life)) <= _UNORDERED_USES_MAX else 0 for life in lives]
    usable = [(1 << i, given(life)) for i, life in enumerate(lives) if len(given(life)) <= _UNORDERED_USES_MAX]
    layers = max((len(calls) for _, calls in usable), default=1)
    for layer in range(layers):
        marks = [0] * len(direct)
        for bit, calls in usable:
            marks[calls[min(layer, len(calls) - 1)]] |= bit
        passed = [0] * len(direct)
        for call in order:
            for neighbour in direct[call]:
                passed[call] |= passed[neighbour] | marks[neighbour]
        for i, life in enumerate(lives):
            if common[i]:
                for call in asked(life):
                    common[i] &= passed[call]
    return common


def _pack_best(lives: Sequence[_Life], conflicts: Sequence[int]) -> tuple[list[int], int]:
    """Offsets and total bytes: the best of three packing orders, or the first that is as good as can be."""
    changes = [0] * (max(life.died for life in lives) + 2)
    for life in lives:
        changes[life.born] += life.nbytes
        changes[life.died + 1] -= life.nbytes
    bound = max(accumulate(changes))
    best = _pack(range(len(lives)), lives, conflicts)
    by_birth = sorted(range(len(lives)), key=lambda i: lives[i].born)
    by_area = sorted(range(len(lives)), key=lambda i: lives[i].nbytes * (lives[i].born - lives[i].died - 1))
    for order in (by_birth, by_area):
        if best[1] > bound and len(lives) <= _MORE_PASSES_BUFFERS_MAX:
            best = min(best, _pack(order, lives, conflicts), key=lambda packing: packing[1])
    return best


def _pack(order: Iterable[int], lives: Sequence[_Life], conflicts: Sequence[int]) -> tuple[list[int], int]:
    """Place buffers in ``order``, each in the smallest gap between those placed that must keep apart from it."""
    # A span is one number, its start above its end: numbers compare faster than pairs, and sorting the neighbours and
    # passing over them is nearly all of the work.
    shift = sum(life.nbytes for life in lives).bit_length()
    spans = [0] * len(lives)
    placed = total = 0
    for i in order:
        selectors = bin(conflicts[i] & placed)[:1:-1].encode().translate(_BITS)
        start = _smallest_gap(sorted(compress(spans, selectors)), shift, lives[i].nbytes)
        end = start + lives[i].nbytes
        spans[i] = start << shift | end
        total = max(total, end)
        placed |= 1 << i
    return [span >> shift for span in spans], total


def _smallest_gap(spans: Iterable[int], shift: int, nbytes: int) -> int:
    """Start of the smallest gap of ``nbytes`` or more between ``spans``, which are sorted; else the end of them all."""
    end_bits = (1 << shift) - 1
    best, best_nbytes, cursor = -1, 0, 0
    roomy = nbytes << shift
    for span in spans:
        if span >= roomy:
            gap = (span >> shift) - cursor
            if gap == nbytes:
                return cursor
            if best < 0 or gap < best_nbytes:
                best, best_nbytes = cursor, gap
        end = span & end_bits
        if end > cursor:
            cursor = end
            roomy = cursor + nbytes << shift
    return cursor if best < 0 else best


def verify_layout(graph: Graph, placement: Placement, layout: FrameLayout) -> None:
    """Check a layout against the order of its placement, without the planner's shortcuts.

    Raises:
        InternalError: as ``verify_bytes`` says.
    """
    verify_bytes(graph.schedule, placement.order, calls_before(placement), layout.offsets, layout.nbytes)


def verify_bytes(
    schedule: Schedule,
    order: Sequence[int],
    before: Sequence[int],
    offsets: Mapping[Buffer, int],
    nbytes: Mapping[str, int],
) -> None:
    """Check offsets against any order: ``before`` holds the calls before each call as bits, ``order`` a line of it.

    Sweeps each arena by offset. Precedence of whole lives is transitive, so at each byte only neighbours in the line
    are compared, and the cost is about that of sorting.

    Raises:
        InternalError: a slot has an offset, an offset is unaligned or outside its arena, or two buffers share a byte
            while a use of the one is not ordered before all uses of the other.
    """
    uses, passed = dict.fromkeys(offsets, 0), dict.fromkeys(offsets, -1)
    born: dict[Buffer, int] = {}
    for position, call in enumerate(order):
        for view, _ in schedule.calls[call].accesses():
            if view.buffer in uses:
                uses[view.buffer] |= 1 << call
                passed[view.buffer] &= before[call]
                born.setdefault(view.buffer, position)
    edges = []
    for buffer, offset in offsets.items():
        where = f"schedule {schedule.name!r}: buffer {buffer.serial} at {offset}:{offset + buffer.nbytes}"
        if schedule.slot_of(buffer) is not None:
            raise InternalError(f"{where} is a slot, which is bound from outside the frame", buffer=buffer)
        if offset < 0 or offset % ALIGNMENT_BYTES or offset + buffer.nbytes > nbytes.get(buffer.device, 0):
            room = nbytes.get(buffer.device, 0)
            raise InternalError(f"{where} is unaligned or outside its arena of {room} bytes", buffer=buffer)
        if buffer.nbytes and buffer in born:
            line = (buffer.device, born[buffer], buffer.serial)
            edges += [(offset, True, line, buffer), (offset + buffer.nbytes, False, line, buffer)]
    edges.sort(key=lambda edge: edge[:3])
    lines: list[tuple[str, int, int]] = []
    present: list[Buffer] = []
    for _, starts, line, buffer in edges:
        at = bisect_left(lines, line)
        if starts:
            lines.insert(at, line)
            present.insert(at, buffer)
            pairs = [present[at - 1 : at + 1], present[at : at + 2]] if at else [present[at : at + 2]]
        else:
            del lines[at], present[at]
            pairs = [present[at - 1 : at + 1]] if at else []
        for pair in pairs:
            if len(pair) == 2 and pair[0].device == pair[1].device and uses[pair[0]] & ~passed[pair[1]]:
                raise InternalError(
                    f"schedule {schedule.name!r}: buffers {pair[0].serial} and {pair[1].serial} share bytes of the "
                    f"{pair[0].device} frame, but not all uses of the first are ordered before the second",
                    buffers=tuple(pair),
                )
