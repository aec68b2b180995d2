"""A model for a command.

Law: the one place where commands meet ``asyncjit.onnx``, so that a missing package is found there.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncjit.onnx import Model

__all__ = ["add_arguments", "load"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")


def load(options: argparse.Namespace) -> Model:
    """The model that was named.

    Raises:
        ModuleNotFoundError: onnx is not installed.
        OnnxError: the file is no model, or one that cannot be run.
        OSError: the file cannot be read.
    """
    import asyncjit.onnx

    return asyncjit.onnx.load(options.model)
