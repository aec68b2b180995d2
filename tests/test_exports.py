"""What a user can import: it exists, it is documented, and it means one thing.

Law: the list of public modules below is the surface; whatever is public in them stands in ``__all__``.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

from asyncjit.clock import Clock
from asyncjit.devices import Device

#: Modules whose names a user types.
PUBLIC = ("asyncjit", "asyncjit.numpy", "asyncjit.nn", "asyncjit.random", "asyncjit.errors", "asyncjit.testing")


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def public_names(name: str) -> list[str]:
    return list(load(name).__all__)


def is_documented(value: object) -> bool:
    """Classes, functions and modules say in a docstring what they are; constants and dtypes speak for themselves."""
    if inspect.isclass(value) or callable(value) or inspect.ismodule(value):
        return bool((getattr(value, "__doc__", None) or "").strip())
    return True


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_exists_and_is_listed_once(name: str) -> None:
    names = public_names(name)
    assert [each for each in names if not hasattr(load(name), each)] == []
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    assert load(name).__doc__
    assert [each for each in public_names(name) if not is_documented(getattr(load(name), each))] == []


def bare_methods(value: type) -> list[str]:
    """Public methods and properties without a contract: neither a docstring, nor one inherited, nor the protocol's."""
    found = []
    for name, member in vars(value).items():
        body = member.fget if isinstance(member, property) else member
        contracts = (body, getattr(Device, name, None), getattr(Clock, name, None))
        if not name.startswith("_") and inspect.isfunction(body) and not any(map(inspect.getdoc, contracts)):
            found.append(f"{value.__name__}.{name}")
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_public_methods_are_documented(name: str) -> None:
    values = [getattr(load(name), each) for each in public_names(name)]
    ours = [value for value in values if inspect.isclass(value) and value.__module__.startswith("asyncjit")]
    assert [bare for value in ours for bare in bare_methods(value)] == []


def test_a_method_without_a_contract_is_found() -> None:
    class Subject:
        def bare(self) -> None: ...

        @property
        def bare_too(self) -> None: ...

        def told(self) -> None:
            """Do nothing."""

    assert bare_methods(Subject) == ["Subject.bare", "Subject.bare_too"]


def test_a_name_means_the_same_thing_wherever_it_is_public() -> None:
    """``asyncjit.KernelError`` and ``asyncjit.errors.KernelError`` are one class; no word has two meanings."""
    meanings: dict[str, list[object]] = {}
    for name in PUBLIC:
        for each in public_names(name):
            meanings.setdefault(each, []).append(getattr(load(name), each))
    assert [each for each, values in meanings.items() if any(value is not values[0] for value in values)] == []


def test_every_error_can_be_caught_from_the_top() -> None:
    assert [each for each in public_names("asyncjit.errors") if each not in public_names("asyncjit")] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_nothing_public_hides_outside_the_list(name: str) -> None:
    """A class or function made by asyncjit that a module shows without an underscore is listed."""
    module = load(name)
    stray = [
        each
        for each, value in vars(module).items()
        if not each.startswith("_")
        and each not in module.__all__
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("asyncjit")
    ]
    assert stray == []
