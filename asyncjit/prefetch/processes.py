"""Transforms in processes: for decoders that hold the interpreter lock.

Law: one side of a conversation; the other is ``child``. A process belongs to one producer thread, which talks to it.

Processes are spawned: a forked child would have the engine's locks and none of its threads. The block of shared memory
is the parent's, so that nothing stays behind when a child is killed; it is used again for every item, because the
arrays in it are copied to the device before the next item is sent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from asyncjit.prefetch import child
from asyncjit.prefetch.items import Staging

__all__ = ["ProcessApply", "pickled_transform"]

#: For a process that was told to end and has nothing left to do.
GRACE_S = 1.0


def pickled_transform(transform: Callable[[Any], Any], what: str) -> bytes:
    """The transform as it goes to a process.

    Raises:
        TypeError: it cannot be sent there.
    """
    try:
        return pickle.dumps(transform)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to a process ({error}); executor='process' takes functions that stand at the top "
            "of a module, or objects that pickle"
        ) from error


class ProcessApply:
    """Applies a transform in a process of its own, which starts with the first item."""

    def __init__(self, transform_pickled: bytes, what: str, staging: Staging) -> None:
        self._transform_pickled = transform_pickled
        self._what = what
        self._staging = staging
        self._process: BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._block: SharedMemory | None = None

    def __call__(self, item: Any) -> Any:
        """The result on the device.

        Raises:
            TypeError: the item cannot be sent. ChildProcessError: the process ended. And whatever the transform raises.
        """
        try:
            item_pickled = pickle.dumps(item)
        except Exception as error:
            raise TypeError(
                f"an item cannot be sent to the process of {self._what} ({error}); let the source give paths, indices "
                "or bytes"
            ) from error
        kind, content = self._ask(item_pickled)
        if kind == child.ERROR:
            raise child.error_of(content)
        try:
            return self._on_device(content)
        except BaseException as error:
            # Arrays over the block must not be reachable from it: NumPy does not keep the mapping alive, so whoever
            # shows the variables of a traceback would read memory that is gone.
            traceback.clear_frames(error.__traceback__)
            raise

    def _ask(self, item_pickled: bytes) -> tuple[str, Any]:
        connection = self._connection or self._start()
        try:
            connection.send_bytes(item_pickled)
            kind, content = connection.recv()
            if kind == child.NEED:
                connection.send(self._larger(content).name)
                kind, content = connection.recv()
        except (EOFError, OSError) as error:
            assert self._process is not None
            self._process.join(GRACE_S)
            raise ChildProcessError(
                f"the process of {self._what} ended (exit code {self._process.exitcode}) before it gave a result; its "
                "own output says why: it may have been killed for its memory, or the main module starts work without "
                "`if __name__ == '__main__'`"
            ) from error
        return kind, content

    def _start(self) -> Connection[Any, Any]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=child.main, args=(theirs, self._transform_pickled), name="asyncjit-prefetch", daemon=True
        )
        self._process = process
        self._connection = ours
        process.start()
        # With our copy closed, the end of the process is the end of the pipe.
        theirs.close()
        return ours

    def _larger(self, nbytes: int) -> SharedMemory:
        """A block of that size in place of the one before."""
        self._drop_block()
        self._block = SharedMemory(create=True, size=nbytes)
        return self._block

    def _on_device(self, result_pickled: bytes) -> Any:
        block = None if self._block is None else self._block.buf
        return child.refill(pickle.loads(result_pickled), lambda place: self._staging.staged(place.view(block)))

    def _drop_block(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.unlink()
            block.close()

    def close(self) -> None:
        """End the process and give the shared memory back."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send_bytes(b"")
            self._connection.close()
        if self._process is not None and self._process.pid is not None:
            self._process.join(GRACE_S)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process.close()
        self._drop_block()

    def kill(self) -> None:
        """End the process in the middle of an item. Any thread."""
        process = self._process
        # ValueError: it has ended and was closed at this moment.
        with contextlib.suppress(ValueError):
            if process is not None and process.pid is not None:
                process.kill()
