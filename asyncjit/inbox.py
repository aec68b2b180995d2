"""The inbox: how word reaches the scheduler, from any thread.

Law: one lock guards the scheduler. Finalisers and completions never wait for that lock: they append to the inbox, and
whoever wins a non-blocking try drains it; whoever gives the lock back looks again (see ``guard``), so progress never
depends on a loop being alive and nothing is left behind. Waiters are woken and instruments are told after the lock is
given back.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from asyncjit.devices.base import Submission
from asyncjit.guard import Backlog, Guard
from asyncjit.replay import Replay
from asyncjit.runs import Command, Stimulus
from asyncjit.scheduler import Scheduler
from asyncjit.streams import Fence

__all__ = ["DropReadSet", "Inbox", "Reading"]


@dataclass(slots=True, eq=False)
class DropReadSet(Stimulus):
    """A program is gone, and with it the tracker's entry for the state it reads. From a finaliser, so by the inbox."""

    read_set: Any


class Reading:
    """What a read from the host has in place of a replay. Who waits for its turn waits for ``settled``."""

    __slots__ = ("fence", "settled")

    def __init__(self) -> None:
        #: The read is over: later writers wait for it.
        self.fence = Fence()
        #: It may read now, or has ended without.
        self.settled = Fence()

    @property
    def submission(self) -> Reading:
        """What the gates of others ask for."""
        return self


class Inbox(ABC):
    """Takes stimuli to the scheduler, and has the commands that come out carried out."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = Guard(self._signal_when_idle, self._after_release)
        self._inbox: deque[Stimulus] = deque()
        #: Replays whose waiters are to be woken, and hooks of instruments to be called, without the lock.
        self._ended: deque[Replay[Any]] = deque()
        self._news = Backlog()
        #: Fires when nothing is queued or running any more; made when somebody closes the engine.
        self._idle: Fence | None = None

    @abstractmethod
    def _carry_out(self, commands: Sequence[Command]) -> None:
        """Under the lock; the conductor's."""

    def feed(self, stimulus: Stimulus) -> None:
        """Tell the scheduler, from any thread; never waits for the lock. Finalisers append to the inbox instead."""
        self._inbox.append(stimulus)
        self.drain()

    def drain(self) -> None:
        """See to what is in the inbox, unless another thread is at it: that one will."""
        while self._inbox:
            if not self._lock.acquire(False):
                return
            try:
                self._process_inbox()
            finally:
                self._lock.release()
                self._wake_and_tell()

    def wait_until_told(self, timeout_s: float) -> bool:
        """Block until instruments have been told of all that has happened up to now: waiters are woken before. False
        where another thread has not got through within the time."""
        told = threading.Event()
        self._news.put(told.set)
        self._news.work_off()
        return told.wait(timeout_s)

    def _give_up(self, submission: Submission, outcome: Stimulus | None) -> None:
        """It will not run. Its fence fires, and its outcome is told, when all that it had to wait for is over: others
        may wait for this fence alone, and rely on what lies before it."""
        fences = [fence for gate in submission.gates.values() for fence in gate]
        left = list(range(len(fences) + 1))

        def passed() -> None:
            if left.pop() == 0:
                if outcome is not None:
                    self._inbox.append(outcome)
                submission.fence.signal()
                self.drain()

        for fence in fences:
            if not fence.add_callback(passed):
                passed()
        passed()

    def _after_release(self) -> None:
        self._wake_and_tell()
        if self._inbox:
            self.drain()

    def _wake_and_tell(self) -> None:
        ended = self._ended
        while ended:
            try:
                replay = ended.popleft()
            except IndexError:
                # Another thread that gave the lock back has woken it.
                break
            replay.settled.signal()
        if self._news.jobs:
            self._news.work_off()

    def _step(self, stimulus: Stimulus) -> list[Command]:
        """Tell the scheduler at once, after all that is in the inbox, and carry out what it asks for."""
        with self._lock:
            self._process_inbox()
            commands = self._scheduler.step(stimulus)
            self._carry_out(commands)
        return commands

    def _process_inbox(self) -> None:
        inbox = self._inbox
        while inbox:
            stimulus = inbox.popleft()
            if type(stimulus) is DropReadSet:
                self._scheduler.drop_read_set(stimulus.read_set)
            else:
                commands = self._scheduler.step(stimulus)
                if commands:
                    self._carry_out(commands)
        if self._idle is not None:
            self._signal_when_idle()

    def _signal_when_idle(self) -> None:
        idle = self._idle
        if idle is not None and not idle.done and not self._inbox and self._scheduler.is_idle:
            idle.signal()

    def _tell(self, hook: Callable[..., None], *arguments: object) -> None:
        """Have a hook of the instruments called in order, once the lock is given back."""
        self._news.put(lambda: hook(*arguments))
