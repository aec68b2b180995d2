"""Clients of an HTTP server over kept connections, with little of their own: raw HTTP/1.1 on asyncio's protocols."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

__all__ = ["ask", "load"]


class _Client(asyncio.Protocol):
    """Sends the same request again and again, each when the last is answered, until the time is over."""

    def __init__(self, body: bytes, path: str, until_s: float) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        self._request = head.encode() + body
        self._until_s = until_s
        self._pending = b""
        self._sent_s = 0.0
        self.taken_s: list[float] = []
        self.answers: set[bytes] = set()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        head, blank, body = self._pending.partition(b"\r\n\r\n")
        if not blank:
            return
        lower = head.lower()
        length = int(lower.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            self._transport.abort()
            self.ended.set_exception(RuntimeError(f"the server answered {head!r}"))
            return
        now_s = time.perf_counter()
        self.taken_s.append(now_s - self._sent_s)
        self.answers.add(body)
        self._pending = b""
        if now_s < self._until_s:
            self._send()
        else:
            self._transport.close()
            self.ended.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("the server closed the connection"))


async def load(
    port: int, bodies: Sequence[bytes], seconds: float, path: str = "/"
) -> list[tuple[list[float], set[bytes]]]:
    """One client a body for so long; of each, the seconds that its requests took, and the answers that it got."""
    until_s = time.perf_counter() + seconds
    clients = [_Client(body, path, until_s) for body in bodies]
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.create_connection(lambda c=client: c, "127.0.0.1", port) for client in clients))
    await asyncio.gather(*(client.ended for client in clients))
    return [(client.taken_s, client.answers) for client in clients]


async def ask(port: int, path: str) -> bytes:
    """One request without a body; what it was answered."""
    [(_, answers)] = await load(port, [b""], 0.0, path)
    return answers.pop()
