"""What the tests of variables share: two variables, and the comparison with NumPy at values of all kinds.

Law: functions take the namespace first, so that one text runs on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

__all__ = ["POINTS", "M", "N", "agrees_everywhere"]

N, M = aj.Variable("n", 1, 6), aj.Variable("m", 0, 4)

#: Values of both: the ends of their ranges, both orders, equal ones.
POINTS = ((3, 1), (1, 0), (6, 4), (1, 4), (6, 0), (2, 2), (5, 3))


def agrees_everywhere(function: Callable[..., Any]) -> None:
    """``function(namespace, x, y, n, m)`` gives on one capture what it gives on NumPy, bit by bit, and leaves the same
    in its arguments."""
    captured = aj.jit(lambda x, y, n, m: function(anp, x, y, n, m))
    for n, m in POINTS:
        hosts = [np.arange(1.0, 49.0).reshape(8, 6), np.arange(1.0, 9.0)]
        arrays = [anp.asarray(host) for host in hosts]
        wanted = _listed(function(np, *hosts, n, m))
        found = _listed(captured.run(*arrays, N.bind(n), M.bind(m)))
        assert len(found) == len(wanted)
        for ours, reference in zip([*found, *arrays], [*wanted, *hosts], strict=True):
            host = np.asarray(ours)
            assert (host.shape, host.dtype) == (reference.shape, reference.dtype), (n, m)
            np.testing.assert_array_equal(host, reference, err_msg=f"n={n}, m={m}")
    assert len(captured.captures) == 1


def _listed(result: Any) -> list[Any]:
    listed = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(each) if np.isscalar(each) else each for each in listed]
