"""What the soak has found, as small cases that do not hang on its generator.

Law: one test a finding; the name says what is right, the docstring what was wrong.
"""

from __future__ import annotations

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.testing import CallFault, SimDevice


def test_a_read_of_some_rows_of_closed_over_state_meets_no_write_to_others() -> None:
    """State that a function only reads counted as read whole: who read row 0 waited for row 2, and failed with it."""
    device = SimDevice(faults=[CallFault(0, 0, OSError("on purpose"))])
    engine = aj.Engine([device])
    with engine.use():
        state = anp.asarray(np.arange(16.0).reshape(4, 4))

        @aj.jit
        def write() -> None:
            state[1:3, 1:3] += 1.0

        @aj.jit
        def read(x: anp.Array) -> anp.Array:
            return x + state[0]

        failing, reading = write(), read(np.ones(4))
        device.run_until_idle()
        with pytest.raises(aj.KernelError):
            failing.wait()
        assert np.asarray(reading.wait()).tolist() == [1.0, 2.0, 3.0, 4.0]
    engine.close()


def test_a_failure_is_not_forgotten_after_closing_when_an_earlier_replay_ends_well_behind_it() -> None:
    """Closing fails what is queued before what runs has ended; when that ended well, its arrays counted as whole."""
    device = SimDevice()
    engine = aj.Engine([device])
    with engine.use():
        state = anp.asarray(np.zeros(4))

        @aj.jit(in_flight_max=1)
        def add() -> None:
            state[...] = state + 1.0

        first, second = add(), add()
        engine.close(0.0)
        first.wait()
        with pytest.raises(aj.EngineClosedError):
            second.wait()
        with pytest.raises(aj.DependencyError) as caught:
            np.asarray(state)
        assert isinstance(caught.value.__cause__, aj.EngineClosedError)


def test_a_part_that_a_left_behind_device_reports_after_the_replay_has_ended_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The report raised TypeError on the device, which logged it."""
    devices = [SimDevice("a"), SimDevice("b")]
    engine = aj.Engine(devices)
    with engine.use():

        @aj.jit
        def there_and_back(x: anp.Array) -> anp.Array:
            return ((x + 1.0).to_device("b") * 2.0).to_device("a") + 1.0

        replay = there_and_back(np.ones(3))
        # The first device is closed before the second has computed what it waits for.
        engine.close(0.0)
        with pytest.raises(aj.AsyncJitError):
            replay.wait()
        devices[0].run_until_idle()
    assert devices[0].trace[-1].kind == "reported"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
