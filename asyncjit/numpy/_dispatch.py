"""From a name and operands to a call in a sink: the one seam between arrays and whoever runs or records them.

Law: rules are asked of ``ops``, values are never touched. Results of the rules are cached by the layouts of the
operands, so a repeated operation costs one dictionary lookup besides its sink.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from asyncjit.errors import DeviceError, InternalError
from asyncjit.ir import Access, Cost, Kernel
from asyncjit.numpy._handle import ArraySpec, DType, Handle, StorageLike, array_spec, c_strides
from asyncjit.ops import DTYPES, REGISTRY, Op, Spec, dtype_named
from asyncjit.ops._spec import Shape, same_shape
from asyncjit.symbols import same, upper

__all__ = [
    "TRANSFER",
    "Prepared",
    "Sink",
    "apply",
    "bounded_put",
    "by_hand",
    "create",
    "current_sink",
    "dtype_of",
    "recording",
    "refuse_reads",
    "run",
    "set_eager_sink",
    "transfer",
]

A = TypeVar("A", bound=Handle)


class Sink(Protocol):
    """Takes calls: an engine that runs them at once in ticket order, or a recorder."""

    @property
    def device(self) -> str: ...

    def new(self, shape: Shape, dtype: DType, device: str | None = None) -> StorageLike:
        """Storage for a C-contiguous array, uninitialised, on ``device`` or on the sink's own.

        Raises:
            DeviceUnavailableError: there is no such device.
        """
        ...

    def emit(self, kernel: Kernel, operands: Sequence[tuple[StorageLike, Any, ArraySpec]], cost: Cost) -> None:
        """Take one call on ``(storage, byte offset, layout)``, inputs first, outputs last; ``TRANSFER`` is a copy.

        Refuses storages that it cannot reach (of another engine, of a capture that has ended).
        """
        ...

    def constant(self, host: np.ndarray, device: str | None = None) -> StorageLike:
        """Storage that holds a copy of C-contiguous host data, on ``device`` or on the sink's own."""
        ...


#: Between two devices: an ``ir.Copy`` of a schedule, and no kernel that a device would know.
TRANSFER = Kernel("transfer", (Access.READ, Access.WRITE))


def refuse_reads(spec: ArraySpec, what: str) -> None:
    """During capture state has values too, but those of now: a recorder refuses to read them.

    Raises:
        HostReadError: a function is being recorded here.
    """
    recorder = recording.get()
    refuse = getattr(recorder, "refuse_read", None)
    if refuse is not None:
        refuse(what, spec)


#: The recorder of this task and thread, while one captures.
recording: ContextVar[Sink | None] = ContextVar("asyncjit.recording", default=None)


class RunByHand(Protocol):
    """The body of a function that is run from its first line to its last without ever waiting."""

    @property
    def active(self) -> bool: ...


#: The innermost such body in this context; tasks that it starts inherit it, hence ``active``.
by_hand: ContextVar[RunByHand | None] = ContextVar("asyncjit.by_hand", default=None)

_eager_sink: Callable[[], Sink] | None = None


def set_eager_sink(factory: Callable[[], Sink]) -> Callable[[], Sink] | None:
    """Have ``factory`` say where operations outside a capture go; gives the factory before."""
    global _eager_sink
    before = _eager_sink
    _eager_sink = factory
    return before


def current_sink() -> Sink:
    """The recorder of this task and thread if one captures, else the eager sink."""
    recorder = recording.get()
    if recorder is not None:
        return recorder
    if _eager_sink is None:
        raise InternalError("no eager sink was set before the first operation; import asyncjit, not its parts")
    return _eager_sink()


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation on given layouts, with all rules applied. ``casts``: dtype to which weak inputs go first."""

    kernel: Kernel
    outputs: tuple[ArraySpec, ...]
    cost: Cost
    casts: tuple[DType | None, ...] = ()


# Cleared when full: a server that sees endless new shapes stays flat, and the next call of each refills its entry.
CACHE_ENTRIES_MAX = 8192
_prepared: dict[Hashable, Prepared] = {}


def bounded_put(cache: dict[Hashable, Prepared], key: Hashable, value: Prepared) -> None:
    if len(cache) >= CACHE_ENTRIES_MAX:
        cache.clear()
    cache[key] = value


def dtype_of(value: object) -> DType:
    """A dtype that arrays may have, from anything NumPy takes for one; byte order becomes native.

    Raises:
        TypeError: objects, text, dates and extended precision have no place on a device.
    """
    dtype: DType = np.dtype(value)  # type: ignore[call-overload]
    known = _known_dtypes.get(dtype)
    if known is None:
        known = dtype_named(dtype.name)
        if known is None:
            raise TypeError(f"dtype {dtype} is not supported; convert to one of {', '.join(DTYPES)}")
        _known_dtypes[dtype] = known
    return known


#: NumPy makes the name of a dtype anew each time it is asked, in Python: 5 us.
_known_dtypes: dict[DType, DType] = {}


def run(prepared: Prepared, inputs: Sequence[A], cls: type[A], out: A | None = None) -> Any:
    """Emit a prepared operation; gives ``out``, the new array, or a tuple of new arrays."""
    sink = current_sink()
    operands = [(array._storage, array._offset, array._spec) for array in inputs]
    if out is not None:
        operands.append((out._storage, out._offset, out._spec))
        sink.emit(prepared.kernel, operands, prepared.cost)
        return out
    results = []
    for spec in prepared.outputs:
        storage = sink.new(spec.shape, spec.dtype, spec.device)
        results.append(cls._of(storage, 0, spec))
        operands.append((storage, 0, spec))
    sink.emit(prepared.kernel, operands, prepared.cost)
    return results[0] if len(results) == 1 else tuple(results)


def apply(name: str, inputs: Sequence[A], params: tuple[Hashable, ...] = (), *, out: A | None = None) -> A:
    """Do operation ``name`` on arrays: a new array, or ``out`` after writing into it.

    ``params`` are those of the operation's entry in ``ops``. Weak inputs count as float64 or complex128 here.

    Raises:
        TypeError, ValueError: the operation is not defined for these operands.
        DeviceError: operands are on different devices.
    """
    key = (name, params, None if out is None else out._spec, *[array._spec for array in inputs])
    prepared = _prepared.get(key)
    if prepared is None:
        specs = [array._spec for array in inputs]
        prepared = prepare(REGISTRY[name], specs, params, None if out is None else out._spec)
        bounded_put(_prepared, key, prepared)
    result: A = run(prepared, inputs, type(inputs[0]), out)
    return result


def transfer(array: A, device: str) -> A:
    """A C-contiguous copy on ``device``, which may be the array's own; one copy call there.

    Raises:
        DeviceUnavailableError: there is no such device.
    """
    spec, sink = array._spec, current_sink()
    target = array_spec(spec.shape, c_strides(spec.shape, spec.itemsize), spec.dtype, spec.weak, device)
    storage = sink.new(spec.shape, spec.dtype, device)
    sink.emit(TRANSFER, [(array._storage, array._offset, spec), (storage, 0, target)], Cost(0, 2 * spec.nbytes))
    return type(array)._of(storage, 0, target)


def create(cls: type[A], name: str, params: tuple[Hashable, ...], device: str | None = None) -> A:
    """Do an operation that has no inputs on ``device``, or on that of the current sink."""
    device = device or current_sink().device
    key = (name, params, device)
    prepared = _prepared.get(key)
    if prepared is None:
        prepared = prepare(REGISTRY[name], (), params, None, device=device)
        bounded_put(_prepared, key, prepared)
    result: A = run(prepared, (), cls)
    return result


def prepare(
    op: Op,
    inputs: Sequence[ArraySpec],
    params: tuple[Hashable, ...],
    out: ArraySpec | None,
    *,
    weak: bool = False,
    device: str | None = None,
) -> Prepared:
    """Apply the rules of ``op`` once. ``weak`` marks the results as adapting, like the numbers they come from."""
    devices = {spec.device for spec in inputs} | ({out.device} if out is not None else set())
    if len(devices) > 1:
        raise DeviceError(
            f"{op.name} has operands on {' and '.join(sorted(devices))}; operands of one operation stand on one "
            "device: copy one over with to_device",
            given=tuple(sorted(devices)),
        )
    specs = tuple(Spec(spec.shape, spec.dtype) for spec in inputs)
    results = op.infer(specs, params)
    writes: tuple[Access, ...] = (Access.WRITE,) * len(results)
    if out is not None:
        _check_out(op, results, out)
        results = (Spec(out.shape, out.dtype),)
        writes = (Access.READ_WRITE if op.reads_output else Access.WRITE,)
    where = device if device is not None else devices.pop()
    outputs = tuple(
        array_spec(spec.shape, c_strides(spec.shape, spec.dtype.itemsize), spec.dtype, weak, where) for spec in results
    )
    reads = (Access.READ_WRITE,) * op.updates + (Access.READ,) * (len(inputs) - op.updates)
    kernel = Kernel(op.name, reads + writes, params)
    return Prepared(kernel, outputs, op.cost(specs, results, params))


def _check_out(op: Op, results: tuple[Spec, ...], out: ArraySpec) -> None:
    """Whether the results may go into an array that exists, by NumPy's rules for assignment and in-place operators."""
    if any(same(stride, 0) and upper(extent) > 1 for stride, extent in zip(out.strides, out.shape, strict=True)):
        raise ValueError(
            f"{op.name} cannot write into a broadcast array of shape {out.shape} and strides {out.strides}: "
            "several of its elements are one; copy it first"
        )
    (result,) = results
    if op.assigns:
        lead = len(result.shape) - len(out.shape)
        # As in NumPy's assignment, leading axes of extent 1 beyond those of the target do not count.
        shape = (
            result.shape[lead:] if lead > 0 and all(same(extent, 1) for extent in result.shape[:lead]) else result.shape
        )
        fits = len(shape) <= len(out.shape) and all(
            same(given, 1) or same(given, wanted)
            for given, wanted in zip(reversed(shape), reversed(out.shape), strict=False)
        )
    else:
        fits = same_shape(result.shape, out.shape)
        if not np.can_cast(result.dtype, out.dtype, "same_kind"):
            raise TypeError(
                f"{op.name} gives {result.dtype}, which an array of {out.dtype} cannot take in place; "
                "use astype on the operand, or a new array for the result"
            )
    if not fits:
        raise ValueError(
            f"{op.name} gives shape {result.shape}, which an array of shape {out.shape} cannot take in place"
        )
