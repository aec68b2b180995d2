"""``asyncjit run MODEL --input x=data.npy``.

Law: one call; what comes out is shown in a table, or stored.
"""

from __future__ import annotations

import argparse
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncjit.cli import _inputs, _loading
from asyncjit.cli._problems import EXIT_GOOD, CommandError
from asyncjit.cli._running import run_loop
from asyncjit.cli._tables import columns
from asyncjit.engine import Engine
from asyncjit.numpy import Array

if TYPE_CHECKING:
    from asyncjit.onnx import Model

__all__ = ["add_arguments", "run"]

#: Outputs of so few elements are printed.
SHOWN_MAX = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _loading.add_arguments(parser)
    _inputs.add_arguments(parser, made=False)
    text = "store the outputs: a folder for NAME.npy files, or a .npz file"
    parser.add_argument("--output", type=Path, metavar="DIR", help=text)


def run(options: argparse.Namespace) -> int:
    model = _loading.load(options)
    inputs = _inputs.gather(model.inputs, options)
    start = time.perf_counter()
    outputs = run_loop(lambda: _outputs(model, inputs))
    took_s = time.perf_counter() - start
    print(f"{model.name}({_inputs.shown(inputs)}) took {took_s * 1e3:.1f} ms, recording included")
    rows = [("output", "dtype", "shape", "values"), *(_row(name, value) for name, value in outputs.items())]
    print("\n".join(columns(rows)))
    if options.output is not None:
        for path in _store(outputs, options.output):
            print(f"wrote {path}")
    return EXIT_GOOD


async def _outputs(model: Model, inputs: dict[str, Any]) -> dict[str, Any]:
    async with Engine():
        return {name: await _host(value) for name, value in (await model(**inputs)).items()}


async def _host(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value if value is None else [await _host(each) for each in value]
    return np.asarray(await value if isinstance(value, Array) else value)


def _row(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, np.ndarray):
        return (name, "nothing" if value is None else f"list of {len(value)}", "", "")
    shape = str(list(value.shape))
    if value.size <= SHOWN_MAX or value.dtype.kind not in "biuf":
        text = np.array2string(value.ravel()[:SHOWN_MAX], separator=", ", precision=6, max_line_width=10_000)
        return (name, value.dtype.name, shape, text)
    low, mean, high = value.min(), value.mean(dtype=np.float64), value.max()
    return (name, value.dtype.name, shape, f"{low:.6g} to {high:.6g}, mean {mean:.6g}")


def _store(outputs: Mapping[str, Any], target: Path) -> list[Path]:
    """Write the outputs; names of values hold anything, names of files letters, digits and ``._-``."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in outputs.items():
        values = {name: value} if not isinstance(value, list) else {f"{name}.{k}": v for k, v in enumerate(value)}
        arrays |= {key: _storable(key, each) for key, each in values.items() if each is not None}
    if target.suffix == ".npz":
        target.parent.mkdir(parents=True, exist_ok=True)
        # Not by savez: it takes names as keywords, which an output called "file" cannot be.
        with zipfile.ZipFile(target, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
        return [target]
    target.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, array in arrays.items():
        stem = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        path, number = target / f"{stem}.npy", 1
        while path in paths:
            number += 1
            path = target / f"{stem}-{number}.npy"
        np.save(path, array)
        paths.append(path)
    return paths


def _storable(name: str, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Text as NumPy's text: objects would have to be pickled."""
    if value.dtype != object:
        return value
    try:
        return value.astype(np.str_)
    except (TypeError, ValueError) as error:
        raise CommandError(f"output {name!r} cannot be stored: {error}") from None
