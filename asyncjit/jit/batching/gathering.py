"""Who shares a replay with whom, and when it starts: calls of one signature, gathered by rows.

Law: synchronous steps over plain data; knows no loop, no clock, no array. Each step is a job of a backlog, so that one
runs at a time and none waits for a lock: ends of batches come from device threads, and a wait may be taken apart by the
garbage collector in the middle of anything.

The rules. A call with more rows than ``rows_max`` is a batch by itself. Where no batch is in flight a call starts one
at once. Otherwise calls gather until a batch in flight ends, until they make ``rows_max`` rows, or until one of them
has waited ``wait_max_s``. Batches take whole calls, in order of arrival.

Starting a batch is left to a call that is awake, because it runs the user's code and needs the engine: a step gives
*orders* (``Request.to_launch``) and wakes whoever has to carry them out. On each loop the call that has waited longest
is the *leader*, which watches the time and for the ends of batches. With one a loop, a loop that dies without a word
takes nobody along but its own. A leader that leaves hands over to the next, orders included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from asyncjit.fences import Fence
from asyncjit.guard import Backlog

__all__ = ["Batch", "Gathering", "Request", "Tally"]


class Request:
    """One call: its values, its rows, and what it has to do when it wakes."""

    __slots__ = (
        "arrived_s",
        "batch",
        "has_left",
        "hosts",
        "leads",
        "port",
        "rows",
        "start",
        "to_launch",
        "values",
        "woken",
    )

    def __init__(
        self, values: Any, hosts: Sequence[tuple[int, Any]], rows: int, port: object, arrived_s: float
    ) -> None:
        self.values = values
        #: Position among the values, and rows, of each batched argument.
        self.hosts = hosts
        self.rows = rows
        #: Its event loop.
        self.port = port
        self.arrived_s = arrived_s
        #: The batch that it was put into, and its first row there.
        self.batch: Batch | None = None
        self.start = 0
        self.leads = False
        self.has_left = False
        self.to_launch: list[Batch] = []
        #: Fires when it has to look what there is to do. It sets a new one first and looks then, so nothing is missed.
        self.woken: Fence | None = None

    def wake(self) -> None:
        if self.woken is not None:
            self.woken.signal()


class Batch:
    """Calls that share a replay. ``live`` counts those that still want their rows."""

    __slots__ = ("bucket", "error", "is_over", "live", "members", "read", "replay", "requests", "rows")

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests
        self.members = self.live = len(requests)
        self.rows = self.bucket = 0
        self.replay: Any = None
        #: Why it could not be started.
        self.error: BaseException | None = None
        self.is_over = False
        #: Outputs read from the device, by id.
        self.read: dict[int, Any] = {}

    def assemble(self, bucket_of: Callable[[int], int]) -> list[Request]:
        """Give each call that has not left its place; those calls."""
        self.requests = [request for request in self.requests if not request.has_left]
        self.members = self.live = len(self.requests)
        self.rows = 0
        for request in self.requests:
            request.start = self.rows
            self.rows += request.rows
        self.bucket = bucket_of(self.rows)
        return self.requests


@dataclass(slots=True)
class Tally:
    """Counts of one gathering."""

    calls: int = 0
    rows: int = 0
    batches: int = 0
    rows_padded: int = 0
    batch_rows: dict[int, int] = field(default_factory=dict)
    wait_total_s: float = 0.0
    wait_max_s: float = 0.0
    cancelled: int = 0
    retried: int = 0

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.rows += other.rows
        self.batches += other.batches
        self.rows_padded += other.rows_padded
        for rows, count in list(other.batch_rows.items()):
            self.batch_rows[rows] = self.batch_rows.get(rows, 0) + count
        self.wait_total_s += other.wait_total_s
        self.wait_max_s = max(self.wait_max_s, other.wait_max_s)
        self.cancelled += other.cancelled
        self.retried += other.retried


class Gathering:
    """Calls of one signature on one engine. ``tell`` it what happens; any thread, never waits."""

    def __init__(self, rows_max: int, wait_max_s: float) -> None:
        self.rows_max = rows_max
        self.wait_max_s = wait_max_s
        self.tally = Tally()
        #: A batch has ended since calls began to gather.
        self.is_due = False
        self._waiting: list[Request] = []
        self._rows_waiting = 0
        self._leaders: dict[object, Request] = {}
        self._in_flight = 0
        self._backlog = Backlog()

    def tell(self, job: Callable[..., None], *arguments: object) -> None:
        """Have a step done: before this returns, or by the thread that is at it now."""
        self._backlog.put(partial(job, *arguments))
        self._backlog.work_off()

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._in_flight or self._backlog.jobs)

    # The steps.

    def arrive(self, request: Request) -> None:
        """A call has come."""
        self.tally.calls += 1
        self.tally.rows += request.rows
        if request.rows > self.rows_max:
            self._order(request, [request])
            return
        self._waiting.append(request)
        self._rows_waiting += request.rows
        if not self._in_flight or self.wait_max_s <= 0:
            self._take(request)
        self._take_full(request)
        if request.batch is None and request.port not in self._leaders:
            self._promote(request)

    def look(self, request: Request, is_late: bool) -> None:
        """A leader has woken; ``is_late``: because it has waited long enough."""
        if request.leads and (is_late or self.is_due):
            self._take(request)
            # Calls that came back from a batch that nobody started may be more than one batch.
            self._take_full(request)

    def launched(self, batch: Batch, now_s: float) -> None:
        """A batch was started, or could not be; before anybody is told of its end."""
        tally = self.tally
        tally.batches += 1
        tally.rows_padded += batch.bucket - batch.rows
        tally.batch_rows[batch.bucket] = tally.batch_rows.get(batch.bucket, 0) + 1
        for request in batch.requests:
            waited_s = now_s - request.arrived_s
            tally.wait_total_s += waited_s
            tally.wait_max_s = max(tally.wait_max_s, waited_s)

    def ended(self, batch: Batch) -> None:
        """A batch is over, however it ended."""
        self._in_flight -= 1
        requests, batch.requests = batch.requests, []
        for request in requests:
            request.wake()
        self._call_leaders()

    def leave(self, request: Request) -> None:
        """A call was cancelled before it had its rows."""
        request.has_left = True
        self.tally.cancelled += 1
        orders, request.to_launch = request.to_launch, []
        if request.batch is None:
            self._waiting.remove(request)
            self._rows_waiting -= request.rows
            self._depose(request)
            self._appoint()
            if self.is_due:
                self._call_leaders()
        elif request.batch not in orders:
            request.batch.live -= 1
        for batch in reversed(orders):
            self._take_back(batch)

    def retry(self, request: Request) -> None:
        """A call runs again, alone."""
        self.tally.retried += 1

    # How.

    def _take(self, launcher: Request) -> None:
        """Make a batch of the calls that came first."""
        taken: list[Request] = []
        rows = 0
        for request in self._waiting:
            if rows + request.rows > self.rows_max:
                break
            taken.append(request)
            rows += request.rows
        del self._waiting[: len(taken)]
        self._rows_waiting -= rows
        self.is_due = False
        for request in taken:
            self._depose(request)
        self._order(launcher, taken)
        self._appoint()

    def _take_full(self, launcher: Request) -> None:
        while self._rows_waiting >= self.rows_max:
            self._take(launcher)

    def _order(self, launcher: Request, requests: list[Request]) -> None:
        batch = Batch(requests)
        for request in requests:
            request.batch = batch
        self._in_flight += 1
        launcher.to_launch.append(batch)
        launcher.wake()

    def _take_back(self, batch: Batch) -> None:
        """Nobody is left to start the batch: its calls wait again, at the head, and another starts them."""
        self._in_flight -= 1
        back = [request for request in batch.requests if not request.has_left]
        for request in back:
            request.batch = None
            self._rows_waiting += request.rows
        self._waiting[:0] = back
        for request in list(self._leaders.values()):
            self._depose(request)
        self._appoint()
        self._call_leaders()

    def _appoint(self) -> None:
        """The first call of each loop leads there."""
        for request in self._waiting:
            if request.port not in self._leaders:
                self._promote(request)

    def _promote(self, request: Request) -> None:
        self._leaders[request.port] = request
        request.leads = True
        request.wake()

    def _depose(self, request: Request) -> None:
        if request.leads:
            request.leads = False
            del self._leaders[request.port]

    def _call_leaders(self) -> None:
        if self._waiting:
            self.is_due = True
            for request in self._leaders.values():
                request.wake()
