"""Which segment of a submission may start when: countdowns over streams, waits and gates.

Law: bookkeeping only; starts nothing, and knows no thread and no clock. Whoever owns a ``Countdown`` serialises its
calls.
"""

from __future__ import annotations

from asyncjit.plan import Plan

__all__ = ["Countdown", "SegmentOrder"]


class SegmentOrder:
    """What the streams and waits of a plan say about its segments; made once a plan.

    ``predecessors``: how many segments must have finished before each one. ``successors``: the segments that count on
    each one, with whether they stand on its stream. ``roots``: those that count on none.
    """

    __slots__ = ("predecessors", "roots", "successors")

    def __init__(self, plan: Plan) -> None:
        self.predecessors: list[int] = []
        successors: list[list[tuple[int, bool]]] = [[] for _ in plan.segments]
        last_of_stream: dict[int, int] = {}
        for segment in plan.segments:
            before = dict.fromkeys(segment.waits, False)
            if segment.stream in last_of_stream:
                before[last_of_stream[segment.stream]] = True
            last_of_stream[segment.stream] = segment.index
            self.predecessors.append(len(before))
            for index, same_stream in before.items():
                successors[index].append((segment.index, same_stream))
        self.successors: list[tuple[tuple[int, bool], ...]] = [tuple(after) for after in successors]
        self.roots = [index for index, count in enumerate(self.predecessors) if count == 0]


class Countdown:
    """One submission's way through a ``SegmentOrder``."""

    __slots__ = ("_order", "_waiting_for", "left")

    def __init__(self, order: SegmentOrder) -> None:
        self._order = order
        self._waiting_for = order.predecessors.copy()
        #: Segments that have not finished.
        self.left = len(self._waiting_for)

    def hold(self, segment: int, count: int = 1) -> None:
        """Have the segment wait for ``count`` things more."""
        self._waiting_for[segment] += count

    def release(self, segment: int, count: int = 1) -> bool:
        """``count`` things that the segment waited for have happened; True when nothing is left."""
        self._waiting_for[segment] -= count
        return self._waiting_for[segment] == 0

    def finish(self, segment: int) -> list[tuple[int, bool]]:
        """The segment has finished: those that may start now, in issue order, with whether they stand on its stream."""
        self.left -= 1
        return [after for after in self._order.successors[segment] if self.release(after[0])]
