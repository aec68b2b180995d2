"""Functions of a model, and those that define operators by others: their bodies in the place of a call.

Law: rewrites protobufs, because attributes of a call have to be put into the body before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import onnx
from onnx import FunctionProto, GraphProto, NodeProto

from asyncjit.errors import OnnxError
from asyncjit.onnx.operators import supports

__all__ = ["Functions"]


class Functions:
    """The functions that calls may name: those of the model, then those of the operators that have no handler here."""

    def __init__(self, protos: Iterable[FunctionProto], opsets: Mapping[str, int]) -> None:
        self._own: dict[tuple[str, str, str], FunctionProto] = {}
        for proto in protos:
            self._own[_domain(proto.domain), proto.name, getattr(proto, "overload", "")] = proto
        self._calls = 0

    def find(self, node: NodeProto, opsets: Mapping[str, int]) -> FunctionProto | None:
        """The function that ``node`` calls, or None where it is an operator of its own."""
        domain = _domain(node.domain)
        own = self._own.get((domain, node.op_type, getattr(node, "overload", "")))
        if own is not None:
            return own
        version = opsets.get(domain)
        if version is None or supports(domain, node.op_type, version):
            return None
        schema: Any
        try:
            schema = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            return None
        if not schema.has_function:
            return None
        function: FunctionProto = deepcopy(schema.function_body)
        given = {attribute.name for attribute in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in given and attribute.default_value.name:
                node.attribute.append(attribute.default_value)
        if not function.opset_import:
            function.opset_import.extend(onnx.helper.make_opsetid(key, value) for key, value in opsets.items())
        return function

    def body(self, function: FunctionProto, call: NodeProto) -> tuple[list[NodeProto], dict[str, int]]:
        """The nodes of ``function`` for ``call``, with names of their own, and the opsets that they are of.

        Raises:
            OnnxError: the call passes more than the function takes.
        """
        self._calls += 1
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise OnnxError(
                f"node {call.name!r} calls the function {function.name!r} with {len(call.input)} inputs and "
                f"{len(call.output)} outputs; it has {len(function.input)} and {len(function.output)}",
                node=call.name,
            )
        names = {"": ""}
        names |= dict.fromkeys(function.input, "") | dict.fromkeys(function.output, "")
        names |= dict(zip(function.input, call.input, strict=False))
        outputs = {name: given for name, given in zip(function.output, call.output, strict=False) if given}
        renamed = _Renamed(f"{call.name or call.op_type}/{self._calls}/", names | outputs, _attributes(function, call))
        # An output that is an input as well, or is made nowhere, is passed on.
        passed = [
            onnx.helper.make_node("Identity", [names[name]], [given])
            for name, given in outputs.items()
            if name in function.input
        ]
        for name in function.output:
            if name not in outputs:
                renamed.names.pop(name, None)
        nodes = [renamed.node(each) for each in function.node]
        opsets = {_domain(each.domain): each.version for each in function.opset_import}
        return nodes + passed, opsets


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _attributes(function: FunctionProto, call: NodeProto) -> dict[str, Any]:
    values: dict[str, Any] = {each.name: each for each in function.attribute_proto}
    values |= {each.name: each for each in call.attribute}
    return values


class _Renamed:
    """Copies of nodes with the values of a call in the place of a function's."""

    def __init__(self, prefix: str, names: dict[str, str], attributes: Mapping[str, Any]) -> None:
        self.prefix = prefix
        self.names = names
        self.attributes = attributes

    def name(self, name: str) -> str:
        return self.names.setdefault(name, self.prefix + name)

    def node(self, proto: NodeProto) -> NodeProto:
        copy = NodeProto()
        copy.CopyFrom(proto)
        copy.name = self.prefix + (proto.name or proto.op_type)
        copy.input[:] = [self.name(each) for each in proto.input]
        copy.output[:] = [self.name(each) for each in proto.output]
        del copy.attribute[:]
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                given = self.attributes.get(attribute.ref_attr_name)
                if given is None:
                    continue
                own = copy.attribute.add()
                own.CopyFrom(given)
                own.name = attribute.name
            else:
                own = copy.attribute.add()
                own.CopyFrom(attribute)
            if own.HasField("g"):
                self.graph(own.g)
        return copy

    def graph(self, graph: GraphProto) -> None:
        """Rename in place; names that the graph makes itself are its own."""
        for value in (*graph.input, *graph.initializer, *graph.output):
            value.name = self.name(value.name)
        nodes = [self.node(each) for each in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
