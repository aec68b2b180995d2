"""Calls functions of SciPy and scikit-learn with NumPy's arrays and with ours; prints those that differ.

Law: a program of its own, because SciPy asks for its switch when it is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import scipy.integrate
import scipy.signal
import scipy.special
import scipy.stats
import sklearn
from sklearn import metrics, preprocessing

import asyncjit.numpy as anp

_random = np.random.default_rng(0)
X = _random.standard_normal((20, 5))
Y = X + _random.standard_normal((20, 5)) / 8
LABELS, GUESSES = _random.integers(0, 3, 20), _random.integers(0, 3, 20)

#: By name: a function, and arguments.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scipy.special.logsumexp": (lambda x: scipy.special.logsumexp(x, axis=1), (X,)),
    "scipy.special.softmax": (lambda x: scipy.special.softmax(x, axis=0), (X,)),
    "scipy.stats.zscore": (scipy.stats.zscore, (X,)),
    "scipy.stats.skew": (scipy.stats.skew, (X,)),
    "scipy.stats.rankdata": (scipy.stats.rankdata, (X[:, 0],)),
    "scipy.stats.pearsonr": (lambda x, y: scipy.stats.pearsonr(x, y).statistic, (X, Y)),
    "scipy.stats.quantile": (lambda x: scipy.stats.quantile(x, 0.3), (X,)),
    "scipy.integrate.cumulative_trapezoid": (scipy.integrate.cumulative_trapezoid, (X,)),
    "scipy.signal.detrend": (scipy.signal.detrend, (X,)),
    "sklearn.metrics.r2_score": (metrics.r2_score, (X, Y)),
    "sklearn.metrics.confusion_matrix": (metrics.confusion_matrix, (LABELS, GUESSES)),
    "sklearn.preprocessing.MinMaxScaler": (lambda x: preprocessing.MinMaxScaler().fit_transform(x), (X,)),
    "sklearn.metrics.pairwise.cosine_similarity": (metrics.pairwise.cosine_similarity, (X, Y)),
}
#: Results that are Python numbers.
NUMBERS = ("sklearn.metrics.r2_score",)


def main() -> None:
    sklearn.set_config(array_api_dispatch=True)
    for name, (function, arguments) in CALLS.items():
        wanted = function(*arguments)
        ours = function(*map(anp.asarray, arguments))
        if not isinstance(ours, anp.Array) and name not in NUMBERS:
            sys.stdout.write(f"{name} gives a {type(ours).__name__}\n")
        elif not np.allclose(np.asarray(ours), wanted, rtol=1e-12, atol=1e-12):
            sys.stdout.write(f"{name} gives {ours}, with NumPy {wanted}\n")
    sys.stdout.write(f"{len(CALLS)} called\n")


if __name__ == "__main__":
    main()
