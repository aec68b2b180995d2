"""The demo's data: handwritten digits that scikit-learn ships, and a loader of augmented batches.

Law: NumPy and scikit-learn only; nothing here knows asyncjit. Everything follows from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asyncjit.demo.model import CLASSES

__all__ = ["BATCH", "Batch", "Digits", "Loader", "load_digits"]

BATCH = 64
SIDE = 8
TEST_SHARE = 0.2

MARGIN = 2
WIDTH = SIDE + 2 * MARGIN
CENTRE = (WIDTH - 1) / 2

#: Place of each pixel from the centre of its image.
ROW, COLUMN = (axis.reshape(1, -1) - (SIDE - 1) / 2 for axis in np.mgrid[:SIDE, :SIDE].astype(np.float32))

#: How far an image is turned (radians) and moved (pixels) at most before training sees it.
TURN_MAX, MOVE_MAX = 0.15, 0.5


@dataclass(frozen=True, slots=True)
class Digits:
    """Images as rows of 64 floats in [0, 1], labels 0 to 9, split once for training and test."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True, slots=True)
class Batch:
    """What one training step takes: images, and one-hot rows of the labels."""

    images: np.ndarray
    targets: np.ndarray


def load_digits(seed: int) -> Digits:
    """The 1,797 digits, shuffled by ``seed``; the last fifth is for the test.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    from sklearn.datasets import load_digits as load_bundled

    images, labels = load_bundled(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    images, labels = (images[order] / 16).astype(np.float32), labels[order]
    cut = round(len(images) * (1 - TEST_SHARE))
    return Digits(images[:cut], labels[:cut], images[cut:], labels[cut:])


class Loader:
    """Batches in a seeded order, each image turned and moved a little, sampled bilinearly.

    ``load(step)`` may be called on any thread; the batch depends on the seed and the step alone.
    """

    def __init__(self, digits: Digits, seed: int) -> None:
        self._digits = digits
        self._seed = seed
        self.steps_per_epoch = len(digits.train_images) // BATCH

    def load(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._digits.train_images))
        rows = order[position * BATCH : (position + 1) * BATCH]
        images = augment(self._digits.train_images[rows], np.random.default_rng((self._seed, epoch, position)))
        return Batch(images, np.eye(CLASSES, dtype=np.float32)[self._digits.train_labels[rows]])


def augment(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Each image turned about its centre and moved, by amounts drawn from ``random``."""
    count = len(images)
    turn = random.uniform(-TURN_MAX, TURN_MAX, (count, 1)).astype(np.float32)
    row_move, column_move = random.uniform(-MOVE_MAX, MOVE_MAX, (2, count, 1)).astype(np.float32)
    cosine, sine = np.cos(turn), np.sin(turn)
    # A margin of two zeros on each side, so that the four neighbours of every sample exist.
    padded = np.pad(images.reshape(count, SIDE, SIDE), ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN))).reshape(-1)
    rows = np.clip(ROW * cosine - COLUMN * sine + (CENTRE + row_move), 0, WIDTH - 1.001)
    columns = np.clip(ROW * sine + COLUMN * cosine + (CENTRE + column_move), 0, WIDTH - 1.001)
    low_row, low_column = rows.astype(np.intp), columns.astype(np.intp)
    rows -= low_row
    columns -= low_column
    corner = low_row * WIDTH + low_column + np.arange(0, count * WIDTH * WIDTH, WIDTH * WIDTH)[:, None]
    left = _between(padded.take(corner), padded.take(corner + WIDTH), rows)
    right = _between(padded.take(corner + 1), padded.take(corner + (WIDTH + 1)), rows)
    return _between(left, right, columns)


def _between(low: np.ndarray, high: np.ndarray, share: np.ndarray) -> np.ndarray:
    between: np.ndarray = low + (high - low) * share
    return between
