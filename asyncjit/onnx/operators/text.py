"""Operators on text, which lives on the host: NumPy arrays of Python strings in, NumPy out.

Law: operators that exist for text alone are registered as ever; those that other types have too stand in ``TEXT`` and
take over where an input is text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asyncjit.onnx._dtypes import dtype_of_code, is_text_code
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, Operator, Unsupported, operator

__all__ = ["MAKES_TEXT", "TEXT", "gives_text", "on_text"]

TEXT: dict[str, Operator] = {}
#: Operators whose result is text whatever they are given.
MAKES_TEXT = frozenset({"StringConcat", "StringNormalizer", "StringSplit"})


def on_text(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of NumPy arrays what ``name`` does where an input is text."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TEXT[name] = Operator("", name, 1, function, on_host=True)
        return function

    return register


def gives_text(node: Node, has_text: bool) -> bool:
    """Whether the first output is text, where some input is or not."""
    if node.op in MAKES_TEXT:
        return True
    if node.op == "Cast":
        return is_text_code(node.int("to"))
    if node.op == "Constant":
        return any(isinstance(v, np.ndarray) and v.dtype == object for v in node.attributes.values()) or bool(
            {"value_string", "value_strings"} & node.attributes.keys()
        )
    if node.op == "LabelEncoder":
        tensor = node.attributes.get("values_tensor")
        return node.has("values_strings") or (tensor is not None and tensor.dtype == object)
    return (
        has_text
        and (node.operator.whole or node.op in TEXT or node.op == "ArrayFeatureExtractor")
        and node.op != "Equal"
    )


# Where other types are usual.


@on_text("Equal")
def equal(node: Node, a: Host, b: Host) -> Host:
    return np.asarray(a == b, np.bool_)


@on_text("Cast")
def cast(node: Node, x: Host) -> Host:
    to = node.int("to")
    if x.dtype != object:
        return np.array([_written(each) for each in x.reshape(-1)], object).reshape(x.shape)
    if is_text_code(to):
        return x
    dtype = dtype_of_code(to)
    number = float if dtype.kind not in "iu" else lambda each: int(float(each))
    return (
        np.array([number(each) for each in x.reshape(-1)], np.float64 if dtype.kind == "f" else None)
        .astype(dtype)
        .reshape(x.shape)
    )


def _written(value: Any) -> str:
    return np.format_float_positional(value, trim="-") if isinstance(value, np.floating) else str(value)


@on_text("Reshape")
def reshape(node: Node, x: Host, shape: Host) -> Host:
    return x.reshape([x.shape[i] if n == 0 and not node.int("allowzero") else int(n) for i, n in enumerate(shape)])


@on_text("Concat")
def concat(node: Node, *values: Host) -> Host:
    return np.concatenate(values, node.int("axis"))


@on_text("Gather")
def gather(node: Node, x: Host, indices: Host) -> Host:
    return np.take(x, indices, node.int("axis", 0))


@on_text("Where")
def where(node: Node, condition: Host, a: Host, b: Host) -> Host:
    return np.where(condition, a, b)


@on_text("Transpose")
def transpose(node: Node, x: Host) -> Host:
    return x.transpose(node.ints("perm", None))


@on_text("Squeeze")
def squeeze(node: Node, x: Host, axes: Host | None = None) -> Host:
    given = node.ints("axes", None) if axes is None else tuple(axes.tolist())
    return np.squeeze(x, given)


@on_text("Unsqueeze")
def unsqueeze(node: Node, x: Host, axes: Host | None = None) -> Host:
    return np.expand_dims(x, node.ints("axes") if axes is None else tuple(axes.tolist()))


@on_text("Flatten")
def flatten(node: Node, x: Host) -> Host:
    axis = node.int("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


# For text alone.


@operator("StringConcat", since=20, host=ALL)
def string_concat(node: Node, a: Host, b: Host) -> Host:
    return np.asarray(np.add(a, b, dtype=object), object)


@operator("StringSplit", since=20, host=ALL)
def string_split(node: Node, x: Host) -> tuple[Host, Host]:
    """Parts of each string, padded with empty ones, and how many there are."""
    delimiter = node.str("delimiter") or None
    most = node.int("maxsplit", -1)
    parts = [each.split(delimiter, most) for each in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    filled = np.array([[*each, *[""] * (width - len(each))] for each in parts], object)
    counts = np.array([len(each) for each in parts], np.int64)
    return filled.reshape(*x.shape, width), counts.reshape(x.shape)


@operator("RegexFullMatch", since=20, host=ALL)
def regex_full_match(node: Node, x: Host) -> Host:
    try:
        pattern = re.compile(node.str("pattern"))
    except re.error as error:
        raise Unsupported(f"the pattern {node.str('pattern')!r}: {error}") from None
    return np.array([pattern.fullmatch(each) is not None for each in x.reshape(-1)], np.bool_).reshape(x.shape)


@operator("StringNormalizer", since=10, host=ALL)
def string_normalizer(node: Node, x: Host) -> Host:
    """Case changed, and words of a list left out, of a vector or of a matrix with one row."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(node.str("case_change_action", "NONE"), str)
    stopwords = node.strs("stopwords")
    is_exact = bool(node.int("is_case_sensitive", 0))
    fold: Callable[[str], str] = str if is_exact else str.lower
    listed = {fold(each) for each in stopwords}
    row = [each for each in x.reshape(-1) if fold(each) not in listed]
    result = np.array([change(each) for each in row] or [""], object)
    return result.reshape(1, -1) if x.ndim == 2 else result


@operator("TfIdfVectorizer", since=9, host=ALL)
def tf_idf_vectorizer(node: Node, x: Host) -> Host:
    """How often each known n-gram occurs in each row, with skips between its elements; counted, seen, or weighted."""
    counts = _counts_of_grams(node, x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1))
    weights = np.array(node.floats("weights") or np.ones(counts.shape[1]), np.float32)
    mode = node.str("mode")
    if mode == "IDF":
        counts = (counts > 0) * weights
    elif mode == "TFIDF":
        counts = counts * weights
    elif mode != "TF":
        raise Unsupported(f"mode {mode!r}")
    return counts.astype(np.float32).reshape(*x.shape[:-1], -1)


def _counts_of_grams(node: Node, rows: Host) -> Host:
    pool: list[Any] = list(node.strs("pool_strings") or node.ints("pool_int64s"))
    starts = [*node.ints("ngram_counts"), len(pool)]
    indices = node.ints("ngram_indexes")
    columns: dict[tuple[Any, ...], int] = {}
    place = 0
    for size, (start, stop) in enumerate(itertools.pairwise(starts), 1):
        for at in range(start, stop, size):
            columns[tuple(pool[at : at + size])] = indices[place]
            place += 1
    counts = np.zeros((len(rows), max(indices, default=-1) + 1), np.float32)
    for row, elements in enumerate(rows.tolist()):
        for gram in _grams(node, elements):
            column = columns.get(gram)
            if column is not None:
                counts[row, column] += 1
    return counts


def _grams(node: Node, elements: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Every run of elements of an allowed length and with equal, allowed gaps; single ones once, whatever the gap."""
    for gap in range(1, node.int("max_skip_count", 0) + 2):
        for size in range(node.int("min_gram_length", 1), node.int("max_gram_length", 1) + 1):
            if size == 1 and gap > 1:
                continue
            for start in range(len(elements) - (size - 1) * gap):
                yield tuple(elements[start : start + (size - 1) * gap + 1 : gap])
