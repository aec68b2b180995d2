"""Speech for the voice detector: spoken by espeak-ng where that is installed, else vowels in a row; silence around it.

Law: sound as float32 of 16,000 samples a second, and the windows that the detector takes.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from dataclasses import dataclass

import numpy as np
from scipy import signal

from tests.models.made import Host, vowels

__all__ = ["CONTEXT", "RATE_HZ", "STEP", "Speech", "speech", "windows"]

RATE_HZ = 16_000
#: New samples a step, and samples of the step before that stand in front of them.
STEP, CONTEXT = 512, 64

TEXT = "One function is recorded once and replayed as often as you like, and every result is right."


@dataclass(frozen=True, slots=True)
class Speech:
    """``is_real``: somebody said words. Between ``begin`` and ``end``, in samples, there is sound."""

    samples: Host
    begin: int
    end: int
    is_real: bool


def speech(steps: int) -> Speech:
    """So many steps of sound, with a second of near silence before it."""
    rng = np.random.default_rng(11)
    total = steps * STEP
    samples = rng.normal(0, 1e-4, total).astype(np.float32)
    spoken = _spoken()
    sound = vowels(rng, total - 2 * RATE_HZ, RATE_HZ) if spoken is None else spoken[: total - 2 * RATE_HZ]
    samples[RATE_HZ : RATE_HZ + len(sound)] += sound
    return Speech(samples, RATE_HZ, RATE_HZ + len(sound), spoken is not None)


def _spoken() -> Host | None:
    program = shutil.which("espeak-ng")
    if program is None:
        return None
    done = subprocess.run([program, "-v", "en", "--stdout", TEXT], capture_output=True, check=True, timeout=60)
    with wave.open(io.BytesIO(done.stdout)) as file:
        rate_hz = file.getframerate()
        # Written to a pipe, the header does not know the length: what is there counts.
        samples = np.frombuffer(file.readframes(len(done.stdout) // 2), np.int16) / 32768
    return signal.resample_poly(samples, RATE_HZ, rate_hz).astype(np.float32)


def windows(samples: Host) -> Host:
    """What the detector takes at each step: the last samples of the step before, and the new ones."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    starts = range(0, len(samples) - STEP + 1, STEP)
    return np.stack([padded[start : start + CONTEXT + STEP] for start in starts])
