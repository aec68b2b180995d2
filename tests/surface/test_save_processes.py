"""Fresh processes and pickles: what another process loads gives what this one would have given."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.saving.container import FORMAT_VERSION
from tests._source import CHECKOUT
from tests.surface import saved_models
from tests.surface.saved_models import accumulator, blurred, scaled

ONES = np.ones(4)


def in_a_fresh_process(code: str, *arguments: object) -> Any:
    """What ``code`` prints, as JSON."""
    start = "import json, sys\nimport numpy as np\nimport asyncjit as aj\nimport asyncjit.numpy as anp\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=CHECKOUT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fresh_process_does_not_mistake_its_arrays_for_those_of_the_file(tmp_path: Path) -> None:
    """Numbers that count from one in each process once made a weight and an input the same buffer: 101 for 21."""
    weight = anp.asarray(np.full(1, 20.0))
    add = aj.jit(lambda x: x + weight)
    add.run(np.ones(1))
    aj.save(tmp_path / "a.aj", add)
    code = """
others = [anp.asarray(np.full(1, 100.0)) for _ in range(8)]
add = aj.load(sys.argv[1])
print(json.dumps([add.run(each)[0].item() for each in [np.ones(1), *others]] + [other[0].item() for other in others]))
"""
    assert in_a_fresh_process(code, tmp_path / "a.aj") == [21.0] + [120.0] * 8 + [100.0] * 8


def test_files_of_several_processes_do_not_collide_in_one(tmp_path: Path) -> None:
    code = """
weight = anp.asarray(np.full(2, float(sys.argv[2])))
total = anp.zeros(2)
@aj.jit
def add(x):
    total[...] = total + x * weight
    return total
add.run(np.ones(2))
aj.save(sys.argv[1], add)
print(json.dumps(np.asarray(total).tolist()))
"""
    for factor in (3, 5):
        assert in_a_fresh_process(code, tmp_path / f"{factor}.aj", factor) == [factor, factor]
    three, five, again = (aj.load(tmp_path / f"{factor}.aj") for factor in (3, 5, 3))
    results = [each.run(np.ones(2)) for each in (three, five, three, again, five)]
    assert [np.asarray(result)[0].item() for result in results] == [6.0, 10.0, 9.0, 6.0, 15.0]


def test_a_pickle_gives_right_sums_in_a_fresh_process(tmp_path: Path) -> None:
    add, peek, total = accumulator()
    add.run(ONES)
    peek.run()
    (tmp_path / "p").write_bytes(pickle.dumps({"add": add, "peek": peek, "total": total}))
    code = """
import pickle
model = pickle.load(open(sys.argv[1], "rb"))
model["add"].run(np.ones(4))
model["total"][...] = np.asarray(model["total"]) + 10
print(json.dumps(np.asarray(model["peek"].run()).tolist()))
"""
    assert in_a_fresh_process(code, tmp_path / "p") == [12.0] * 4


def test_a_fresh_process_imports_only_what_it_is_told_to(tmp_path: Path) -> None:
    blurred.run(ONES)
    scaled.run(ONES)
    for name, function in (("blurred", blurred), ("scaled", scaled)):
        aj.save(tmp_path / name, function)
    code = """
folder, told = sys.argv[1:]
report = []
try:
    report.append(np.asarray(aj.load(folder + "/blurred", imports=told == "yes").run(np.ones(4))).tolist())
except aj.LoadError as error:
    report.append("import tests.surface.saved_models before loading" in str(error))
scaled = aj.load(folder + "/scaled", imports=told == "yes")
report.append(np.asarray(scaled.run(np.ones(4))).tolist())
try:
    report.append(np.asarray(scaled.run(np.zeros((1, 4)))).tolist())
except aj.ReplayMismatchError as error:
    report.append("import tests.surface.saved_models before loading" in str(error))
print(json.dumps([*report, "tests.surface.saved_models" in sys.modules]))
"""
    known = [3.0, 4.0, 5.0, 6.0]
    assert in_a_fresh_process(code, tmp_path, "yes") == [[4.0] * 4, known, [[0.0, 1.0, 2.0, 3.0]], True]
    assert in_a_fresh_process(code, tmp_path, "no") == [True, known, True, False]


# Pickles in this process.


def test_the_original_may_be_kept_or_deleted() -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    data = pickle.dumps(add)
    again = pickle.loads(data)
    assert np.asarray(again.run(ONES)).tolist() == np.asarray(add.run(ONES)).tolist() == [2.0] * 4
    del add, again
    assert np.asarray(pickle.loads(data).run(ONES)).tolist() == [2.0] * 4


def test_a_model_comes_back_whole_and_its_weights_are_in_the_pickle_once() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = anp.asarray(np.ones((64, 64)))
            w = self.w
            self.infer = aj.jit(lambda x: x @ w)
            self.scale = aj.jit(lambda k: w.__setitem__(..., w * k))

    model = Model()
    x = np.ones((1, 64))
    model.infer.run(x)
    model.scale.run(2.0)
    data = pickle.dumps(vars(model))
    assert len(data) < 1.5 * model.w.nbytes
    back = pickle.loads(data)
    back["scale"].run(2.0)
    assert np.asarray(back["infer"].run(x))[0, 0] == 256.0
    assert np.asarray(back["w"])[0, 0] == 4.0
    assert np.asarray(model.w)[0, 0] == 2.0


def test_a_method_pickles_with_its_instance() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = anp.zeros(1)

        @aj.jit
        def add(self, x: anp.Array) -> anp.Array:
            self.count[...] = self.count + x
            return self.count

    counter = Counter()
    counter.add.run(np.ones(1))
    assert np.asarray(pickle.loads(pickle.dumps(counter.add)).run(np.ones(1))).tolist() == [2.0]


def test_a_view_pickles_as_values_alone() -> None:
    base = anp.asarray(np.arange(10_000.0))
    data = pickle.dumps(base[10:12])
    assert len(data) < 1000
    assert np.asarray(pickle.loads(data)).tolist() == [10.0, 11.0]


def test_what_has_no_captures_does_not_pickle() -> None:
    with pytest.raises(aj.SaveError, match="no captures"):
        pickle.dumps(accumulator()[0])


def test_a_pickle_whose_plan_is_damaged_or_of_another_version_is_refused() -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    data = pickle.dumps(add)
    start = data.index(b"\x89asyncjt")
    assert data[start + 8] == FORMAT_VERSION
    for position, words in ((start + 8, "version"), (start + 100, "damaged")):
        changed = bytearray(data)
        changed[position] ^= 64
        with pytest.raises(aj.LoadError, match=words):
            pickle.loads(bytes(changed))


def test_copies_of_a_function_are_the_function() -> None:
    add, _, total = accumulator()
    assert copy.copy(add) is add
    assert copy.deepcopy({"f": add})["f"] is add
    assert copy.deepcopy(total) is not total


def test_an_unpickled_function_of_a_module_is_recorded_anew() -> None:
    saved_models.scaled.run(ONES)
    back = pickle.loads(pickle.dumps(saved_models.scaled))
    assert np.asarray(back.run(np.zeros((1, 4)))).tolist() == [[0.0, 1.0, 2.0, 3.0]]
