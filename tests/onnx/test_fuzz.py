"""A thousand damaged models: each is refused or runs, within its memory. More by ``python -m tests.onnx.fuzz``."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest

from tests.onnx.fuzz import attempt, mutated, seeds


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_bytes_they_are_refused_or_run(seed: int) -> None:
    originals, chance = list(seeds()), random.Random(seed)
    outcomes: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for _ in range(250):
            outcomes[attempt(mutated(chance, chance.choice(originals)))] += 1
    finally:
        tracemalloc.stop()
    assert outcomes["ran"] > 0, "some damage does no harm, or nothing was tried"
    assert outcomes["refused"] > 100


def test_the_originals_run() -> None:
    assert [attempt(each) for each in seeds()] == ["ran", "ran"]
