"""The crew: threads of one prefetch, and their end.

Law: starts threads and sees them end; what they do is given to it.

The threads are our own, not anyio's. anyio lends from one limiter of 40 to the whole program: a producer would keep its
share for as long as the block is open, so prefetches of prefetches, or forty of them, could wait for each other for
ever, and everybody else's ``to_thread`` with them. And a thread that hangs in somebody's driver can be left behind only
when it is a daemon.
"""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Callable
from contextvars import Context
from typing import NamedTuple, Protocol

from asyncjit.fences import Fence
from asyncjit.prefetch.window import Fired

__all__ = ["Crew"]

_numbers = itertools.count(1)

#: For threads that have nothing left to do, or whose process was killed.
GRACE_S = 1.0


class Producer(Protocol):
    """What a thread runs. ``busy`` says whether it is in somebody's code: it cannot be made to come back then."""

    busy: bool

    def run(self) -> None: ...


class _Member(NamedTuple):
    thread: threading.Thread
    producer: Producer
    #: Whom to name when it does not come back.
    what: str
    #: What else can be done to make it end.
    kill: Callable[[], None] | None


class Crew:
    """Threads that are joined when the block is left, or left behind with a warning."""

    def __init__(self) -> None:
        self._members: list[_Member] = []

    def start(self, producer: Producer, context: Context, what: str, kill: Callable[[], None] | None = None) -> None:
        """Run ``producer`` in ``context`` on a thread of its own.

        Raises:
            RuntimeError: the system has no more threads.
        """
        name = f"asyncjit-prefetch-{next(_numbers)}"
        thread = threading.Thread(target=context.run, args=(producer.run,), name=name, daemon=True)
        thread.start()
        self._members.append(_Member(thread, producer, what, kill))

    async def end(self, timeout_s: float) -> None:
        """Wait for the threads, which have been told to end, at most ``timeout_s``; warn about those that do not.

        Cancellation: waits first, then the cancellation is delivered.
        """
        members, self._members = self._members, []
        if not any(member.thread.is_alive() for member in members):
            return
        ended, late = Fence(), list[_Member]()
        joiner = threading.Thread(
            target=_join, args=(members, timeout_s, late, ended), name="asyncjit-prefetch-close", daemon=True
        )
        joiner.start()
        try:
            await Fired(ended, shielded=True)
        finally:
            joiner.join()
            for member in late:
                _warn(member, timeout_s)


def _join(members: list[_Member], timeout_s: float, late: list[_Member], ended: Fence) -> None:
    try:
        deadline_s = time.monotonic() + timeout_s
        for member in members:
            member.thread.join(max(0.0, deadline_s - time.monotonic()))
            if not member.producer.busy:
                # It is on its way out, however short the time was.
                member.thread.join(GRACE_S)
            if member.thread.is_alive():
                late.append(member)
        for member in late:
            if member.kill is not None:
                member.kill()
                member.thread.join(GRACE_S)
    finally:
        ended.signal()


def _warn(member: _Member, timeout_s: float) -> None:
    done = "its process was killed" if member.kill is not None else f"its thread {member.thread.name} was left behind"
    warnings.warn(
        f"{member.what} was still busy {timeout_s:g} s after its prefetch was left, so {done}; let it end sooner, or "
        "raise close_timeout_s",
        RuntimeWarning,
        stacklevel=4,
    )
