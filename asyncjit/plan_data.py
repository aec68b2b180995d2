"""Plans as plain data: what JSON can hold, with a version, and back.

Law: one function each way; reads and writes no files. Imports ``plan``, ``int_data`` and below.

Data comes from outside, so nothing in it is believed: every field is read through ``DataReader``, which names what is
missing or wrong by its path (``schedule.calls[3].operands[0].shape``), and the plan that results is verified like any
other. Buffers are positions in one list; a plan that is read gets new serial numbers.

A user's own kernel is code, which is no data: whoever stores plans says how it is named, and finds it again.

Values fixed at capture keep their exact type: numbers that JSON would blur (1 and 1.0, infinities, NaN, -0.0) are
written as hexadecimal text under a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from asyncjit.data_reader import DataReader
from asyncjit.errors import InternalError
from asyncjit.int_data import int_from_data, int_to_data
from asyncjit.ir import Access, Buffer, Call, Copy, Cost, Kernel, Operand, Schedule, Slot, SlotKind, View, new_buffer
from asyncjit.plan import PLAN_VERSION, Plan, Segment, SlotAccess, StreamSpec, verify_plan
from asyncjit.symbols import Expr, lower

__all__ = ["plan_from_data", "plan_to_data"]

Data = dict[str, Any]

#: The implementation of a user's kernel as data, and back: from its data, name and access of operands. They raise
#: ValueError where that cannot be.
Namer = Callable[[object], object]
Finder = Callable[[DataReader, str, tuple[Access, ...]], object]


def plan_to_data(plan: Plan, name_implementation: Namer | None = None) -> Data:
    """The plan as dictionaries, lists, strings, integers, booleans and None.

    Raises:
        ValueError: a kernel has an implementation of its own and nobody names it, or a value fixed at capture is not
            made of None, bool, int, float, complex, str and tuples of these; the message names the kernel.
    """
    writer = _Writer(name_implementation)
    schedule: Data = {
        "name": plan.schedule.name,
        "slots": [
            {"kind": slot.kind.value, "buffer": writer.buffer(slot.buffer), "name": slot.name}
            for slot in plan.schedule.slots
        ],
        "calls": [writer.call(call) for call in plan.schedule.calls],
    }
    data: Data = {
        "version": plan.version,
        "schedule": schedule,
        "streams": [{"device": stream.device, "lane": stream.lane} for stream in plan.streams],
        "segments": [
            {"stream": segment.stream, "calls": list(segment.calls), "waits": list(segment.waits)}
            for segment in plan.segments
        ],
        "frame_nbytes": dict(plan.frame_nbytes),
        "offsets": [[writer.buffer(buffer), offset] for buffer, offset in plan.offsets.items()],
        "reads": [writer.slot_access(access) for access in plan.reads],
        "writes": [writer.slot_access(access) for access in plan.writes],
        "cost": {"flops": plan.cost.flops, "nbytes": plan.cost.nbytes},
        "hazards": plan.hazards,
    }
    return data | {"buffers": [{"device": buffer.device, "nbytes": buffer.nbytes} for buffer in writer.index_of]}


def plan_from_data(data: object, find_implementation: Finder | None = None) -> Plan:
    """The plan that ``plan_to_data`` wrote, on new buffers, verified.

    Raises:
        ValueError: another version, a field that is missing or of the wrong type, content that contradicts itself, or
            a user's kernel that nobody finds; the message names the field or the contradiction.
    """
    root = DataReader(data, "plan")
    version = root["version"].integer()
    if version != PLAN_VERSION:
        raise ValueError(f"plan.version is {version}, but this release reads version {PLAN_VERSION}; lower it anew")
    buffers = root["buffers"].each(lambda it: new_buffer(it["device"].text(), it["nbytes"].natural()))
    schedule = _read_schedule(root["schedule"], buffers, find_implementation)
    plan = Plan(
        schedule,
        root["streams"].each(lambda it: StreamSpec(it["device"].text(), it["lane"].text())),
        tuple(
            Segment(index, *fields)
            for index, fields in enumerate(
                root["segments"].each(
                    lambda it: (it["stream"].natural(), it["calls"].naturals(), it["waits"].naturals())
                )
            )
        ),
        root["frame_nbytes"].mapping(DataReader.natural),
        dict(root["offsets"].each(lambda it: (it[0].one_of(buffers, "buffers"), it[1].natural()))),
        root["reads"].each(lambda it: _read_slot_access(it, buffers)),
        root["writes"].each(lambda it: _read_slot_access(it, buffers)),
        _read_cost(root["cost"]),
        root["hazards"].natural(),
    )
    try:
        verify_plan(plan)
    except InternalError as error:
        raise ValueError(f"the plan contradicts itself: {error}") from error
    return plan


class _Writer:
    """Numbers buffers in the order in which they are met."""

    def __init__(self, name_implementation: Namer | None) -> None:
        self.index_of: dict[Buffer, int] = {}
        self.name_implementation = name_implementation

    def buffer(self, buffer: Buffer) -> int:
        return self.index_of.setdefault(buffer, len(self.index_of))

    def call(self, call: Call | Copy) -> Data:
        operands = [self.operand(operand) for operand in call.operands]
        if isinstance(call, Copy):
            return {"copy": True, "operands": operands, "source": call.source}
        return {
            "copy": False,
            "kernel": self.kernel(call.kernel),
            "operands": operands,
            "cost": {"flops": call.cost.flops, "nbytes": call.cost.nbytes},
            "source": call.source,
        }

    def kernel(self, kernel: Kernel) -> Data:
        data: Data = {
            "name": kernel.name,
            "access": [access.value for access in kernel.access],
            "params": [_value_to_data(value, kernel.name) for value in kernel.params],
        }
        if kernel.implementation is None:
            return data
        if self.name_implementation is None:
            raise ValueError(
                f"kernel {kernel.name!r} has an implementation of its own, so its plan cannot be stored; "
                "store plans of registered operations only, and capture this one in each process"
            )
        return {**data, "implementation": self.name_implementation(kernel.implementation)}

    def operand(self, operand: Operand) -> Data:
        return {
            "view": self.view(operand.view),
            "shape": [int_to_data(extent) for extent in operand.shape],
            "strides": [int_to_data(stride) for stride in operand.strides],
            "dtype": operand.dtype,
            "offset_bytes": int_to_data(operand.offset_bytes),
        }

    def view(self, view: View) -> Data:
        return {
            "buffer": self.buffer(view.buffer),
            "offset_bytes": view.offset_bytes,
            "nbytes": view.nbytes,
            "block_bytes": view.block_bytes,
            "stride_bytes": view.stride_bytes,
            "count": view.count,
        }

    def slot_access(self, access: SlotAccess) -> Data:
        operand = None if access.operand is None else self.operand(access.operand)
        return {"slot": access.slot, "view": self.view(access.view), "segment": access.segment, "operand": operand}


def _value_to_data(value: Hashable, kernel: str) -> object:
    # By exact type: a subclass (an enum, a NumPy float) would come back as something else.
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if isinstance(value, float) and kind is float:
        return {"float": value.hex()}
    if isinstance(value, complex) and kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, tuple) and kind is tuple:
        return {"tuple": [_value_to_data(item, kernel) for item in value]}
    if isinstance(value, Expr):
        return int_to_data(value)
    raise ValueError(f"kernel {kernel!r} was captured with {value!r} of {kind.__name__}, which cannot be stored")


def _read_schedule(it: DataReader, buffers: tuple[Buffer, ...], find: Finder | None) -> Schedule:
    slots = it["slots"].each(
        lambda slot: Slot(slot["kind"].word(SlotKind), slot["buffer"].one_of(buffers, "buffers"), slot["name"].text())
    )
    return Schedule(it["calls"].each(lambda call: _read_call(call, buffers, find)), slots, it["name"].text())


def _read_call(it: DataReader, buffers: tuple[Buffer, ...], find: Finder | None) -> Call | Copy:
    operands = it["operands"].each(lambda operand: _read_operand(operand, buffers))
    if it["copy"].flag():
        if len(operands) != 2:
            it["operands"].fail("two operands")
        return Copy(*operands, source=it["source"].text())
    kernel = _read_kernel(it["kernel"], find)
    return Call(kernel, operands, _read_cost(it["cost"]), it["source"].text())


def _read_kernel(it: DataReader, find: Finder | None) -> Kernel:
    name = it["name"].text()
    access = it["access"].each(lambda word: word.word(Access))
    params = it["params"].each(_read_value)
    if "implementation" not in it:
        return Kernel(name, access, params)
    if find is None:
        it["implementation"].fail("missing: this plan is to run registered operations only")
    return Kernel(name, access, params, find(it["implementation"], name, access))


def _read_operand(it: DataReader, buffers: tuple[Buffer, ...]) -> Operand:
    view = _read_view(it["view"], buffers)
    shape = it["shape"].each(int_from_data)
    strides = it["strides"].each(int_from_data)
    offset_bytes = int_from_data(it["offset_bytes"])
    operand = Operand(view, shape, strides, it["dtype"].text(), offset_bytes)
    # Where the ranges do not settle that a symbolic one stays inside, the device looks at each replay.
    if lower(offset_bytes) < 0 or any(lower(extent) < 0 for extent in shape):
        it.fail("inside its view")
    if not operand.is_symbolic and not operand.stays_inside(1):
        it.fail("inside its view")
    return operand


def _read_view(it: DataReader, buffers: tuple[Buffer, ...]) -> View:
    numbers = (it[key].natural() for key in ("offset_bytes", "nbytes", "block_bytes", "stride_bytes", "count"))
    return View(it["buffer"].one_of(buffers, "buffers"), *numbers)


def _read_slot_access(it: DataReader, buffers: tuple[Buffer, ...]) -> SlotAccess:
    operand = None if it["operand"].data is None else _read_operand(it["operand"], buffers)
    return SlotAccess(it["slot"].natural(), _read_view(it["view"], buffers), it["segment"].natural(), operand)


def _read_cost(it: DataReader) -> Cost:
    return Cost(it["flops"].natural(), it["nbytes"].natural())


def _read_value(it: DataReader) -> Hashable:
    if it.data is None or isinstance(it.data, bool | int | str):
        return it.data
    if not isinstance(it.data, dict) or len(it.data) != 1:
        it.fail("null, true, false, an integer, text or one tagged value")
    if "float" in it.data:
        return it["float"].real()
    if "complex" in it.data:
        return complex(it["complex"][0].real(), it["complex"][1].real())
    return int_from_data(it) if "sum" in it else it["tuple"].each(_read_value)
