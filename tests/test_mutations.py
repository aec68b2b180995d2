"""Every deliberate fault is caught: by a soak seed, or by the named test that holds the rule.

Law: one fault at a time, by the soak where it can, since that looks at everything. A fault that nothing catches means
that a test is missing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from asyncjit.fences import Fence
from asyncjit.streams import wait_fence
from asyncjit.testing.soak import play_seed
from asyncjit.testing.soak.themes import THEMES
from tests.core import test_arrival, test_stains
from tests.faults import Fault
from tests.faults_of_surfaces import FAULTS

#: Seeds after which a fault counts as not found by the soak.
SEEDS = 40

#: Longer than any wake-up takes; only ever reached where one is lost.
PATIENCE_S = 2.0


def wake_ups_of_completions_from_another_thread_all_arrive() -> None:
    """Several completions are due before the loop has turned, so that one wake-up stands for all of them."""

    class Wait:
        def __init__(self, fence: Fence) -> None:
            self.fence = fence

        def __await__(self) -> object:
            return wait_fence(self.fence, lambda is_closing: True)

    async def wait(fence: Fence) -> None:
        await Wait(fence)

    async def main() -> int:
        fences = [Fence() for _ in range(5)]
        tasks = [asyncio.ensure_future(wait(fence)) for fence in fences]
        await asyncio.sleep(0)
        signaller = threading.Thread(target=lambda: [fence.signal() for fence in fences])
        signaller.start()
        # The loop stands still until all of them are due.
        signaller.join()
        done, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(done)

    assert asyncio.run(main()) == 5


#: For rules that virtual time on one thread does not put to the test, or not in few seeds: the test that does.
NAMED: dict[str, Callable[[], None]] = {
    "heal nothing": test_stains.test_healing_takes_away_what_was_overwritten_and_leaves_the_rest_and_later_stains,
    "lose a coalesced wake-up of the loop": wake_ups_of_completions_from_another_thread_all_arrive,
    "take calls beyond replays_queued_max": (
        test_arrival.test_a_call_beyond_the_queue_limit_is_rejected_and_leaves_no_trace
    ),
    "leave a trace of a refused call": test_arrival.test_a_call_beyond_the_queue_limit_is_rejected_and_leaves_no_trace,
}


def seeds_of(theme: str | None) -> range:
    """Seeds of soak programs, all of them on that theme where one is given: the first choice of a seed is its theme."""
    if theme is None:
        return range(SEEDS)
    first = next(index for index, each in enumerate(THEMES) if each.name == theme)
    return range(first, SEEDS * len(THEMES), len(THEMES))


def caught_by(fault: Fault) -> str | None:
    """Who catches it, while it is on: the first seed of the soak, or the named test; None when nobody does."""
    named = NAMED.get(fault.what)
    if named is not None:
        try:
            named()
        except Exception:
            return named.__name__
        return None
    for seed in seeds_of(fault.theme):
        try:
            play_seed(seed)
        except Exception:
            return f"soak seed {seed}"
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_deliberate_fault_is_caught(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for owner, name, make in ((fault.owner, fault.name, fault.make), *fault.also):
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    assert caught_by(fault) is not None, f"nothing notices when engines {fault.what}"


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
def test_without_a_fault_the_named_tests_pass(named: Callable[[], None]) -> None:
    named()


def test_the_registry_names_each_fault_once() -> None:
    names = [fault.what for fault in FAULTS]
    assert len(names) == len(set(names)) >= 37
    assert NAMED.keys() <= set(names)
