"""``save`` and ``load``: what comes back does what was saved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.plan import program_order_plan
from asyncjit.plan_data import plan_to_data
from asyncjit.saving.container import Container, pack
from tests.surface.saved_models import Mode, Pair, Point, accumulator, again, blurred, structured

ONES = np.ones(4)


def test_a_loaded_function_gives_what_the_saved_one_gives(file: Path) -> None:
    rng = np.random.default_rng(0)
    w1, w2 = (anp.asarray(rng.standard_normal(shape)) for shape in ((8, 16), (16, 4)))

    @aj.jit
    def classify(x: anp.Array) -> anp.Array:
        return anp.argmax(anp.maximum(x @ w1 + np.arange(16.0), 0) @ w2, axis=-1)

    for rows in (3, 5):
        classify.run(rng.standard_normal((rows, 8)))
    loaded = again(file, classify)
    assert loaded.captures == classify.captures
    assert (loaded.__name__, loaded.__qualname__) == (classify.__name__, classify.__qualname__)
    for rows in (3, 5):
        x = rng.standard_normal((rows, 8))
        assert np.asarray(loaded.run(x)).tolist() == np.asarray(classify.run(x)).tolist()


def test_one_thing_comes_back_as_itself_and_several_as_a_dict(file: Path) -> None:
    add, peek, total = accumulator()
    add.run(ONES)
    peek.run()
    assert isinstance(again(file, add), aj.JitFunction)
    assert isinstance(again(file, total), aj.Array)
    assert list(again(file, add, peek)) == ["add", "peek"]
    assert set(again(file, add, state=total)) == {"add", "state"}
    assert list(again(file, f=add)) == ["f"]


def test_arguments_and_results_keep_their_structure(file: Path) -> None:
    pair = Pair(np.array([1.0, 2.0]), np.array([3, 4]))
    wanted = [structured.run(pair, mode) for mode in Mode]
    loaded = again(file, structured)
    for mode, expected in zip(Mode, wanted, strict=True):
        got = loaded.run(pair, mode=mode, n=2)
        assert type(got["point"]) is Point
        assert got["point"].y is None
        assert type(got["pair"]) is Pair
        assert got["list"][1][0].dtype == expected["list"][1][0].dtype
        for left, right in zip(leaves(got), leaves(expected), strict=True):
            assert np.asarray(left).tolist() == np.asarray(right).tolist()
    structured.reset()


def leaves(result: Any) -> list[aj.Array]:
    return [result["point"].x, result["list"][0], *result["list"][1], result["pair"].left, result["pair"].right]


def test_a_users_kernel_is_found_by_its_name(file: Path) -> None:
    x = np.arange(3.0)
    expected = np.asarray(blurred.run(x))
    loaded = again(file, blurred)
    assert np.asarray(loaded.run(x)).tolist() == expected.tolist() == (x * 3 + x).tolist()


def test_dynamic_numbers_and_defaults_work_as_before(file: Path) -> None:
    @aj.jit(dynamic="k")
    def f(x: anp.Array, rate: float = 0.5, *more: anp.Array, k: int = 2) -> anp.Array:
        return sum(more, x * rate * k)

    f.run(ONES)
    f.run(ONES, 0.5, ONES)
    loaded = again(file, f)
    assert np.asarray(loaded.run(ONES)).tolist() == [1.0] * 4
    assert np.asarray(loaded.run(ONES, 0.25, k=8)).tolist() == [2.0] * 4
    assert np.asarray(loaded.run(ONES, -1.0, ONES)).tolist() == [-1.0] * 4


def test_arguments_written_in_place_and_overlaps_are_as_before(file: Path) -> None:
    @aj.jit
    def shift(target: anp.Array, source: anp.Array) -> None:
        target[...] = source + 1

    x = anp.arange(6.0)
    shift.run(x[:2], x[3:5])
    shift.run(x[1:4], x[2:5])
    loaded = again(file, shift)
    ours, host = anp.arange(6.0), np.arange(6.0)
    for target, source in [(slice(0, 2), slice(3, 5)), (slice(1, 4), slice(2, 5)), (slice(2, 5), slice(3, 6))]:
        loaded.run(ours[target], ours[source])
        host[target] = host[source] + 1
        assert np.asarray(ours).tolist() == host.tolist()
    with pytest.raises(aj.AliasError, match="'target' and 'source'"):
        loaded.run(ours[0:2], ours[1:3])


def test_an_argument_that_is_also_state_is_as_before(file: Path) -> None:
    total = anp.zeros(2)

    @aj.jit
    def add(x: anp.Array) -> None:
        total[...] = total + x

    total[...] = 1.0
    add.run(total)
    add.run(np.zeros(2))
    loaded = again(file, add=add, total=total)
    assert np.asarray(loaded["total"]).tolist() == [2.0, 2.0]
    loaded["add"].run(loaded["total"])
    assert np.asarray(loaded["total"]).tolist() == [4.0, 4.0]
    loaded["add"].run(np.ones(2))
    assert np.asarray(loaded["total"]).tolist() == [5.0, 5.0]


def test_a_pruned_function_computes_its_once_part_after_loading_again(file: Path) -> None:
    table = anp.asarray(np.arange(4.0))

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        return x * anp.exp(table)

    f.run(ONES)
    f.run(ONES)
    loaded = again(file, f)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(loaded.run(ONES)), np.exp(np.arange(4.0)))


def test_a_method_is_saved_with_the_state_of_its_instance(file: Path) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = anp.zeros(4)

        @aj.jit
        def add(self, x: anp.Array) -> anp.Array:
            self.count[...] = self.count + x
            return self.count

    counter, other = Counter(), Counter()
    counter.add.run(ONES)
    other.add.run(5 * ONES)
    loaded = again(file, counter.add)
    assert np.asarray(loaded.run(ONES)).tolist() == [2.0] * 4


def test_what_was_loaded_can_be_saved_again(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    first = again(file, add)
    first.run(ONES)
    second = again(file, first)
    assert np.asarray(second.run(ONES)).tolist() == [3.0] * 4
    assert second.__qualname__ == add.__qualname__


def test_a_file_is_replaced_whole_and_nothing_else_is_left(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    aj.save(file, add)
    before = file.read_bytes()
    with pytest.raises(aj.SaveError):
        aj.save(file, print)
    assert file.read_bytes() == before
    aj.save(file, add)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_cannot_take_its_name_leaves_nothing(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    file.mkdir()
    with pytest.raises(OSError, match=file.name):
        aj.save(file, add)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    with pytest.raises(FileNotFoundError):
        aj.save(tmp_path / "missing" / "file", add)


@pytest.mark.parametrize("fits", [True, False])
def test_a_plan_that_was_lowered_for_such_a_device_is_taken_as_it_is(file: Path, fits: bool) -> None:
    @aj.jit
    def chain(x: anp.Array) -> anp.Array:
        for _ in range(6):
            x = x + 1
        return x

    asyncio.run(chain.prepare(aj.spec((4,), "float64")))
    aj.save(file, chain)
    with file.open("rb") as opened:
        content: Any = Container(opened, file.stat().st_size, "file").content.data
    # A plan that lowering would not give tells whether it was lowered again: no two intermediates share bytes in it.
    [capture] = content["things"][""]["function"]["captures"]
    [(entry,)] = chain._tables.all()
    capture["plan"] = plan_to_data(program_order_plan(entry.program.schedule))
    if not fits:
        capture["lowered_for"] = [99, 99]
    file.write_bytes(b"".join(pack(content, [])))
    loaded = aj.load(file)
    [(entry,)] = loaded._tables.all()
    aj.current_engine().lower(entry.program)
    assert (entry.program.plan.frame_nbytes["cpu"] == 5 * 64) is fits
    assert np.asarray(loaded.run(ONES)).tolist() == [7.0] * 4
