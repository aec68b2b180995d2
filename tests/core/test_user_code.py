"""The line of the user's code is found from inside of the package, and only there."""

from __future__ import annotations

import _thread
import inspect
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from asyncjit.user_code import line_of, user_stacklevel, where_in_user_code


def inside(module: str, source: str, **names: Any) -> Callable[..., Any]:
    """A function ``f`` that lives in ``module``."""
    scope = types.ModuleType(module)
    scope.__dict__.update(names)
    exec(source, scope.__dict__)
    function: Callable[..., Any] = scope.__dict__["f"]
    return function


@pytest.mark.parametrize("module", ["asyncjit.jit.function", "asyncjit.numpy"])
def test_the_packages_own_frames_are_passed_over(module: str) -> None:
    f = inside(module, "def f(): return where()", where=where_in_user_code)
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    assert f() == f"{__file__}:{line}"
    assert line_of(f"{__file__}:{line}") == ' (`assert f() == f"{__file__}:{line}"`)'


def test_programs_that_come_with_the_package_are_users() -> None:
    f = inside("asyncjit.demo.work", "def f(): return where()", where=where_in_user_code)
    assert f() == "<string>:1"
    assert line_of("") == ""
    assert line_of("nowhere.py:3") == ""


def test_a_thread_that_runs_the_package_alone_has_no_line() -> None:
    found: list[str] = []
    over = threading.Event()
    source = "def f():\n    found.append(where())\n    over.set()"
    # Not a ``Thread``, whose own frames would lie below the function.
    _thread.start_new_thread(inside("asyncjit.inner", source, where=where_in_user_code, found=found, over=over), ())
    assert over.wait(20)
    assert found == [""]


def test_a_warning_speaks_of_the_users_line() -> None:
    f = inside(
        "asyncjit.jit.tables",
        "def f(): g()\ndef g(): warn('careful', stacklevel=level())",
        warn=warnings.warn,
        level=user_stacklevel,
    )
    with pytest.warns(UserWarning, match="careful") as caught:
        f()
    assert caught[0].filename == __file__
