"""Instruments: hooks reach everyone, and a broken one disturbs nobody."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from asyncjit.instruments import Instrument, Instruments

HOOKS: dict[str, tuple[Any, ...]] = {
    "captured": ("f", "program"),
    "replay_submitted": ("replay",),
    "replay_started": ("replay",),
    "replay_done": ("replay",),
    "replay_failed": ("replay", ValueError("x")),
    "replay_cancelled": ("replay",),
}


class Recorder(Instrument):
    def __init__(self, log: list[Any], name: str = "") -> None:
        for hook in HOOKS:
            setattr(self, hook, lambda *arguments, hook=hook: log.append((name + hook, *arguments)))


class Broken(Instrument):
    def replay_done(self, replay: Any) -> None:
        raise RuntimeError("this hook is broken")


def call_all(instruments: Instrument) -> None:
    for hook, arguments in HOOKS.items():
        getattr(instruments, hook)(*arguments)


def test_there_is_nothing_to_do_when_none_is_installed() -> None:
    instruments = Instruments()
    assert not instruments.active
    assert not instruments.takes_times
    call_all(instruments)


def test_a_base_instrument_ignores_everything() -> None:
    call_all(Instrument())


def test_every_hook_there_is_is_passed_on() -> None:
    public = {name for name in vars(Instrument) if not name.startswith("_")} - {"takes_times"}
    assert public == set(HOOKS)
    log: list[Any] = []
    instruments = Instruments()
    instruments.add(Recorder(log))
    assert instruments.active
    call_all(instruments)
    assert log == [(hook, *arguments) for hook, arguments in HOOKS.items()]


def test_instruments_are_called_in_order_of_addition_and_once_each() -> None:
    log: list[Any] = []
    first, second = Recorder(log, "first "), Recorder(log, "second ")
    instruments = Instruments()
    for instrument in (first, second, first):
        instruments.add(instrument)
    instruments.replay_done("replay")
    assert [entry[0] for entry in log] == ["first replay_done", "second replay_done"]


def test_a_removed_instrument_is_not_called() -> None:
    log: list[Any] = []
    instrument = Recorder(log)
    instruments = Instruments()
    instruments.add(instrument)
    instruments.remove(instrument)
    instruments.remove(instrument)
    instruments.replay_done("replay")
    assert log == []
    assert not instruments.active


def test_times_are_taken_while_somebody_wants_them() -> None:
    instrument = Instrument()
    instrument.takes_times = True
    instruments = Instruments()
    instruments.add(Instrument())
    assert not instruments.takes_times
    instruments.add(instrument)
    assert instruments.takes_times
    instruments.remove(instrument)
    assert not instruments.takes_times


def test_a_failing_hook_is_logged_once_and_its_instrument_removed(caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    instruments = Instruments()
    instruments.add(Broken())
    instruments.add(Recorder(log))
    with caplog.at_level(logging.ERROR, logger="asyncjit"):
        instruments.replay_done("one")
        instruments.replay_done("two")
    assert caplog.text.count("is disabled") == 1
    assert "this hook is broken" in caplog.text
    assert [entry[1] for entry in log] == ["one", "two"]


def test_a_hook_that_fails_on_two_threads_at_once_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    both = threading.Barrier(2)

    class BrokenTwice(Instrument):
        def replay_done(self, replay: Any) -> None:
            both.wait(20)
            raise RuntimeError("broken on both")

    instruments = Instruments()
    instruments.add(BrokenTwice())
    with caplog.at_level(logging.ERROR, logger="asyncjit"):
        threads = [threading.Thread(target=instruments.replay_done, args=("replay",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert caplog.text.count("is disabled") == 1
    assert not instruments.active


def test_ctrl_c_in_a_hook_is_not_swallowed() -> None:
    class Interrupted(Instrument):
        def replay_done(self, replay: Any) -> None:
            raise KeyboardInterrupt

    instruments = Instruments()
    instruments.add(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        instruments.replay_done("replay")
    assert instruments.active


def test_an_instrument_may_remove_itself_inside_a_hook() -> None:
    log: list[Any] = []
    instruments = Instruments()

    class Once(Instrument):
        def replay_done(self, replay: Any) -> None:
            log.append(replay)
            instruments.remove(self)

    instruments.add(Once())
    instruments.replay_done("one")
    instruments.replay_done("two")
    assert log == ["one"]
