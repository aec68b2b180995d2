"""Recurrent layers equal a plain NumPy loop in float64, in every direction, with every optional operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate

Values = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def sigmoid(x: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-x)))


FUNCTIONS: dict[Any, Callable[[Values], Values]] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    ("affine", 0.5, 0.1): lambda x: 0.5 * x + 0.1,
    ("leakyrelu", 0.2): lambda x: np.where(x < 0, 0.2 * x, x),
    ("thresholdedrelu", 0.1): lambda x: np.where(x > 0.1, x, 0),
    ("scaledtanh", 0.7, 0.6): lambda x: 0.7 * np.tanh(0.6 * x),
    "hardsigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ("elu", 0.4): lambda x: np.where(x < 0, 0.4 * (np.exp(x) - 1), x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
}


GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class Layer:
    """Random weights of a layer, and the loop that says what it should give."""

    def __init__(self, kind: str, t: int, n: int, i: int, u: int, seed: int, directions: int = 1) -> None:
        rng = np.random.default_rng(seed)
        k = GATES[kind]
        self.kind, self.u, self.clip, self.coupled = kind, u, 0.0, False
        self.x = rng.standard_normal((t, n, i))
        self.w = rng.standard_normal((directions, k * u, i))
        self.r = rng.standard_normal((directions, k * u, u)) * 0.5
        self.b = rng.standard_normal((directions, 2 * k * u))
        self.h0 = rng.standard_normal((directions, n, u))
        self.c0 = rng.standard_normal((directions, n, u))
        self.p = rng.standard_normal((directions, 3 * u))
        self.lengths = rng.integers(0, t + 1, n)

    def expected(self, d: int, backwards: bool, f: list[Any], used: set[str]) -> tuple[Values, Values, Values]:
        t, n, _ = self.x.shape
        ys, hs, cs = np.zeros((t, n, self.u)), np.zeros((n, self.u)), np.zeros((n, self.u))
        for row in range(n):
            steps = list(range(int(self.lengths[row]) if "lengths" in used else t))
            h = self.h0[d, row] if "state" in used else np.zeros(self.u)
            c = self.c0[d, row] if "cell" in used else np.zeros(self.u)
            for step in steps[::-1] if backwards else steps:
                h, c = self.step(d, self.x[step, row], h, c, f, used)
                ys[step, row] = h
            hs[row], cs[row] = h, c
        return ys, hs, cs

    def step(self, d: int, x: Values, h: Values, c: Values, f: list[Any], used: set[str]) -> tuple[Values, Values]:
        k = GATES[self.kind] * self.u
        wb, rb = (self.b[d, :k], self.b[d, k:]) if "bias" in used else (np.zeros(k), np.zeros(k))
        gx, gh = np.split(self.w[d] @ x + wb, k // self.u), np.split(self.r[d] @ h + rb, k // self.u)
        limit = self.clip or np.inf

        def cut(value: Values) -> Values:
            return np.asarray(np.clip(value, -limit, limit))

        if self.kind == "rnn":
            return f[0](cut(gx[0] + gh[0])), c
        if self.kind == "gru":
            z, r = f[0](cut(gx[0] + gh[0])), f[0](cut(gx[1] + gh[1]))
            late = r * gh[2] if self.coupled else self.r[d, 2 * self.u :] @ (r * h) + rb[2 * self.u :]
            return (1 - z) * f[1](cut(gx[2] + late)) + z * h, c
        pi, po, pf = np.split(self.p[d] if "peepholes" in used else np.zeros(3 * self.u), 3)
        i = f[0](cut(gx[0] + gh[0] + pi * c))
        forget = 1 - i if self.coupled else f[0](cut(gx[2] + gh[2] + pf * c))
        new = forget * c + i * f[1](cut(gx[3] + gh[3]))
        return f[0](cut(gx[1] + gh[1] + po * new)) * f[2](new), new

    def ours(self, used: set[str], dtype: str, batch_first: bool = False, **options: Any) -> list[Values]:
        def place(host: Values) -> anp.Array:
            return anp.asarray(np.swapaxes(host, 0, 1) if batch_first else host, dtype)

        optional: dict[str, Any] = {"state": place(self.h0), "cell": place(self.c0), "lengths": self.lengths}
        optional["peepholes"] = anp.asarray(self.p, dtype)
        bias = anp.asarray(self.b, dtype) if "bias" in used else None
        if self.kind != "rnn":
            options["input_forget" if self.kind == "lstm" else "reset_after"] = self.coupled
        results = getattr(nn, self.kind)(
            place(self.x),
            anp.asarray(self.w, dtype),
            anp.asarray(self.r, dtype),
            bias,
            clip=self.clip,
            batch_first=batch_first,
            **{name: each for name, each in optional.items() if name in used},
            **options,
        )
        if batch_first:
            results = [np.asarray(results[0]).transpose(1, 2, 0, 3), *(np.swapaxes(each, 0, 1) for each in results[1:])]
        return [np.asarray(each) for each in results]


TOLERANCE = {"float16": 3e-2, "float32": 2e-4, "float64": 1e-10}
USED = {"lstm": ["bias", "state", "cell", "lengths", "peepholes"], "gru": ["bias", "state", "lengths"]}
DEFAULT = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}


def check(layer: Layer, used: set[str], dtype: str, direction: str, activations: Any, batch_first: bool) -> None:
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    chosen = activations or DEFAULT[layer.kind] * len(backwards)
    count = len(chosen) // len(backwards)
    wanted = [
        layer.expected(d, back, [FUNCTIONS[each] for each in chosen[d * count : (d + 1) * count]], used)
        for d, back in enumerate(backwards)
    ]
    ours = layer.ours(used, dtype, batch_first, direction=direction, activations=activations)
    assert {each.dtype.name for each in ours} == {dtype}
    for place, got in enumerate(ours):
        expected = np.stack([each[place] for each in wanted], axis=0 if place else 1)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got.astype("float64"), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(data=st.data(), kind=st.sampled_from(["lstm", "gru", "rnn"]), dtype=st.sampled_from(list(TOLERANCE)))
def test_layers_equal_a_plain_loop(data: st.DataObject, kind: str, dtype: str) -> None:
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    extents = [data.draw(st.integers(1, 4)) for _ in range(4)]
    layer = Layer(kind, *extents, seed=data.draw(st.integers(0, 99)), directions=directions)
    layer.clip = data.draw(st.sampled_from([0.0, 0.7]))
    layer.coupled = kind != "rnn" and data.draw(st.booleans())
    used = set(data.draw(st.lists(st.sampled_from(USED.get(kind, USED["gru"])), unique=True)))
    with immediate():
        check(layer, used, dtype, direction, None, data.draw(st.booleans()))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.7])
@pytest.mark.parametrize(("n", "t"), [(1, 3), (3, 3), (1, 20), (2, 20)])
def test_every_optional_operand_counts(kind: str, coupled: bool, clip: float, n: int, t: int) -> None:
    """By the branch: one row or several, a short sequence or one whose weights are transposed first."""
    layer = Layer(kind, t, n, 3, 4, seed=7, directions=2)
    layer.coupled, layer.clip = coupled, clip
    check(layer, set(USED[kind]), "float64", "bidirectional", None, False)
    check(layer, set(USED[kind]) - {"lengths"}, "float64", "bidirectional", None, True)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("name", list(FUNCTIONS), ids=str)
def test_every_activation_equals_its_formula(kind: str, name: Any) -> None:
    layer = Layer(kind, 3, 2, 3, 4, seed=5, directions=2)
    # Bounded, so that an activation that is not does not run away.
    layer.clip = 1.5
    others = DEFAULT[kind]
    check(layer, {"bias", "lengths"}, "float64", "bidirectional", [*others[:-1], name, name, *others[1:]], False)


def test_a_view_that_is_not_contiguous_gives_the_same() -> None:
    layer = Layer("lstm", 4, 3, 2, 5, seed=1)
    ours = nn.lstm(anp.asarray(layer.x.T.copy()).T, layer.w, layer.r, layer.b)
    for got, wanted in zip(ours, nn.lstm(layer.x, layer.w, layer.r, layer.b), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)


def test_no_step_gives_the_first_state_back() -> None:
    layer = Layer("lstm", 0, 3, 2, 5, seed=1)
    states, last, carried = nn.lstm(layer.x, layer.w, layer.r, state=layer.h0, cell=layer.c0)
    assert states.shape == (0, 1, 3, 5)
    np.testing.assert_array_equal(np.asarray(last), layer.h0)
    np.testing.assert_array_equal(np.asarray(carried), layer.c0)


def test_what_is_given_is_not_written(sink: ImmediateSink) -> None:
    layer = Layer("lstm", 3, 2, 2, 4, seed=2)
    state, cell = anp.asarray(layer.h0), anp.asarray(layer.c0)
    nn.lstm(layer.x, layer.w, layer.r, layer.b, state=state, cell=cell)
    np.testing.assert_array_equal(np.asarray(state), layer.h0)
    np.testing.assert_array_equal(np.asarray(cell), layer.c0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "backward"}, "direction is one of forward, reverse, bidirectional, given 'backward'"),
        ({"activations": ["tanh"]}, "forward takes 3 activations, given 1"),
        ({"activations": ["sigmoid", "tanh", "swish"]}, "activation 'swish' is not known"),
        ({"state": np.zeros((1, 3, 5))}, r"state of shape \(3, 5\), expected \(2, 4\)"),
        ({"direction": "bidirectional"}, "expected 2 directions"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    layer = Layer("lstm", 3, 2, 2, 4, seed=2)
    with pytest.raises(ValueError, match=message):
        nn.lstm(layer.x, layer.w, layer.r, **options)


def test_operands_of_two_dtypes_are_brought_to_that_of_x() -> None:
    layer = Layer("rnn", 2, 2, 2, 3, seed=3)
    states, _ = nn.rnn(layer.x.astype("float32"), layer.w, layer.r)
    assert states.dtype == "float32"
    with pytest.raises(TypeError, match="lengths are integers"):
        nn.rnn(layer.x, layer.w, layer.r, lengths=np.zeros(2))
