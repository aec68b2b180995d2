"""Reading data that comes from outside: every piece with the path to it.

Law: type checks of what JSON can hold, and nothing of what it means. Imports the standard library only.

Nothing in such data is believed: whoever reads a piece says what it must be, and a piece that is missing or something
else raises ValueError with its path (``schedule.calls[3].operands[0].shape``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

__all__ = ["DataReader"]

T = TypeVar("T")


class DataReader:
    """A piece of data and the path to it. Methods raise ValueError with the path when the data is not as asked."""

    __slots__ = ("data", "path")

    def __init__(self, data: object, path: str) -> None:
        self.data = data
        self.path = path

    def fail(self, expected: str) -> NoReturn:
        raise ValueError(f"{self.path} must be {expected}, got {self.data!r:.80}")

    def __getitem__(self, key: str | int) -> DataReader:
        if isinstance(key, str):
            if not isinstance(self.data, dict):
                self.fail("an object")
            if key not in self.data:
                raise ValueError(f"{self.path}.{key} is missing")
            return DataReader(self.data[key], f"{self.path}.{key}")
        if not isinstance(self.data, list) or key >= len(self.data):
            self.fail(f"a list of more than {key}")
        return DataReader(self.data[key], f"{self.path}[{key}]")

    def __contains__(self, key: str) -> bool:
        return isinstance(self.data, dict) and key in self.data

    def each(self, read: Callable[[DataReader], T]) -> tuple[T, ...]:
        if not isinstance(self.data, list):
            self.fail("a list")
        return tuple(read(self[index]) for index in range(len(self.data)))

    def mapping(self, read: Callable[[DataReader], T]) -> dict[str, T]:
        if not isinstance(self.data, dict) or not all(isinstance(key, str) for key in self.data):
            self.fail("an object")
        return {key: read(self[key]) for key in self.data}

    def integer(self) -> int:
        if type(self.data) is not int:
            self.fail("an integer")
        return self.data

    def natural(self) -> int:
        if self.integer() < 0:
            self.fail("an integer of 0 or more")
        return self.integer()

    def naturals(self) -> tuple[int, ...]:
        return self.each(DataReader.natural)

    def text(self) -> str:
        if not isinstance(self.data, str):
            self.fail("text")
        return self.data

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            self.fail("true or false")
        return self.data

    def real(self) -> float:
        try:
            return float.fromhex(self.text())
        except (ValueError, OverflowError):
            self.fail("a hexadecimal number")

    def one_of(self, things: Sequence[T], what: str) -> T:
        """The thing at this position."""
        if self.natural() >= len(things):
            self.fail(f"one of {len(things)} {what}")
        return things[self.natural()]

    def word(self, words: Callable[[str], T]) -> T:
        try:
            return words(self.text())
        except ValueError:
            self.fail("a known word")
