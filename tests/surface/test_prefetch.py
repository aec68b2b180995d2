"""``prefetch``: every kind of source and transform, on every loop; what is delivered."""

from __future__ import annotations

import contextvars
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import Run, as_async, read_all, values


def double(item: np.ndarray) -> np.ndarray:
    return item * 2


async def double_async(item: np.ndarray) -> np.ndarray:
    await anyio.lowlevel.checkpoint()
    return item * 2


@aj.jit
def double_captured(item: Any) -> Any:
    return item * 2


@pytest.mark.parametrize("transform", [None, double, double_async, double_captured])
@pytest.mark.parametrize("source", [iter, as_async])
def test_every_source_and_transform_gives_all_items_in_order_on_the_device(
    run: Run, source: Callable[[Any], Any], transform: Callable[[Any], Any] | None
) -> None:
    async def main() -> None:
        items = [np.full(3, k, np.float32) for k in range(20)]
        async with aj.prefetch(source(items), transform, concurrency=3) as batches:
            got = await read_all(batches)
        assert all(type(batch) is aj.Array for batch in got)
        factor = 1.0 if transform is None else 2.0
        assert [values(batch) for batch in got] == [[k * factor] * 3 for k in range(20)]

    run(main)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Batch:
    images: Any
    name: str


class Foreign:
    """An array of another library, as NumPy sees it."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.arange(3.0)


class Exported:
    """The same, as DLPack shows it."""

    def __dlpack__(self, **options: Any) -> Any:
        return np.arange(3.0).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.arange(3.0).__dlpack_device__()


async def test_host_arrays_become_arrays_however_nested_and_the_rest_passes_as_it_is() -> None:
    on_device, text, masked = anp.arange(2), np.array(["a", "b"]), np.ma.masked_array([1, 2], [True, False])
    passing = [on_device, 1, 2.5, "text", None, np.float32(3), text, masked, {1, 2}]
    host = np.arange(6).reshape(2, 3).T
    item = Pair({"x": [host, (host,)]}, OrderedDict(batch=Batch(host, "n"), other=[Foreign(), Exported()]))
    async with aj.prefetch([item, passing]) as batches:
        got = await anext(batches)
        assert await anext(batches) is passing
    assert type(got) is Pair
    assert type(got.right) is OrderedDict
    batch = got.right["batch"]
    assert (type(batch), batch.name) == (Batch, "n")
    for array in (got.left["x"][0], got.left["x"][1][0], batch.images):
        assert (type(array), values(array)) == (aj.Array, host.tolist())
    assert [(type(array), values(array)) for array in got.right["other"]] == [(aj.Array, [0.0, 1.0, 2.0])] * 2


@pytest.mark.parametrize("size", [8, 1 << 18])
@pytest.mark.parametrize("kind", [iter, as_async])
def test_a_source_may_write_again_into_memory_that_it_gave(run: Run, kind: Callable[[Any], Any], size: int) -> None:
    def source() -> Iterator[np.ndarray]:
        buffer = np.empty(size)
        for index in range(6):
            buffer[:] = index
            yield buffer

    async def main() -> None:
        async with aj.prefetch(kind(source()), buffer=4) as batches:
            got = await read_all(batches)
        assert [np.unique(np.asarray(batch)).tolist() for batch in got] == [[float(k)] for k in range(6)]

    run(main)


async def test_arrays_are_of_the_engine_and_the_device_that_are_asked_for() -> None:
    async with aj.Engine(["cpu", "cpu:1"]) as engine, aj.prefetch([np.ones(2)], device="cpu:1") as batches:
        batch = await anext(batches)
        assert batch.device == "cpu:1"
        assert batch._storage.engine is engine
        with pytest.raises(aj.DeviceUnavailableError, match="no device 'gpu'"):
            await aj.prefetch([np.ones(2)], device="gpu").__aenter__()


request_id = contextvars.ContextVar("request_id", default="none")


def test_threads_work_in_the_context_of_the_block_and_have_names(run: Run) -> None:
    seen: set[tuple[str, bool, bool]] = set()

    def look(item: Any) -> Any:
        thread = threading.current_thread()
        seen.add((request_id.get(), thread.name.startswith("asyncjit-prefetch-"), thread.daemon))
        return item

    async def main() -> None:
        request_id.set("mine")
        async with aj.prefetch(map(look, range(3)), look, concurrency=2) as batches:
            await read_all(batches)

    run(main)
    assert seen == {("mine", True, True)}


def test_a_sync_generator_runs_and_is_closed_on_one_thread_of_its_own(run: Run) -> None:
    threads: list[int] = []

    def source() -> Iterator[int]:
        try:
            for index in range(100):
                threads.append(threading.get_ident())
                yield index
        finally:
            threads.append(threading.get_ident())

    async def main() -> None:
        async with aj.prefetch(source(), lambda item: item) as batches:
            await anext(batches)

    run(main)
    assert 2 <= len(threads) < 100
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_prefetches_feed_prefetches(run: Run) -> None:
    async def main() -> None:
        def add(item: Any) -> np.ndarray:
            return np.asarray(item) + 1

        rows = (np.full(2, k) for k in range(30))
        async with (
            aj.prefetch(rows, double, concurrency=2) as doubled,
            aj.prefetch(doubled, add, concurrency=2) as added,
            aj.prefetch(added, double_async) as last,
            aj.prefetch(range(5)) as other,
        ):
            # What a transform computes on the device may be pending when it is delivered.
            assert [values(await batch) for batch in await read_all(last)] == [[4 * k + 2] * 2 for k in range(30)]
            assert await read_all(other) == list(range(5))

    run(main)


def test_what_cannot_be_is_refused_at_once_with_the_reason() -> None:
    def rows() -> Iterator[int]:
        yield 1

    for arguments, kind, match in [
        ({"source": rows}, TypeError, "iterable.*not .*rows; call it"),
        ({"source": 3}, TypeError, "not a int"),
        ({"source": [], "transform": 3}, TypeError, "function of one item, not a int"),
        ({"source": [], "concurrency": 0}, ValueError, "concurrency=0"),
        ({"source": [], "buffer": -1}, ValueError, "buffer=-1"),
        ({"source": [], "close_timeout_s": float("nan")}, ValueError, "nan"),
        ({"source": [], "executor": "magic"}, ValueError, "'magic'"),
        ({"source": [], "executor": "process"}, ValueError, "sync transform"),
        ({"source": [], "transform": double_async, "executor": "process"}, ValueError, "sync transform"),
        ({"source": [], "transform": lambda item: item, "executor": "process"}, TypeError, "top of a module"),
    ]:
        with pytest.raises(kind, match=match):
            aj.prefetch(**arguments)  # type: ignore[arg-type]


def test_it_works_inside_its_block_only_and_once(run: Run) -> None:
    async def main() -> None:
        batches = aj.prefetch([1, 2])
        for use in (lambda: anext(batches), lambda: read_all(batches)):
            with pytest.raises(RuntimeError, match=r"prefetch of a list was not entered; iterate inside of its block"):
                await use()
        async with batches:
            assert await anext(batches) == 1
            assert "is open" in repr(batches)
        for use in (lambda: anext(batches), lambda: read_all(batches)):
            with pytest.raises(RuntimeError, match="was left"):
                await use()
        with pytest.raises(RuntimeError, match="was entered before"):
            await batches.__aenter__()

    run(main)
