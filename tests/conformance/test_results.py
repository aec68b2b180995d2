"""What a device computes: results, order, bindings, memory.

Law: one test, one sentence of the protocol; each runs on every device.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.base import Device, Executable, Frame
from asyncjit.errors import DeviceError, DeviceOutOfMemoryError, DeviceUnavailableError
from tests.conformance.conftest import Harness
from tests.conformance.plans import part

Array = np.ndarray[Any, Any]


def add_one(source: Array, out: Array) -> None:
    np.add(source, 1, out)


def chain(harness: Harness, length: int, kernel: Any = add_one) -> Executable:
    """input -> length calls through intermediates -> output."""
    builder = harness.build()
    previous = builder.input()
    output = builder.output()
    for index in range(length):
        target = output if index == length - 1 else builder.intermediate()
        builder.call(kernel, previous, target)
        previous = target
    return harness.instantiate(builder.plan())


def test_a_device_and_what_it_makes_satisfy_the_protocol(harness: Harness) -> None:
    executable = chain(harness, 2)
    frame = executable.create_frame()
    assert isinstance(harness.device, Device)
    assert isinstance(executable, Executable)
    assert isinstance(frame, Frame)
    assert frame.nbytes >= 64
    assert executable.frames_are_cheap
    assert executable.estimated_s >= 0
    assert harness.device.capabilities.streams_max >= 1


def test_a_call_writes_its_output(harness: Harness) -> None:
    output = harness.array(np.zeros(4))
    harness.run(chain(harness, 1), [harness.array([1, 2, 3, 4]), output])
    assert output.tolist() == [2, 3, 4, 5]


def test_an_operation_is_found_by_its_name(harness: Harness) -> None:
    builder = harness.build()
    builder.call("add", builder.input(), builder.input(), builder.output())
    output = harness.array(np.zeros(4))
    harness.run(
        harness.instantiate(builder.plan()), [harness.array([1, 2, 3, 4]), harness.array([10, 20, 30, 40]), output]
    )
    assert output.tolist() == [11, 22, 33, 44]


def test_intermediates_live_in_the_frame(harness: Harness) -> None:
    output = harness.array(np.zeros(4))
    harness.run(chain(harness, 50), [harness.array([0, 1, 2, 3]), output])
    assert output.tolist() == [50, 51, 52, 53]


def test_calls_of_a_stream_run_in_order(harness: Harness) -> None:
    log: list[int] = []
    builder = harness.build()
    for segment in range(5):
        builder.segment(stream=0)
        for call in range(3):
            builder.call(lambda out, which=3 * segment + call: log.append(which), builder.intermediate())
    harness.run(harness.instantiate(builder.plan()))
    assert log == list(range(15))


def test_a_segment_waits_for_segments_of_other_streams(harness: Harness) -> None:
    log: list[str] = []
    builder = harness.build()
    scratch = [builder.intermediate() for _ in range(4)]
    root = builder.segment(stream=0)
    builder.call(lambda out: log.append("root"), scratch[0])
    left = builder.segment(stream=1, waits=[root])
    builder.call(lambda out: log.append("left"), scratch[1])
    right = builder.segment(stream=2, waits=[root])
    builder.call(lambda out: log.append("right"), scratch[2])
    builder.segment(stream=0, waits=[left, right])
    builder.call(lambda out: log.append("join"), scratch[3])
    executable = harness.instantiate(builder.plan())
    for _ in range(20):
        log.clear()
        harness.run(executable)
        assert sorted(log) == ["join", "left", "right", "root"]
        assert log[0] == "root"
        assert log[-1] == "join"


def test_random_graphs_on_many_streams_equal_program_order(harness: Harness) -> None:
    for seed in range(15):
        rng = random.Random(seed)
        builder = harness.build()
        values, expected = [builder.input()], [np.arange(4, dtype=np.float32)]
        #: Segment and stream that make each value; the input is there from the start.
        made = [(-1, -1)]
        for _ in range(25):
            first, second = rng.randrange(len(values)), rng.randrange(len(values))
            stream = rng.randrange(4)
            waits = {segment for segment, home in (made[first], made[second]) if home not in (-1, stream)}
            made.append((builder.segment(stream, sorted(waits)), stream))
            values.append(builder.intermediate())
            builder.call(lambda a, b, out: np.add(a, 2 * b, out), values[first], values[second], values[-1])
            expected.append(np.add(expected[first], 2 * expected[second]))
        builder.segment(stream=4, waits=[made[-1][0]])
        builder.copy(values[-1], builder.output())
        result = harness.array(np.zeros(4))
        harness.run(harness.instantiate(builder.plan()), [harness.array(expected[0]), result])
        assert np.array_equal(result, expected[-1]), f"seed {seed}"


def test_frames_are_independent(harness: Harness) -> None:
    executable = chain(harness, 20)
    outputs = [harness.array(np.zeros(4)) for _ in range(16)]
    outcomes = [harness.submit(executable, [harness.array(np.full(4, i)), out]) for i, out in enumerate(outputs)]
    for outcome in outcomes:
        harness.wait(outcome)
    assert [out.tolist() for out in outputs] == [[i + 20.0] * 4 for i in range(16)]


def test_a_frame_is_bound_anew_at_each_replay(harness: Harness) -> None:
    executable = chain(harness, 3)
    frame = executable.create_frame()
    first, second = harness.array(np.zeros(4)), harness.array(np.zeros(4))
    harness.run(executable, [harness.array(np.full(4, 1)), first], frame=frame)
    harness.run(executable, [harness.array(np.full(4, 5)), second], frame=frame)
    assert first.tolist() == [4] * 4
    assert second.tolist() == [8] * 4


def test_slots_may_begin_anywhere_in_their_memory(harness: Harness) -> None:
    memory = harness.array(np.arange(12))
    output = harness.device.allocate(64)
    output[:] = 0
    harness.run(chain(harness, 1), [(memory, 16), (output, 32)])
    assert output.view(np.float32).tolist() == [0] * 8 + [5, 6, 7, 8] + [0] * 4


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((4,), (4,), 0), ((2, 2), (4, 8), 0), ((4,), (-4,), 12), ((2, 4), (0, 4), 0), ((), (), 8), ((2,), (8,), 4)],
)
def test_operands_may_have_any_layout(
    harness: Harness, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    builder = harness.build()
    size = int(np.prod(shape)) * 4
    source = part(builder.input(), shape, strides, "float32", offset)
    natural = np.empty(shape, np.float32).strides
    middle = part(builder.intermediate(size), shape, natural, "float32")
    builder.call(add_one, source, middle)
    builder.call(add_one, middle, part(builder.output(size), shape, natural, "float32"))
    memory, output = harness.array([10, 20, 30, 40]), harness.array(np.zeros(shape))
    harness.run(harness.instantiate(builder.plan()), [memory, output])
    expected = np.ndarray(shape, np.float32, memory, offset, strides) + 2
    assert np.array_equal(output, expected)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex128"])
def test_operands_may_have_any_dtype(harness: Harness, dtype: str) -> None:
    builder = harness.build()
    itemsize = np.dtype(dtype).itemsize
    source = part(builder.input(3 * itemsize), (3,), (itemsize,), dtype)
    builder.call(lambda a, out: np.copyto(out, a), source, part(builder.output(3 * itemsize), (3,), (itemsize,), dtype))
    output = harness.array([0, 0, 0], dtype)
    harness.run(harness.instantiate(builder.plan()), [harness.array([1, 0, 1], dtype), output])
    assert output.tolist() == np.array([1, 0, 1], dtype).tolist()


def test_empty_arrays_are_arrays(harness: Harness) -> None:
    builder = harness.build()
    middle = part(builder.intermediate(0), (0, 3), (12, 4), "float32")
    builder.call(add_one, part(builder.input(0), (0, 3), (12, 4), "float32"), middle)
    builder.call(add_one, middle, part(builder.output(0), (0, 3), (12, 4), "float32"))
    executable = harness.instantiate(builder.plan())
    harness.run(executable, [harness.array(np.zeros((0, 3))), harness.device.allocate(0)])


def test_a_copy_moves_bytes(harness: Harness) -> None:
    builder = harness.build()
    builder.copy(builder.input(), builder.output())
    output = harness.array(np.zeros(4))
    harness.run(harness.instantiate(builder.plan()), [harness.array([1, 2, 3, 4]), output])
    assert output.tolist() == [1, 2, 3, 4]


def test_one_input_may_be_read_by_many_calls_and_one_call_may_take_it_twice(harness: Harness) -> None:
    builder = harness.build()
    source, total, output = builder.input(), builder.intermediate(), builder.output()
    builder.call(lambda a, b, out: np.add(a, b, out), source, source, total)
    builder.call(lambda a, b, out: np.multiply(a, b, out), source, total, output)
    result = harness.array(np.zeros(4))
    harness.run(harness.instantiate(builder.plan()), [harness.array([1, 2, 3, 4]), result])
    assert result.tolist() == [2, 8, 18, 32]


def test_numpy_warns_of_nothing(harness: Harness) -> None:
    builder = harness.build()
    builder.call(lambda a, out: np.divide(a, 0, out), builder.input(), builder.output())
    output = harness.array(np.zeros(4))
    harness.run(harness.instantiate(builder.plan()), [harness.array([1, -1, 0, 2]), output])
    assert np.isinf(output).tolist() == [True, True, False, True]
    assert np.geterr()["divide"] == "warn"


def test_times_are_taken_when_asked_for(harness: Harness) -> None:
    executable = chain(harness, 3)
    outcome = harness.run(executable, [harness.array(np.zeros(4)), harness.array(np.zeros(4))], times=[])
    times = outcome.submission.times
    assert times is not None
    assert len(times) == 3
    ran = [time for time in times if time is not None]
    assert len(ran) == 3
    assert all(start_s <= end_s and thread >= 0 for start_s, end_s, thread in ran)
    assert ran == sorted(ran)


def test_memory_is_aligned_from_a_page_up(harness: Harness) -> None:
    for nbytes in (0, 1, 100, 4096, 5000, 1 << 20):
        memory = harness.device.allocate(nbytes)
        array = harness.device.allocate_array((nbytes, 2), "int16")
        assert memory.nbytes == nbytes
        assert (array.shape, array.dtype.name, array.flags.c_contiguous) == ((nbytes, 2), "int16", True)
        if nbytes >= 4096:
            assert memory.ctypes.data % 64 == array.ctypes.data % 64 == 0


def test_too_much_memory_is_refused(harness: Harness) -> None:
    with pytest.raises(DeviceOutOfMemoryError, match="no memory left"):
        harness.device.allocate(1 << 62)
    with pytest.raises(MemoryError):
        harness.device.allocate_array((1 << 60, 1 << 10), "float64")


def test_what_is_not_known_here_is_refused_when_the_plan_is_instantiated(harness: Harness) -> None:
    builder = harness.build()
    builder.call("no such operation", builder.input(), builder.output())
    with pytest.raises(DeviceError, match="no such operation"):
        harness.device.instantiate(builder.plan())
    with pytest.raises(DeviceUnavailableError, match="steam"):
        harness.device.instantiate(harness.build().plan(), executor="steam")
