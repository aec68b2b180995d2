"""Largest matchings in bipartite graphs, on bitsets.

Law: numbers in, numbers out; knows no calls. Imports ``errors`` only.

Left vertex ``u`` may be matched to right vertex ``v`` when bit ``v`` of ``adjacent[u]`` is set. Bitsets make even
dense graphs cheap: a step of a search takes all neighbours that were not reached yet in one operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["UNMATCHED", "bits", "maximise_matching", "vertex_cover"]

UNMATCHED = -1


def bits(mask: int) -> Iterator[int]:
    """Positions of the bits of ``mask`` that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def maximise_matching(adjacent: Sequence[int], left: list[int], right: list[int]) -> None:
    """Enlarge a matching in place until it is a largest one (Hopcroft and Karp, 1973).

    ``left[u]`` and ``right[v]`` are partners, or UNMATCHED. Vertices that are matched stay matched, though maybe to
    others. The edges of the matching given need not be in ``adjacent``. Deterministic: among equals the first is taken.
    """
    while True:
        layers = _layers(adjacent, left, right)
        if not layers:
            return
        for root, partner in enumerate(left):
            if partner == UNMATCHED:
                _augment(root, layers, adjacent, left, right)


def _layers(adjacent: Sequence[int], left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Right vertices by their distance from the free left ones, up to the nearest free; empty when none is in reach."""
    free = sum(1 << vertex for vertex, partner in enumerate(right) if partner == UNMATCHED)
    unseen = (1 << len(right)) - 1
    frontier = [vertex for vertex, partner in enumerate(left) if partner == UNMATCHED]
    layers: list[int] = []
    while frontier:
        reached = 0
        for vertex in frontier:
            reached |= adjacent[vertex]
        reached &= unseen
        unseen ^= reached
        if reached & free:
            return [*layers, reached & free]
        layers.append(reached)
        frontier = [right[vertex] for vertex in bits(reached)]
    return []


def _augment(root: int, layers: list[int], adjacent: Sequence[int], left: list[int], right: list[int]) -> None:
    """Flip one shortest augmenting path from ``root``, if the layers hold one; what was tried leaves them."""
    path, chosen = [root], list[int]()
    while path:
        depth = len(chosen)
        options = adjacent[path[-1]] & layers[depth]
        if not options:
            path.pop()
            del chosen[-1:]
            continue
        lowest = options & -options
        layers[depth] ^= lowest
        chosen.append(lowest.bit_length() - 1)
        if depth == len(layers) - 1:
            for u, v in zip(path, chosen, strict=True):
                left[u], right[v] = v, u
            return
        path.append(right[chosen[-1]])


def vertex_cover(adjacent: Sequence[int], left: Sequence[int], right: Sequence[int]) -> tuple[int, int]:
    """The least vertices, left and right as bitsets, that touch every edge, from a largest matching (König, 1931)."""
    reached_left = reached_right = 0
    frontier = [vertex for vertex, partner in enumerate(left) if partner == UNMATCHED]
    while frontier:
        reached = 0
        for vertex in frontier:
            reached_left |= 1 << vertex
            reached |= adjacent[vertex]
        reached &= ~reached_right
        reached_right |= reached
        frontier = [right[vertex] for vertex in bits(reached)]
    return ((1 << len(left)) - 1) ^ reached_left, reached_right
