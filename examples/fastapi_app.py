"""A service that classifies digits, with FastAPI: ``uvicorn --factory examples.fastapi_app:create_app``.

Requests that come at the same time share replays. A client that hangs up cancels its call, one that waits too long gets
504, and one that meets a full queue gets 503.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import numpy as np
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

import asyncjit as aj
import asyncjit.numpy as anp

PIXELS, HIDDEN, CLASSES = 64, 128, 10


class Images(BaseModel):
    """Images as rows of 64 numbers from 0 to 1."""

    images: list[list[float]] = Field(min_length=1, max_length=256)


class Labels(BaseModel):
    """One digit an image."""

    labels: list[int]


def make_classifier() -> aj.Batched[[Any], Any]:
    """The model; called where the engine is open, so that its weights live there."""
    random = np.random.default_rng(7)
    first, second = (
        anp.asarray(random.standard_normal(shape).astype(np.float32)) for shape in ((PIXELS, HIDDEN), (HIDDEN, CLASSES))
    )

    @aj.jit
    def classify(images: Any) -> Any:
        return anp.argmax(anp.maximum(images @ first, 0) @ second, axis=-1)

    return classify.batched(rows_max=32, wait_max_s=0.002)


def create_app(devices: Sequence[Any] = ("cpu",), timeout_s: float = 1.0, replays_queued_max: int = 1_000) -> FastAPI:
    """The application; ``timeout_s`` bounds what a request waits for the model, ``replays_queued_max`` how many do."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aj.Engine(devices, replays_queued_max=replays_queued_max) as app.state.engine:
            app.state.classify = make_classifier()
            await app.state.classify.prepare(aj.spec((1, PIXELS), "float32"))
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/classify")
    async def classify(body: Images, request: Request) -> Labels:
        images = np.asarray(body.images, np.float32)
        if images.shape[1:] != (PIXELS,):
            raise HTTPException(422, f"an image has {PIXELS} numbers")
        labels: Any = None
        try:
            # Requests are tasks of the server, which know nothing of what the lifespan opened.
            with app.state.engine.use(), anyio.move_on_after(timeout_s) as deadline:
                labels = await unless_disconnected(request, app.state.classify(images))
        except aj.EngineBusyError as error:
            raise HTTPException(503, "too many requests are waiting") from error
        if deadline.cancelled_caught:
            raise HTTPException(504, f"no answer within {timeout_s} s")
        # Of a client that has hung up nobody reads the answer.
        return Labels(labels=[] if labels is None else np.asarray(labels).tolist())

    return app


async def unless_disconnected(request: Request, call: Awaitable[Any]) -> Any:
    """What the call gives; None, and the call is cancelled, when the client hangs up first."""
    outcome: list[Any] = []

    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        # Kept until the group is left, which would wrap it in a group of errors.
        try:
            outcome.append(await call)
        except Exception as error:
            outcome.append(error)
        group.cancel_scope.cancel()
    if outcome and isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0] if outcome else None
