"""What a pipeline tells about itself.

Law: frozen data.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PipelineStatistics", "StageStatistics"]


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """One stage so far: items that it is done with, and the time it was at them.

    ``busy_share``: ``busy_s`` by the time that the pipeline is open. Of a jitted stage a call counts from the moment it
    was given to the device, and several may be there at once: the share is the mean number of its calls there.
    """

    name: str
    items: int
    busy_s: float
    busy_share: float


@dataclass(frozen=True, slots=True)
class PipelineStatistics:
    """A pipeline so far: ``items`` were delivered, ``failed`` of them as errors; ``in_flight_peak`` were on their way
    at a time at most. ``elapsed_s`` is the time since the block was entered, until it was left."""

    items: int
    failed: int
    in_flight: int
    in_flight_peak: int
    elapsed_s: float
    stages: tuple[StageStatistics, ...]
