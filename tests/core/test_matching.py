"""Matchings against brute force and SciPy."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from scipy.optimize import linear_sum_assignment

from asyncjit.matching import UNMATCHED, bits, maximise_matching, vertex_cover


def largest(adjacent: list[int], taken: int = 0) -> int:
    """Size of a largest matching, by trying everything."""
    if not adjacent:
        return 0
    first, rest = adjacent[0], adjacent[1:]
    return max([largest(rest, taken), *(1 + largest(rest, taken | 1 << v) for v in bits(first & ~taken))])


def matched(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    pairs = [(u, v) for u, v in enumerate(left) if v != UNMATCHED]
    assert pairs == sorted((u, v) for v, u in enumerate(right) if u != UNMATCHED)
    return pairs


graphs = st.integers(0, 6).flatmap(lambda count: st.lists(st.integers(0, 2**count - 1), min_size=count, max_size=count))


@given(st.sets(st.integers(0, 200)))
def test_bits_are_the_positions_that_are_set(positions: set[int]) -> None:
    assert list(bits(sum(1 << position for position in positions))) == sorted(positions)


@given(graphs)
def test_a_matching_is_as_large_as_any_and_its_cover_as_small(adjacent: list[int]) -> None:
    count = len(adjacent)
    left, right = [UNMATCHED] * count, [UNMATCHED] * count
    maximise_matching(adjacent, left, right)
    pairs = matched(left, right)
    assert all(adjacent[u] >> v & 1 for u, v in pairs)
    assert len(pairs) == largest(adjacent)
    cover_left, cover_right = vertex_cover(adjacent, left, right)
    assert cover_left.bit_count() + cover_right.bit_count() == len(pairs)
    assert all(cover_left >> u & 1 or not adjacent[u] & ~cover_right for u in range(count))


@given(graphs, graphs)
def test_what_is_matched_stays_matched_when_a_matching_grows(first: list[int], second: list[int]) -> None:
    count = min(len(first), len(second))
    mask = (1 << count) - 1
    first, second = [edges & mask for edges in first[:count]], [edges & mask for edges in second[:count]]
    left, right = [UNMATCHED] * count, [UNMATCHED] * count
    maximise_matching(first, left, right)
    before = matched(left, right)
    maximise_matching(second, left, right)
    after = matched(left, right)
    assert {u for u, _ in before} <= {u for u, _ in after}
    assert {v for _, v in before} <= {v for _, v in after}
    assert all((first[u] | second[u]) >> v & 1 for u, v in after)


def test_large_graphs_match_as_many_as_scipy() -> None:
    dice = random.Random(2)
    for count, degree in [(60, 1), (60, 2), (60, 5), (120, 2)]:
        adjacent = [sum({1 << dice.randrange(count) for _ in range(degree)}) for _ in range(count)]
        weights = np.array([[edges >> v & 1 for v in range(count)] for edges in adjacent])
        rows, columns = linear_sum_assignment(weights, maximize=True)
        left, right = [UNMATCHED] * count, [UNMATCHED] * count
        maximise_matching(adjacent, left, right)
        assert len(matched(left, right)) == weights[rows, columns].sum()


def test_a_long_augmenting_path_needs_no_recursion() -> None:
    count = 3000
    adjacent = [1 << u | 1 << (u + 1) for u in range(count)]
    adjacent[-1] = 1 << (count - 1)
    left, right = [u + 1 for u in range(count - 1)] + [UNMATCHED], [UNMATCHED, *range(count - 1)]
    maximise_matching(adjacent, left, right)
    assert left == list(range(count))
