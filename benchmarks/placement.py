"""Waits and streams without a limit on streams, against the fewest possible.

The suite of golden graphs and 10,000 random ones. The minima come from an oracle that shares nothing with the core:
closure and reduction by boolean matrices, one maximum-weight assignment (SciPy) in which an edge of the reduction
outweighs all other edges together; on the small graphs also every possible way to cut them into chains.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from asyncjit.graph import graph_from_edges
from asyncjit.placement import place, verify_placement
from benchmarks._dags import Edges, layered, sparse, suite

RANDOM_DAGS = 10_000
SMALL = 6

Matrix = npt.NDArray[np.bool_]


def run() -> dict[str, object]:
    totals = np.zeros(4, dtype=int)
    dags = [*suite(), *_random_dags()]
    for count, edges in dags:
        graph = graph_from_edges(count, edges)
        placement = place(graph, streams_max=None)
        verify_placement(graph, placement)
        closure, reduced = _closure_and_reduction(count, edges)
        waits_min, streams_min = _fewest_by_assignment(closure, reduced)
        if count <= SMALL and (waits_min, streams_min) != _fewest_by_trying_everything(closure, reduced):
            raise AssertionError(f"the two oracles disagree on {count} calls with edges {edges}")
        totals += (sum(map(len, placement.waits)), waits_min, len(placement.streams), streams_min)
    waits, waits_min, streams, streams_min = map(int, totals)
    return {
        "dags": len(dags),
        "waits": waits,
        "waits_min": waits_min,
        "streams": streams,
        "streams_min": streams_min,
    }


def _random_dags() -> list[tuple[int, Edges]]:
    dice = random.Random(20_12_02732)
    found: list[tuple[int, Edges]] = []
    for index in range(RANDOM_DAGS):
        if index % 10 < 5:
            count = dice.randint(2, SMALL)
            found.append((count, sparse(dice, count, dice.choice([0.2, 0.4, 0.6]))))
        elif index % 10 < 8:
            count = dice.randint(SMALL + 1, 30)
            found.append((count, sparse(dice, count, dice.choice([0.05, 0.1, 0.2, 0.4]))))
        else:
            found.append(layered(dice, dice.randint(3, 10), dice.randint(2, 8)))
    return found


def _closure_and_reduction(count: int, edges: Edges) -> tuple[Matrix, Matrix]:
    closure = np.zeros((count, count), dtype=bool)
    for u, v in edges:
        closure[u, v] = True
    for middle in range(count):
        closure |= np.outer(closure[:, middle], closure[middle])
    # An edge is redundant where some call lies between its ends.
    between = (closure.astype(np.int32) @ closure.astype(np.int32)) > 0
    return closure, closure & ~between


def _fewest_by_assignment(closure: Matrix, reduced: Matrix) -> tuple[int, int]:
    count = len(closure)
    weights = np.where(reduced, count + 2, closure.astype(int))
    rows, columns = linear_sum_assignment(weights, maximize=True)
    saved = int(reduced[rows, columns].sum())
    joined = int(closure[rows, columns].sum())
    return int(reduced.sum()) - saved, count - joined


def _fewest_by_trying_everything(closure: Matrix, reduced: Matrix) -> tuple[int, int]:
    cross = {(int(u), int(v)) for u, v in np.argwhere(reduced)}
    best = (len(cross), len(closure))
    partial: list[list[list[int]]] = [[]]
    for call in range(len(closure)):
        longer: list[list[list[int]]] = []
        for chains in partial:
            longer.append([*chains, [call]])
            for index, chain in enumerate(chains):
                if closure[chain[-1], call]:
                    longer.append([*chains[:index], [*chain, call], *chains[index + 1 :]])
        partial = longer
    for chains in partial:
        together = {pair for chain in chains for pair in itertools.combinations(chain, 2)}
        best = min(best, (len(cross - together), len(chains)))
    return best
