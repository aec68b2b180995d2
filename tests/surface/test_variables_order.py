"""Variables between replays: rows that do not meet do not wait, memory is enough for every value, on every device.

Law: what has to be in flight is held by an event; nothing sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.jit.batching.rows import Rows
from asyncjit.jit.signature import Parameters
from tests.engine.world import Held
from tests.surface.prefetching import Run
from tests.surface.symbolic import POINTS, M, N

ROW = aj.Variable("row", 0, 7)

DEVICES: dict[str, Callable[[], Any]] = {
    "inline": lambda: CpuDevice(),
    "workers": lambda: CpuDevice(inline_s_max=0.0, workers=2),
    "null": lambda: NullDevice("null"),
    "sim": lambda: SimDevice("sim", seed=3, defer=asyncio.get_running_loop().call_soon),
}


def decode(cache: anp.Array, x: anp.Array, row: Any, m: Any) -> Any:
    cache[row : row + 1] = x * m
    seen = cache[: row + 1]
    return anp.sum(seen, axis=0), seen * 2, anp.zeros((row, m)) + row, anp.mean(seen)


@pytest.mark.parametrize("name", DEVICES)
async def test_every_device_runs_symbolic_plans(name: str) -> None:
    async with aj.Engine(devices=(DEVICES[name](),)):
        f = aj.jit(decode)
        cache, host = anp.zeros((8, 3)), np.zeros((8, 3))
        replays = [f(cache, anp.full(3, float(row + 1)), ROW.bind(row), M.bind(row % 5)) for row in range(8)]
        for row, replay in enumerate(replays):
            host[row] = (row + 1) * (row % 5)
            total, seen, block, mean = await replay
            np.testing.assert_array_equal(np.asarray(total), host[: row + 1].sum(axis=0))
            np.testing.assert_array_equal(np.asarray(seen), host[: row + 1] * 2)
            np.testing.assert_array_equal(np.asarray(block), np.full((row, row % 5), row))
            np.testing.assert_array_equal(np.asarray(mean), host[: row + 1].mean())
        assert len(f.captures) == 1


class HeldRows:
    """A captured function that writes one row of a table by a kernel that is held where the test says so."""

    def __init__(self) -> None:
        self.held = Held()
        self.entered: list[int] = []
        self.lock = threading.Lock()

        @aj.kernel(reads_writes="target")
        def fill(target: Any, row: int) -> None:
            with self.lock:
                self.entered.append(row)
            if row == 2 and not self.held.entered.is_set():
                self.held()
            target += row + 1.0

        @aj.jit
        def write(table: anp.Array, row: Any) -> None:
            fill(table[row], row)

        @aj.jit
        def column(table: anp.Array, row: Any) -> None:
            fill(table[:, row], row)

        self.write, self.column = write, column


def test_replays_on_different_rows_do_not_wait_for_each_other(run: Run) -> None:
    async def main() -> None:
        async with aj.Engine(devices=(CpuDevice(inline_s_max=0.0, workers=3),)):
            rows = HeldRows()
            table = anp.zeros((8, 8))
            await table
            first = rows.write(table, ROW.bind(2))
            await anyio.to_thread.run_sync(rows.held.wait_until_entered)
            # The others overtake the row that is held.
            for row in (0, 7, 3):
                await rows.write(table, ROW.bind(row))
            again = rows.write(table, ROW.bind(2))
            across = rows.column(table, ROW.bind(1))
            assert not first.done()
            rows.held.let_go()
            await first
            await again
            await across
            wanted = np.zeros((8, 8))
            for row in (2, 0, 7, 3, 2):
                wanted[row] += row + 1.0
            wanted[:, 1] += 2.0
            np.testing.assert_array_equal(np.asarray(await table), wanted)
            # Those that share bytes came in the order of their calls.
            assert rows.entered == [2, 0, 7, 3, 2, 1]
            assert len(rows.write.captures) == 1

    run(main)


def test_results_are_those_of_a_serial_run_on_workers(run: Run) -> None:
    async def main() -> None:
        async with aj.Engine(devices=(CpuDevice(inline_s_max=0.0, workers=3),)):
            table, host = anp.zeros((8, 5)), np.zeros((8, 5))

            @aj.jit
            def mix(table: anp.Array, n: Any, m: Any) -> anp.Array:
                table[n : n + 2] = table[m] + 1.0
                table[:, m] = n
                return table[m:n].sum()

            rng = np.random.default_rng(0)
            points = [(int(rng.integers(1, 7)), int(rng.integers(0, 4))) for _ in range(60)]
            replays = [mix(table, N.bind(n), M.bind(m)) for n, m in points]
            for (n, m), replay in zip(points, replays, strict=True):
                host[n : n + 2] = host[m] + 1.0
                host[:, m] = n
                assert float(np.asarray(await replay)) == host[m:n].sum()
            np.testing.assert_array_equal(np.asarray(await table), host)

    run(main)


async def test_a_failure_poisons_the_rows_of_its_replay_only() -> None:
    async with aj.Engine():

        @aj.kernel(writes="target")
        def brittle(target: Any, row: int) -> None:
            if row == 3:
                raise ZeroDivisionError("on purpose")
            target[...] = row

        @aj.jit
        def write(table: anp.Array, row: Any) -> None:
            brittle(table[row], row)

        @aj.jit
        def read(table: anp.Array, row: Any) -> anp.Array:
            return table[row] * 2

        table = anp.zeros((8, 2))
        failing = write(table, ROW.bind(3))
        others = [write(table, ROW.bind(row)) for row in (2, 4)]
        with pytest.raises(aj.KernelError, match="on purpose"):
            await failing
        for replay in others:
            await replay
        assert np.asarray(await read(table, ROW.bind(2))).tolist() == [4.0, 4.0]
        with pytest.raises(aj.DependencyError):
            await read(table, ROW.bind(3))


async def test_the_memory_limit_counts_what_a_replay_makes_and_not_the_most_it_could() -> None:
    wide = aj.Variable("wide", 0, 2**40)
    async with aj.Engine(memory_bytes_max=10_000) as engine:
        f = aj.jit(lambda x, n: anp.ones(n) * x)
        g = aj.jit(lambda n: anp.ones(n))
        for count in (3, 1000, 4):
            result = await g(wide.bind(count))
            assert result.shape == (count,)
            del result
        with pytest.raises(aj.EngineBusyError):
            await g(wide.bind(2000))
        assert engine.statistics().memory_bytes < 10_000
        # An intermediate has room for the largest value, in every frame.
        with pytest.raises((aj.EngineBusyError, aj.DeviceOutOfMemoryError)):
            await f(1.0, wide.bind(3))


async def test_a_function_over_several_devices_takes_variables() -> None:
    async with aj.Engine(devices=("cpu:0", "cpu:1")):
        cache = anp.zeros((8, 3), device="cpu:0")

        @aj.jit
        def f(x: anp.Array, n: Any, m: Any) -> Any:
            cache[n] = x * m
            there = anp.to_device(cache[: n + 1], "cpu:1")
            return there * n, anp.to_device(there.sum(axis=0) + m, "cpu:0")

        host = np.zeros((8, 3))
        for n, m in POINTS:
            host[n] = n * m
            scaled, total = await f(anp.full(3, float(n)), N.bind(n), M.bind(m))
            np.testing.assert_array_equal(np.asarray(scaled), host[: n + 1] * n)
            np.testing.assert_array_equal(np.asarray(total), host[: n + 1].sum(axis=0) + m)
            assert scaled.device == "cpu:1"
        assert len(f.captures) == 1


async def test_variables_go_with_pruning_batching_inlining_and_preparing() -> None:
    scale = anp.full(8, 3.0)
    inner = aj.jit(lambda x, n: x[:n] * 2)

    @aj.jit(prune=True)
    def f(x: anp.Array, n: Any) -> anp.Array:
        table = anp.exp(scale)
        # The last of these reads nothing that changes, and yet it is another one for each value.
        return inner(x, n) + table[:n] + inner(x, n + 1)[:n] + anp.sum(scale[:n])

    @aj.jit
    def rows(x: anp.Array, n: Any) -> anp.Array:
        return x[:, :n].sum(axis=1)

    await f.prepare(aj.spec(8, "float64"), N)
    x = anp.arange(8.0)
    for n in (2, 5, 1):
        wanted = np.arange(8.0)[:n] * 4 + np.exp(3.0) + 3.0 * n
        np.testing.assert_allclose(np.asarray(await f(x, N.bind(n))), wanted)
    assert len(f.captures) == 1
    (await f.check(x, N.bind(4))).raise_if_different()
    row = np.arange(8.0)[None]
    reader = Rows(Parameters(lambda x, n: None, (), ()), "rows", ())
    keys = [reader.read((row, N.bind(n)))[0] for n in (2, 5, 2)]
    assert keys[0] == keys[2] != keys[1]
    one = rows.batched(4, 0.001)
    results = await asyncio.gather(*(one(row, N.bind(n)) for n in (2, 5, 2, 3)))
    assert [float(np.asarray(each)[0]) for each in results] == [1.0, 10.0, 1.0, 3.0]
