"""The demo's work: one task trains, 64 tasks ask, one measures how late the event loop is.

Law: the only module of the demo that uses asyncjit and asyncio. It measures and records; ``oracle`` judges, ``report``
shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.demo import model
from asyncjit.demo.data import Digits, Loader
from asyncjit.demo.oracle import Answer, Step

__all__ = ["Progress", "Record", "Settings", "work"]

TICK_S = 0.001
IDLE_TICKS = 200
SHOW_EVERY_S = 0.25

#: What a call takes: an array, or host data, which becomes one.
ArrayOrHost = anp.Array | np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much to do. ``rate`` is the learning rate, ``pause_s`` what a client waits, on average, before it asks."""

    epochs: int
    requests: int = 2000
    clients: int = 64
    pause_s: float = 0.05
    rate: float = 0.1
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """What has been done so far, for whoever shows it."""

    steps_total: int
    requests_total: int
    steps: int = 0
    requests: int = 0
    loss: float = float("nan")


@dataclass(slots=True)
class Record:
    """What happened, in seconds.

    ``lag`` and ``lag_idle``: how late each tick of the event loop came; ``latency``: from a request to its scores.
    ``loading_s``: spent loading batches; ``exposed_s``: the part of it during which the trainer waited for the batch.
    """

    weights: list[np.ndarray]
    steps: list[Step] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    lag_idle: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    loading_s: float = 0.0
    exposed_s: float = 0.0
    serving_s: float = 0.0
    training_s: float = 0.0
    in_flight_peak: int = 0
    accuracy: float = 0.0


class Network:
    """The weights as arrays of the engine, and the two captured functions that share them."""

    def __init__(self, weights: Sequence[np.ndarray]) -> None:
        state = tuple(anp.asarray(weight) for weight in weights)
        velocities = tuple(anp.asarray(np.zeros_like(weight)) for weight in weights)

        @aj.jit
        def train_step(images: ArrayOrHost, targets: ArrayOrHost, rate: float) -> anp.Array:
            loss: anp.Array
            loss, slopes = model.gradients(anp, images, targets, state)
            model.update(state, velocities, slopes, rate)
            return loss

        @aj.jit
        def classify(images: ArrayOrHost) -> anp.Array:
            scores: anp.Array = model.scores(anp, images, state)
            return scores

        self.train_step, self.classify = train_step, classify


async def work(settings: Settings, digits: Digits, show: Callable[[Progress], None]) -> Record:
    """Train and answer at the same time on an engine of its own; return when both are done.

    ``show`` is called on the event loop, every quarter of a second and at the end. Cancellation stops all tasks and
    closes the engine.
    """
    loader = Loader(digits, settings.seed)
    progress = Progress(settings.epochs * loader.steps_per_epoch, settings.requests)
    record = Record(model.initial_weights(settings.seed))
    record.lag_idle = await _ticks(lambda: len(record.lag_idle) >= IDLE_TICKS, record.lag_idle)
    async with aj.Engine() as engine:
        network = Network(record.weights)
        showing = asyncio.create_task(_show(progress, show), name="demo.show")
        try:
            async with asyncio.TaskGroup() as tasks:
                both = [
                    tasks.create_task(_train(network, loader, settings, record, progress), name="demo.train"),
                    tasks.create_task(_serve(network, digits, settings, record, progress), name="demo.serve"),
                ]
                tasks.create_task(_ticks(lambda: any(task.done() for task in both), record.lag), name="demo.ticks")
        finally:
            showing.cancel()
        record.in_flight_peak = engine.statistics().in_flight_peak
        scores = np.asarray(await network.classify(digits.test_images))
        record.accuracy = float(np.mean(np.argmax(scores, axis=1) == digits.test_labels))
    show(progress)
    return record


async def _train(network: Network, loader: Loader, settings: Settings, record: Record, progress: Progress) -> None:
    """Steps in order. While the engine runs one, the batches of the next are loaded."""
    began = time.perf_counter()
    async with aj.prefetch(range(progress.steps_total), loader.load, buffer=1) as batches:
        async for batch in batches:
            replay = network.train_step(batch.images, batch.targets, settings.rate)
            images, targets = np.asarray(batch.images), np.asarray(batch.targets)
            record.steps.append(Step(replay.ticket, images, targets, settings.rate))
            progress.loss = float(await replay)
            progress.steps += 1
    loading = batches.statistics()
    record.loading_s, record.exposed_s = loading.produce_s, loading.wait_s
    record.training_s = time.perf_counter() - began


async def _serve(network: Network, digits: Digits, settings: Settings, record: Record, progress: Progress) -> None:
    """All requests, by as many tasks as there are clients; each pauses, asks, and awaits its answer."""
    random = np.random.default_rng(settings.seed)
    images = digits.test_images[random.integers(len(digits.test_images), size=settings.requests)]
    requests = zip(images, random.exponential(settings.pause_s, settings.requests), strict=True)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for client in range(settings.clients):
            tasks.create_task(_ask(network, requests, record, progress), name=f"demo.client[{client}]")
    record.serving_s = time.perf_counter() - began


async def _ask(
    network: Network, requests: Iterator[tuple[np.ndarray, float]], record: Record, progress: Progress
) -> None:
    for image, pause_s in requests:
        await asyncio.sleep(pause_s)
        start = time.perf_counter()
        replay = network.classify(image.reshape(1, -1))
        scores = np.asarray(await replay)
        record.latency.append(time.perf_counter() - start)
        record.answers.append(Answer(replay.ticket, image, scores))
        progress.requests += 1


async def _ticks(enough: Callable[[], bool], lateness: list[float]) -> list[float]:
    """Ask for a tick of TICK_S again and again until ``enough``, and note by how much each comes late."""
    while not enough():
        due = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lateness.append(max(0.0, time.perf_counter() - due))
    return lateness


async def _show(progress: Progress, show: Callable[[Progress], None]) -> None:
    while True:
        show(progress)
        await asyncio.sleep(SHOW_EVERY_S)
