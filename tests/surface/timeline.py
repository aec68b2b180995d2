"""A strict reader of trace files.

Law: what the format says and both viewers rely on, and nothing more; it knows no part of asyncjit.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["Timeline"]

Event = dict[str, Any]

PHASES = frozenset("MXbneisfC")

#: Times are rounded to nanoseconds.
ROUNDING_US = 0.0015


class Timeline:
    """The events of one file, checked. ``complete``: the array has its closing bracket; without it, it must have none,
    and still consist of whole events."""

    def __init__(self, path: Path, *, complete: bool) -> None:
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n]\n") == complete
        self.events: list[Event] = json.loads(text if complete else text + "]")
        assert self.of("M")[0]["name"] == "process_name"
        for event in self.events:
            assert event["ph"] in PHASES
            assert all(type(event[key]) is int for key in ("pid", "tid"))
            assert type(event["ts"]) is float
            assert event["name"]
        self.rows = {event["tid"]: event["args"]["name"] for event in self.of("M") if event["name"] == "thread_name"}
        self.open = self._check_spans()
        self._check_slices()
        self._check_flows()

    def of(self, phase: str) -> list[Event]:
        return [event for event in self.events if event["ph"] == phase]

    @property
    def outcomes(self) -> dict[int, str]:
        """By ticket."""
        return {event["id"]: event["args"]["outcome"] for event in self.of("e")}

    @property
    def arrows(self) -> list[tuple[int, int]]:
        """Tickets, from and to."""
        return sorted((event["args"]["from"], event["args"]["to"]) for event in self.of("s"))

    def counter(self, name: str) -> list[int]:
        return [next(iter(event["args"].values())) for event in self.of("C") if event["name"] == name]

    def _check_spans(self) -> set[int]:
        """Spans that were not ended. Each begins once, ends at most once, and its parts agree."""
        begun: dict[int, Event] = {}
        unended: set[int] = set()
        for event in self.events:
            if event["ph"] == "b":
                assert event["id"] not in begun
                begun[event["id"]] = event
                unended.add(event["id"])
            elif event["ph"] in "ne":
                first = begun[event["id"]]
                assert event["id"] in unended
                assert (event["name"], event["cat"], event["pid"]) == (first["name"], first["cat"], first["pid"])
                assert event["ts"] >= first["ts"]
                unended -= {event["id"]} if event["ph"] == "e" else set()
        return unended

    def _check_slices(self) -> None:
        """Slices of one row lie one after another, and every row that has some is named."""
        slices = sorted(self.of("X"), key=lambda event: (event["tid"], event["ts"], event["dur"]))
        assert {event["tid"] for event in slices} <= self.rows.keys()
        for earlier, later in itertools.pairwise(slices):
            assert later["dur"] >= 0.0
            if earlier["tid"] == later["tid"]:
                assert earlier["ts"] + earlier["dur"] <= later["ts"] + ROUNDING_US, (earlier, later)

    def _check_flows(self) -> None:
        starts, ends = ({event["id"]: event for event in self.of(phase)} for phase in "sf")
        assert starts.keys() == ends.keys()
        assert set(Counter(event["id"] for event in (*self.of("s"), *self.of("f"))).values()) <= {2}
        for number, start in starts.items():
            end = ends[number]
            assert start["ts"] <= end["ts"]
            assert (start["name"], start["cat"]) == (end["name"], end["cat"])
            assert end["bp"] == "e"
            for event, key in ((start, "from"), (end, "to")):
                slices = [each for each in self.of("X") if each["tid"] == event["tid"]]
                around = [each for each in slices if each["ts"] <= event["ts"] <= each["ts"] + each["dur"]]
                assert event["args"][key] in {each["args"]["ticket"] for each in around}
