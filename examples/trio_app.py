"""A service on trio: sums of squares over TCP, one line of numbers a request; ``python examples/trio_app.py``.

Each connection is a task of a nursery; concurrent requests share replays; ``trio.move_on_after`` is the deadline. The
engine, arrays and functions are those that asyncio programs use.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import trio

import asyncjit as aj

NUMBERS = 8
CLIENTS = 16
DEADLINE_S = 1.0


@aj.jit
def sum_of_squares(rows: Any) -> Any:
    return (rows * rows).sum(axis=1)


async def answer(call: Any, stream: trio.SocketStream) -> None:
    """Serve one connection: each line of numbers is answered by a line."""
    pending = b""
    async for chunk in stream:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            row = np.array([line.split()], np.float64)
            reply = b"late\n"
            with trio.move_on_after(DEADLINE_S):
                [total] = np.asarray(await call(row)).tolist()
                reply = f"{total}\n".encode()
            await stream.send_all(reply)


async def ask(port: int, number: int, replies: dict[int, float]) -> None:
    """One client: one request."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(" ".join([str(number)] * NUMBERS).encode() + b"\n")
        replies[number] = float(await stream.receive_some())


async def main() -> None:
    """Serve on a free port, and be asked by a few clients at once."""
    replies: dict[int, float] = {}
    async with aj.Engine():
        call = sum_of_squares.batched(rows_max=8, wait_max_s=0.002)
        await call.prepare(aj.spec((1, NUMBERS), "float64"))
        async with trio.open_nursery() as server:
            [listener] = await server.start(
                partial(trio.serve_tcp, partial(answer, call), port=0, host="127.0.0.1"),
            )
            port = listener.socket.getsockname()[1]
            async with trio.open_nursery() as clients:
                for number in range(CLIENTS):
                    clients.start_soon(ask, port, number, replies)
            server.cancel_scope.cancel()
    print([replies[number] for number in range(CLIENTS)])


if __name__ == "__main__":
    trio.run(main)
