"""Every real model with every shape of inputs, against ONNX Runtime; see ``python -m tests.models report``."""

from __future__ import annotations

import pytest

from tests.models.cases import CASES, Case
from tests.models.judging import judge
from tests.models.wheels import needed

MARKED = [pytest.param(case, id=case.name, marks=pytest.mark.big_models if case.wheel.is_big else ()) for case in CASES]


@pytest.mark.parametrize("case", MARKED)
def test_the_answers_are_those_of_onnxruntime(case: Case) -> None:
    """For inputs of two seeds: the first call records, the second replays."""
    needed(case.wheel.name, case.path)
    verdict = judge(case)
    assert verdict.reason == ""
    assert verdict.is_right, f"{verdict.error:.2f} times what is admitted; relative error {verdict.max_rel_err:.1e}"
