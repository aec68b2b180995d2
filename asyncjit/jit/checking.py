"""``check``: a function run eagerly beside a replay of it, and every difference told.

Law: runs both and compares what can be seen from outside; knows no plans. What it cannot see are Python side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from asyncjit.errors import ReplayMismatchError
from asyncjit.ir import Cost, Kernel
from asyncjit.jit.captures import Entry, Epoch, Table
from asyncjit.jit.matching import Matching
from asyncjit.jit.structure import take_apart
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import Sink, current_sink, recording
from asyncjit.numpy._handle import ArraySpec, DType, Shape, StorageLike, array_spec
from asyncjit.user_code import where_in_user_code

__all__ = ["CheckReport", "Difference", "check"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where a replay and the function part.

    ``where`` names it, with the first index that differs: a place in the return value, an argument, state, or the call
    as a whole. ``expected`` is what the function does now, ``given`` what the replay did, both in words; of arrays that
    differ in values, ``elements`` do, at most by ``largest`` (None where that is no number).
    """

    where: str
    expected: str
    given: str
    elements: int = 0
    largest: float | None = None

    def __str__(self) -> str:
        count = f" ({self.elements:,} elements differ, at most by {self.largest})" if self.elements else ""
        return f"{self.where}: the replay gives {self.given}, the function {self.expected}{count}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``JitFunction.check`` found; ``capture`` is the signature, in words."""

    capture: str
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    def __str__(self) -> str:
        if self.ok:
            return f"{self.capture}: a replay does what the function does"
        return "\n  ".join((f"{self.capture}: a replay differs from the function", *map(str, self.differences)))

    def raise_if_different(self) -> None:
        """Raise if there is a difference.

        Raises:
            ReplayMismatchError: with the report as its message, and ``differences``.
        """
        if not self.ok:
            raise ReplayMismatchError(
                f"{self}\n  Values that Python code changes where it cannot be seen (an attribute, a container) are "
                "fixed by a capture: pass them as arguments, keep them in arrays, or call reset() after a change",
                differences=self.differences,
            )


class _Written(NamedTuple):
    """Memory that the replay writes and that others can see: its name, its bytes, and what they are."""

    name: str
    storage: StorageLike
    whole: Array
    dtype: DType


class _Watch:
    """A sink that passes everything on, and notes writes to memory that no replay of the capture writes."""

    def __init__(self, sink: Sink, written: Sequence[_Written]) -> None:
        self._sink = sink
        self._known = {id(each.storage) for each in written}
        self._made: list[StorageLike] = []
        #: Where each storage was first written.
        self.found: dict[StorageLike, str] = {}

    @property
    def device(self) -> str:
        return self._sink.device

    def _own(self, storage: StorageLike) -> StorageLike:
        # Held, so that no other storage gets its id.
        self._made.append(storage)
        self._known.add(id(storage))
        return storage

    def new(self, shape: Shape, dtype: DType, device: str | None = None) -> StorageLike:
        return self._own(self._sink.new(shape, dtype, device))

    def constant(self, host: np.ndarray[Any, Any], device: str | None = None) -> StorageLike:
        return self._own(self._sink.constant(host, device))

    def emit(self, kernel: Kernel, operands: Sequence[tuple[StorageLike, Any, ArraySpec]], cost: Cost) -> None:
        for (storage, _, _), access in zip(operands, kernel.access, strict=True):
            if access.writes and id(storage) not in self._known:
                self.found.setdefault(storage, where_in_user_code())
        self._sink.emit(kernel, operands, cost)


async def check(function: Matching, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CheckReport:
    """See ``JitFunction.check``."""
    table, epoch, key, arrays, entry, bound = function._match(args, kwargs)
    values = function._parameters.bind(args, kwargs)
    if entry is None:
        entry = function._capture(table, epoch, key, arrays, bound, values)
    capture = f"{function._name}({function._parameters.describe(entry.key)})"
    name = partial(_name, function, epoch, table, entry, arrays)
    written = list(_written(entry, arrays, name))
    before = [each.whole.copy() for each in written]
    replayed = take_apart(await function._submit(args, kwargs), function._name)[0]
    after_replay = [each.whole.copy() for each in written]
    for each, kept in zip(written, before, strict=True):
        each.whole[...] = kept
    watch = _Watch(current_sink(), written)
    try:
        token = recording.set(watch)
        try:
            returned = take_apart(function._run_here(values), function._name)[0]
        finally:
            recording.reset(token)
    except Exception as error:
        for each, kept in zip(written, after_replay, strict=True):
            each.whole[...] = kept
        raised = f"raises {type(error).__name__}: {error}"
        return CheckReport(capture, (Difference("the call", raised, "a result"),))
    differences = await _compare_results(replayed, returned)
    for each, kept in zip(written, after_replay, strict=True):
        left, right = await _host(kept), await _host(each.whole)
        differences += _compare(each.name, left.view(each.dtype), right.view(each.dtype))
    differences += [
        Difference(name(storage), f"writes it at {where}", "what was there before")
        for storage, where in watch.found.items()
    ]
    return CheckReport(capture, tuple(differences))


# What is compared.


def _written(entry: Entry, arrays: Sequence[Array], name: Callable[[Any], str]) -> Iterator[_Written]:
    """Arguments and state that the capture writes, each storage once and whole."""
    captured = entry.captured
    dtypes = {
        operand.view.buffer: np.dtype(operand.dtype) for call in captured.schedule.calls for operand in call.operands
    }
    found: dict[StorageLike, DType] = {}
    for index in sorted(entry.inputs_written):
        found.setdefault(arrays[index]._storage, arrays[index].dtype)
    for slot, state in captured.state.items():
        if any(touch.writes for touch in captured.state_touches[state]):
            found.setdefault(state, dtypes[captured.schedule.slots[slot].buffer])
    for storage, dtype in found.items():
        whole = Array._of(storage, 0, array_spec((storage.nbytes,), (1,), np.dtype("uint8"), False, storage.device))
        # Bytes where the array is a part of a larger thing.
        fits = storage.nbytes % dtype.itemsize == 0
        yield _Written(name(storage), storage, whole, dtype if fits else np.dtype("uint8"))


def _name(function: Matching, epoch: Epoch, table: Table, entry: Entry, arrays: Sequence[Array], what: Any) -> str:
    """What the user calls a storage, as far as that can be found out."""
    for index, array in enumerate(arrays):
        if array._storage is what:
            return f"argument {entry.names[index]!r}"
    instance = getattr(function._function, "__self__", None)
    for attribute, value in getattr(instance, "__dict__", {}).items():
        if isinstance(value, Array) and value._storage is what:
            return f"state 'self.{attribute}'"
    return table.name_of_state(epoch, what, entry)


async def _host(array: Array) -> np.ndarray[Any, Any]:
    return np.asarray(await array)


def _described(values: np.ndarray[Any, Any] | Array | None) -> str:
    return "no array" if values is None else f"{values.dtype.name}{list(values.shape)}"


async def _compare_results(
    replayed: Sequence[tuple[str, Array]], returned: Sequence[tuple[str, Array]]
) -> list[Difference]:
    found: list[Difference] = []
    given, expected = dict(replayed), dict(returned)
    for path in dict.fromkeys((*given, *expected)):
        where = f"return value{path}"
        left, right = given.get(path), expected.get(path)
        if left is None or right is None:
            found.append(Difference(where, _described(right), _described(left)))
        else:
            found += _compare(where, await _host(left), await _host(right))
    return found


def _compare(where: str, given: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> list[Difference]:
    """At most one difference; nan equals nan."""
    if (given.dtype, given.shape) != (expected.dtype, expected.shape):
        return [Difference(where, _described(expected), _described(given))]
    with np.errstate(all="ignore"):
        unequal = (given != expected) & ~((given != given) & (expected != expected))
        count = int(np.count_nonzero(unequal))
        if not count:
            return []
        first = tuple(int(index) for index in np.argwhere(unequal)[0])
        apart = np.abs(given[unequal].astype("complex128") - expected[unequal].astype("complex128"))
    largest = float(apart.max())
    place = str(list(first)) if first else ""
    return [
        Difference(
            f"{where}{place}",
            str(expected[first]),
            str(given[first]),
            count,
            None if np.isnan(largest) else largest,
        )
    ]
