"""Sharded arrays as state: written and copied under one ticket, and stored in files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.saving.container import Container, pack
from tests.surface.test_shard import DEVICES, HOST, check, engine

__all__ = ["engine"]


def test_assign_and_snapshot_take_arrays_in_shards_under_one_ticket() -> None:
    x, y, z = anp.shard(HOST, DEVICES), anp.shard(HOST * 2, DEVICES), anp.zeros(3)
    first = aj.snapshot(x, z, y)
    aj.assign({x: y, y: x, z: 1.0}).wait()
    for found, before, after in ((first.wait()[0], HOST, HOST * 2), (first.wait()[2], HOST * 2, HOST)):
        check(found, before, 0)
        check(x if after is not HOST else y, after, 0)
    assert np.asarray(first.wait()[1]).tolist() == [0.0] * 3
    aj.assign({x: HOST * 5}).wait()
    check(x, HOST * 5, 0)
    check(aj.snapshot(x).wait()[0], HOST * 5, 0)


def test_functions_on_arrays_in_shards_and_the_arrays_are_saved(tmp_path: Path) -> None:
    total = anp.shard(np.zeros((5, 6)), DEVICES)

    @aj.jit
    def add(x: Any) -> Any:
        total[...] = total + x
        return {"rows": total * 1, "sum": x.sum(0)}

    for axis in (0, None):
        add.run(anp.shard(HOST, DEVICES, axis))
    aj.save(tmp_path / "file", add=add, total=total)
    loaded = aj.load(tmp_path / "file")
    check(loaded["total"], HOST * 2, 0)
    for axis in (0, None):
        result = loaded["add"].run(anp.shard(HOST, DEVICES, axis))
        check(result["sum"], HOST.sum(0), None)
    check(result["rows"], HOST * 4, 0)
    check(loaded["total"], HOST * 4, 0)
    check(total, HOST * 2, 0)
    with pytest.raises(aj.ReplayMismatchError):
        loaded["add"].run(anp.shard(HOST, DEVICES, 1))


def test_a_file_whose_shards_do_not_go_together_is_refused(tmp_path: Path) -> None:
    x = anp.shard(HOST, DEVICES)
    aj.save(tmp_path / "file", x)
    data = (tmp_path / "file").read_bytes()
    container = Container(io.BytesIO(data), len(data), "file")
    content: Any = container.content.data
    arrays = [memoryview(container.array(index)) for index in range(len(container.arrays_nbytes))]
    thing = content["things"][""]
    for kind, inside, words in (
        ({"sharded": 1}, thing["as"]["inside"], "shards of one"),
        ({"sharded": 7}, thing["as"]["inside"], "shards of one"),
        ({"sharded": 64}, thing["as"]["inside"], "one of 64 axes"),
        ({"sharded": 0}, [None], "shards of one"),
        ({"sharded": 0}, [{"of": "tuple", "labels": [], "inside": []}], "shards of one"),
    ):
        thing["as"] = {"of": kind, "labels": [], "inside": inside}
        (tmp_path / "file").write_bytes(b"".join(pack(content, arrays)))
        with pytest.raises(aj.LoadError, match=words):
            aj.load(tmp_path / "file")
