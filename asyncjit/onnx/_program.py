"""Steps at work: recorded ones as jitted functions, host ones between them.

Law: how a model runs; what a user sees of it is ``_model``. A run is a generator that yields what has to be waited for,
so that a coroutine and a plain thread drive the same code.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from asyncjit.capture import Recorder
from asyncjit.engine import Engine, current_engine
from asyncjit.errors import OnnxError
from asyncjit.jit import JitFunction, not_captured
from asyncjit.jit.options import Options
from asyncjit.named import Known, ValueType, check_shapes, identifiers, to_host
from asyncjit.numpy import Array, asarray
from asyncjit.numpy._dispatch import recording
from asyncjit.onnx._folding import HostSink
from asyncjit.onnx._interpreter import Interpreter, Value
from asyncjit.onnx._model_data import Graph, Host
from asyncjit.onnx._steps import HostStep, RecordedStep, Steps
from asyncjit.replay import Replay

__all__ = ["HostWork", "Program", "Run", "Weights"]

#: Work for a thread that may block; what it gives comes back.
HostWork: TypeAlias = Callable[[], Any]
#: Yields replays, whose results it is sent, and host work, whose results it is sent.
Run: TypeAlias = "Generator[Replay[Any] | HostWork, Any, dict[str, Value]]"


class Weights:
    """Constants of a model on the devices of the engines that run it: one copy an engine, however many captures."""

    def __init__(self, graph: Graph) -> None:
        graphs = [graph, *(inner for node in graph.all_nodes() for inner in node.graphs)]
        self._lasting = {id(value): value for each in graphs for value in each.initializers.values()}
        self._placed: weakref.WeakKeyDictionary[Engine, dict[int, Array]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all constants that have a name."""
        return sum(each.nbytes for each in self._lasting.values())

    def place(self, host: Host) -> Array:
        """``host`` as an array of the engine in use; a constant of the model is placed once."""
        if id(host) not in self._lasting:
            return asarray(host)
        with self._lock:
            placed = self._placed.setdefault(current_engine(), {})
            if id(host) not in placed:
                with not_captured():
                    placed[id(host)] = asarray(host)
            return placed[id(host)]


class Program:
    """The steps of one graph, ready to run."""

    def __init__(
        self,
        steps: Steps,
        weights: Weights,
        value_bytes_max: int,
        options: Options,
        name: str,
        declared: Sequence[ValueType] = (),
        outer_constants: Mapping[str, Host] = MappingProxyType({}),
    ) -> None:
        self.steps = steps
        self._declared = declared
        self.name = name
        self._weights = weights
        self._value_bytes_max = value_bytes_max
        self._constants = {**outer_constants, **steps.graph.initializers}
        self.functions: dict[RecordedStep, JitFunction[Any, Any]] = {}
        self._bodies: dict[HostStep, dict[str, Program]] = {}
        for index, step in enumerate(steps.steps):
            if isinstance(step, RecordedStep):
                title = name if steps.is_recorded else f"{name}.{index}"
                self.functions[step] = self._function(step, title, options)
            else:
                self._bodies[step] = {
                    key: Program(body, weights, value_bytes_max, options, f"{name}.{index}.{key}", (), self._constants)
                    for key, body in step.bodies.items()
                }

    def all_functions(self) -> list[JitFunction[Any, Any]]:
        """The jitted functions, those of graphs inside nodes too."""
        inner = [f for bodies in self._bodies.values() for body in bodies.values() for f in body.all_functions()]
        return [*self.functions.values(), *inner]

    def _function(self, step: RecordedStep, title: str, options: Options) -> JitFunction[Any, Any]:
        """The function of ``step.parameters`` that ``jit`` records."""
        record, names = self._record, identifiers(step.parameters)

        def run(*values: Any) -> Any:
            return record(step, values)

        run.__name__ = run.__qualname__ = title
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(names[name], kind) for name in step.parameters]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        statics = tuple(names[name] for name in step.parameters if name in step.statics)
        return JitFunction(run, replace(options, static=statics))

    def _record(self, step: RecordedStep, values: tuple[Value, ...]) -> dict[str, Value]:
        interpreter = self.interpreter()
        env: dict[str, Value] = dict(self._constants)
        for name, value in zip(step.parameters, values, strict=True):
            env[name] = value.value if isinstance(value, Known) else value
        if step is self.steps.steps[0]:
            check_shapes(self._declared, env)
        interpreter.nodes(step.nodes, env)
        outputs = {name: _on_device(interpreter, name, env[name]) for name in step.outputs}
        recorder = recording.get()
        if isinstance(recorder, Recorder) and not recorder.calls:
            # Whatever comes out went in, or is known: a copy gives the replay something to do.
            outputs = {name: _copied(value) for name, value in outputs.items()}
        return outputs

    def interpreter(self) -> Interpreter:
        return Interpreter(HostSink(self._value_bytes_max), self._weights.place)

    def arguments(self, step: RecordedStep, env: Mapping[str, Value]) -> list[Any]:
        """What the function of ``step`` is called with."""
        return [Known(to_host(env[name])) if name in step.statics else env[name] for name in step.parameters]

    def run(self, env: dict[str, Value]) -> Run:
        """Every step in turn; the outputs of the graph by name. ``env``: its inputs, and what it reads from outside."""
        for step in self.steps.steps:
            if isinstance(step, RecordedStep):
                env |= yield self.functions[step](*self.arguments(step, env))
            else:
                yield from self._host_step(step, env)
        everything = {**self._constants, **env}
        return {each.name: everything[each.name] for each in self.steps.graph.outputs}

    def _host_step(self, step: HostStep, env: dict[str, Value]) -> Run:
        node = step.node
        seen = {**self._constants, **env}
        values = [seen[name] if name else None for name in node.inputs]
        if not step.bodies:
            work = Interpreter(HostSink(self._value_bytes_max), self._weights.place)
            outputs = yield lambda: work.node(node, [to_host(value) for value in values], {})
        elif node.op == "If":
            branch = self._bodies[step]["then_branch" if _is_true(values[0], node.title) else "else_branch"]
            outputs = list((yield from branch.run(dict(seen))).values())
        elif node.op == "Loop":
            outputs = yield from self._loop(step, values, seen)
        else:
            raise OnnxError(f"{node.title} cannot be recorded: values inside of it decide about shapes", node=node.name)
        env |= {name: value for name, value in zip(node.outputs, outputs, strict=False) if name}
        return {}

    def _loop(self, step: HostStep, values: list[Value], seen: dict[str, Value]) -> Generator[Any, Any, list[Value]]:
        """A loop whose condition is computed: one run of the body a round, and its condition read."""
        body = self._bodies[step]["body"]
        rounds, condition, *states = values
        limit = None if rounds is None else _whole_number(rounds, step.node.title)
        goes_on = condition is None or _is_true(condition, step.node.title)
        kept: list[list[Value]] = [[] for _ in range(len(step.node.outputs) - len(states))]
        done = 0
        names = [each.name for each in body.steps.graph.inputs]
        while goes_on and (limit is None or done < limit):
            given = zip(names, [np.array(done), np.array(True), *states], strict=True)
            condition, *results = (yield from body.run({**seen, **dict(given)})).values()
            states, scanned = results[: len(states)], results[len(states) :]
            for each, value in zip(kept, scanned, strict=True):
                each.append(value)
            goes_on, done = _is_true(condition, step.node.title), done + 1
        stacked = yield lambda: [_stacked(each, step.node.title) for each in kept]
        return [*states, *stacked]


def _copied(value: Value) -> Value:
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value if value is None else value.copy()


def _whole_number(value: Value, title: str) -> int:
    host = np.asarray(to_host(value))
    if host.size != 1 or host.dtype.kind not in "iu":
        raise OnnxError(f"{title} takes an integer for the number of rounds, got {host.dtype}{list(host.shape)}")
    return int(host.item())


def _is_true(value: Value, title: str) -> bool:
    host = np.asarray(to_host(value))
    if host.size != 1 or host.dtype.kind not in "biuf":
        raise OnnxError(f"{title} takes one truth value, got {host.dtype}{list(host.shape)}")
    return bool(host.item())


def _stacked(values: list[Value], title: str) -> Host:
    if not values:
        raise OnnxError(f"{title} made no round, so the shape of what it collects is not known")
    hosts = [to_host(value) for value in values]
    shapes = {each.shape for each in hosts}
    if len(shapes) > 1:
        raise OnnxError(
            f"{title} collects values of one shape, and its rounds gave {', '.join(map(str, sorted(shapes)))}"
        )
    return np.stack(hosts)


def _on_device(interpreter: Interpreter, name: str, value: Value) -> Value:
    """An output of a recorded function: arrays, lists of them, None."""
    if isinstance(value, list):
        return [_on_device(interpreter, name, each) for each in value]
    if value is None or isinstance(value, Array):
        return value
    if value.dtype == object:
        raise OnnxError(f"the output {name!r} is text, which no device holds", name=name)
    return interpreter.array(value)
