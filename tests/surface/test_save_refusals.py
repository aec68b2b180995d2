"""What cannot be saved or loaded says so, and what to do."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.data_reader import DataReader
from asyncjit.saving.names import Names
from asyncjit.saving.values import read_token, read_value, token_to_data, value_to_data
from tests.surface import saved_models
from tests.surface.saved_models import (
    Mode,
    Pair,
    Scaler,
    accumulator,
    blur,
    blurred,
    scaled,
    scaled_otherwise,
    structured,
)

ONES = np.ones(4)


VALUES = [
    *(None, True, False, 0, -1, 2**53, 2**53 + 1, -(2**80), 1.0, -0.0, float("inf"), 2j, complex(-0.0, 1), "é", ""),
    *(
        b"",
        b"\x00\xff",
        (),
        (1, (2.0, None)),
        np.dtype("int8"),
        np.float32,
        float,
        tuple,
        Mode.DOUBLE,
        Pair,
        OrderedDict,
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_with_its_exact_type(value: object) -> None:
    back = read_value(DataReader(value_to_data(value, "it"), "data"), Names(imports=False))
    assert repr(back) == repr(value)
    assert type(back) is type(value)


STATIC = [(value, "value") for value in VALUES]
AUTO: list[Any] = [3, "é", b"x", None, Mode.PLAIN, np.dtype("int8"), np.int8, float, [1.0, (2j, {"a": ONES, 3: True})]]


@pytest.mark.parametrize(("value", "static"), [*STATIC, *((value, ()) for value in AUTO)], ids=repr)
def test_a_token_comes_back_equal(value: Any, static: str | tuple[str, ...]) -> None:
    f: Any = aj.jit(lambda value: value, static=static)
    values = f._parameters.bind((value,), {})
    (token,), _ = f._parameters.key_of(values, [], f._table().host)
    back = read_token(DataReader(token_to_data(token, "value"), "data"), Names(imports=False))
    assert back == token
    assert repr(back) == repr(token)


@pytest.mark.parametrize("value", [frozenset({1}), np.float64(1.0), np.int64(1), np.dtype("S3"), object()], ids=repr)
def test_a_value_that_would_come_back_as_something_else_is_refused(value: object) -> None:
    with pytest.raises(aj.SaveError, match="it is .* cannot be stored"):
        value_to_data(value, "it")


def test_classes_of_the_inside_of_a_function_cannot_be_found_again(file: Path) -> None:
    @dataclasses.dataclass
    class Inner:
        x: Any

    f = aj.jit(lambda inner: inner.x * 2)
    f.run(Inner(ONES))
    with pytest.raises(aj.SaveError, match=r"argument 'inner'.*Inner' is stored by its name.*top level of a module"):
        aj.save(file, f)
    g = aj.jit(lambda x: Inner(x * 2))
    g.run(ONES)
    with pytest.raises(aj.SaveError, match=r"the returned structure.*Inner' is stored by its name"):
        aj.save(file, g)
    assert not file.exists()


def test_a_kernel_of_the_inside_of_a_function_cannot_be_found_again(file: Path) -> None:
    @aj.kernel(writes="out")
    def inner(out: Any) -> None:
        out[...] = 1

    @aj.jit
    def f() -> anp.Array:
        out = anp.empty(3)
        inner(out)
        return out

    f.run()
    with pytest.raises(aj.SaveError, match=r"f' cannot be saved: kernel .*inner' is stored by its name"):
        aj.save(file, f)


def test_what_has_no_captures_cannot_be_saved(file: Path) -> None:
    add, _, _ = accumulator()
    with pytest.raises(aj.SaveError, match=r"'accumulator.<locals>.add' has no captures on this engine.*prepare"):
        aj.save(file, add)


def test_captures_of_another_engine_are_not_saved(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    with aj.Engine().use() as engine, pytest.raises(aj.SaveError, match="no captures on this engine"):
        aj.save(file, add)
    engine.close()


@pytest.mark.parametrize("thing", [print, 7, np.ones(2)], ids=["function", "number", "ndarray"])
def test_only_captured_functions_and_arrays_are_saved(file: Path, thing: object) -> None:
    with pytest.raises(aj.SaveError, match="only captured functions, models and arrays can be saved"):
        aj.save(file, thing)


def test_each_thing_needs_a_name_of_its_own(file: Path) -> None:
    add, _, total = accumulator()
    add.run(ONES)
    with pytest.raises(aj.SaveError, match="'add' is none or is taken; pass it by keyword"):
        aj.save(file, add, add)
    with pytest.raises(aj.SaveError, match="pass it by keyword"):
        aj.save(file, add, total)
    with pytest.raises(aj.SaveError, match="was given nothing"):
        aj.save(file)


def test_nothing_is_saved_while_a_function_is_recorded(file: Path) -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        aj.save(file, x)
        return x

    with pytest.raises(aj.SaveError, match="while a function is recorded"):
        f.run(ONES)


def test_an_array_whose_replay_failed_is_not_saved(file: Path) -> None:
    @aj.kernel(reads_writes="x")
    def fail(x: np.ndarray) -> None:
        raise ZeroDivisionError

    x = anp.zeros(3)
    with pytest.raises(aj.KernelError):
        aj.jit(lambda: fail(x)).run()
    with pytest.raises(aj.DependencyError):
        aj.save(file, x)
    assert not file.exists()


# Calls that were not captured.


def test_a_call_that_was_not_captured_is_refused_and_says_what_was(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    aj.save(file, add)
    loaded = aj.load(file)
    with pytest.raises(aj.ReplayMismatchError) as caught:
        loaded.run(ONES.astype("float32"))
    for words in ("float32[4]", "x: float64[4]", "arrays outside", "capture this call before saving"):
        assert words in str(caught.value)
    with pytest.raises(TypeError, match=r"add\(\) missing a required argument: 'x'"):
        loaded()
    assert np.asarray(loaded.run(ONES)).tolist() == [2.0] * 4
    loaded.reset()
    with pytest.raises(aj.ReplayMismatchError, match="captured are none here"):
        loaded.run(ONES)


def test_a_loaded_function_belongs_to_its_engine(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    aj.save(file, add)
    loaded = aj.load(file)
    with (
        aj.Engine().use() as engine,
        pytest.raises(aj.ReplayMismatchError, match="on the engine that it was loaded in"),
    ):
        loaded.run(ONES)
    engine.close()


def test_a_function_without_source_is_not_recorded_into_another(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    aj.save(file, add)
    loaded = aj.load(file)
    with pytest.raises(aj.ReplayMismatchError, match="outside of other captured functions"):
        aj.jit(lambda x: loaded(x) + 1).run(ONES)


def test_a_function_of_a_module_without_state_is_recorded_anew(file: Path) -> None:
    scaled.run(ONES)
    aj.save(file, scaled)
    loaded = aj.load(file)
    assert np.asarray(loaded.run(2 * np.ones((2, 4)))).tolist() == [[6.0, 7.0, 8.0, 9.0]] * 2
    assert len(loaded.captures) == 2
    assert np.asarray(aj.jit(lambda x: loaded(x) * 2).run(ONES)).tolist() == [6.0, 8.0, 10.0, 12.0]


def test_a_method_is_not_recorded_anew_without_its_instance(file: Path) -> None:
    scaler = Scaler(3.0)
    scaler.apply.run(ONES)
    aj.save(file, scaler.apply)
    loaded = aj.load(file)
    assert np.asarray(loaded.run(ONES)).tolist() == [3.0] * 4
    with pytest.raises(aj.ReplayMismatchError, match="is a method, and its instance was not saved"):
        loaded.run(np.ones((2, 4)))


@pytest.mark.parametrize("name", ["SCALE", "TABLE", "scaled"])
def test_a_module_that_has_changed_is_not_recorded_from(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled.run(ONES)
    aj.save(file, scaled)
    changed = {"SCALE": 4.0, "TABLE": np.zeros(4), "scaled": scaled_otherwise}
    monkeypatch.setattr(saved_models, name, changed[name])
    loaded = aj.load(file)
    assert np.asarray(loaded.run(ONES)).tolist() == [3.0, 4.0, 5.0, 6.0]
    with pytest.raises(
        aj.ReplayMismatchError,
        match=r"scaled is not the one that was saved" if name == "scaled" else "have other values",
    ):
        loaded.run(np.ones((2, 4)))


# Names that are not there.


def test_a_kernel_that_is_gone_or_another_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blurred.run(ONES)
    aj.save(file, blurred)
    monkeypatch.delattr(saved_models, "blur")
    with pytest.raises(aj.LoadError, match=r"kernel 'blur' of module 'tests.surface.saved_models' is needed"):
        aj.load(file)
    monkeypatch.setattr(saved_models, "blur", blur._function, raising=False)
    with pytest.raises(aj.LoadError, match="made by aj.kernel"):
        aj.load(file)

    def other(out: Any, source: Any, radius: int) -> None: ...

    other.__qualname__ = "blur"
    monkeypatch.setattr(saved_models, "blur", aj.kernel(writes="out")(other))
    with pytest.raises(aj.LoadError, match="kernel 'blur' cannot be called as it was"):
        aj.load(file)
    monkeypatch.setattr(saved_models, "blur", aj.kernel(reads_writes="out")(blur._function))
    with pytest.raises(aj.LoadError, match="has other parameters, or writes others"):
        aj.load(file)


def test_a_class_that_is_gone_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    structured.run(Pair(ONES, ONES))
    aj.save(file, structured)
    structured.reset()
    monkeypatch.delattr(saved_models, "Point")
    with pytest.raises(aj.LoadError, match="the class 'Point' of module"):
        aj.load(file)


def test_a_device_that_the_engine_lacks_is_named(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    aj.save(file, add)
    with aj.Engine(["cpu:1"]).use() as engine, pytest.raises(aj.DeviceUnavailableError, match="no device 'cpu'"):
        aj.load(file)
    engine.close()


def test_the_memory_limit_of_the_engine_holds_for_what_is_loaded(file: Path) -> None:
    aj.save(file, anp.zeros(1000))
    with aj.Engine(memory_bytes_max=4000).use() as engine, pytest.raises(aj.EngineBusyError, match="memory_bytes_max"):
        aj.load(file)
    engine.close()
