"""Operations of networks on symbolic extents: one capture gives what each size gives by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit import nn

N = aj.Variable("n", 1, 8)


def values(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


#: Function of an array and a number of rows; shape of the array.
CASES: dict[str, tuple[Callable[[anp.Array, Any], anp.Array], tuple[int, ...]]] = {
    "softmax": (lambda x, n: nn.softmax(x[:n]), (8, 6)),
    "softmax over it": (lambda x, n: nn.softmax(x[:n], 0), (8, 6)),
    "log_softmax": (lambda x, n: nn.log_softmax(x[:n]), (8, 6)),
    "layer_norm": (lambda x, n: nn.layer_norm(x[:n], x[0], x[1]), (8, 6)),
    "rms_norm": (lambda x, n: nn.rms_norm(x[:n], x[0, 0]), (8, 4, 6)),
    "batch_norm": (lambda x, n: nn.batch_norm(x[:n], x[0], x[1], x[2], anp.square(x[3])), (8, 6)),
    "lstm over steps": (lambda x, n: nn.lstm(x[:n], x[None, :, 0, :6], x[None, :, 1, :2])[0], (8, 4, 6)),
    "lstm over rows": (lambda x, n: nn.lstm(x[:, :n, :6], x[None, :, 0, :6], x[None, :, 1, :2])[0], (8, 8, 6)),
    "attention over queries": (lambda x, n: nn.attention(x[:, :, :n], x, x), (2, 3, 8, 4)),
    "attention over keys": (lambda x, n: nn.attention(x, x[:, :, :n], x[:, :, :n]), (2, 3, 8, 4)),
    "linear_attention": (lambda x, n: nn.linear_attention(x[:, :, :n], x[:, :, :n], x[:, :, :n])[0], (2, 3, 8, 4)),
    "quantize": (lambda x, n: nn.dequantize(nn.quantize(x[:n], 0.1, np.uint8(9)), 0.1, np.uint8(9)), (8, 6)),
    "dynamic_quantize": (lambda x, n: nn.dynamic_quantize(x[:n])[0], (8, 6)),
    "gelu": (lambda x, n: nn.gelu(x[:n]), (8, 6)),
    "dft": (lambda x, n: nn.dft(x[:n].reshape(n, 6, 1), axis=1), (8, 6)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_one_capture_serves_every_extent(name: str) -> None:
    function, shape = CASES[name]

    @aj.jit
    def captured(x: anp.Array, n: Any) -> anp.Array:
        return function(x, n)

    x = anp.asarray(values(*shape))
    for count in (3, 8, 1):
        wanted = np.asarray(function(x, count))
        ours = np.asarray(captured.run(x, N.bind(count)))
        assert ours.shape == wanted.shape
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)
    assert len(captured.captures) == 1
