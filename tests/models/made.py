"""Inputs as models want them: text, pictures, sounds and states, made from a seed.

Law: a generator in, arrays out; shapes and ranges are those of the pre-processing of the model's package.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont

__all__ = ["file_bytes", "picture", "sound", "spectrogram", "states", "text", "tokens", "vowels"]

Rng: TypeAlias = np.random.Generator
Host: TypeAlias = "np.ndarray[Any, Any]"


def file_bytes(rng: Rng, files: int) -> Host:
    """Bytes of text files as magika sees them: 1,024 from the beginning and the end, 256 where there is nothing."""
    lines = [b"def f(x):\n", b"    return x + 1\n", b"import os\n", b"<p>text</p>\n", b"key = 3\n", b"# a comment\n"]
    rows = np.full((files, 2048), 256, np.int32)
    for row in rows:
        text = b"".join(lines[each] for each in rng.integers(len(lines), size=int(rng.integers(20, 200))))[:1024]
        row[: len(text)] = np.frombuffer(text, np.uint8)
        row[2048 - len(text) :] = np.frombuffer(text, np.uint8)
    return rows


def picture(rng: Rng, batch: int, channels: int, height: int, width: int, low: float, high: float) -> Host:
    """Light paper with dark bars and a little noise, its values between ``low`` and ``high``."""
    page = np.full((batch, channels, height, width), 0.9, np.float32)
    for index in range(batch):
        for _ in range(12):
            top, left = int(rng.integers(height)), int(rng.integers(width))
            tall, wide = int(rng.integers(2, max(3, height // 6))), int(rng.integers(2, max(3, width // 4)))
            page[index, :, top : top + tall, left : left + wide] = rng.uniform(0, 0.5, (channels, 1, 1))
    page = np.clip(page + rng.normal(0, 0.02, page.shape), 0, 1)
    return (low + (high - low) * page).astype(np.float32)


def text(rng: Rng, batch: int, height: int, width: int) -> Host:
    """Pages with lines of words, as the models of PaddleOCR take them: channels first, between -1 and 1.

    Words, since a detector that sees none amplifies rounding: on ``picture`` ONNX Runtime differs from itself, with its
    optimisations and without, by up to 2.7e-4 of the largest output, on words by 1.5e-5.
    """
    words = ("async", "replay", "kernel", "stream", "event", "frame", "plan", "1234.56", "EUR", "total:")
    pages = np.empty((batch, 3, height, width), np.float32)
    for index in range(batch):
        size = int(rng.integers(22, 31))
        image = Image.new("RGB", (width, height), "white")
        draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
        for top in range(size // 3, height - size, 2 * size):
            draw.text((size // 2, top), " ".join(rng.choice(words, 3)), "black", font)
        pages[index] = np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return (pages + rng.normal(0, 0.02, pages.shape)).astype(np.float32)


def sound(rng: Rng, batch: int, samples: int, rate_hz: int) -> Host:
    """A tone with its harmonics in a noisy room, a row each.

    In much noise, since a model that takes logarithms of energies amplifies rounding where there is none: on pure tones
    ONNX Runtime differs from itself, with its optimisations and without, by up to 2e-3 of the largest output of
    basic-pitch, in such noise rarely by more than 1e-4.
    """
    time_s = np.arange(samples) / rate_hz
    base_hz, phase = rng.uniform(100, 500, (batch, 1)), rng.uniform(0, 6, (batch, 14))
    tone = sum(np.sin(2 * np.pi * base_hz * k * time_s + phase[:, k - 1, None]) / k for k in range(1, 15))
    return (0.1 * tone + rng.normal(0, 0.2, (batch, samples))).astype(np.float32)


#: The first three resonances of a, e, i, o and u, in Hz (Peterson and Barney, 1952, men).
FORMANTS_HZ = ((730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240))


def vowels(rng: Rng, samples: int, rate_hz: int) -> Host:
    """Something like babble: four syllables a second, each a vowel, under a pitch that falls from phrase to phrase."""
    time_s = np.arange(samples) / rate_hz
    syllable = (time_s * 4).astype(int)
    spoken = np.array(FORMANTS_HZ)[rng.integers(len(FORMANTS_HZ), size=syllable[-1] + 1)]
    pitch_hz = 150 - 40 * (time_s % 1.5) / 1.5 + 4 * np.sin(2 * np.pi * 5 * time_s)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / rate_hz
    wave = np.zeros(samples)
    for harmonic in range(1, 25):
        gain = sum(
            np.exp(-np.abs(harmonic * pitch_hz - spoken[syllable, k]) / (90 + 40 * k)) / (1 + k) for k in range(3)
        )
        wave += (gain + 0.01) * np.sin(harmonic * phase)
    wave *= np.clip(4 * np.sin(np.pi * (time_s * 4 % 1)), 0, 1)
    return (0.3 * wave / np.abs(wave).max() + rng.normal(0, 2e-3, samples)).astype(np.float32)


def spectrogram(rng: Rng, *shape: int) -> Host:
    """A picture of energies that change slowly, with mean 0 and deviation 1."""
    noise = rng.standard_normal(shape)
    return ((noise + np.roll(noise, 1, -1) + np.roll(noise, 2, -1)) / np.sqrt(3)).astype(np.float32)


def tokens(rng: Rng, batch: int, length: int, vocabulary: int) -> Host:
    """Identifiers of letters; the first few of a vocabulary are for marks of its own."""
    return rng.integers(4, vocabulary, (batch, length), dtype=np.int64)


def states(rng: Rng, *shape: int) -> Host:
    """What a recurrent layer carries: between -1 and 1."""
    return np.tanh(rng.standard_normal(shape)).astype(np.float32)
