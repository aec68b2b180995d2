"""A small world to test engines in: programs by hand, kernels that wait until they are let go.

Law: real engines, real devices, real threads. Nothing sleeps; what has to be in flight is held by an event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncjit.devices.base import Device
from asyncjit.engine import Engine, Group
from asyncjit.ir import Access, Call, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.program import Program
from asyncjit.replay import Replay
from asyncjit.storage import Storage
from tests._threads import threads_since

#: Only ever reached by a test that fails.
PATIENCE_S = 20.0

READ, WRITE, BOTH = Access.READ, Access.WRITE, Access.READ_WRITE


class Held:
    """A kernel that says when it was entered, and goes on when it is told to."""

    def __init__(self, function: Callable[..., object] = lambda *arrays: None) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()
        self._function = function

    def __call__(self, *arrays: np.ndarray) -> None:
        self.entered.set()
        assert self._open.wait(PATIENCE_S), "nobody let the kernel go"
        self._function(*arrays)

    def let_go(self) -> None:
        self._open.set()

    def wait_until_entered(self) -> None:
        assert self.entered.wait(PATIENCE_S), "the kernel was not started"


def fail(*arrays: np.ndarray) -> None:
    raise ZeroDivisionError("on purpose")


def double(source: np.ndarray, target: np.ndarray) -> None:
    np.multiply(source, 2.0, out=target)


def increment(array: np.ndarray) -> None:
    array += 1.0


def assign(value: float) -> Callable[[np.ndarray], None]:
    def kernel(array: np.ndarray) -> None:
        array[...] = value

    return kernel


class World:
    """An engine with float64 arrays of ``size`` elements."""

    def __init__(self, *devices: Device | str, size: int = 4, **options: Any) -> None:
        self.engine = Engine(devices or ("cpu",), **options)
        self.size = size
        self.group = Group("work", in_flight_max=None)

    def array(self, *values: float) -> Storage:
        return self.engine.constant(np.resize(np.array(values or (0.0,)), self.size))

    def program(
        self,
        function: Callable[..., object] | None = None,
        inputs: Sequence[Access] = (),
        state: Sequence[tuple[Storage, Access]] = (),
        outputs: int = 0,
        *,
        kernel: str = "user",
        calls: int = 1,
        parts: dict[int, tuple[int, int]] | None = None,
    ) -> Program:
        """``calls`` equal calls on all slots in order: inputs, state, outputs.

        ``parts``: for a slot, the elements [first, last) that the calls touch.
        """
        device = self.engine.default_device
        access = [*inputs, *(each for _, each in state), *([WRITE] * outputs)]
        kinds = [SlotKind.INPUT] * len(inputs) + [SlotKind.STATE] * len(state) + [SlotKind.OUTPUT] * outputs
        slots = tuple(Slot(kind, new_buffer(device, 8 * self.size), f"slot {i}") for i, kind in enumerate(kinds))
        operands = []
        for index, slot in enumerate(slots):
            first, last = (parts or {}).get(index, (0, self.size))
            operands.append(operand_of(slot.buffer, (last - first,), (8,), "float64", 8, 8 * first))
        call = Call(Kernel(kernel, tuple(access), (), function), tuple(operands), source="world.py:1")
        schedule = Schedule((call,) * calls, slots, kernel)
        bound = {len(inputs) + index: storage for index, (storage, _) in enumerate(state)}
        made = {index: ((self.size,), "float64") for index, kind in enumerate(kinds) if kind is SlotKind.OUTPUT}
        return self.engine.load(schedule, bound, made, lowering=False)

    def call(self, program: Program, *inputs: Storage, group: Group | None = None) -> Replay[list[Storage]]:
        return self.engine.submit(program, [(storage, 0) for storage in inputs], group or self.group, list)

    def pure(self, function: Callable[..., object] = double) -> Replay[list[Storage]]:
        """One replay without input and with one output that ``function(ones, out)`` writes."""
        return self.call(self.program(function, [READ], outputs=1), self.array(1.0))

    def view(self, storage: Storage) -> np.ndarray:
        """As np.asarray of an array would read it."""
        return storage.read_host(0, (self.size,), (8,), np.dtype(np.float64), "np.asarray")

    def read(self, storage: Storage) -> list[float]:
        return [float(value) for value in self.view(storage)]


def engine_threads() -> list[str]:
    """Names of the threads of engines that the test has started."""
    return [thread.name for thread in threads_since("asyncjit")]


def state_of(replay: Replay[Any]) -> str:
    return replay._run.state.value


class Queue:
    """A world whose group has room for one, and a replay that holds that room."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group = Group("narrow", in_flight_max=1)
        self.held = Held()
        self.blocker = world.call(world.program(self.held, [READ]), world.array(), group=self.group)

    def call(self, function: Callable[..., object], *inputs: Storage, outputs: int = 0) -> Replay[Any]:
        program = self.world.program(function, [BOTH if not outputs else READ] * len(inputs), outputs=outputs)
        return self.world.call(program, *inputs, group=self.group)

    async def finish(self) -> None:
        self.held.let_go()
        await self.blocker
