"""What ``f.batched(…)`` gives: a function whose concurrent calls share replays.

Law: waits, and carries out what ``gathering`` decides. Whoever waits drives: the leader of a loop has the timer in its
own wait, so no task, thread or timer is left behind, whatever is cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Generator, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import anyio

from asyncjit.engine import Engine, current_engine
from asyncjit.errors import KernelError
from asyncjit.fences import Fence
from asyncjit.jit.batching.gathering import Batch, Gathering, Request, Tally
from asyncjit.jit.batching.rows import Rows, bucket_of
from asyncjit.jit.body import is_inlining
from asyncjit.jit.options import Statistics
from asyncjit.jit.signature import Parameters, Values
from asyncjit.numpy import Array
from asyncjit.streams import current_port, wait_fence

__all__ = ["BatchStatistics", "Batched"]

P = ParamSpec("P")
R = TypeVar("R")

#: Signatures that are remembered while nobody calls with them.
GATHERINGS_MAX = 64


class Function(Protocol):
    """What is batched: a jitted function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def prepare(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, None]: ...

    @property
    def captures(self) -> list[str]: ...

    def statistics(self) -> Statistics: ...

    def explain(self) -> str: ...

    def reset(self) -> None: ...

    def free_intermediates(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Counts since the batched function was made.

    ``calls`` with ``rows`` ran in ``batches``; ``rows_padded`` were added to fill buckets; ``batch_rows`` counts
    batches by their rows with padding. ``wait_total_s`` and ``wait_max_s``: from call to start of the batch.
    ``cancelled`` calls left before they had their rows; ``retried`` ran again alone because their batch had failed.
    """

    calls: int
    rows: int
    batches: int
    rows_padded: int
    batch_rows: Mapping[int, int]
    wait_total_s: float
    wait_max_s: float
    cancelled: int
    retried: int


class Batched(Generic[P, R]):
    """A jitted function whose concurrent calls share replays; made by ``f.batched``. Any thread, task and loop."""

    def __init__(
        self,
        function: Function,
        parameters: Parameters,
        name: str,
        buckets: tuple[int, ...],
        wait_max_s: float,
        shared: tuple[str, ...],
    ) -> None:
        #: The jitted function that the batches are calls of: its captures, statistics, ``explain`` and ``reset``.
        self.function = function
        self.buckets = buckets
        self._parameters = parameters
        self._name = name
        self._wait_max_s = wait_max_s
        self._rows = Rows(parameters, name, shared)
        self._lock = threading.Lock()
        self._gatherings: dict[tuple[Engine, Hashable], Gathering] = {}
        self._past = Tally()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function on these rows together with those of other calls; gives the rows that belong to this call.

        Every array argument has its rows along the first axis, the same number of them, at least one; it may be a NumPy
        array, which must not be written before the call has ended, or an Array, pending too, which is read at the call.
        Outputs are new arrays of the caller's own.

        Order: the batch takes its ticket when it starts, so state that the function reads is that of then.
        Cancellation: before the batch has started the rows are dropped, afterwards they are computed for nobody; either
        way the caller leaves at once and the other calls go on. A batch that nobody wants any more and that has not
        begun to run is removed.

        Raises:
            ValueError: arguments without rows, or with different numbers of them.
            CaptureError: as a call of the function; also for an output whose first axis is not the rows.
            KernelError: the rows of this very call fail; a failed batch that writes no state is run again call by call.
            EngineBusyError, EngineClosedError, DependencyError, DeviceError: as a call of the function.
        """
        if is_inlining():
            inlined: R = await self.function(*args, **kwargs)
            return inlined
        values = self._parameters.bind(args, kwargs)
        for index, value in enumerate(values):
            if isinstance(value, Array) and not self._rows.is_shared(index):
                await value
        key, hosts, rows = self._rows.read(values)
        engine = current_engine()
        gathering = self._gatherings.get((engine, key)) or self._gather(engine, key)
        request = Request(values, hosts, rows, current_port(), engine.clock.now_s())
        batch = await self._run(engine, gathering, request)
        if _runs_again(batch):
            gathering.tell(gathering.retry, request)
            batch = Batch([request])
            self._launch(engine, batch)
        if batch.error is not None:
            raise batch.error
        result: R = self._rows.cut(await batch.replay, batch, request, engine)
        return result

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record, lower and compile the function for every bucket, before the first request needs it.

        Pass ``aj.spec(shape, dtype)`` where a call will pass rows, with any number of rows; all else as in a call.

        Raises:
            CaptureError: as a call would.
        """
        values = self._parameters.bind(args, kwargs)
        for bucket in self.buckets:
            await self._parameters.call(self.function.prepare, self._rows.prepared(values, bucket))

    def statistics(self) -> BatchStatistics:
        """Counts up to now; immutable."""
        total = Tally()
        with self._lock:
            total.add(self._past)
            for gathering in self._gatherings.values():
                total.add(gathering.tally)
        return BatchStatistics(
            calls=total.calls,
            rows=total.rows,
            batches=total.batches,
            rows_padded=total.rows_padded,
            batch_rows=MappingProxyType(dict(sorted(total.batch_rows.items()))),
            wait_total_s=total.wait_total_s,
            wait_max_s=total.wait_max_s,
            cancelled=total.cancelled,
            retried=total.retried,
        )

    def __repr__(self) -> str:
        return f"<batched {self._name}: buckets {self.buckets}, wait_max_s={self._wait_max_s}>"

    def _gather(self, engine: Engine, key: Hashable) -> Gathering:
        with self._lock:
            known = self._gatherings
            for old in [each for each in known if each[0]._unusable is not None or len(known) > GATHERINGS_MAX]:
                if known[old].is_idle:
                    self._past.add(known.pop(old).tally)
            return known.setdefault((engine, key), Gathering(self.buckets[-1], self._wait_max_s))

    # Waiting.

    async def _run(self, engine: Engine, gathering: Gathering, request: Request) -> Batch:
        """Wait for the end of the request's batch, doing meanwhile what the gathering asks for."""
        try:
            gathering.tell(gathering.arrive, request)
            while True:
                woken = request.woken = Fence()
                while request.to_launch:
                    self._start(engine, gathering, request.to_launch.pop(0))
                batch = request.batch
                if batch is not None and batch.is_over:
                    return batch
                if request.leads:
                    await self._lead(engine, gathering, request, woken)
                else:
                    await _Until(woken)
        except BaseException as error:
            gathering.tell(gathering.leave, request)
            batch = request.batch
            # What closes a coroutine may be the garbage collector, in the middle of anything: it asks no engine.
            if batch is not None and batch.live == 0 and batch.replay is not None and type(error) is not GeneratorExit:
                batch.replay.cancel()
            raise

    async def _lead(self, engine: Engine, gathering: Gathering, request: Request, woken: Fence) -> None:
        """Wait for a wake-up, an end of a batch, or the time."""
        is_late = False
        if not gathering.is_due:
            left_s = request.arrived_s + gathering.wait_max_s - engine.clock.now_s()
            with anyio.move_on_after(max(left_s, 0.0)) as scope:
                await _Until(woken)
            is_late = scope.cancelled_caught
        gathering.tell(gathering.look, request, is_late)

    # Running.

    def _start(self, engine: Engine, gathering: Gathering, batch: Batch) -> None:
        """Launch a batch, and see to it that those who wait hear of its end."""

        def end() -> None:
            batch.is_over = True
            gathering.tell(gathering.ended, batch)

        try:
            self._launch(engine, batch)
            gathering.tell(gathering.launched, batch, engine.clock.now_s())
        finally:
            if batch.replay is None or not batch.replay.settled.add_callback(end):
                end()

    def _launch(self, engine: Engine, batch: Batch) -> None:
        requests = batch.assemble(lambda rows: bucket_of(rows, self.buckets))
        if not requests:
            return
        try:
            values: Values = self._rows.join(requests, batch.bucket, engine)
            batch.replay = self._parameters.call(self.function, values)
        except BaseException as error:
            batch.error = error
            if not isinstance(error, Exception):
                raise


class _Until:
    """Awaitable: the fence has fired. Cancelled at once."""

    __slots__ = ("_fence",)

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __await__(self) -> Generator[Any, Any, None]:
        return wait_fence(self._fence, lambda is_closing: True)


def _runs_again(batch: Batch) -> bool:
    """Whether each of its calls runs again alone: it was not started, or it failed and has changed nothing."""
    if batch.replay is None:
        # What interrupted the caller that started it (Ctrl-C) is not for the others.
        return batch.members > 1 or not isinstance(batch.error, Exception)
    return batch.members > 1 and isinstance(batch.replay._run.error, KernelError) and not batch.replay.program.writes
