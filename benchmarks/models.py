"""Real models against ONNX Runtime on the same cores: one call at a time, and four at once.

``asyncjit_ms`` and ``onnxruntime_ms`` are the least of many calls, taken in turns; ``ratio`` is that of the two.
``concurrency4_ratio`` is the same for four calls at once: awaited together, against four threads that share a session.
ONNX Runtime gets ``threads`` threads, which do not spin between calls; both engines are bound to as many cores.
``max_rel_err`` is the largest difference of any output, relative to the largest magnitude in it. The row ``ocr`` is a
picture through three models (detect, classify, read) and the code between them, its error that of any of them.

Needs the models: ``python -m tests.models fetch --big``. A model that is not there is named in ``missing``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

import asyncjit as aj
import asyncjit.onnx
from asyncjit.cli._cores import on_cores
from asyncjit.cli._machine import cores_usable
from asyncjit.devices.cpu import CpuDevice
from tests.models import ocr
from tests.models.cases import CASES, Case
from tests.models.judging import differences, session
from tests.models.wheels import model_path

#: A role each: bytes, vision, a transformer, sound with a state, and three models in a row.
OCR = "ocr"
ROWS = (
    *("magika-1", "find-targets-1", "focus-1", "silero-op18-16k", "silero-op15-16k", "silero-sequence-31"),
    *("ocr-detect-640x640", "ocr-classify-6", "ocr-read-320", OCR),
)

SECONDS = 3.0
CALLS_MIN, CALLS_MAX = 5, 300
CONCURRENCY = 4
WARM_UP_CALLS = 2

Outputs: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class Subject:
    """One thing to compute on both engines. ``direct`` computes on the calling thread, as ONNX Runtime does best."""

    name: str
    ours: Callable[[], Awaitable[Any]]
    theirs: Callable[[], Awaitable[Any]]
    error: Callable[[], Awaitable[float]]
    direct: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """How many threads each engine has, and the pool from which ONNX Runtime is called."""

    threads: int
    pool: ThreadPoolExecutor


def run() -> dict[str, object]:
    cases = {case.name: case for case in CASES}
    missing = [name for name in ROWS if _file(name, cases) is None]
    rows: list[dict[str, Any]] = []
    for threads in thread_counts():
        with on_cores(threads), ThreadPoolExecutor(CONCURRENCY, "onnxruntime") as pool:
            rows += [asyncio.run(_row(name, cases, Stage(threads, pool))) for name in ROWS if name not in missing]
    figures: dict[str, object] = {"rows": rows}
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        figures[f"ratio_geometric_mean_{threads}"] = round(float(np.exp(np.mean(np.log(ratios)))), 3)
    return figures | ({"missing": missing} if missing else {})


def thread_counts() -> list[int]:
    """One, and as many as there are cores."""
    return sorted({1, cores_usable()})


def _file(name: str, cases: Mapping[str, Case]) -> Path | None:
    return model_path("rapidocr-onnxruntime", ocr.FILES["read"]) if name == OCR else cases[name].file


async def _row(name: str, cases: Mapping[str, Case], stage: Stage) -> dict[str, Any]:
    async with aj.Engine([CpuDevice(workers=stage.threads)]):
        subject = _ocr(stage) if name == OCR else _model(cases[name], stage)
        error = await subject.error()
        for _ in range(WARM_UP_CALLS):
            await subject.ours()
            await subject.theirs()
        ours_s, theirs_s = await _least(subject.ours, subject.direct or subject.theirs)
        ours4_s, theirs4_s = await _least(_at_once(subject.ours), _at_once(subject.theirs))
    return {
        "model": name,
        "threads": stage.threads,
        "asyncjit_ms": round(ours_s * 1e3, 3),
        "onnxruntime_ms": round(theirs_s * 1e3, 3),
        "ratio": round(ours_s / theirs_s, 3),
        "concurrency4_ratio": round(ours4_s / theirs4_s, 3),
        "max_rel_err": float(f"{error:.1e}"),
    }


async def _least(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The shortest time of each over calls in turns."""
    best = [float("inf"), float("inf")]
    end = time.perf_counter() + SECONDS / 2
    for count in range(CALLS_MAX):
        if count >= CALLS_MIN and time.perf_counter() > end:
            break
        for index, call in enumerate((ours, theirs)):
            start = time.perf_counter()
            given = call()
            if isinstance(given, Awaitable):
                await given
            best[index] = min(best[index], time.perf_counter() - start)
    return best[0], best[1]


def _at_once(call: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def calls() -> None:
        await asyncio.gather(*(call() for _ in range(CONCURRENCY)))

    return calls


def _model(case: Case, stage: Stage) -> Subject:
    assert case.file is not None
    inputs = case.inputs()
    model, running = aj.onnx.load(case.file), session(case.file, stage.threads)
    names = [each.name for each in running.get_outputs()]
    loop = asyncio.get_running_loop()

    def direct() -> Outputs:
        return dict(zip(names, running.run(names, inputs), strict=True))

    async def ours() -> Any:
        return await model(**inputs)

    async def theirs() -> Any:
        return await loop.run_in_executor(stage.pool, direct)

    async def error() -> float:
        return max(each for each, _ in differences(await ours(), direct()).values())

    return Subject(case.name, ours, theirs, error, direct)


def _ocr(stage: Stage) -> Subject:
    files = {part: model_path("rapidocr-onnxruntime", path) for part, path in ocr.FILES.items()}
    models: dict[str, Any] = {part: aj.onnx.load(file) for part, file in files.items() if file is not None}
    running = {part: session(file, stage.threads) for part, file in files.items() if file is not None}
    metadata = {each.key: each.value for each in onnx.load(str(files["read"])).metadata_props}
    classes = ocr.characters(metadata["character"])
    picture = ocr.page(("asyncjit capture", "and replay", "Total: 1234.56 EUR"))
    loop = asyncio.get_running_loop()
    errors = [0.0]

    async def infer(part: str, x: Any) -> Any:
        [output] = (await models[part](x=x)).values()
        return np.asarray(output)

    async def oracle(part: str, x: Any) -> Any:
        return (await loop.run_in_executor(stage.pool, running[part].run, None, {"x": x}))[0]

    async def compared(part: str, x: Any) -> Any:
        right = await oracle(part, x)
        [(error, _)] = differences({part: await infer(part, x)}, {part: right}).values()
        errors.append(error)
        return right

    async def read(call: ocr.Infer) -> list[str]:
        reader = ocr.Reader(call, classes)
        return await reader.read(await reader.orient(await reader.find(picture)))

    async def error() -> float:
        await read(compared)
        return max(errors)

    return Subject(OCR, lambda: read(infer), lambda: read(oracle), error)
