"""Plans as data: exactly there and back, and whatever is not such a plan is refused by name."""

from __future__ import annotations

import copy
import enum
import json
import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest

from asyncjit.data_reader import DataReader
from asyncjit.ir import Access, Call, Kernel, Schedule, Slot, SlotKind, new_buffer
from asyncjit.plan import lower, verify_plan
from asyncjit.plan_data import plan_from_data, plan_to_data
from tests.core.byte_machine import call_of, random_schedule, run_in_program_order, whole
from tests.core.test_plan import run

SEEDS = range(20)


def stored(seed: int = 3, calls: int = 24) -> dict[str, Any]:
    plan = lower(random_schedule(seed, calls=calls, devices=2), streams_max=2)
    data: dict[str, Any] = json.loads(json.dumps(plan_to_data(plan)))
    return data


def test_a_plan_comes_back_the_same_on_new_buffers() -> None:
    for seed in SEEDS:
        schedule = random_schedule(seed, devices=1 + seed % 2)
        plan = lower(schedule, streams_max=2)
        data = plan_to_data(plan)
        again = plan_from_data(json.loads(json.dumps(data)))
        assert plan_to_data(again) == data
        old, new = ({slot.buffer.serial for slot in each.schedule.slots} for each in (plan, again))
        assert old.isdisjoint(new)
        assert run(again, seed) == run_in_program_order(schedule)


def with_params(*params: Hashable) -> Schedule:
    x = new_buffer("d0", 8)
    call = Call(Kernel("k", (Access.READ,), params), (whole(x),))
    return Schedule((call,), (Slot(SlotKind.INPUT, x),))


PARAMS = [
    None,
    True,
    0,
    1,
    -7,
    1.0,
    -0.0,
    0.1 + 0.2,
    math.inf,
    -math.inf,
    2j,
    complex(-0.0, 1),
    "é",
    "",
    (),
    (1, (2.0, None)),
]


@pytest.mark.parametrize("value", PARAMS, ids=repr)
def test_values_fixed_at_capture_keep_their_exact_type(value: Hashable) -> None:
    data = json.loads(json.dumps(plan_to_data(lower(with_params(value)))))
    call = plan_from_data(data).schedule.calls[0]
    assert isinstance(call, Call)
    assert repr(call.kernel.params) == repr((value,))


def test_nan_comes_back_as_nan() -> None:
    call = plan_from_data(plan_to_data(lower(with_params(math.nan)))).schedule.calls[0]
    assert isinstance(call, Call)
    [value] = call.kernel.params
    assert isinstance(value, float)
    assert math.isnan(value)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize("value", [frozenset({1}), b"x", Colour.RED], ids=repr)
def test_a_value_that_would_come_back_as_something_else_is_refused(value: Hashable) -> None:
    with pytest.raises(ValueError, match="kernel 'k' was captured with"):
        plan_to_data(lower(with_params(value)))


def test_a_kernel_that_is_code_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'blur' has an implementation of its own"):
        plan_to_data(lower(with_code()))


def with_code() -> Schedule:
    x = new_buffer("d0", 8)
    call = Call(Kernel("blur", (Access.READ,), (), print), (whole(x),))
    return Schedule((call,), (Slot(SlotKind.INPUT, x),))


def test_a_kernel_that_is_code_goes_by_the_name_that_the_caller_gives_it() -> None:
    names: dict[object, object] = {print: {"the": "printer"}}
    data = json.loads(json.dumps(plan_to_data(lower(with_code()), lambda code: names[code])))
    asked: list[object] = []

    def find(piece: DataReader, name: str, access: tuple[Access, ...]) -> object:
        asked.extend((piece["the"].text(), name, access))
        return print

    [call] = plan_from_data(data, find).schedule.calls
    assert isinstance(call, Call)
    assert call.kernel == Kernel("blur", (Access.READ,), (), print)
    assert asked == ["printer", "blur", (Access.READ,)]


def test_a_kernel_that_is_code_is_found_by_nobody_unless_somebody_says_how() -> None:
    data = plan_to_data(lower(with_code()), lambda code: "printer")
    with pytest.raises(ValueError, match=r"kernel\.implementation must be missing"):
        plan_from_data(data)


def put(*path: str | int) -> Callable[[dict[str, Any], object], None]:
    def change(data: Any, value: object) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    (("version",), 2, "version is 2, but this release reads version 3"),
    (("version",), True, r"plan\.version must be an integer"),
    (("buffers",), {}, r"plan\.buffers must be a list"),
    (("buffers", 0), 7, r"plan\.buffers\[0\] must be an object"),
    (("buffers", 0, "nbytes"), -1, r"nbytes must be an integer of 0 or more"),
    (("buffers", 0, "device"), 3, r"device must be text"),
    (("schedule", "slots", 0, "kind"), "weight", r"slots\[0\]\.kind must be a known word"),
    (("schedule", "slots", 0, "buffer"), 999, r"must be one of \d+ buffers"),
    (("schedule", "calls", 0, "copy"), 1, r"calls\[0\]\.copy must be true or false"),
    (("frame_nbytes",), [], r"plan\.frame_nbytes must be an object"),
    (("offsets",), [[0]], r"must be a list of more than 1"),
    (("segments", 0, "calls"), [0, 0], "the plan contradicts itself"),
    (("streams",), [], "the plan contradicts itself"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[".".join(map(str, path)) for path, _, _ in WRONG])
def test_what_is_wrong_is_named(path: tuple[str | int, ...], value: object, message: str) -> None:
    data = stored()
    put(*path)(data, value)
    with pytest.raises(ValueError, match=message):
        plan_from_data(data)


@pytest.mark.parametrize("data", [None, [], "plan", 7, {}])
def test_what_is_no_plan_at_all_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="plan"):
        plan_from_data(data)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "null, true, false"),
        ({"float": 1.0}, "a hexadecimal number"),
        ({"float": "wide"}, "a hexadecimal number"),
        ({"float": "0x1p99999"}, "a hexadecimal number"),
        ({"complex": ["0x1p0"]}, "a list of more than 1"),
        ({"list": []}, r"\.tuple is missing"),
        ({"float": "0x1p0", "tuple": []}, "one tagged value"),
    ],
    ids=repr,
)
def test_a_value_of_no_known_kind_is_refused(value: object, message: str) -> None:
    data = plan_to_data(lower(with_params(1)))
    data["schedule"]["calls"][0]["kernel"]["params"] = [value]
    with pytest.raises(ValueError, match=message):
        plan_from_data(data)


def test_a_copy_has_two_operands_and_operands_lie_inside_their_views() -> None:
    data = stored()
    copies = [index for index, call in enumerate(data["schedule"]["calls"]) if call["copy"]]
    data["schedule"]["calls"][copies[0]]["operands"].pop()
    with pytest.raises(ValueError, match="must be two operands"):
        plan_from_data(data)
    x = new_buffer("d0", 8)
    data = plan_to_data(lower(Schedule((call_of([whole(x)], []),), (Slot(SlotKind.INPUT, x),))))
    data["schedule"]["calls"][0]["operands"][0]["shape"] = [9]
    with pytest.raises(ValueError, match="must be inside its view"):
        plan_from_data(data)


def places(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every piece of the data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("value", [None, -1, 1, 2**70, "x", [], {}], ids=repr)
def test_no_piece_changed_does_more_than_be_refused(value: object) -> None:
    """Whatever stands in the place of any one piece: a ValueError, or a plan that holds together."""
    original = stored(1, calls=5)
    for path in places(original):
        data = copy.deepcopy(original)
        put(*path)(data, value)
        try:
            plan = plan_from_data(data)
        except ValueError:
            continue
        verify_plan(plan)


def test_no_piece_taken_out_does_more_than_be_refused() -> None:
    original = stored(1, calls=5)
    for path in places(original):
        data: Any = copy.deepcopy(original)
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        try:
            plan = plan_from_data(data)
        except ValueError:
            continue
        verify_plan(plan)
