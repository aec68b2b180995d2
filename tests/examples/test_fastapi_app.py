"""The FastAPI example: answers, hang-ups, deadlines and a full queue, over a small ASGI client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from asyncjit.testing import SimDevice

app_module = pytest.importorskip("examples.fastapi_app", reason="fastapi is not installed: pip install '.[test]'")

IMAGES = np.random.default_rng(1).random((3, 64), np.float32)


class Client:
    """One request: sends its body, then hangs up when it is told to."""

    def __init__(self, app: Any, images: Any) -> None:
        self.app = app
        self.body = json.dumps({"images": images}).encode()
        self.hang_up = asyncio.Event()
        self.status = 0
        self.answer = b""
        self._sent = False

    async def receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.answer += message.get("body", b"")

    async def ask(self) -> tuple[int, Any]:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/classify",
            "raw_path": b"/classify",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": ("test", 1),
            "server": ("test", 80),
        }
        await self.app(scope, self.receive, self.send)
        return self.status, json.loads(self.answer)


@asynccontextmanager
async def service(devices: Any = ("cpu",), **options: Any) -> AsyncIterator[Any]:
    """The application, its lifespan in a task of its own, as servers run it."""
    app = app_module.create_app(devices, **options)
    started, stopping = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            started.set()
            await stopping.wait()

    lifespan = asyncio.create_task(live())
    await started.wait()
    try:
        yield app
    finally:
        stopping.set()
        await lifespan


async def until_called(app: Any, count: int) -> None:
    """Until so many requests have reached the model."""
    for _ in range(1000):
        await asyncio.sleep(0)
        if app.state.classify.statistics().calls >= count:
            return
    raise AssertionError(f"fewer than {count} requests reached the model")


async def test_requests_at_the_same_time_share_replays_and_each_gets_its_labels() -> None:
    async with service() as app:
        _, expected = await Client(app, IMAGES.tolist()).ask()
        asked = [Client(app, IMAGES[index % 3 : index % 3 + 1].tolist()).ask() for index in range(24)]
        answers = await asyncio.gather(*asked)
        assert answers == [(200, {"labels": [expected["labels"][index % 3]]}) for index in range(24)]
        assert len(expected["labels"]) == 3
        assert app.state.classify.statistics().rows == 27


async def test_a_client_that_hangs_up_cancels_its_call() -> None:
    device = SimDevice(seed=1)
    async with service([device]) as app:
        first, second = Client(app, IMAGES.tolist()), Client(app, IMAGES.tolist())
        tasks = [asyncio.create_task(client.ask()) for client in (first, second)]
        await until_called(app, 2)
        second.hang_up.set()
        assert await tasks[1] == (200, {"labels": []})
        assert app.state.classify.statistics().cancelled == 1
        device.run_until_idle()
        status, answer = await tasks[0]
        assert (status, len(answer["labels"])) == (200, 3)


async def test_a_request_that_waits_too_long_gets_504() -> None:
    device = SimDevice(seed=1)
    async with service([device], timeout_s=0.01) as app:
        status, answer = await Client(app, IMAGES.tolist()).ask()
        assert (status, answer["detail"]) == (504, "no answer within 0.01 s")
        device.run_until_idle()


async def test_a_full_queue_gives_503() -> None:
    device = SimDevice(seed=1)
    async with service([device], timeout_s=60.0, replays_queued_max=0) as app:
        full = IMAGES[[0] * 32].tolist()
        running = [asyncio.create_task(Client(app, full).ask()) for _ in range(4)]
        await until_called(app, 4)
        try:
            status, answer = await Client(app, full).ask()
            assert (status, answer["detail"]) == (503, "too many requests are waiting")
        finally:
            device.run_until_idle()
        assert [status for status, _ in await asyncio.gather(*running)] == [200] * 4


async def test_images_of_the_wrong_size_are_refused() -> None:
    async with service() as app:
        assert (await Client(app, [[0.0] * 63]).ask())[0] == 422
        assert (await Client(app, []).ask())[0] == 422
