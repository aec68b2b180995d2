"""Where the Python function of a loaded one comes from: its own module, or nowhere.

Law: decides whether recording anew would give what the loaded captures go with; runs nothing of the user's.

A loaded function replays what was captured. A signature that was not captured has to be recorded, which needs the
Python function, and is right only if that is the one that was saved, reads the same values outside, and keeps no state:
the arrays that it would read are those of its module, not the loaded ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from asyncjit.data_reader import DataReader
from asyncjit.errors import ReplayMismatchError, SaveError
from asyncjit.jit.function import JitFunction
from asyncjit.jit.guards import Guards, plain_function
from asyncjit.jit.signature import Parameters
from asyncjit.jit.words import in_words
from asyncjit.saving.names import Names, named
from asyncjit.saving.values import bytes_of, read_value, value_to_data
from asyncjit.variables import Bound, Variable

__all__ = ["Sourceless", "find_source", "read_signature", "read_source", "signature_to_data", "source_to_data"]

_PARAMETER = inspect.Parameter
_KINDS = {
    kind.name: kind
    for kind in (
        *(_PARAMETER.POSITIONAL_ONLY, _PARAMETER.POSITIONAL_OR_KEYWORD, _PARAMETER.VAR_POSITIONAL),
        *(_PARAMETER.KEYWORD_ONLY, _PARAMETER.VAR_KEYWORD),
    )
}


class Sourceless:
    """Stands for the Python function of a loaded one: its name and its parameters, and no body."""

    def __init__(self, source: dict[str, Any], signature: inspect.Signature, reason: str) -> None:
        self.__name__ = source["name"]
        self.__qualname__ = source["qualname"]
        self.__module__ = source["module"]
        self.__signature__ = signature
        self._reason = reason
        #: What ``source_to_data`` gave of the function that was saved, for when it is saved again.
        self._source = source
        #: The signatures that are captured, in words; set by whoever makes the jitted function.
        self._captures: Callable[[], Sequence[str]] = list

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to be recorded.

        Raises:
            ReplayMismatchError: always.
        """
        self._refuse(args, kwargs)

    def _refuse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        parameters = Parameters(self, (), ())
        values = parameters.bind(args, kwargs)
        given = ", ".join(f"{parameters.name_of(index)}: {_described(value)}" for index, value in enumerate(values))
        captured = list(self._captures())
        raise ReplayMismatchError(
            f"{self.__qualname__!r} was loaded, and recording it anew for this call ({given}) needs its Python "
            f"function: {self._reason}; captured are {'; '.join(captured) or 'none here'}. Call it like that, on the "
            "engine that it was loaded in and outside of other captured functions, with capturing switched on, or "
            "capture this call before saving",
            function=self.__qualname__,
            captured=captured,
            given=given,
        )


def _described(value: object) -> str:
    variable = value.variable if isinstance(value, Bound) else value
    if isinstance(variable, Variable):
        return in_words(variable.symbol)
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return f"{value!r:.40}" if dtype is None or shape is None else f"{dtype}{list(shape)}"


# What is stored of a source, and whether it is the same.


def source_to_data(function: JitFunction[Any, Any]) -> dict[str, Any]:
    """Module and name, a checksum of the source, and what the function reads outside, as far as it has values."""
    if isinstance(function._function, Sourceless):
        return function._function._source
    plain = plain_function(function._function)
    return {
        "module": getattr(function._function, "__module__", None) or "",
        "qualname": function._name,
        "name": getattr(function._function, "__name__", None) or function._name,
        "source_sha256": None if plain is None else _checksum(plain),
        "is_method": isinstance(function._function, types.MethodType),
        "outside": _outside(function._guarded()),
    }


def _checksum(function: Callable[..., Any]) -> str | None:
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _outside(function: object) -> list[list[object]]:
    """Names outside of the function with their values; those that are objects of any other kind are left out."""
    found: list[list[object]] = []
    for name, value in Guards(function).bindings():
        if isinstance(value, np.ndarray):
            digest = hashlib.sha256(bytes_of(value)).hexdigest() if value.dtype.kind != "O" else ""
            found.append([name, {"array": [list(value.shape), value.dtype.name, digest]}])
        else:
            try:
                found.append([name, value_to_data(value, name)])
            except SaveError:
                continue
    return found


def find_source(it: DataReader, has_state: bool, names: Names) -> Callable[..., Any] | str:
    """The Python function, when recording it anew would go with the loaded captures; else why not.

    Raises:
        ValueError: the data is not what ``source_to_data`` gives.
    """
    source = read_source(it)
    module, qualname = source["module"], source["qualname"]
    if source["is_method"]:
        return "it is a method, and its instance was not saved"
    if has_state:
        return "it reads or writes arrays outside, and its module has others than those that were loaded with it"
    if "<" not in qualname:
        names.reach(module)
    found = named(module, qualname)
    if not isinstance(found, JitFunction):
        return f"{module}.{qualname} is no jitted function here (import {module} before loading, or imports=True)"
    here = source_to_data(found)
    if here["source_sha256"] is None or here["source_sha256"] != source["source_sha256"]:
        return f"the source of {module}.{qualname} is not the one that was saved"
    if here["outside"] != source["outside"]:
        return f"names that {module}.{qualname} reads outside have other values than when it was saved"
    return found._function


def read_source(it: DataReader) -> dict[str, Any]:
    """What ``source_to_data`` gave."""
    words = {key: it[key].text() for key in ("module", "qualname", "name")}
    others = {"source_sha256": it["source_sha256"].data, "outside": it["outside"].data}
    return {**words, "is_method": it["is_method"].flag(), **others}


# Signatures.


def signature_to_data(signature: inspect.Signature) -> list[dict[str, Any]]:
    """Parameters with their kinds, and those defaults that are plain values; others have to be passed."""
    parameters = []
    for parameter in signature.parameters.values():
        data: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name}
        if parameter.default is not parameter.empty:
            with contextlib.suppress(SaveError):
                data["default"] = value_to_data(parameter.default, parameter.name)
        parameters.append(data)
    return parameters


def read_signature(it: DataReader, names: Names) -> inspect.Signature:
    """The signature again.

    Raises:
        ValueError: it is none that a function can have.
    """

    def read(each: DataReader) -> inspect.Parameter:
        kind = each["kind"].word(_kind)
        default = read_value(each["default"], names) if "default" in each else inspect.Parameter.empty
        return inspect.Parameter(each["name"].text(), kind, default=default)

    return inspect.Signature(it.each(read))


def _kind(name: str) -> Any:
    if name not in _KINDS:
        raise ValueError(name)
    return _KINDS[name]
