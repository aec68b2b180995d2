"""From a file, bytes or a ``ModelProto`` to a checked ``Graph``.

Law: everything that can be wrong with a file is found here, before anything runs; after it nobody needs protobuf.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto

from asyncjit.errors import OnnxError
from asyncjit.named import Dim, ValueType
from asyncjit.onnx._dtypes import dtype_of_code, is_text_code
from asyncjit.onnx._functions import Functions
from asyncjit.onnx._model_data import Graph, Host, Node
from asyncjit.onnx._tensors import ExternalData, sparse_of, tensor_of

__all__ = ["Source", "read_model"]

#: Graphs within graphs; deeper ones are no models but attacks on the stack.
DEPTH_MAX = 16


@dataclass(frozen=True, slots=True)
class Source:
    """A model as it was read. ``opsets``: version of each domain."""

    name: str
    graph: Graph
    opsets: Mapping[str, int]
    nbytes: int
    producer: str
    ir_version: int


def read_model(model: str | os.PathLike[str] | bytes | ModelProto, value_bytes_max: int) -> Source:
    """Read and check a model; see ``load`` for what it raises."""
    name, folder = "model", None
    if isinstance(model, ModelProto):
        proto = model
    elif isinstance(model, bytes | bytearray | memoryview):
        proto = _parse(bytes(model), name)
    else:
        path = Path(model)
        name, folder = path.stem, path.parent
        proto = _parse(path.read_bytes(), str(path))
    try:
        return _Reader(proto, ExternalData(folder), value_bytes_max).read(name)
    except RecursionError:
        raise OnnxError(f"{name!r} nests graphs or types too deeply to be read") from None


def _parse(data: bytes, what: str) -> ModelProto:
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError) as error:
        raise OnnxError(f"{what!r} is no ONNX model, or it is damaged or truncated: {error}") from None
    if not proto.HasField("graph"):
        raise OnnxError(f"{what!r} holds no graph: it is empty, truncated, or no ONNX model")
    return proto


class _Reader:
    def __init__(self, proto: ModelProto, external: ExternalData, value_bytes_max: int) -> None:
        self._proto = proto
        self._external = external
        self._value_bytes_max = value_bytes_max
        self._depth = 0
        for each in (*proto.opset_import, *proto.functions):
            _check_names(each)
        self.opsets = _opsets(proto.opset_import)
        self.functions = Functions(proto.functions, self.opsets)

    def read(self, name: str) -> Source:
        proto = self._proto
        _check_names(proto)
        graph = self.graph(proto.graph, self.opsets)
        if graph.free:
            missing = ", ".join(map(repr, sorted(graph.free)[:5]))
            raise OnnxError(f"{name!r} uses values that nothing makes: {missing}; the model is damaged")
        producer = f"{proto.producer_name} {proto.producer_version}".strip()
        return Source(proto.graph.name or name, graph, self.opsets, proto.ByteSize(), producer, proto.ir_version)

    def graph(self, proto: GraphProto, opsets: Mapping[str, int]) -> Graph:
        self._depth += 1
        _check_names(proto)
        if self._depth > DEPTH_MAX:
            raise OnnxError(f"graph {proto.name!r} stands in more than {DEPTH_MAX} others")
        initializers: dict[str, Host] = {}
        for tensor in (*proto.initializer, *(each.values for each in proto.sparse_initializer)):
            if isinstance(tensor.name, bytes):
                raise OnnxError(f"the name {tensor.name!r} of a tensor is not UTF-8; the model is damaged")
        for tensor in proto.initializer:
            _put(initializers, tensor.name, tensor_of(tensor, self._external))
        for sparse in proto.sparse_initializer:
            _put(initializers, sparse.values.name, sparse_of(sparse, self._external, self._value_bytes_max))
        inputs = tuple(_value_type(each) for each in proto.input if each.name not in initializers)
        outputs = tuple(_value_type(each) for each in proto.output)
        nodes = self.nodes(proto.node, opsets)
        self._depth -= 1
        nodes, free = _ordered(nodes, {*initializers, *(each.name for each in inputs)}, [o.name for o in outputs])
        return Graph(proto.name, inputs, outputs, nodes, initializers, free)

    def nodes(self, protos: Iterable[NodeProto], opsets: Mapping[str, int]) -> list[Node]:
        nodes: list[Node] = []
        for proto in protos:
            _check_names(proto)
            function = self.functions.find(proto, opsets)
            if function is None:
                nodes.append(self.node(proto, opsets))
            else:
                self._depth += 1
                if self._depth > DEPTH_MAX:
                    raise OnnxError(f"function {proto.op_type!r} calls itself, or nests too deeply")
                body, body_opsets = self.functions.body(function, proto)
                nodes += self.nodes(body, body_opsets)
                self._depth -= 1
        return nodes

    def node(self, proto: NodeProto, opsets: Mapping[str, int]) -> Node:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        if domain not in opsets:
            raise OnnxError(
                f"node {proto.name!r} ({proto.op_type}) is of the domain {domain!r}, and the model imports no opset of "
                "it",
                node=proto.name,
                operator=proto.op_type,
            )
        node = Node(proto.name, proto.op_type, domain, opsets[domain], tuple(proto.input), tuple(proto.output))
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                raise OnnxError(f"{node.title}: attribute {attribute.name!r} refers to one of a function around it")
            node.attributes[attribute.name] = self._attribute(node, attribute, opsets)
        return node

    def _attribute(self, node: Node, proto: AttributeProto, opsets: Mapping[str, int]) -> Any:
        kind = proto.type
        if kind == AttributeProto.FLOAT:
            return proto.f
        if kind == AttributeProto.INT:
            return proto.i
        if kind == AttributeProto.STRING:
            return proto.s.decode("utf-8", "surrogateescape")
        if kind == AttributeProto.TENSOR:
            return tensor_of(proto.t, self._external)
        if kind == AttributeProto.GRAPH:
            return self.graph(proto.g, opsets)
        if kind == AttributeProto.FLOATS:
            return tuple(proto.floats)
        if kind == AttributeProto.INTS:
            return tuple(proto.ints)
        if kind == AttributeProto.STRINGS:
            return tuple(each.decode("utf-8", "surrogateescape") for each in proto.strings)
        if kind == AttributeProto.SPARSE_TENSOR:
            return sparse_of(proto.sparse_tensor, self._external, self._value_bytes_max)
        if kind == AttributeProto.TYPE_PROTO:
            return _type_of("", proto.tp)
        if kind == AttributeProto.TENSORS:
            return tuple(tensor_of(each, self._external) for each in proto.tensors)
        raise OnnxError(f"{node.title}: attribute {proto.name!r} is of a kind that is not supported", node=node.name)


def _check_names(proto: Any) -> None:
    """Whether all names in a message are text: protobuf gives those that are not UTF-8 as bytes.

    Raises:
        OnnxError: one is not.
    """
    for field, value in proto.ListFields():
        if field.type == field.TYPE_STRING:
            for each in [value] if isinstance(value, str | bytes) else value:
                if isinstance(each, bytes):
                    raise OnnxError(f"the name {each!r} is not UTF-8; the model is damaged")
        elif field.message_type is not None and field.name in _NAMED:
            for each in [value] if isinstance(value, Message) else value:
                _check_names(each)


#: Messages that hold names, besides graphs and tensors, which are looked at when they are read.
_NAMED = frozenset({"attribute", "type", "tensor_type", "sequence_type", "optional_type", "elem_type", "shape", "dim"})


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    opsets = {("" if each.domain == "ai.onnx" else each.domain): each.version for each in imports}
    # Very old files import nothing and mean the first version.
    return opsets or {"": 1}


def _put(values: dict[str, Host], name: str, value: Host) -> None:
    if not name or name in values:
        raise OnnxError(f"two initializers are called {name!r}, or one has no name", tensor=name)
    values[name] = value


def _value_type(proto: Any) -> ValueType:
    _check_names(proto)
    return _type_of(proto.name, proto.type)


def _type_of(name: str, proto: TypeProto) -> ValueType:
    kind = proto.WhichOneof("value") or ""
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor: Any = getattr(proto, kind)
        text = is_text_code(tensor.elem_type)
        dtype: np.dtype[Any] | None = None
        if tensor.elem_type and not text:
            try:
                dtype = dtype_of_code(tensor.elem_type)
            except ValueError as error:
                raise OnnxError(f"value {name!r}: {error}", name=name) from None
        shape = tuple(_dim(each) for each in tensor.shape.dim) if tensor.HasField("shape") else None
        return ValueType(name, "tensor", dtype, shape, text)
    if kind == "sequence_type":
        inner = _type_of(name, proto.sequence_type.elem_type)
        return ValueType(name, "sequence", inner.dtype, None, inner.is_text)
    if kind == "optional_type":
        inner = _type_of(name, proto.optional_type.elem_type)
        return ValueType(name, "optional", inner.dtype, inner.shape, inner.is_text)
    if kind:
        raise OnnxError(f"value {name!r} is a {kind.removesuffix('_type')}, which is not supported", name=name)
    return ValueType(name, "")


def _dim(proto: Any) -> Dim:
    if proto.HasField("dim_value"):
        # Some exporters write -1, or 0 at the batch axis, for an extent that they do not know.
        return int(proto.dim_value) if proto.dim_value >= 0 else None
    # Paddle calls each of them "?", and does not mean that they are equal.
    return proto.dim_param if proto.dim_param not in ("", "?") else None


def _ordered(nodes: list[Node], known: set[str], outputs: list[str]) -> tuple[list[Node], frozenset[str]]:
    """``nodes`` so that each comes after those whose values it reads, and the names that come from outside.

    Raises:
        OnnxError: a value is made twice, or nodes wait for each other.
    """
    makers: dict[str, Node] = {}
    for node in nodes:
        for output in filter(None, node.outputs):
            if output in makers or output in known:
                raise OnnxError(f"{node.title} makes {output!r}, which is made elsewhere too", node=node.name)
            makers[output] = node
    free: set[str] = set()
    ordered: list[Node] = []
    state: dict[int, bool] = {}
    for start in nodes:
        stack: list[tuple[Node, Iterable[str]]] = []

        def enter(node: Node, stack: list[tuple[Node, Iterable[str]]] = stack) -> None:
            state[id(node)] = False
            stack.append((node, iter([*filter(None, node.inputs), *(n for g in node.graphs for n in sorted(g.free))])))

        if id(start) not in state:
            enter(start)
        while stack:
            node, names = stack[-1]
            for name in names:
                maker = makers.get(name)
                if maker is None:
                    free |= {name} - known
                elif id(maker) not in state:
                    enter(maker)
                    break
                elif not state[id(maker)]:
                    raise OnnxError(f"{node.title} and {maker.title} wait for each other's results", node=node.name)
            else:
                state[id(node)] = True
                ordered.append(node)
                stack.pop()
    free |= {name for name in outputs if name not in makers and name not in known}
    return ordered, frozenset(free)
