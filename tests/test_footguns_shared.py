"""Surprises of capture and replay among several tasks, threads and processes.

Law: as in ``test_footguns``: what the ancestor does *there*, what asyncjit does *here*, and *why*.
"""

from __future__ import annotations

import pickle
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import RUNS, Run


@pytest.fixture(params=list(RUNS))
def run(request: pytest.FixtureRequest) -> Run:
    """Runs an async function on a loop of each kind."""
    return RUNS[request.param]


def values(array: Any) -> Any:
    return np.asarray(array).tolist()


# A capture takes in what other tasks and threads do meanwhile.
# There: the capture in progress is a global, so the kernels of another thread land in it and are not run.
# Here: a recording belongs to the task and the thread that run the function; others go on undisturbed.
# Why: an engine is shared by everybody in the process.


def test_other_threads_compute_during_a_recording_and_leave_no_trace_in_it(run: Run) -> None:
    recording, go_on = threading.Event(), threading.Event()

    @aj.jit
    def slow(x: anp.Array) -> anp.Array:
        first = x + 1
        recording.set()
        assert go_on.wait(10)
        return first * 2

    @aj.jit
    def other(x: anp.Array) -> anp.Array:
        return x * 7

    async def main() -> None:
        x, found = anp.ones(1), []
        thread = threading.Thread(target=lambda: found.append(slow(x)))
        thread.start()
        await anyio.to_thread.run_sync(recording.wait, 10)
        assert values(await other(x)) == [7.0]
        assert values(await (x + 1)) == [2.0]
        go_on.set()
        await anyio.to_thread.run_sync(thread.join)
        assert values(await found[0]) == [4.0]
        assert "2 calls" in slow.explain()

    run(main)


# One function from two threads gives wrong values.
# There: 6 to 87 % of them, for the threads share outputs and intermediates.
# Here: each replay has a frame of its own, and outputs of its own.
# Why: as above; a lock around it would give up what the second core is for.


def test_two_threads_call_one_function() -> None:
    @aj.jit
    def chain(x: anp.Array) -> anp.Array:
        for _ in range(5):
            x = x * 2 + 1
        return x

    wrong: list[float] = []

    def work(base: int) -> None:
        for index in range(60):
            given = float(base + index)
            result = np.asarray(chain(anp.full(2000, given)).wait())
            if not (result == given * 32 + 31).all():
                wrong.append(given)

    threads = [threading.Thread(target=work, args=(base,)) for base in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Eight coroutines on one loop read the last one's value.
# There: no thread is needed for it: call, let the loop turn, read.
# Here: as with threads.
# Why: as with threads.


def test_eight_coroutines_call_one_function(run: Run) -> None:
    @aj.jit
    def double(x: anp.Array) -> anp.Array:
        return x * 2

    async def main() -> None:
        found: dict[int, Any] = {}

        async def one(index: int) -> None:
            replay = double(anp.full(1, float(index)))
            await anyio.lowlevel.checkpoint()
            result = await replay
            await anyio.lowlevel.checkpoint()
            found[index] = values(result)

        async with anyio.create_task_group() as tasks:
            for index in range(8):
                tasks.start_soon(one, index)
        assert found == {index: [2.0 * index] for index in range(8)}

    run(main)


# A pickled capture takes arrays of the process that loads it for its own.
# There: buffers are known by numbers that each process counts from one: 101 came out in place of 21.
# Here: loading gives every buffer a new number; a copy shares nothing with its original.
# Why: a number means something in its process only.


def scaled_sum(x: anp.Array) -> anp.Array:
    return (x * 2).sum()


def test_a_pickle_shares_nothing_with_its_original() -> None:
    original = aj.jit(scaled_sum)
    kept = original.run(anp.ones(3))
    copy = pickle.loads(pickle.dumps(original))
    first = copy.run(anp.full(3, 5.0))
    assert (values(kept), values(first), values(original.run(anp.zeros(3)))) == (6.0, 30.0, 0.0)
    assert values(first) == 30.0
