"""Programs: a captured schedule made ready to replay on a device, or on several as one.

Law: derived data only. A program is usable as soon as it is loaded, in program order and without reuse of memory; the
lowered form replaces it when it is ready, and replays under way keep the form they started with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asyncjit.deps import ReadSet, Region
from asyncjit.devices.base import Executable, Frame, Memory, Submission
from asyncjit.ir import Cost, Schedule, SlotKind
from asyncjit.plan import Plan, SlotAccess
from asyncjit.runs import Footprint, GroupState, Run, Touch, gate_fronts
from asyncjit.segments import ranges_of
from asyncjit.specialised import Sizes, SymbolicFootprint, Values, touch_of
from asyncjit.storage import Storage
from asyncjit.symbols import Int, upper

__all__ = [
    "Assemble",
    "Group",
    "Inputs",
    "Loaded",
    "Prepared",
    "Program",
    "bind_run",
    "bind_slots",
    "call_costs",
    "make_footprint",
]

Shape = tuple[Int, ...]
#: Storage and byte offset of each INPUT slot.
Inputs = Sequence[tuple[Storage, int]]
#: Shape and dtype -> what allocates such an array; see ``Device.array_allocator``.
ArrayAllocator = Callable[[tuple[int, ...], str], Callable[[], Memory]]
#: What makes the memory of an output (the largest, where it is symbolic), its bytes and its device.
Allocator = tuple[Callable[[], Memory], int, str]

#: Rough speed of one core, to rank calls before anything was measured: seconds = flops/20e9 + bytes/8e9 + 1 µs a call.
_FLOPS_PER_S = 20e9
_BYTES_PER_S = 8e9
_CALL_S = 1e-6


def call_costs(schedule: Schedule) -> list[float]:
    """Estimated seconds of each call."""
    return [_seconds(call.cost) for call in schedule.calls]


def _seconds(cost: Cost) -> float:
    return cost.flops / _FLOPS_PER_S + cost.nbytes / _BYTES_PER_S + _CALL_S


class Loaded:
    """One form of a program: a plan, its executable, its footprint, and the pool of its idle frames."""

    __slots__ = (
        "executable",
        "footprint",
        "footprint_at",
        "frames",
        "inline",
        "plan",
        "state_epoch",
        "waits",
        "waits_avoided",
    )

    def __init__(
        self, plan: Plan, executable: Executable, footprint: Footprint, symbolic: SymbolicFootprint | None = None
    ) -> None:
        self.plan = plan
        self.executable = executable
        self.footprint = footprint
        #: Waits between its streams, and hazards that need none: the order of a stream or another wait implies them.
        self.waits = sum(len(segment.waits) for segment in plan.segments)
        self.waits_avoided = max(0, plan.hazards - self.waits)
        #: Where the program has symbols: the footprint of a replay with values for them.
        self.footprint_at = symbolic.at if symbolic is not None else lambda values: footprint
        self.frames: deque[Frame] = deque()
        #: For replays that run inline, one at a time under the engine's lock: a submission with a frame of its own,
        #: used again and again.
        self.inline: Submission | None = None
        #: The engine's epoch of moved state at which the executable was bound.
        self.state_epoch = -1

    def take_frame(self, group: Group) -> Frame | None:
        """An idle frame, or None when one has to be made."""
        if not self.frames:
            return None
        if group.idle_max is not None:
            group.idle.remove(self)
        return self.frames.pop()

    def return_frame(self, frame: Frame, group: Group) -> None:
        """Keep the frame for the next replay. Where the group has too many idle ones, its oldest is dropped."""
        self.frames.append(frame)
        if group.idle_max is None:
            return
        group.idle.append(self)
        if len(group.idle) > group.idle_max:
            group.idle.pop(0).frames.popleft()


class Group(GroupState):
    """What replays of one function share: room and its order, and at most ``in_flight_max`` idle frames.

    A program belongs to one group. ``keeps_frames``: idle frames are not limited, for programs that need no memory.
    """

    __slots__ = ("idle", "idle_max")

    def __init__(
        self,
        name: str,
        *,
        in_flight_max: int | None = 4,
        on_cancel: str = "shield",
        exempt: bool = False,
        keeps_frames: bool = False,
    ) -> None:
        super().__init__(name, in_flight_max=in_flight_max, on_cancel=on_cancel, exempt=exempt)
        self.idle_max = None if keeps_frames else in_flight_max
        #: The forms that have idle frames, one entry a frame, oldest first.
        self.idle: list[Loaded] = []

    def drop_frames(self) -> None:
        """Free all idle frames, those too of forms that a lowered one has replaced and of programs that are gone."""
        for loaded in self.idle:
            loaded.frames.clear()
        self.idle = []


class Program:
    """A schedule, the state that it closes over, and how to bind it. Slots: inputs, then state, then outputs."""

    __slots__ = (
        "__weakref__",
        "allocator_of",
        "allocators",
        "device",
        "inputs_count",
        "loaded",
        "lowered",
        "name",
        "new_bytes",
        "output_specs",
        "positions",
        "read_set",
        "schedule",
        "sizes",
        "slots",
        "state",
        "state_bindings",
        "state_keys",
        "state_shifts",
        "symbols",
        "writes",
        "written_inputs",
        "written_state",
    )

    def __init__(
        self,
        schedule: Schedule,
        device: str,
        state: Mapping[int, Storage],
        outputs: Mapping[int, tuple[Shape, str]],
        allocator_of: Callable[[str], ArrayAllocator],
    ) -> None:
        self.schedule = schedule
        self.name = schedule.name
        #: What each replay needs values of.
        self.symbols = schedule.symbols()
        self.slots = schedule.slots
        self.device = device
        self.state = dict(state)
        self.inputs_count = sum(slot.kind is SlotKind.INPUT for slot in schedule.slots)
        self.allocator_of = allocator_of
        self._size_outputs(outputs)
        written = written_slots(schedule)
        self.written_inputs = tuple(sorted(slot for slot in written if slot < self.inputs_count))
        written_state = sorted(slot for slot in written if slot in self.state)
        self.written_state = tuple(self.state[slot] for slot in written_state)
        self.writes = bool(written)
        #: Place of a slot in the keys of a run: all inputs, and state that is written.
        self.positions = {slot: slot for slot in range(self.inputs_count)}
        self.positions.update({slot: self.inputs_count + index for index, slot in enumerate(written_state)})
        self.state_keys = [storage.serial for storage in self.written_state]
        self.state_shifts = [0] * len(self.state_keys)
        self.state_bindings: list[tuple[Memory, int]] = [(None, 0)] * len(self.state)
        self.read_set: ReadSet[Any] | None = None
        self.loaded: Loaded = None  # type: ignore[assignment]
        self.lowered = False

    @property
    def plan(self) -> Plan:
        return self.loaded.plan

    @property
    def executable(self) -> Executable:
        return self.loaded.executable

    def _size_outputs(self, outputs: Mapping[int, tuple[Shape, str]]) -> None:
        self.output_specs = [
            (slot.buffer.device, *outputs[index], slot.buffer.nbytes)
            for index, slot in enumerate(self.slots)
            if slot.kind is SlotKind.OUTPUT
        ]
        self.allocators: list[Allocator] = [
            (self.allocator_of(device)(tuple(map(upper, shape)), dtype), nbytes, device)
            for device, shape, dtype, nbytes in self.output_specs
        ]
        specs = {index: (shape, dtype) for index, (_, shape, dtype, _) in enumerate(self.output_specs)}
        self.sizes = Sizes(specs, self.symbols) if self.symbols else None
        self.new_bytes = sum(nbytes for *_, nbytes in self.output_specs)

    def allocators_at(self, values: Sequence[int]) -> list[Allocator]:
        """``allocators`` of a replay with these values of the symbols."""
        assert self.sizes is not None
        allocators = list(self.allocators)
        for index, shape, dtype, nbytes in self.sizes.at(values):
            device = allocators[index][2]
            allocators[index] = (self.allocator_of(device)(shape, dtype), nbytes, device)
        return allocators

    def read_only_regions(self, plan: Plan) -> list[Region]:
        """What is read of state that is only read, for the tracker's one entry."""
        keys = {slot: storage.serial for slot, storage in self.state.items() if slot not in self.positions}
        return ranges_of(plan.reads, keys)


def written_slots(schedule: Schedule) -> set[int]:
    """INPUT and STATE slots that some call writes."""
    found = set()
    for call in schedule.calls:
        for view, access in call.accesses():
            slot = schedule.slot_of(view.buffer) if access.writes else None
            if slot is not None and schedule.slots[slot].kind is not SlotKind.OUTPUT:
                found.add(slot)
    return found


def make_footprint(program: Program, plan: Plan) -> tuple[Footprint, SymbolicFootprint | None]:
    """What the scheduler tracks of a plan, by first segment; and where that is symbolic, how to find a replay's."""
    groups: dict[int, tuple[list[tuple[SlotAccess, int]], list[tuple[SlotAccess, int]]]] = {}
    read_set_segment: int | None = None
    for which, accesses in ((0, plan.reads), (1, plan.writes)):
        for access in accesses:
            position = program.positions.get(access.slot)
            if position is None:
                earlier = access.segment if read_set_segment is None else min(read_set_segment, access.segment)
                read_set_segment = earlier
            else:
                groups.setdefault(access.segment, ([], []))[which].append((access, position))
    listed = [(segment, reads, writes) for segment, (reads, writes) in sorted(groups.items())]
    footprint = Footprint(
        tuple((segment, _touches(reads), _touches(writes)) for segment, reads, writes in listed),
        program.read_set if read_set_segment is not None else None,
        read_set_segment or 0,
        gate_fronts(plan, [*groups, read_set_segment or 0]),
    )
    return footprint, SymbolicFootprint(footprint, listed, program.symbols) if program.symbols else None


def _touches(accesses: Sequence[tuple[SlotAccess, int]]) -> tuple[Touch, ...]:
    return tuple(touch_of(access.view, position) for access, position in accesses)


def bind_run(run: Run, program: Program, loaded: Loaded, inputs: Inputs, values: Sequence[int]) -> None:
    """Tell the scheduler's side of a replay which buffers it touches, and where they begin."""
    run.bind(
        program.device,
        loaded.footprint_at(values) if values else loaded.footprint,
        [storage.serial for storage, _ in inputs] + program.state_keys,
        [offset for _, offset in inputs] + program.state_shifts,
    )


def bind_slots(
    program: Program, inputs: Sequence[tuple[Storage, int]], outputs: Sequence[Storage]
) -> list[tuple[Memory, int]]:
    """Memory and offset of each slot; state is bound to the executable instead."""
    bindings = [(storage.memory, offset) for storage, offset in inputs]
    bindings += program.state_bindings
    bindings += [(storage.memory, 0) for storage in outputs]
    return bindings


#: Makes the result of a replay of the storages of its outputs.
Assemble = Callable[[list[Storage]], Any]
#: What ``submit`` takes of a call, but for its group; values may be left out.
Prepared = tuple[Program, Inputs, Assemble] | tuple[Program, Inputs, Assemble, Values]
