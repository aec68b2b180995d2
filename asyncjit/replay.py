"""The replay: what a call returns. It has its ticket and is on its way; awaiting only waits.

Law: a replay is a handle. It decides nothing; the scheduler does, through the engine.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from asyncjit.driving import Driven
from asyncjit.errors import AsyncJitError, WouldBlockError
from asyncjit.plan import Plan
from asyncjit.runs import FINISHED, Run, State
from asyncjit.storage import Storage, Writer
from asyncjit.streams import (
    FIRED,
    Port,
    in_event_loop,
    pace,
    port_to_wait_in,
    wait_blocking,
    wait_fence,
)
from asyncjit.times import CallTimes, ReplayTimes, call_times

__all__ = ["Replay", "afresh"]

T_co = TypeVar("T_co", covariant=True)


class Canceller(Protocol):
    """What a replay asks of its engine."""

    def check_process(self) -> None: ...

    def note_wait(self, run: Run) -> None: ...

    def cancel_wait(self, run: Run, held: bool) -> bool: ...

    def drop_wait(self, run: Run, held: bool) -> None: ...

    def drain(self) -> None: ...

    def refuse_to_wait_for_self(self, run: Run) -> None: ...

    def cancel_run(self, run: Run) -> None: ...


class Replay(Driven[T_co]):
    """One call of a captured function: ticket taken, work on its way, whether or not anybody awaits it.

    It is a coroutine object: ``await`` it, or give it to ``create_task``, ``gather``, ``wait_for`` or a task group
    (anyio and trio: ``start_soon(lambda: replay)`` or any function that returns it). It may be awaited several times,
    also from several tasks, threads and loops. Never awaiting it is fine: the work happens all the same.

    Cancelling a wait: a replay that has not started and that nobody else wants is removed whole; running work that
    writes no state lets the waiter go at once; running work that writes state is finished first, then the cancellation
    is delivered (unless ``on_cancel="abandon"``).
    """

    # Defaults stand in the class: a replay that runs inline sets six of these, and setting all of them would cost as
    # much as its kernel.
    _run: Run
    _assemble: Callable[[Any], Any] | None = None
    _driven = None
    _exposed = False
    _result: Any = None
    _staged: Sequence[Writer] = ()
    #: Of the loop on which it ran inline.
    _port: Port | None = None
    # Set and used by the engine while the work is under way.
    inputs: Sequence[tuple[Storage, int]] = ()
    outputs: Sequence[Storage] = ()
    #: Of the program's symbols.
    values: Sequence[int] = ()
    written: Sequence[Storage] = ()
    prepare: Any = None
    program: Any = None
    loaded: Any = None
    submission: Any = None
    submitted_s: float | None = None
    started_s: float | None = None
    done_s: float | None = None
    #: The plan that ran, and what its device took down of each call, where an instrument asked for it.
    measured: tuple[Plan, Sequence[tuple[float, float, int] | None]] | None = None

    #: Fires when it has ended. The engine gives one of its own to every replay that does not end within the call.
    settled = FIRED

    def __init__(self, engine: Canceller) -> None:
        self._engine = engine

    # What it is and where it stands.

    @property
    def ticket(self) -> int:
        """Its place in the order that every result is equal to."""
        return self._run.ticket

    @property
    def times(self) -> ReplayTimes:
        """When it was submitted, started and done; see ``ReplayTimes``."""
        return ReplayTimes(self.submitted_s, self.started_s, self.done_s)

    @property
    def call_times(self) -> tuple[CallTimes, ...]:
        """Times of the calls that ran, in program order; empty until its device has passed it, and where no instrument
        asked for them (``Instrument.takes_times``) when it started."""
        return () if self.measured is None else tuple(call_times(*self.measured))

    @property
    def predecessors(self) -> tuple[int, ...]:
        """Tickets of the earlier replays and reads that it had to follow because it touches bytes that they touch, as
        far as they had not ended at its turn. Known when it starts; later it does not change."""
        return self._run.followed

    def done(self) -> bool:
        """Whether it has ended: finished, failed or cancelled."""
        return self._run.state in FINISHED

    @property
    def result(self) -> T_co:
        """The output arrays, maybe still pending: pass them to other functions without waiting.

        Raises:
            WouldBlockError: in a running loop, while another thread is still capturing this signature.
        """
        self._exposed = True
        if self.program is None:
            self._wait_for_capture()
        return self._assembled()

    def _wait_for_capture(self) -> None:
        if in_event_loop() and not self.settled.done:
            raise WouldBlockError(
                f"replay {self.ticket} of {self._run.group.name!r} waits for another call that is capturing the "
                "function, so its outputs are not known yet; await it, or call prepare() before the first requests"
            )
        self.wait()

    def _assembled(self) -> T_co:
        assemble = self._assemble
        if assemble is not None:
            self._result = assemble(self.outputs)
            self._assemble = None
        result: T_co = self._result
        return result

    @property
    def __name__(self) -> str:
        """The function that was called; what a task shows of its coroutine."""
        return self._run.group.name

    def __repr__(self) -> str:
        return f"<Replay {self._run.ticket} of {self._run.group.name!r}: {self._run.state.value}>"

    # Waiting.

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for the end and return the outputs.

        Raises:
            KernelError: a call of it failed.
            DependencyError: a replay that it reads from failed or was cancelled.
            ReplayCancelledError: it was removed before it started.
            DeviceError, EngineClosedError: the world, or you.
        """
        if self.settled.done:
            # Work that ran inline was charged to that port; whoever awaits from elsewhere need not pause for it.
            port = self._port
            if port is not None and port.is_long():
                yield from pace()
        else:
            port = port_to_wait_in()
            self._engine.note_wait(self._run)
            yield from port.wait(self.settled, self._on_wait_cancelled)
        return self._outcome()

    def _on_wait_cancelled(self, is_closing: bool) -> bool:
        if is_closing:
            self._engine.drop_wait(self._run, self._exposed)
            return True
        return self._engine.cancel_wait(self._run, self._exposed)

    def until_done(self) -> Generator[Any, Any, None]:
        """Wait for the end, whatever it is, without a say in whether the work is wanted."""
        if not self.settled.done:
            self._engine.check_process()
            yield from wait_fence(self.settled, lambda is_closing: True)

    def block_until_done(self) -> None:
        """The same for a plain thread."""
        if not self.settled.done:
            self._engine.check_process()
            self._engine.refuse_to_wait_for_self(self._run)
            wait_blocking(self.settled)

    def wait(self) -> T_co:
        """Block this thread until the end, and return the outputs.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if not self.settled.done:
            if in_event_loop():
                raise WouldBlockError(
                    f"waiting for replay {self.ticket} of {self._run.group.name!r} here would freeze the "
                    "event loop; await it"
                )
            self._engine.refuse_to_wait_for_self(self._run)
            self._engine.note_wait(self._run)
            try:
                wait_blocking(self.settled)
            except BaseException:
                self._engine.cancel_wait(self._run, self._exposed)
                raise
        return self._outcome()

    def _outcome(self) -> T_co:
        run = self._run
        if run.state is not State.DONE:
            assert run.error is not None
            raise afresh(run.error)
        for storage in self.outputs:
            storage.awaited = storage.writer is None
        for storage in self.written:
            storage.awaited = storage.writer is None
        self._exposed = True
        return self._assembled()

    def cancel(self) -> bool:
        """Remove it if it has not started, whoever waits: they get ReplayCancelledError, readers DependencyError.

        Returns whether it was removed; one that is being captured is removed when the capture ends. What runs is not
        stopped: a replay is never applied in part.
        """
        run = self._run
        if run.state not in FINISHED:
            self._engine.cancel_run(run)
        return run.state is State.DROPPED or (run.cancelled and run.state not in FINISHED)

    @property
    def inputs_consumed(self) -> Awaitable[None]:
        """Awaitable: the host arrays that were passed may be written again."""
        return _InputsConsumed(list(self._staged))

    def _dropped(self) -> None:
        self._engine.drain()


class _InputsConsumed:
    """Waits for the copies from host memory; their failure is the replay's to report."""

    __slots__ = ("_staged",)

    def __init__(self, staged: list[Writer]) -> None:
        self._staged = staged

    def __await__(self) -> Generator[Any, Any, None]:
        for writer in self._staged:
            yield from writer.until_done()


def afresh(error: BaseException) -> BaseException:
    """The error for one more waiter to raise, with the same cause.

    An error that is raised remembers the frames that it passed, and they the arrays of whoever waited. The scheduler
    keeps the errors of failed replays until what they left is overwritten, so it is copies that are raised.
    """
    if not isinstance(error, AsyncJitError):
        return error
    again = copy.copy(error)
    again.__dict__.update(error.__dict__)
    again.__context__, again.__cause__ = error.__context__, error.__cause__
    again.__suppress_context__ = error.__suppress_context__
    return again.with_traceback(error.__traceback__)
