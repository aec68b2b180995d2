"""Functions whose inputs and outputs have names and declared kinds: what an ONNX model is once its graph is recorded.

Law: no graph and no file here; ``onnx`` makes such functions of models, ``saving`` of files.
"""

from __future__ import annotations

from asyncjit.named.buckets import Buckets, Cut, Sizes
from asyncjit.named.function import BatchedModel, NamedFunction, NamedModel
from asyncjit.named.inputs import Dim, ValueType, bind, check_shapes, describe, identifiers, listed
from asyncjit.named.known import Known, to_host

__all__ = [
    "BatchedModel",
    "Buckets",
    "Cut",
    "Dim",
    "Known",
    "NamedFunction",
    "NamedModel",
    "Sizes",
    "ValueType",
    "bind",
    "check_shapes",
    "describe",
    "identifiers",
    "listed",
    "to_host",
]
