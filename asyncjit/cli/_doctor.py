"""``asyncjit doctor``: what is here, what is in the way, and what to do about it.

Law: each finding is a fact with a verdict, and advice where the verdict is not good. Nothing is changed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from asyncjit import __version__
from asyncjit.cli import _machine
from asyncjit.cli._problems import EXIT_FAILED, EXIT_GOOD
from asyncjit.cli._tables import byte_count
from asyncjit.devices.cpu import CpuDevice
from asyncjit.engine import Engine
from asyncjit.errors import AsyncJitError
from asyncjit.jit import jit
from asyncjit.numpy import Array
from asyncjit.settings import settings

__all__ = ["Finding", "add_arguments", "findings", "run"]

#: What each optional package is for, and what installs it.
OPTIONAL = {
    "onnx": ("ONNX models", "'asyncjit[onnx]'"),
    "onnxruntime": ("asyncjit bench --compare onnxruntime", "onnxruntime"),
    "matplotlib": ("asyncjit bench --plot", "matplotlib"),
    "rich": ("asyncjit demo", "'asyncjit[demo]'"),
    "scikit-learn": ("asyncjit demo", "'asyncjit[demo]'"),
    "uvloop": ("a faster asyncio loop", "uvloop"),
    "trio": ("the trio loop", "trio"),
}

MARKS = {"good": "ok", "note": "--", "problem": "!!"}


@dataclass(frozen=True, slots=True)
class Finding:
    """``verdict``: "good"; "note", something that may be as it should; "problem". ``advice`` is empty where good."""

    what: str
    fact: str
    verdict: str = "good"
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Print all findings. Returns 1 when one is a problem."""
    found = list(findings())
    if options.json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        width = max(len(each.what) for each in found)
        for each in found:
            print(f"{MARKS[each.verdict]}  {each.what.ljust(width)}  {each.fact}")
            if each.advice:
                print(f"{' ' * (width + 6)}{each.advice}")
    return EXIT_FAILED if any(each.verdict == "problem" for each in found) else EXIT_GOOD


def findings() -> Iterator[Finding]:
    yield Finding("asyncjit", f"{__version__}, settings {settings()}")
    yield Finding("python", _python())
    yield from _cores(_machine.cores_usable(), _machine.cgroup_cores(), _machine.load_average())
    limit = _machine.cgroup_memory_bytes()
    yield Finding("memory limit", "none" if limit is None else f"{byte_count(limit)}, of the container")
    yield from _blas()
    yield from _environment(os.environ.get)
    yield _device()
    yield Finding("compiler", "not needed: kernels are NumPy's")
    yield _loops()
    yield from _packages(_machine.version_of)
    yield _works()


def _python() -> str:
    asks = getattr(sys, "_is_gil_enabled", None)
    lock = "" if asks is None or asks() else ", without the global lock"
    return f"{platform.python_version()} ({platform.python_implementation()}{lock}) on {platform.platform(terse=True)}"


def _cores(usable: int, quota: float | None, load: float | None) -> Iterator[Finding]:
    fact = f"{usable} of {os.cpu_count()} may be used" + ("" if quota is None else f", a quota of {quota:g}")
    if quota is not None and quota + 0.5 < usable:
        workers = max(1, round(quota))
        advice = (
            f"the quota stops {usable} workers part of the time; open the engine with as many as it allows: "
            f"aj.Engine([asyncjit.devices.cpu.CpuDevice(workers={workers})])"
        )
        yield Finding("cores", fact, "problem", advice)
    else:
        yield Finding("cores", fact)
    if load is not None and load > usable:
        advice = "others use the cores; figures of asyncjit bench mean little until they are done"
        yield Finding("load", f"{load:.1f} processes on {usable} cores", "note", advice)


def _blas() -> Iterator[Finding]:
    found = _machine.blas_libraries()
    if not found:
        advice = (
            "threads of NumPy's library cannot be limited, and may get in the way; pip install --force-reinstall numpy"
        )
        yield Finding("numpy", f"{np.__version__}, with a BLAS that is not known", "note", advice)
    for each in found:
        fact = f"{np.__version__}, {each['internal_api']} {each.get('version') or ''}".rstrip()
        yield Finding("numpy", f"{fact}, {each['num_threads']} threads now; a running engine leaves cores / workers")
    if len(found) > 1:
        advice = "each has threads of its own; packages from one source (all of PyPI, or all of conda) share one"
        yield Finding("blas", f"{len(found)} libraries are loaded", "note", advice)


def _environment(get: Callable[[str], str | None]) -> Iterator[Finding]:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        value = get(name)
        if value:
            yield Finding(name, f"{value}; the engine sets its own limit while it is open")
    if settings().jit != "on":
        advice = "unset ASYNCJIT_JIT: captured functions run their Python code at each call"
        yield Finding("ASYNCJIT_JIT", settings().jit, "problem" if settings().jit == "off" else "note", advice)


def _device() -> Finding:
    device = CpuDevice()
    return Finding("devices", f"cpu: {device.workers} workers, executor numpy")


def _loops() -> Finding:
    return Finding("event loops", ", ".join(["asyncio", *filter(_machine.version_of, ("uvloop", "trio"))]))


def _packages(version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    for name in ("numpy", "anyio", "threadpoolctl"):
        version = version_of(name)
        if version is None:
            yield Finding(name, "is not installed as a package", "problem", f"pip install {name}")
        elif name != "numpy":
            yield Finding(name, version)
    for name, (purpose, brings) in OPTIONAL.items():
        version = version_of(name)
        if version is None:
            yield Finding(name, "not installed", "note", f"for {purpose}: pip install {brings}")
        else:
            yield Finding(name, version)


def _works() -> Finding:
    """Whether a captured function gives what NumPy gives, on a worker of an engine of its own."""
    given: Any = np.arange(12.0).reshape(3, 4)
    expected = np.tanh(given @ given.T)

    def product(x: Array) -> Array:
        from asyncjit.numpy import tanh

        return tanh(x @ x.T)

    async def compute() -> np.ndarray:
        async with Engine([CpuDevice(inline_s_max=0)]):
            function = jit(product)
            await function(given)
            return np.asarray(await function(given))

    try:
        right = np.allclose(asyncio.run(compute()), expected)
    except (AsyncJitError, OSError, RuntimeError) as error:
        return Finding("a replay", f"failed: {error}", "problem", "please report this, with the output of this command")
    if not right:
        return Finding("a replay", "is wrong", "problem", "please report this, with the output of this command")
    return Finding("a replay", "gives what NumPy gives")
