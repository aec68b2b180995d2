"""The judge: the same training and the same answers, computed serially by NumPy in ticket order.

Law: NumPy and threadpoolctl only. It shares no code with what it judges: neither the engine nor the demo's ``model``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

__all__ = ["TOLERANCE", "Answer", "Step", "Verdict", "judge"]

#: Largest difference between two scores (of magnitude 10) that counts as rounding. Two float32 runs that sum in other
#: orders stay within 3e-5 of each other for 2,000 steps, while a single step moves the scores of an image by 0.1 or so:
#: tests/surface/test_demo.py holds both a factor of ten away from this.
TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Step:
    """A training step as it was asked for, with the ticket of its replay."""

    ticket: int
    images: np.ndarray
    targets: np.ndarray
    rate: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A request and the scores that came back, with the ticket of its replay."""

    ticket: int
    image: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge found.

    ``wrong`` answers; ``difference_max``, the largest difference of a score in the others; ``versions_seen``, how many
    states of the weights were asked; ``weights`` after the last step.
    """

    wrong: int
    difference_max: float
    versions_seen: int
    weights: tuple[np.ndarray, ...]


def judge(weights: Sequence[np.ndarray], momentum: float, steps: Iterable[Step], answers: Iterable[Answer]) -> Verdict:
    """Repeat everything in ticket order, from ``weights``, and compare every answer with the weights its ticket saw.

    An answer is wrong when a score differs by more than TOLERANCE, or is not a number. Labels need no check of their
    own: within the tolerance they can differ only where two scores tie.
    """
    # On matrices this small a second BLAS thread gains nothing, and beside other work it loses: 27 us for a product of
    # 64 x 64 by 64 x 128 with one thread, 15 ms with two on two busy cores.
    with threadpool_limits(1, "blas"):
        return _judge(weights, momentum, steps, answers)


def _judge(weights: Sequence[np.ndarray], momentum: float, steps: Iterable[Step], answers: Iterable[Answer]) -> Verdict:
    state = [weight.copy() for weight in weights]
    speed = [np.zeros_like(weight) for weight in weights]
    pending = sorted(answers, key=lambda answer: answer.ticket)
    wrong, difference_max, versions, position = 0, 0.0, 0, 0
    for step in [*sorted(steps, key=lambda step: step.ticket), None]:
        end = position
        while end < len(pending) and (step is None or pending[end].ticket < step.ticket):
            end += 1
        if end > position:
            differences = _differences(state, pending[position:end])
            right = differences <= TOLERANCE
            wrong += int(np.count_nonzero(~right))
            difference_max = max(difference_max, float(np.max(differences, where=right, initial=0.0)))
            versions += 1
            position = end
        if step is not None:
            _train(state, speed, momentum, step)
    return Verdict(wrong, difference_max, versions, tuple(state))


def _differences(state: Sequence[np.ndarray], answers: Sequence[Answer]) -> np.ndarray:
    """The largest difference of a score, an answer; infinite where the shape is wrong."""
    w1, b1, w2, b2 = state
    images = np.stack([answer.image.reshape(-1) for answer in answers])
    expected = np.clip(images.dot(w1) + b1, 0, None).dot(w2) + b2
    return np.array(
        [
            np.max(np.abs(answer.scores.reshape(-1) - row)) if answer.scores.size == row.size else np.inf
            for answer, row in zip(answers, expected, strict=True)
        ]
    )


def _train(state: list[np.ndarray], speed: list[np.ndarray], momentum: float, step: Step) -> None:
    w1, b1, w2, b2 = state
    z1 = step.images.dot(w1) + b1
    a1 = z1 * (z1 > 0)
    z2 = a1.dot(w2) + b2
    p = np.exp(z2 - z2.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    d2 = (p - step.targets) / len(step.images)
    d1 = d2.dot(w2.T) * (z1 > 0)
    slopes = (step.images.T.dot(d1), d1.sum(axis=0), a1.T.dot(d2), d2.sum(axis=0))
    for index, slope in enumerate(slopes):
        speed[index] = momentum * speed[index] + slope
        state[index] = state[index] - step.rate * speed[index]
