"""Soak: random programs on the production engine, in orders that a seed decides, against a serial NumPy run.

Law: this page says what there is. ``program`` is what is run, ``generate`` makes it, ``stage`` carries it out on an
engine, ``oracle`` judges, ``simulation`` and ``play`` run it in virtual time, ``threads`` on real threads.
"""

from __future__ import annotations

from asyncjit.testing.soak.choices import Choices, RecordedChoices, SeededChoices
from asyncjit.testing.soak.seeds import play_choices, play_seed
from asyncjit.testing.soak.threads import play_threads

__all__ = ["Choices", "RecordedChoices", "SeededChoices", "play_choices", "play_seed", "play_threads"]
