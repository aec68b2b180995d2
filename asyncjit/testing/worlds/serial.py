"""The serial run that every other has to equal, and what it says of each run's outcome.

Law: judges what happened; knows runs and programs, no scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from asyncjit.errors import DependencyError, DeviceLostError, EngineClosedError
from asyncjit.records import Run, State
from asyncjit.testing.worlds.program import OUTPUT_BYTES, OUTPUTS_FROM, Call, execute, output


class KernelFailureError(Exception):
    """What a failing call of this world fails with."""


class CaptureFailureError(Exception):
    """What a failing capture of this world fails with."""


class Serial:
    """One call after the other, in ticket order. ``void`` bytes hold nothing: a failed run should have written them."""

    def __init__(self, *, failed: Collection[Run], lost: Collection[str], is_past_deadline: bool) -> None:
        self.failed = failed
        self.lost = lost
        self.is_past_deadline = is_past_deadline
        self.memory: dict[int, bytearray] = {}
        self.void: set[tuple[int, int]] = set()

    def play(self, run: Run, call: Call, index: int, digests: Mapping[int, bytes]) -> None:
        """Check the outcome of the next run; ``digests`` are of what its segments read, where they ran."""
        outputs = {(OUTPUTS_FROM + index, at) for at in range(OUTPUT_BYTES)} if call.has_output else set()
        writes = {(span.buffer, at) for span in call.writes() for at in span.offsets()}
        if run.state is State.DROPPED:
            self.void |= outputs
            return
        if isinstance(run.error, CaptureFailureError):
            return
        reads_void = any((span.buffer, at) in self.void for span in call.reads() for at in span.offsets())
        if run.state is State.FAILED:
            self._check_failure(run, call, reads_void)
            self.void |= writes | outputs
            return
        assert not reads_void, f"{run} ran on bytes that hold nothing"
        assert run not in self.failed
        assert digests == self._execute(call, index), f"{run} did not read what the serial run reads"
        self.void -= writes

    def _check_failure(self, run: Run, call: Call, reads_void: bool) -> None:
        if isinstance(run.error, DependencyError):
            assert reads_void, f"{run} failed for {run.error}, and reads nothing void"
            assert not isinstance(run.error.__cause__, DependencyError)
        elif isinstance(run.error, KernelFailureError):
            assert run in self.failed
            assert not reads_void
        elif isinstance(run.error, DeviceLostError):
            assert call.device in self.lost
        else:
            assert isinstance(run.error, EngineClosedError)
            assert self.is_past_deadline

    def _execute(self, call: Call, index: int) -> dict[int, bytes]:
        digests: dict[int, bytes] = {}
        for part in range(len(call.parts)):
            digests[part] = execute(call, index, part, self.memory, digests)
        if call.has_output:
            self.memory[OUTPUTS_FROM + index] = output(digests)
        return digests
