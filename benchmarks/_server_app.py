"""The server that ``server`` asks: ``python -m benchmarks._server_app MODEL CASE`` prints its port and serves.

Law: one route a case, the same model and the same bytes in and out in all of them; nothing measures here but the ticker
between ``/lag/start`` and ``/lag/stop``.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import asyncjit as aj
import asyncjit.numpy as anp
from benchmarks._measure import percentile

PIXELS, CLASSES = 64, 10

#: Widths of the layers. One row of "2 ms" reads 20 MB of weights.
MODELS = {"digits": (PIXELS, 128, CLASSES), "2 ms": (PIXELS, 1280, 1280, 1280, 1280, CLASSES)}

CASES = ("constant", "engine", "batched", "direct", "to_thread")

Answer = Callable[[np.ndarray[Any, Any]], Awaitable[int]]

TICK_S = 0.001


def weights_of(model: str) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    widths = MODELS[model]
    return [
        (random.standard_normal(pair) * np.sqrt(2 / pair[0])).astype(np.float32) for pair in itertools.pairwise(widths)
    ]


def forward(xp: Any, x: Any, weights: list[Any]) -> Any:
    for weight in weights[:-1]:
        x = xp.maximum(x @ weight, 0)
    return xp.argmax(x @ weights[-1], axis=-1)


async def answer_of(model: str, case: str) -> Answer:
    """How a case gets the label of a row."""
    hosts = weights_of(model)

    def compute(row: np.ndarray[Any, Any]) -> int:
        return int(forward(np, row, hosts)[0])

    async def constant(row: np.ndarray[Any, Any]) -> int:
        return 0

    async def direct(row: np.ndarray[Any, Any]) -> int:
        return compute(row)

    async def to_thread(row: np.ndarray[Any, Any]) -> int:
        return await asyncio.to_thread(compute, row)

    plain: dict[str, Answer] = {"constant": constant, "direct": direct, "to_thread": to_thread}
    if case in plain:
        return plain[case]
    weights = [anp.asarray(host) for host in hosts]

    @aj.jit
    def classify(x: Any) -> Any:
        return forward(anp, x, weights)

    function: Any = classify.batched(rows_max=32, wait_max_s=0.005) if case == "batched" else classify
    await function.prepare(aj.spec((1, PIXELS), "float32"))

    engine = aj.current_engine()

    async def replayed(row: np.ndarray[Any, Any]) -> int:
        with engine.use():
            return int(np.asarray(await function(row))[0])

    return replayed


class Lag:
    """How late a ticker wakes on the server's loop."""

    def __init__(self) -> None:
        self._late_ms: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self, request: Request) -> Response:
        self._late_ms = []
        self._task = asyncio.create_task(self._tick())
        return PlainTextResponse("ticking")

    async def stop(self, request: Request) -> Response:
        assert self._task is not None
        self._task.cancel()
        return JSONResponse(percentile(self._late_ms, 0.99))

    async def _tick(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self._late_ms.append((time.perf_counter() - start - TICK_S) * 1e3)


def application(model: str, case: str) -> Starlette:
    lag = Lag()
    answers: list[Answer] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with aj.Engine():
            answers.append(await answer_of(model, case))
            yield

    async def classify(request: Request) -> Response:
        row = np.frombuffer(await request.body(), np.float32)[None]
        return PlainTextResponse(str(await answers[0](row)))

    routes = [
        Route("/", classify, methods=["POST"]),
        Route("/lag/start", lag.start, methods=["POST"]),
        Route("/lag/stop", lag.stop, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def main(model: str, case: str) -> None:
    config = uvicorn.Config(
        application(model, case), loop="asyncio", http="h11", ws="none", log_level="error", access_log=False
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
