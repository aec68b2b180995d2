"""Calls as rows: arguments read, joined and padded; results cut up again.

Law: values on the host; no waiting, no decision about who runs when.

Rows are joined on the host: one ``concatenate`` into fresh memory, then the one copy to the device that any call pays.
Joining on the device would need a capture for every composition of a batch. Rows that are missing up to the bucket
repeat the first one: whatever the function does with a real row it can do again, while zeros may divide by zero. Each
caller gets a copy of its rows of every output. Views of the shared output would cost no copy, but a caller that
keeps one row would hold the memory of the batch, and one that writes to its rows would make those of the others
pending.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from asyncjit.engine import Engine
from asyncjit.errors import CaptureError
from asyncjit.jit.batching.gathering import Batch, Request
from asyncjit.jit.hosts import CallHost
from asyncjit.jit.signature import Parameters, Values
from asyncjit.jit.tokens import ArgumentSpec, Reader, contents, host_argument, refilled, static_token
from asyncjit.numpy import Array
from asyncjit.variables import Variable

__all__ = ["Rows", "bucket_of", "buckets_of"]

Host = np.ndarray[Any, Any]


def buckets_of(rows_max: int, buckets: Iterable[int] | None) -> tuple[int, ...]:
    """The numbers of rows that batches are padded to, ascending: powers of two unless given; always ``rows_max`` too.

    Raises:
        ValueError: a bucket below 1 or above ``rows_max``.
    """
    if buckets is None:
        return (*(1 << power for power in range((rows_max - 1).bit_length())), rows_max)
    given = set(buckets)
    wrong = sorted(bucket for bucket in given if not 1 <= bucket <= rows_max)
    if wrong:
        raise ValueError(f"buckets must lie between 1 and rows_max={rows_max}, got {wrong}")
    return tuple(sorted(given | {rows_max}))


def bucket_of(rows: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds the rows; above the largest, a multiple of it."""
    for bucket in buckets:
        if rows <= bucket:
            return bucket
    return -(-rows // buckets[-1]) * buckets[-1]


class _NoArrays:
    """Where values must hold no array and no number with a fraction."""

    def __init__(self, function: str) -> None:
        self._function = function

    def _refuse(self, value: object) -> NoReturn:
        raise CaptureError(
            f"an argument of the batched {self._function!r} is a container with a {type(value).__name__} in it; pass "
            "each array as an argument of its own, with the rows along its first axis, and plain numbers as arguments",
            function=self._function,
            given=type(value),
        )

    def from_host(self, host: Host) -> Array:
        self._refuse(host)

    def from_number(self, value: complex, place: int) -> Array:
        self._refuse(value)

    def stand(self, spec: ArgumentSpec, name: str) -> NoReturn:
        self._refuse(spec)

    def unbound(self, variable: Variable, name: str) -> None:
        """Fine here: the call of the batch refuses it, and ``prepare`` does not."""


class Rows:
    """How calls of one function become rows, and rows calls."""

    def __init__(self, parameters: Parameters, name: str, shared: tuple[str, ...]) -> None:
        unknown = [each for each in shared if each not in parameters.names]
        if unknown:
            raise ValueError(f"shared={unknown} are no parameters of {name!r}, which has {parameters.names}")
        self._parameters = parameters
        self._name = name
        self._shared = frozenset(shared)
        self._no_arrays = _NoArrays(name)

    def is_shared(self, index: int) -> bool:
        return bool(self._shared) and self._parameters.name_of(index) in self._shared

    # Of a call.

    def read(self, values: Values) -> tuple[Hashable, list[tuple[int, Host]], int]:
        """What must be equal for calls to share a batch; the batched arguments by position; their rows.

        Arrays of an engine must have been awaited: they are read now. Host arrays are read when the batch starts.

        Raises:
            ValueError: an array without a first axis or without a row; arrays with different numbers of rows; no array.
            CaptureError: an argument of a kind that no capture can tell apart.
        """
        key: list[Hashable] = []
        hosts: list[tuple[int, Host]] = []
        rows = 0
        for index, value in enumerate(values):
            if isinstance(value, Array | np.ndarray) and not self.is_shared(index):
                host = self._host(value, index)
                if hosts and host.shape[0] != rows:
                    self._refuse_rows(hosts[0], host, index)
                rows = host.shape[0]
                hosts.append((index, host))
                key.append((host.shape[1:], host.dtype))
            else:
                key.append(self._token(value, index))
        if not hosts:
            raise ValueError(
                f"a call of the batched {self._name!r} passes no array to batch; pass at least one array with the rows "
                "along its first axis"
            )
        return tuple(key), hosts, rows

    def _host(self, value: Any, index: int) -> Host:
        name = self._parameters.name_of(index)
        host = np.asarray(value) if isinstance(value, Array) else host_argument(value, name)
        if not host.ndim or not host.shape[0]:
            raise ValueError(
                f"argument {name!r} of the batched {self._name!r} has shape {host.shape}; expected one row at least "
                "along a first axis: pass x[None] for a single row, and name what is not rows in shared="
            )
        return host

    def _refuse_rows(self, first: tuple[int, Host], host: Host, index: int) -> NoReturn:
        names = [self._parameters.name_of(each) for each in (first[0], index)]
        raise ValueError(
            f"arguments {names[0]!r} and {names[1]!r} of the batched {self._name!r} have {first[1].shape[0]} and "
            f"{host.shape[0]} rows; all arrays of a call have the same number along their first axis, and what is not "
            "rows is named in shared="
        )

    def _token(self, value: Any, index: int) -> Hashable:
        if isinstance(value, Array):
            # Whoever shares a batch passes the same array.
            storage: Any = value._storage
            return ("shared", storage.serial, value._offset, value._spec)
        if self.is_shared(index):
            name = self._parameters.name_of(index)
            raise ValueError(
                f"argument {name!r} of the batched {self._name!r} is shared, and was given a {type(value).__name__}; "
                "pass the same Array in every call, made once by anp.asarray"
            )
        if isinstance(value, float | complex):
            return static_token(value, "")
        name, rule = self._parameters.name_of(index), self._parameters.rule_of(index)
        reader = Reader([], self._no_arrays)
        token = reader.token(value, "auto" if rule == "dynamic" else rule, name)
        # A batch is one replay, in which a variable has one value.
        return (token, *reader.values.values()) if reader.values else token

    # Of a batch.

    def join(self, requests: Sequence[Request], bucket: int, engine: Engine) -> Values:
        """The values of one call with the rows of all, padded to the bucket."""
        first = requests[0]
        values = list(first.values)
        host = CallHost(engine)
        missing = bucket - sum(request.rows for request in requests)
        for position, (index, rows) in enumerate(first.hosts):
            pieces = [request.hosts[position][1] for request in requests]
            if missing:
                pieces.append(np.broadcast_to(rows[:1], (missing, *rows.shape[1:])))
            values[index] = host.from_host(np.concatenate(pieces) if len(pieces) > 1 else rows)
        return tuple(values)

    def prepared(self, values: Values, bucket: int) -> Values:
        """The values of ``prepare`` with every spec of rows made one of ``bucket`` rows."""
        return tuple(
            dataclasses.replace(value, shape=(bucket, *value.shape[1:]))
            if isinstance(value, ArgumentSpec) and not self.is_shared(index)
            else value
            for index, value in enumerate(values)
        )

    def cut(self, result: Any, batch: Batch, request: Request, engine: Engine) -> Any:
        """The rows of one call out of the result of its batch.

        Raises:
            CaptureError: an output whose first axis is not the rows of the batch.
        """
        if type(result) is Array:
            return self._piece(result, "", batch, request, engine)
        made: dict[int, Array] = {}

        def visit(value: Any, path: str) -> Any:
            if isinstance(value, Array):
                if id(value) not in made:
                    made[id(value)] = self._piece(value, path, batch, request, engine)
                return made[id(value)]
            inside = contents(value)
            if inside is None:
                return value
            return refilled(value, [visit(each, f"{path}[{label!r}]") for label, each in inside])

        return visit(result, "")

    def _piece(self, value: Array, path: str, batch: Batch, request: Request, engine: Engine) -> Array:
        if not value.shape or value.shape[0] != batch.bucket:
            self._refuse_output(value, path, batch.bucket)
        if request.rows == batch.bucket:
            return value
        host = batch.read.get(id(value))
        if host is None:
            host = batch.read[id(value)] = np.asarray(value, order="C")
        return CallHost(engine).from_host(host[request.start : request.start + request.rows])

    def _refuse_output(self, value: Array, path: str, bucket: int) -> NoReturn:
        raise CaptureError(
            f"output{path} of the batched {self._name!r} has shape {value.shape}; expected {bucket} rows, those of the "
            "batch, along its first axis, to give each caller its own; return one row for each row of the arguments, "
            "or call the function unbatched",
            function=self._name,
            output=f"output{path}",
            shape=value.shape,
            rows=bucket,
        )
