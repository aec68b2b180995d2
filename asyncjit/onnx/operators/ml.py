"""Operators of ``ai.onnx.ml``: encoders and trees.

Law: what reads text or walks trees runs on the host, between two recorded parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, Unsupported, operator

__all__: list[str] = []

DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: Node, x: Array, indices: Array) -> Array:
    picked = anp.take(x, indices.reshape(-1), axis=-1)
    return picked.reshape(1, -1) if x.ndim == 1 else picked


@operator("Binarizer", domain=DOMAIN)
def binarizer(node: Node, x: Array) -> Array:
    return (x > node.float("threshold", 0.0)).astype(x.dtype)


#: Suffix of the attributes that hold keys or values; of the default; the dtype; and what the default is without one.
_KINDS: tuple[tuple[str, str, Any, Any], ...] = (
    ("strings", "string", object, "_Unused"),
    ("int64s", "int64", np.int64, -1),
    ("floats", "float", np.float32, -0.0),
)


@operator("LabelEncoder", domain=DOMAIN, since=2, host=ALL)
def label_encoder(node: Node, x: Host) -> Host:
    keys, _ = _table(node, "keys")
    values, default = _table(node, "values")
    known = {_key(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    found = [known.get(_key(each), default) for each in x.reshape(-1).tolist()]
    return np.array(found, dtype=values.dtype).reshape(x.shape)


def _key(value: Any) -> Any:
    """nan is a key like others."""
    return "nan" if isinstance(value, float) and value != value else (type(value) is str, value)


def _table(node: Node, what: str) -> tuple[Host, Any]:
    if node.has(f"{what}_tensor"):
        default = node.tensor("default_tensor").item() if node.has("default_tensor") else None
        return node.tensor(f"{what}_tensor").reshape(-1), default
    for plural, singular, dtype, default in _KINDS:
        if node.has(f"{what}_{plural}"):
            values = np.array(node.attributes[f"{what}_{plural}"], dtype)
            return values, node.attributes.get(f"default_{singular}", default)
    raise Unsupported(f"an encoder without {what}")


_COMPARISONS: tuple[Any, ...] = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MEMBER = 6
_AVERAGE, _SUM, _MIN, _MAX = range(4)


@operator("TreeEnsemble", domain=DOMAIN, since=5, host=ALL)
def tree_ensemble(node: Node, x: Host) -> Host:
    if node.int("post_transform", 0):
        raise Unsupported(f"post_transform={node.int('post_transform')}")
    trees = _Trees(node)
    how = node.int("aggregate_function", _SUM)
    out = np.zeros((len(x), node.int("n_targets")), x.dtype)
    met = np.zeros(out.shape, bool)
    roots = node.ints("tree_roots")
    rows = np.arange(len(x))
    for root in roots:
        leaves = trees.leaves(root, x)
        place, weights = (rows, trees.targets[leaves]), trees.weights[leaves]
        if how in (_MIN, _MAX):
            # A target that no tree comes to stays 0.
            extreme = (np.minimum if how == _MIN else np.maximum)(out[place], weights)
            out[place] = np.where(met[place], extreme, weights)
        else:
            out[place] += weights / (len(roots) if how == _AVERAGE else 1)
        met[place] = True
    return out


class _Trees:
    """The nodes of all trees as tables."""

    def __init__(self, node: Node) -> None:
        self.modes = node.tensor("nodes_modes").astype(int)
        self.splits = node.tensor("nodes_splits")
        self.features, self.yes, self.no, self.yes_ends, self.no_ends = (
            np.array(node.ints(f"nodes_{name}"))
            for name in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
        )
        self.targets = np.array(node.ints("leaf_targetids"))
        self.weights = node.tensor("leaf_weights")
        missing = node.ints("nodes_missing_value_tracks_true") or (0,) * len(self.modes)
        self.missing_goes_yes = np.array(missing, bool)
        self.members = self._sets(node)

    def _sets(self, node: Node) -> dict[int, Host]:
        """The set of each node that asks for membership: they follow each other, ended by nan, in the order in which
        the trees are walked, the side of yes first."""
        if not node.has("membership_values"):
            return {}
        values = node.tensor("membership_values").tolist()
        sets: dict[int, Host] = {}
        waiting = [int(root) for root in reversed(node.ints("tree_roots"))]
        while waiting:
            at = waiting.pop()
            if self.modes[at] == _MEMBER:
                end = next(place for place, value in enumerate(values) if value != value)
                sets[at], values = np.array(values[:end]), values[end + 1 :]
            for branch, ends in ((self.no, self.no_ends), (self.yes, self.yes_ends)):
                if not ends[at]:
                    waiting.append(int(branch[at]))
        return sets

    def leaves(self, root: int, x: Host) -> Host:
        """The leaf of one tree that each row of ``x`` comes to."""
        at, done = np.full(len(x), root), np.zeros(len(x), bool)
        for _ in range(len(self.modes)):
            if done.all():
                break
            for place in np.unique(at[~done]):
                here = np.flatnonzero(~done & (at == place))
                values = x[here, self.features[place]]
                if self.modes[place] == _MEMBER:
                    says_yes = np.isin(values, self.members[int(place)])
                else:
                    says_yes = _COMPARISONS[self.modes[place]](values, self.splits[place])
                says_yes |= self.missing_goes_yes[place] & np.isnan(values)
                at[here] = np.where(says_yes, self.yes[place], self.no[place])
                done[here] = np.where(says_yes, self.yes_ends[place], self.no_ends[place])
        return at
