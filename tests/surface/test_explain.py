"""What is told of captures: the table, and the drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.plan import Plan

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def engine() -> Iterator[aj.Engine]:
    """With a device that plans for two streams, however many cores there are."""
    engine = aj.Engine([CpuDevice(workers=2)])
    with engine.use():
        yield engine
    engine.close()


def crossing(x: anp.Array) -> tuple[anp.Array, anp.Array]:
    left, right = x @ x, (x + 1) @ x
    return left @ right, right @ left


def lowered(engine: aj.Engine, size: int) -> tuple[aj.JitFunction[Any, Any], Plan]:
    f = aj.jit(crossing)
    f.run(anp.ones((size, size)))
    (table,) = f._tables.all()
    (entry,) = table
    engine.lower(entry.program)
    return f, entry.program.plan


def test_the_table_adds_up(engine: aj.Engine) -> None:
    f, plan = lowered(engine, 256)
    assert len(plan.streams) == 2
    lines = f.explain().splitlines()
    flops, nbytes = 4 * 2 * 256**3 + 256**2, 256**2 * 8 * (4 * 3 + 2)
    assert lines[0] == "crossing(x: float64[256, 256])"
    assert re.fullmatch(
        rf"  5 calls, {len(plan.segments)} segments, 2 streams, \d waits?; a replay {flops:,} flops and {nbytes:,} "
        r"bytes, about \d+\.\d ms on one core",
        lines[1],
    )
    assert lines[3] == "  lowered; 1 replays"
    rows = [line.split() for line in lines[5:10]]
    assert sorted(row[1] for row in rows) == ["add", *["matmul"] * 4]
    assert all(f"{__file__}:" in row[-1] for row in rows)
    segments = [line.split() for line in lines[11:]]
    assert len(segments) == len(plan.segments)
    assert sum(int(row[-4].replace(",", "")) for row in segments) == flops
    assert sum(int(row[-3].replace(",", "")) for row in segments) == nbytes


def parsed(path: Path) -> ElementTree.Element:
    return ElementTree.parse(path).getroot()


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.attrib[name])


def test_the_drawing_has_a_lane_a_stream_and_an_arrow_a_wait(engine: aj.Engine, tmp_path: Path) -> None:
    f, plan = lowered(engine, 256)
    f.draw(tmp_path / "f.svg")
    root = parsed(tmp_path / "f.svg")
    lanes = root.findall(f".//{SVG}rect[@class='lane']")
    assert len(lanes) == len(plan.streams) == 2
    boxes = {int(call.attrib["data-call"]): call for call in root.findall(f".//{SVG}g[@data-call]")}
    assert sorted(boxes) == list(range(len(plan.schedule.calls)))
    columns: dict[int, float] = {}
    for segment in plan.segments:
        lane = lanes[segment.stream]
        for index in segment.calls:
            (box,) = boxes[index].findall(f"{SVG}rect")
            columns[index] = number(box, "x")
            inside = number(lane, "y") <= number(box, "y")
            assert inside
            assert number(box, "y") + number(box, "height") <= number(lane, "y") + number(lane, "height")
            assert number(box, "x") + number(box, "width") <= number(root, "width")
            told = boxes[index].findtext(f"{SVG}title")
            assert told is not None
            assert plan.schedule.calls[index].name in told
            assert __file__ in told
    arrows = [(int(a.attrib["data-from"]), int(a.attrib["data-to"])) for a in root.findall(f".//{SVG}path[@data-from]")]
    assert arrows == [(wait, segment.index) for segment in plan.segments for wait in segment.waits]
    for earlier, later in arrows:
        assert columns[plan.segments[earlier].calls[-1]] < columns[plan.segments[later].calls[0]]
    for segment in plan.segments:
        xs = [columns[index] for index in segment.calls]
        assert xs == sorted(set(xs))
    assert len({(columns[i], s.stream) for s in plan.segments for i in s.calls}) == len(columns)


def test_captures_stand_one_under_another_and_names_are_escaped(tmp_path: Path) -> None:
    @aj.kernel(writes="out")
    def a_kernel_with_a_name_that_is_too_long(out: Any, src: Any) -> None:
        out[...] = src

    def work(x: anp.Array, mode: str) -> anp.Array:
        out = anp.empty_like(x)
        a_kernel_with_a_name_that_is_too_long(out, x)
        return out

    f = aj.jit(work)
    for mode in ("<&>", "plain", '"quoted"'):
        f.run(anp.ones(3), mode)
    f.draw(str(tmp_path / "f.svg"))
    root = parsed(tmp_path / "f.svg")
    titles = [text.text for text in root.findall(f".//{SVG}text[@class='title']")]
    assert titles == f.captures
    assert any("'<&>'" in (title or "") for title in titles)
    tops = [number(lane, "y") for lane in root.findall(f".//{SVG}rect[@class='lane']")]
    assert tops == sorted(set(tops))
    assert len(tops) == 3
    assert tops[-1] < number(root, "height")


def test_without_a_capture_there_is_nothing_to_draw(tmp_path: Path) -> None:
    f = aj.jit(crossing)
    with pytest.raises(aj.NothingCapturedError, match=r"call it, or await crossing\.prepare"):
        f.draw(tmp_path / "f.svg")
    assert not (tmp_path / "f.svg").exists()
