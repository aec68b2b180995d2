"""Plans as plain data: what JSON can hold, with a version, and back.

Law: one function each way; reads and writes no files. Imports ``plan`` and below.

Data comes from outside, so nothing in it is believed: every field is read through ``_Reader``, which names what is
missing or wrong by its path (``schedule.calls[3].operands[0].shape``), and the plan that results is verified like any
other. Buffers are positions in one list; a plan that is read gets new serial numbers.

Values fixed at capture keep their exact type: numbers that JSON would blur (1 and 1.0, infinities, NaN, -0.0) are
written as hexadecimal text under a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn, TypeVar

from asyncjit.errors import InternalError
from asyncjit.ir import Access, Buffer, Call, Copy, Cost, Kernel, Operand, Schedule, Slot, SlotKind, View, new_buffer
from asyncjit.plan import PLAN_VERSION, Plan, Segment, SlotAccess, StreamSpec, verify_plan

__all__ = ["plan_from_data", "plan_to_data"]

T = TypeVar("T")

Data = dict[str, Any]


def plan_to_data(plan: Plan) -> Data:
    """The plan as dictionaries, lists, strings, integers, booleans and None.

    Raises:
        ValueError: a kernel has an implementation of its own, which is code and not data, or a value fixed at capture
            is not made of None, bool, int, float, complex, str and tuples of these; the message names the kernel.
    """
    writer = _Writer()
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


def plan_from_data(data: object) -> Plan:
    """The plan that ``plan_to_data`` wrote, on new buffers, verified.

    Raises:
        ValueError: another version, a field that is missing or of the wrong type, or content that contradicts itself;
            the message names the field or the contradiction.
    """
    root = _Reader(data, "plan")
    version = root["version"].integer()
    if version != PLAN_VERSION:
        raise ValueError(f"plan.version is {version}, but this release reads version {PLAN_VERSION}; lower it anew")
    buffers = root["buffers"].each(lambda it: new_buffer(it["device"].text(), it["nbytes"].natural()))
    schedule = _read_schedule(root["schedule"], buffers)
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
        root["frame_nbytes"].mapping(_Reader.natural),
        dict(root["offsets"].each(lambda it: (it[0].one_of(buffers), it[1].natural()))),
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

    def __init__(self) -> None:
        self.index_of: dict[Buffer, int] = {}

    def buffer(self, buffer: Buffer) -> int:
        return self.index_of.setdefault(buffer, len(self.index_of))

    def call(self, call: Call | Copy) -> Data:
        operands = [self.operand(operand) for operand in call.operands]
        if isinstance(call, Copy):
            return {"copy": True, "operands": operands, "source": call.source}
        kernel = call.kernel
        if kernel.implementation is not None:
            raise ValueError(
                f"kernel {kernel.name!r} has an implementation of its own, so its plan cannot be stored; "
                "store plans of registered operations only, and capture this one in each process"
            )
        return {
            "copy": False,
            "kernel": {
                "name": kernel.name,
                "access": [access.value for access in kernel.access],
                "params": [_value_to_data(value, kernel.name) for value in kernel.params],
            },
            "operands": operands,
            "cost": {"flops": call.cost.flops, "nbytes": call.cost.nbytes},
            "source": call.source,
        }

    def operand(self, operand: Operand) -> Data:
        return {
            "view": self.view(operand.view),
            "shape": list(operand.shape),
            "strides": list(operand.strides),
            "dtype": operand.dtype,
            "offset_bytes": operand.offset_bytes,
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
        return {"slot": access.slot, "view": self.view(access.view), "segment": access.segment}


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
    raise ValueError(f"kernel {kernel!r} was captured with {value!r} of {kind.__name__}, which cannot be stored")


class _Reader:
    """A piece of data and the path to it. Methods raise ValueError with the path when the data is not as asked."""

    __slots__ = ("data", "path")

    def __init__(self, data: object, path: str) -> None:
        self.data = data
        self.path = path

    def fail(self, expected: str) -> NoReturn:
        raise ValueError(f"{self.path} must be {expected}, got {self.data!r:.80}")

    def __getitem__(self, key: str | int) -> _Reader:
        if isinstance(key, str):
            if not isinstance(self.data, dict):
                self.fail("an object")
            if key not in self.data:
                raise ValueError(f"{self.path}.{key} is missing")
            return _Reader(self.data[key], f"{self.path}.{key}")
        if not isinstance(self.data, list) or key >= len(self.data):
            self.fail(f"a list of more than {key}")
        return _Reader(self.data[key], f"{self.path}[{key}]")

    def each(self, read: Callable[[_Reader], T]) -> tuple[T, ...]:
        if not isinstance(self.data, list):
            self.fail("a list")
        return tuple(read(self[index]) for index in range(len(self.data)))

    def mapping(self, read: Callable[[_Reader], T]) -> dict[str, T]:
        if not isinstance(self.data, dict) or not all(isinstance(key, str) for key in self.data):
            self.fail("an object")
        return {key: read(self[key]) for key in self.data}

    def integer(self) -> int:
        if type(self.data) is not int:
            self.fail("an integer")
        return self.data

    def natural(self) -> int:
        if self.integer() < 0:
            self.fail("an integer of 0 or more")
        return self.integer()

    def naturals(self) -> tuple[int, ...]:
        return self.each(_Reader.natural)

    def text(self) -> str:
        if not isinstance(self.data, str):
            self.fail("text")
        return self.data

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            self.fail("true or false")
        return self.data

    def real(self) -> float:
        try:
            return float.fromhex(self.text())
        except (ValueError, OverflowError):
            self.fail("a hexadecimal number")

    def one_of(self, buffers: tuple[Buffer, ...]) -> Buffer:
        if self.natural() >= len(buffers):
            self.fail(f"one of {len(buffers)} buffers")
        return buffers[self.natural()]

    def word(self, words: Callable[[str], T]) -> T:
        try:
            return words(self.text())
        except ValueError:
            self.fail("a known word")


def _read_schedule(it: _Reader, buffers: tuple[Buffer, ...]) -> Schedule:
    slots = it["slots"].each(
        lambda slot: Slot(slot["kind"].word(SlotKind), slot["buffer"].one_of(buffers), slot["name"].text())
    )
    return Schedule(it["calls"].each(lambda call: _read_call(call, buffers)), slots, it["name"].text())


def _read_call(it: _Reader, buffers: tuple[Buffer, ...]) -> Call | Copy:
    operands = it["operands"].each(lambda operand: _read_operand(operand, buffers))
    if it["copy"].flag():
        if len(operands) != 2:
            it["operands"].fail("two operands")
        return Copy(*operands, source=it["source"].text())
    kernel = it["kernel"]
    access = kernel["access"].each(lambda word: word.word(Access))
    params = kernel["params"].each(_read_value)
    return Call(Kernel(kernel["name"].text(), access, params), operands, _read_cost(it["cost"]), it["source"].text())


def _read_operand(it: _Reader, buffers: tuple[Buffer, ...]) -> Operand:
    view = _read_view(it["view"], buffers)
    shape = it["shape"].naturals()
    strides = it["strides"].each(_Reader.integer)
    offset_bytes = it["offset_bytes"].natural()
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=False)]
    first = offset_bytes + sum(step for step in reach if step < 0)
    last = offset_bytes + sum(step for step in reach if step > 0)
    if all(shape) and not view.offset_bytes <= first <= last < view.offset_bytes + view.nbytes:
        it.fail("inside its view")
    return Operand(view, shape, strides, it["dtype"].text(), offset_bytes)


def _read_view(it: _Reader, buffers: tuple[Buffer, ...]) -> View:
    numbers = (it[key].natural() for key in ("offset_bytes", "nbytes", "block_bytes", "stride_bytes", "count"))
    return View(it["buffer"].one_of(buffers), *numbers)


def _read_slot_access(it: _Reader, buffers: tuple[Buffer, ...]) -> SlotAccess:
    return SlotAccess(it["slot"].natural(), _read_view(it["view"], buffers), it["segment"].natural())


def _read_cost(it: _Reader) -> Cost:
    return Cost(it["flops"].natural(), it["nbytes"].natural())


def _read_value(it: _Reader) -> Hashable:
    if it.data is None or isinstance(it.data, bool | int | str):
        return it.data
    if not isinstance(it.data, dict) or len(it.data) != 1:
        it.fail("null, true, false, an integer, text or one tagged value")
    if "float" in it.data:
        return it["float"].real()
    if "complex" in it.data:
        return complex(it["complex"][0].real(), it["complex"][1].real())
    return it["tuple"].each(_read_value)
