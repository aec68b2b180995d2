"""Loading: storage for arrays, and schedules made ready to replay.

Law: what stands before a call. Nothing here takes a ticket, but for the copy of large host data into new memory.
"""

from __future__ import annotations

import functools
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from asyncjit.clock import Clock
from asyncjit.conductor import Conductor
from asyncjit.deps import Region
from asyncjit.devices.base import Device, Runner
from asyncjit.devices.joint import JointDevice
from asyncjit.errors import DeviceUnavailableError, EngineBusyError, EngineClosedError
from asyncjit.failures import kept
from asyncjit.inbox import DropReadSet
from asyncjit.ir import Access, Call, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.plan import Plan, lower, program_order_plan
from asyncjit.program import Group, Loaded, Program, call_costs, make_footprint
from asyncjit.replay import Replay
from asyncjit.runs import DeviceLost, Run
from asyncjit.scheduler import Scheduler
from asyncjit.settings import Settings, settings
from asyncjit.storage import Owner, Storage
from asyncjit.symbols import Int
from asyncjit.watches import Watch

__all__ = ["Loader", "recording"]

#: Host data up to here is copied at the call, larger data by a worker: a copy of 1 MiB takes about 100 µs.
STAGED_FROM_BYTES = 1 << 20


class _Recording(threading.local):
    """Whether this thread records a function right now: what it makes must not wait for a ticket."""

    active = False
    #: The runs for which it does so, outermost first.
    runs: tuple[Run, ...] = ()


recording = _Recording()


@functools.cache
def _name_of(dtype: np.dtype[Any]) -> str:
    # NumPy makes the name anew each time it is asked, in Python: 5 us.
    return dtype.name


#: Eager operations that a device has at a time, at least.
EAGER_IN_FLIGHT_MIN = 8


class Loader(Conductor):
    """Makes storage and programs."""

    def __init__(
        self, devices: dict[str, Device], scheduler: Scheduler, clock: Clock, memory_bytes_max: int | None
    ) -> None:
        super().__init__(devices, scheduler, clock)
        self.default_device = next(iter(devices))
        #: Devices that are several as one, made for the programs that span them.
        self._joints: dict[str, JointDevice] = {}
        self._memory_bytes_max = memory_bytes_max
        #: Why it takes no calls, once it does not.
        self._unusable: str | None = None
        #: This process was forked from the engine's: what it knows of work under way is not true any more.
        self._is_foreign = False
        #: Programs of eager operations and of staging, by what they do.
        self.eager_programs: dict[Hashable, Program] = {}
        # Devices run what they were given in order, so a function waits for as much of eager work as has room. Twice
        # the streams keep the workers busy. A copy that a function waits for does not stand behind eager work, and a
        # read waits for what it reads alone.
        room = max(EAGER_IN_FLIGHT_MIN, *(2 * device.capabilities.streams_max for device in devices.values()))
        self.eager_group = Group("eager", in_flight_max=room, exempt=True, keeps_frames=True)
        self.staging_group = Group("asarray", in_flight_max=room, exempt=True, keeps_frames=True)
        self.reading_group = Group("read", in_flight_max=None, exempt=True)
        #: Kept here for whoever turns operations on arrays into programs.
        self.sink: Any = None
        #: The same for random numbers: the generator that is used where none is named.
        self.generator: Any = None

    @abstractmethod
    def submit(
        self,
        program: Program,
        inputs: Sequence[tuple[Storage, int]],
        group: Group,
        assemble: Callable[[list[Storage]], Any],
    ) -> Replay[Any]:
        """Take a ticket and start the work; the caller's."""

    # Storage.

    def device(self, name: str) -> Device:
        """The device of that name.

        Raises:
            DeviceUnavailableError: this engine has none.
        """
        device = self._devices.get(name)
        if device is None:
            raise DeviceUnavailableError(
                f"this engine has no device {name!r}, only {sorted(self._devices)}; name it in Engine(devices=…)",
                device=name,
            )
        return device

    def new_storage(self, device: str, shape: tuple[int, ...], dtype: str, nbytes: int) -> Storage:
        """Uninitialised memory for a C-contiguous array.

        Raises:
            EngineBusyError: beyond ``memory_bytes_max``.
            DeviceOutOfMemoryError: the device has none left.
            EngineClosedError: the engine was closed or belongs to another process.
        """
        # A capture that was under way when the engine began to close is finished, like all that has a ticket.
        if self._unusable is not None and (self._is_foreign or not recording.active):
            raise EngineClosedError(self._unusable)
        if self._memory_bytes_max is not None:
            self._check_memory(shape, dtype, nbytes, self._memory_bytes_max)
        memory = self.device(device).allocate_array(shape, dtype)
        self._sizes.append(nbytes)
        return Storage(cast(Owner, self), device, nbytes, memory)

    def new_outputs(self, program: Program) -> list[Storage]:
        """Memory for the outputs of a program without symbols; see ``new_storage``."""
        return [
            self.new_storage(device, cast("tuple[int, ...]", shape), dtype, nbytes)
            for device, shape, dtype, nbytes in program.output_specs
        ]

    def _check_memory(self, shape: tuple[int, ...], dtype: str, nbytes: int, limit: int) -> None:
        with self._lock:
            used = self._measured_bytes()
        if used + nbytes > limit:
            raise EngineBusyError(
                f"an array of shape {shape} and dtype {dtype} needs {nbytes:,} bytes, but {used:,} of "
                f"memory_bytes_max={limit:,} are in use; drop arrays that are no longer needed, or raise the limit",
                limit="memory_bytes_max",
                given=used + nbytes,
                expected=limit,
            )

    def constant(self, host: np.ndarray, device: str | None = None, *, at_once: bool = False) -> Storage:
        """A C-contiguous copy of host data; counts as awaited.

        Up to 1 MiB the copy is made now, above by a worker in ticket order: ``host`` may be written again when the
        storage's ``staging`` has ended. With ``at_once``, and during a capture, it is always made now.
        """
        if not host.dtype.isnative:
            host = host.astype(host.dtype.newbyteorder("="))
        storage = self.new_storage(device or self.default_device, host.shape, _name_of(host.dtype), host.nbytes)
        if at_once or host.nbytes <= STAGED_FROM_BYTES or recording.active:
            np.copyto(np.ndarray(host.shape, host.dtype, buffer=storage.memory), host)
        else:
            self._stage(host, storage)
        storage.awaited = True
        return storage

    def _stage(self, host: np.ndarray, storage: Storage) -> None:
        memory = np.ascontiguousarray(host)
        source = Storage(cast(Owner, self), storage.device, 0, memory)
        program = self._staging_program(host, storage.device)
        replay = self.submit(program, [(source, 0), (storage, 0)], self.staging_group, list)
        with self._lock:
            # Filling it for the first time is no write in place.
            storage.is_state = False
            if not replay.done():
                storage.staging, storage.source = replay, memory

    def _staging_program(self, host: np.ndarray, device: str) -> Program:
        key = ("stage", host.shape, host.dtype.name, device)
        program = self.eager_programs.get(key)
        if program is None:
            shape, dtype = host.shape, host.dtype
            strides = _strides(host)
            slots = [Slot(SlotKind.INPUT, new_buffer(device, host.nbytes), name) for name in ("host", "array")]
            operands = tuple(operand_of(slot.buffer, shape, strides, dtype.name, dtype.itemsize) for slot in slots)
            kernel = Kernel("copy", (Access.READ, Access.WRITE))
            schedule = Schedule((Call(kernel, operands, source=""),), tuple(slots), "asarray")
            program = self.eager_programs[key] = self.load(schedule, {}, {}, lowering=False)
        return program

    # Programs.

    def load(
        self,
        schedule: Schedule,
        state: Mapping[int, Storage],
        outputs: Mapping[int, tuple[tuple[Int, ...], str]],
        *,
        lowering: bool = True,
        executor: str | None = None,
        plan: Plan | None = None,
    ) -> Program:
        """Make a schedule replayable. ``state``: slot -> storage, kept alive. ``outputs``: slot -> (shape, dtype).

        The program can be submitted at once; unless ``lowering`` is False, a thread of the engine's lowers it
        meanwhile. It begins with ``plan``, or in program order.

        Raises:
            DeviceUnavailableError: a call or an array is on a device that the engine does not have.
            DeviceError: a kernel is unknown to the device of a call.
        """
        runner = self.runner_of(schedule).name
        program = Program(schedule, runner, state, outputs, lambda name: self.device(name).array_allocator)
        plan = plan or program_order_plan(schedule)
        regions = program.read_only_regions(plan)
        if regions:
            with self._lock:
                self._process_inbox()
                program.read_set = self._scheduler.read_set(regions)
            weakref.finalize(program, self._inbox.append, DropReadSet(program.read_set)).atexit = False
        program.loaded = self._load_plan(program, plan, executor)
        if lowering and len(schedule.calls) > 1:
            # Refused by an engine that is closing: the program order does as well for what is left to do.
            chosen = settings()
            self._background.submit(lambda: self.lower(program, executor, chosen))
        else:
            program.lowered = True
        return program

    def runner_of(self, schedule: Schedule) -> Runner:
        """What runs all of its calls, and has memory for all that lies between them.

        Raises:
            DeviceUnavailableError: this engine lacks one of its devices.
        """
        names = {call.device for call in schedule.calls}
        names.update(buffer.device for buffer in schedule.intermediates())
        devices = {name: self.device(name) for name in sorted(names)}
        return self._joint_device(list(devices)) if len(devices) > 1 else devices[names.pop()]

    def _joint_device(self, names: Sequence[str]) -> JointDevice:
        """The devices of these names as one."""
        name = "+".join(names)
        with self._lock:
            joint = self._joints.get(name)
            if joint is None:
                joint = JointDevice(name, [self._devices[each] for each in names], self._on_member_lost)
                self._runners[name] = self._joints[name] = joint
                self._scheduler.add_joint_device(name, names)
        return joint

    def _on_member_lost(self, member: str, error: BaseException) -> None:
        """From any thread, under the lock too: it is seen to when that is given back."""
        self.feed(DeviceLost(member, kept(error)))

    def watch(self, regions: Iterable[Region]) -> Watch:
        """Tells, while it is held, at which ticket some of these bytes may have been written last."""
        with self._lock:
            self._process_inbox()
            watch = Watch(regions, self._scheduler.latest_ticket)
            self._watches.add(watch)
        return watch

    def lower(self, program: Program, executor: str | None = None, chosen: Settings | None = None) -> None:
        """Lower the program; replays submitted from now on use the lowered form. Takes its time. ``chosen`` are the
        settings of whoever asks for it, where that is another thread."""
        if program.lowered:
            return
        capabilities = self._runners[program.device].capabilities
        chosen = chosen or settings()
        one_by_one = chosen.jit == "no_graphs"
        plan = lower(
            program.schedule,
            streams_max=capabilities.streams_max,
            segment_calls_first=1 if one_by_one else chosen.graph_batch_size or capabilities.segment_calls_first,
            segment_growth=1 if one_by_one else 2,
            costs=call_costs(program.schedule),
            hop_cost=capabilities.hop_s,
        )
        program.loaded = self._load_plan(program, plan, executor)
        program.lowered = True

    def _load_plan(self, program: Program, plan: Plan, executor: str | None) -> Loaded:
        executable = self._runners[program.device].instantiate(plan, executor)
        return Loaded(plan, executable, *make_footprint(program, plan))


def _strides(host: np.ndarray) -> tuple[int, ...]:
    """Strides of a C-contiguous array of this shape."""
    strides, step = [], host.itemsize
    for count in reversed(host.shape):
        strides.append(step)
        step *= count
    return tuple(reversed(strides))
