"""The tree of errors: who is whose kind, and what an error carries."""

from __future__ import annotations

import pickle

import pytest

from asyncjit import errors
from asyncjit.errors import AsyncJitError, DeviceOutOfMemoryError, HostReadError, KernelError

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_caught_by_the_base(kind: type[AsyncJitError]) -> None:
    with pytest.raises(AsyncJitError, match="what went wrong"):
        raise kind("what went wrong")


def test_errors_that_python_has_a_name_for_are_caught_by_that_name() -> None:
    assert issubclass(HostReadError, ValueError)
    assert issubclass(DeviceOutOfMemoryError, MemoryError)


def test_the_tree_in_the_docstring_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    assert [name for name in errors.__all__ if name not in drawn] == []


def test_details_are_attributes() -> None:
    error = KernelError("call 3 failed", kernel="add", call_index=3)
    assert error.details == {"kernel": "add", "call_index": 3}
    assert error.kernel == "add"
    assert error.call_index == 3


def test_a_missing_detail_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match=r"'shapes'.*\['kernel'\]"):
        _ = KernelError("failed", kernel="add").shapes


def test_an_error_without_its_details_still_answers() -> None:
    bare = KernelError.__new__(KernelError)
    with pytest.raises(AttributeError, match="kernel"):
        _ = bare.kernel


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling_with_their_details(kind: type[AsyncJitError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("queue is full", limit=3)))
    assert type(copy) is kind
    assert str(copy) == "queue is full"
    assert copy.limit == 3
