"""Data from outside: what fits is read, what does not is named by its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asyncjit.data_reader import DataReader

DATA: dict[str, Any] = {
    "number": 3,
    "below": -3,
    "true": True,
    "text": "abc",
    "real": "0x1.8p+1",
    "list": [1, 2, 3],
    "object": {"a": 1, "b": 2},
    1: "a key that is no text",
}


def read(key: str) -> DataReader:
    return DataReader(DATA, "data")[key]


def word(text: str) -> str:
    if text != "abc":
        raise ValueError(text)
    return "known"


def test_what_is_as_asked_is_given() -> None:
    assert read("number").integer() == read("number").natural() == 3
    assert read("below").integer() == -3
    assert read("true").flag() is True
    assert read("text").text() == "abc"
    assert read("text").word(word) == "known"
    assert read("real").real() == 3.0
    assert read("list").naturals() == (1, 2, 3)
    assert read("list")[2].natural() == 3
    assert read("object").mapping(DataReader.integer) == {"a": 1, "b": 2}
    assert read("number").one_of("abcd", "letters") == "d"


def test_whether_an_object_has_a_key_can_be_asked_of_anything() -> None:
    assert "a" in read("object")
    assert "c" not in read("object")
    assert "a" not in read("list")


@pytest.mark.parametrize(
    ("key", "ask", "message"),
    [
        ("object", lambda it: it["c"], r"data\.object\.c is missing"),
        ("list", lambda it: it["a"], r"data\.list must be an object, got \[1, 2, 3\]"),
        ("list", lambda it: it[3], r"data\.list must be a list of more than 3"),
        ("text", lambda it: it[0], r"data\.text must be a list of more than 0"),
        ("text", lambda it: it.each(DataReader.text), r"data\.text must be a list"),
        ("list", lambda it: it.each(DataReader.text), r"data\.list\[0\] must be text, got 1"),
        ("list", lambda it: it.mapping(DataReader.text), r"data\.list must be an object"),
        ("true", lambda it: it.integer(), r"data\.true must be an integer, got True"),
        ("below", lambda it: it.natural(), r"data\.below must be an integer of 0 or more, got -3"),
        ("number", lambda it: it.flag(), r"data\.number must be true or false"),
        ("number", lambda it: it.real(), r"data\.number must be a hexadecimal number"),
        ("text", lambda it: DataReader("wide", "p").real(), r"p must be a hexadecimal number"),
        ("number", lambda it: it.one_of("abc", "letters"), r"data\.number must be one of 3 letters"),
        ("real", lambda it: it.word(word), r"data\.real must be a known word"),
    ],
)
def test_what_is_not_as_asked_is_named(key: str, ask: Callable[[DataReader], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(read(key))


def test_an_object_has_texts_for_keys() -> None:
    with pytest.raises(ValueError, match="data must be an object"):
        DataReader(DATA, "data").mapping(lambda it: it.data)


def test_a_message_shows_no_more_than_a_line_of_data() -> None:
    with pytest.raises(ValueError, match="must be text") as caught:
        DataReader(list(range(1000)), "data").text()
    assert len(str(caught.value)) < 130
