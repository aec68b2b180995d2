"""Inputs of a model from the command line: files, numbers, and what is made of a seed.

Law: what a user wrote becomes arrays of the declared kind, or a ``CommandError`` that says which words were meant.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from asyncjit.cli._problems import CommandError

if TYPE_CHECKING:
    from asyncjit.onnx import ValueType

__all__ = ["add_arguments", "gather", "shown"]

Host: TypeAlias = "np.ndarray[Any, Any]"

_HELP = (
    "an input: NAME=FILE.npy, NAME=FILE.npz[:KEY], NAME=rand:1,3,224,224 (made of the seed), NAME=16000 or NAME=[1,2] "
    "(JSON); FILE.npz alone holds inputs by name; may be repeated"
)


def add_arguments(parser: argparse.ArgumentParser, *, made: bool) -> None:
    """The options for inputs. ``made``: those not given are made from the declared shapes."""
    parser.add_argument("--input", action="append", default=[], metavar="NAME=SOURCE", dest="inputs", help=_HELP)
    text = "the extent of a named dimension in what is made (default 1); may be repeated"
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N", dest="dims", help=text)
    parser.add_argument("--seed", type=int, default=0, help="of what is made (default 0)")
    parser.set_defaults(makes_inputs=made)


def gather(types: Sequence[ValueType], options: argparse.Namespace) -> dict[str, Any]:
    """The inputs by name, as the options say.

    Raises:
        CommandError: a word makes no sense, a file holds something else, an input is missing.
        OSError: a file cannot be read.
    """
    known = {each.name: each for each in types}
    rng = np.random.default_rng(options.seed)
    given: dict[str, Any] = {}
    for word in options.inputs:
        for name, value in _read(word, known, rng).items():
            if name in given:
                raise CommandError(f"input {name!r} is given twice")
            given[name] = value
    missing = [each for each in types if each.name not in given and each.kind != "optional"]
    if missing and not options.makes_inputs:
        names = ", ".join(_described(each) for each in missing)
        raise CommandError(f"inputs are missing: {names}; pass --input NAME=FILE.npy, or NAME=rand:EXTENTS")
    dims = _dims(options.dims, types)
    return given | {each.name: _made(each, _extents(each, dims), rng) for each in missing}


def shown(inputs: Mapping[str, Any]) -> str:
    """``x float32[1, 3, 48, 192], sr int64[] = 16000``."""
    parts = []
    for name, value in inputs.items():
        array = value if isinstance(value, np.ndarray) else None
        kind = f"{array.dtype.name}{list(array.shape)}" if array is not None else f"list of {len(value)}"
        parts.append(f"{name} {kind}" + (f" = {array.item()}" if array is not None and array.ndim == 0 else ""))
    return ", ".join(parts)


def _described(kind: ValueType) -> str:
    dtype = "text" if kind.is_text else "?" if kind.dtype is None else kind.dtype.name
    shape = "" if kind.shape is None else str([each if each is not None else "?" for each in kind.shape])
    return f"{kind.name} {dtype}{shape}".replace("'", "")


def _read(word: str, known: Mapping[str, ValueType], rng: np.random.Generator) -> dict[str, Any]:
    """The input or inputs that one ``--input`` names."""
    name, equals, source = word.partition("=")
    if not equals:
        if word.endswith(".npz"):
            return {each: _fitting(_known(known, each), value) for each, value in _archive(Path(word)).items()}
        if len(known) != 1:
            raise CommandError(f"--input {word} names no input; write NAME={word}, with one of {', '.join(known)}")
        name, source = next(iter(known)), word
    kind = _known(known, name)
    return {name: _fitting(kind, _value(kind, source, rng))}


def _known(known: Mapping[str, ValueType], name: str) -> ValueType:
    if name not in known:
        raise CommandError(f"the model has no input {name!r}; it has {', '.join(known) or 'none'}")
    return known[name]


def _value(kind: ValueType, source: str, rng: np.random.Generator) -> Any:
    if source.startswith("rand:"):
        return _made(kind, _numbers(source.removeprefix("rand:"), f"{kind.name}={source}"), rng)
    path, _, key = source.partition(".npz:")
    if key:
        arrays = _archive(Path(f"{path}.npz"))
        if key not in arrays:
            raise CommandError(f"{path}.npz holds no array {key!r}; it holds {', '.join(arrays)}")
        return arrays[key]
    if source.endswith(".npz"):
        arrays = _archive(Path(source))
        if kind.kind == "sequence":
            return list(arrays.values())
        if kind.name not in arrays and len(arrays) != 1:
            raise CommandError(f"{source} holds {', '.join(arrays)}; say which is meant: {kind.name}={source}:KEY")
        return arrays[kind.name] if kind.name in arrays else next(iter(arrays.values()))
    if source.endswith(".npy"):
        return _load(Path(source))
    return _literal(kind, source)


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path} is not what numpy.save writes, or is damaged: {error}") from None


def _archive(path: Path) -> dict[str, Host]:
    archive = _load(path)
    if not hasattr(archive, "files"):
        raise CommandError(f"{path} holds one array without a name; it is no .npz file")
    try:
        with archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path} is damaged: {error}") from None


def _literal(kind: ValueType, source: str) -> Host:
    """A number, or a list of numbers or of text, as JSON."""
    try:
        value = json.loads(source)
    except ValueError:
        raise CommandError(
            f"{kind.name}={source}: that is neither a .npy or .npz file, nor rand:EXTENTS, nor a number or list in JSON"
        ) from None
    try:
        return np.asarray(value, object if kind.is_text else kind.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise CommandError(f"{_described(kind)} cannot be made of {source}: {error}") from None


def _fitting(kind: ValueType, value: Any) -> Any:
    """``value`` in the declared dtype where that is of the same kind: what NumPy makes by default is float64."""
    if kind.dtype is None or not isinstance(value, np.ndarray) or value.dtype == kind.dtype:
        return value
    if not np.can_cast(value.dtype, kind.dtype, "same_kind"):
        raise CommandError(f"{_described(kind)} was given {value.dtype.name}, which is another kind of number")
    print(f"{kind.name}: converted from {value.dtype.name} to {kind.dtype.name}", file=sys.stderr)
    return value.astype(kind.dtype)


def _numbers(text: str, word: str) -> tuple[int, ...]:
    try:
        extents = tuple(int(each) for each in text.split(",") if each.strip())
    except ValueError:
        raise CommandError(f"{word}: extents are numbers with commas between, such as 1,3,224,224") from None
    if any(each < 0 for each in extents):
        raise CommandError(f"{word}: extents are not negative")
    return extents


def _dims(words: Sequence[str], types: Sequence[ValueType]) -> dict[str, int]:
    names = sorted({each for kind in types for each in kind.shape or () if isinstance(each, str)})
    dims = {}
    for word in words:
        name, _, extent = word.rpartition("=")
        if name not in names:
            raise CommandError(f"--dim {word}: no dimension is called {name!r}; there are {', '.join(names) or 'none'}")
        if not extent.isdecimal():
            raise CommandError(f"--dim {word}: write NAME=N, with a number N")
        dims[name] = int(extent)
    return dims


def _extents(kind: ValueType, dims: Mapping[str, int]) -> tuple[int, ...]:
    if kind.shape is None or kind.kind != "tensor":
        raise CommandError(f"{_described(kind)} says not how large it is; pass --input {kind.name}=FILE.npy")
    return tuple(each if isinstance(each, int) else dims.get(each or "", 1) for each in kind.shape)


def _made(kind: ValueType, extents: tuple[int, ...], rng: np.random.Generator) -> Host:
    """Floats from 0 to 1; integers 0 and 1, which are indices into anything that has two entries."""
    if kind.is_text or kind.dtype is None:
        raise CommandError(f"{_described(kind)} cannot be made of a seed; pass --input {kind.name}=FILE.npy")
    if kind.dtype.kind in "biu":
        return rng.integers(0, 2, extents).astype(kind.dtype)
    return rng.random(extents).astype(kind.dtype)
