"""``not_captured``: part of a captured function that happens at the recording only.

Law: a switch. Operations inside go where they would go without any recording, to the engine, with tickets of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from asyncjit.jit.body import inlining
from asyncjit.numpy._dispatch import by_hand, recording

__all__ = ["not_captured"]


@contextmanager
def not_captured() -> Iterator[None]:
    """Operations in this block run at once, as outside of a captured function, and no replay repeats them.

        @aj.jit
        def step(x):
            with aj.not_captured():
                table = make_table()  # once, while step is recorded
            return anp.take(table, x)

    What is made inside is state for the function around it, made once. The block may use such arrays, host data and
    state that was made before; arguments and what was computed from them have no value while a function is recorded.
    Jitted functions called inside are calls of their own. Values may be read where a plain script may read them.
    Outside of a recording the block changes nothing; it belongs to this task.

    Raises (in the block):
        CaptureError: an operation takes an array that is being recorded; or a value is read that cannot be computed
            before the recording has ended, because another thread has called the same function meanwhile.
    """
    recorder, body, outer = recording.set(None), inlining.set(None), by_hand.set(None)
    try:
        yield
    finally:
        by_hand.reset(outer)
        inlining.reset(body)
        recording.reset(recorder)
