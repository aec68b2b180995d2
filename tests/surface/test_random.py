"""Random numbers: the bits of Philox, values with the right distribution, the interface of NumPy's Generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.ops._philox import CHUNK_BLOCKS, scramble
from tests.surface import philox

#: (counter, key, block): vectors of Random123's ``kat_vectors`` for philox4x32-10.
KNOWN = (
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def host(array: anp.Array) -> np.ndarray[Any, Any]:
    return np.asarray(array)


def test_the_oracle_is_philox_as_numpy_has_it() -> None:
    generator = np.random.Philox(key=[123, 1 << 63], counter=[5, 6, 7, 8])
    theirs = [int(each) for each in generator.random_raw(8)]
    ours = [*philox.philox((6, 6, 7, 8), (123, 1 << 63), 64), *philox.philox((7, 6, 7, 8), (123, 1 << 63), 64)]
    assert ours == theirs


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_blocks_are_the_known_answers(counter: Any, key: Any, block: tuple[int, ...]) -> None:
    even = np.array([[counter[0]], [counter[2]]], np.uint64)
    odd = np.array([[counter[1]], [counter[3]]], np.uint64)
    odd = scramble(even, odd, key[0] | key[1] << 32, (np.empty_like(even), np.empty_like(even)))
    assert (int(even[0, 0]), int(odd[0, 0]), int(even[1, 0]), int(odd[1, 0])) == block
    assert philox.philox(counter, key, 32) == block


@pytest.mark.parametrize("seed", [0, 1, 12345, (1 << 64) - 1, 1 << 63])
def test_draws_are_the_bits_of_the_generator(seed: int) -> None:
    assert host(aj.random.Generator(seed).random(7)).tolist() == philox.doubles(seed, 7)
    assert host(aj.random.Generator(seed).random(7, "float32")).tolist() == philox.floats(seed, 7)
    for low, high in [(0, 10), (-5, 6), (0, 1), (-(1 << 63), 1 << 63), (-(1 << 40), 1 << 60)]:
        drawn = host(aj.random.Generator(seed).integers(low, high, 5))
        assert drawn.tolist() == philox.integers(seed, low, high - low, 5)


def test_a_draw_takes_up_whole_blocks_and_the_next_goes_on_behind_them() -> None:
    generator = aj.random.Generator(3)
    assert host(generator.random(3)).tolist() == philox.doubles(3, 3)
    assert host(generator.random((2, 1))).ravel().tolist() == philox.doubles(3, 2, block=2)
    assert host(generator.random(0)).size == 0
    assert host(generator.random()).tolist() == philox.doubles(3, 1, block=3)[0]
    assert host(generator.state).tolist() == [3, 4]


@pytest.mark.parametrize("size", [1, 4 * CHUNK_BLOCKS, 4 * CHUNK_BLOCKS + 1, 2 * CHUNK_BLOCKS + 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["random", "standard_normal"])
def test_a_number_does_not_depend_on_how_many_are_drawn_with_it(name: str, dtype: str, size: int) -> None:
    few, many = (getattr(aj.random.Generator(9), name) for _ in range(2))
    longer = host(many(size + 1000, dtype))
    assert longer.dtype == dtype
    assert host(few(size, dtype)).tolist() == longer[:size].tolist()


def test_the_number_of_a_block_needs_more_than_32_bits() -> None:
    generator = aj.random.Generator(8)
    generator.state[1] = (1 << 32) - 1
    assert host(generator.random(6)).tolist() == philox.doubles(8, 6, block=(1 << 32) - 1)
    generator.state[1] = (1 << 64) - 1
    assert host(generator.random(4)).tolist() == philox.doubles(8, 2, (1 << 64) - 1) + philox.doubles(8, 2)
    assert host(generator.state).tolist() == [8, 1]


N = 40_000

DISTRIBUTIONS: dict[str, tuple[Callable[[aj.random.Generator], anp.Array], Any]] = {
    "random": (lambda g: g.random(N), stats.uniform()),
    "random32": (lambda g: g.random(N, "float32"), stats.uniform()),
    "uniform": (lambda g: g.uniform(-3.0, 5.0, N), stats.uniform(-3, 8)),
    "normal": (lambda g: g.normal(2.0, 0.5, N), stats.norm(2, 0.5)),
    "normal32": (lambda g: g.standard_normal(N, "float32"), stats.norm()),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_follow_their_distribution(name: str) -> None:
    draw, distribution = DISTRIBUTIONS[name]
    values = host(draw(aj.random.Generator(2026)))
    # The seed is fixed, so this passes or fails for good.
    assert stats.kstest(values, distribution.cdf).pvalue > 0.01
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 3 / np.sqrt(N)


def test_integers_and_bernoulli_have_the_right_frequencies() -> None:
    generator = aj.random.Generator(1)
    counts = np.bincount(host(generator.integers(7, size=N)), minlength=7)
    assert stats.chisquare(counts).pvalue > 0.01
    assert len(counts) == 7
    heads = int(host(generator.bernoulli(0.2, N)).sum())
    assert stats.binomtest(heads, N, 0.2).pvalue > 0.01
    assert host(generator.bernoulli(0.0, 99)).any() == np.False_
    assert host(generator.bernoulli(1.0, 99)).all() == np.True_


def test_a_permutation_has_every_index_once_and_any_of_them_anywhere() -> None:
    generator = aj.random.Generator(4)
    orders = [host(generator.permutation(3)).tolist() for _ in range(1200)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    counts = [orders.count(list(order)) for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])]
    assert stats.chisquare(counts).pvalue > 0.01
    x = anp.arange(12).reshape(3, 4)
    rows, columns = host(generator.permutation(x)), host(generator.permutation(x, axis=-1))
    assert sorted(rows.tolist()) == host(x).tolist()
    assert sorted(columns.T.tolist()) == host(x).T.tolist()
    assert host(generator.permutation(0)).tolist() == []


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_integers_fill_the_whole_range_of_their_dtype(dtype: str) -> None:
    limits = np.iinfo(dtype)
    values = host(aj.random.Generator(6).integers(limits.min, limits.max, 20_000, dtype, endpoint=True))
    assert values.dtype == dtype
    spread = float(limits.max) - float(limits.min)
    assert float(values.min()) < limits.min + spread / 100
    assert float(values.max()) > limits.max - spread / 100
    assert host(aj.random.Generator(6).integers(5, 5, 3, dtype, endpoint=True)).tolist() == [5, 5, 5]


def test_parameters_may_be_arrays_and_give_the_shape() -> None:
    generator, again = aj.random.Generator(5), aj.random.Generator(5)
    low, high = anp.zeros((2, 1)), anp.full(3, 10.0)
    assert generator.uniform(low, high).shape == (2, 3)
    assert generator.normal(low).shape == (2, 1)
    assert generator.bernoulli(high, (4, 3)).shape == (4, 3)
    assert (
        host(again.uniform(0.0, 10.0, (2, 3))).tolist() == (np.array(philox.doubles(5, 6)) * 10).reshape(2, 3).tolist()
    )
    assert generator.uniform(1.0, 2.0, 3, "float32").dtype == "float32"


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda g: g.random(2, "float16"), TypeError, "random: draws are float32 or float64, not float16"),
        (lambda g: g.random(-1), ValueError, "negative"),
        (lambda g: g.integers(3, 3), ValueError, "no range from 3 to 2"),
        (lambda g: g.integers(0, 257, dtype="uint8"), ValueError, "from 0 to 256 .* in uint8"),
        (lambda g: g.integers(0, 2, dtype="bool"), TypeError, "bernoulli"),
        (lambda g: g.integers(anp.zeros(2)), TypeError, "bounds are ints"),
        (lambda g: g.integers(1.5), TypeError, "bounds are ints"),
        (lambda g: g.permutation(anp.zeros(())), ValueError, "without axes"),
        (lambda g: g.seed(-1), ValueError, "0 to 2\\*\\*64"),
        (lambda g: aj.random.Generator(1 << 64), ValueError, "modulo"),
    ],
)
def test_what_cannot_be_drawn_is_refused_at_the_call(draw: Any, error: type[Exception], message: str) -> None:
    generator = aj.random.Generator(0)
    with pytest.raises(error, match=message):
        draw(generator)
    assert host(generator.state).tolist() == [0, 0]
