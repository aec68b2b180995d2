"""ONNX models as awaitable functions: ``asyncjit.onnx.load``.

Needs the package ``onnx`` (``pip install 'asyncjit[onnx]'``), which reads the files; everything is computed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from asyncjit.errors import OnnxError
from asyncjit.jit.options import Options
from asyncjit.named import BatchedModel, Sizes, ValueType
from asyncjit.onnx._model import Model
from asyncjit.onnx._reading import read_model

__all__ = ["BatchedModel", "Model", "OnnxError", "ValueType", "load"]


def load(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    static: str | Iterable[str] = (),
    bucket: Mapping[str, Sizes] | None = None,
    name: str | None = None,
    value_bytes_max: int = 2**31,
    in_flight_max: int = 4,
    captures_max: int = 8,
    captures_bytes_max: int | None = None,
    on_cancel: str = "shield",
    executor: str | None = None,
) -> Model:
    """Read a model from a path, from bytes or from a ``ModelProto``, check it, and fold its constants; nothing runs.

    Args:
        static: inputs whose values are part of the signature, besides those where that is needed (see ``Model``).
        bucket: extents that named dimensions are rounded up to: ``{"batch": (1, 4, 16), "width": 32}``, sizes or one
            number that they are multiples of (so are those beyond the largest size). Inputs are padded, the first axis
            by repeating its first row, others with zeros; outputs are cut along axes that the model gives that name.
            Right for models in which what is added does not reach what is kept.
        name: what messages call it; the name of the file or of the graph unless given.
        value_bytes_max: bytes that one value may take which is computed when the model is loaded or recorded. A file of
            a kilobyte can ask for more memory than there is.
        in_flight_max, captures_max, captures_bytes_max, on_cancel, executor: as of ``jit``.

    Raises:
        OnnxError: this is no model, it is damaged or truncated, reaches outside of its folder, or uses what is not
            supported; the message names node and operator.
        OSError: the file cannot be read.
    """
    source = read_model(model, value_bytes_max)
    if name is None:
        name = Path(model).stem if isinstance(model, str | os.PathLike) else source.name
    options = Options(
        in_flight_max=in_flight_max,
        captures_max=captures_max,
        on_cancel=on_cancel,
        executor=executor,
        captures_bytes_max=captures_bytes_max,
    )
    names = (static,) if isinstance(static, str) else tuple(static)
    return Model(source, name, names, bucket or {}, value_bytes_max, options)
