"""Real models with many calls under way at once, from tasks and from threads: each answer is that of a call alone."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
from asyncjit.onnx import load
from tests.models.cases import CASES, Case
from tests.models.wheels import needed

CALLS = 8

#: One case of each model that takes milliseconds, whatever it computes with.
CHOSEN = [
    case
    for case in CASES
    if case.name.startswith(
        ("magika-1", "silero", "ocr-classify-6", "romanizer", "seizure", "captcha-1", "voicefilter")
    )
]


def answers(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in outputs.items()}


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return all(np.array_equal(left[name], right[name], equal_nan=True) for name in right)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
async def test_concurrent_calls_are_bit_for_bit_what_they_are_alone(case: Case) -> None:
    path = needed(case.wheel.name, case.path)
    inputs = [case.inputs(seed) for seed in range(CALLS)]
    async with aj.Engine():
        model = load(path, in_flight_max=4)
        await model(**inputs[0])
        if model.is_recorded:
            # The finished plan, with its streams and its reuse of memory, for all of them.
            await model.prepare(**inputs[0])
        alone = [answers(await model(**each)) for each in inputs]
        found: list[Any] = [None] * CALLS

        async def call(index: int) -> None:
            found[index] = answers(await model(**inputs[index]))

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for index in range(CALLS):
                    tasks.start_soon(call, index)
            wrong = [index for index in range(CALLS) if not same(found[index], alone[index])]
            assert wrong == []


def test_threads_share_a_model() -> None:
    (case,) = (case for case in CASES if case.name == "magika-1")
    path = needed(case.wheel.name, case.path)
    model = load(path)
    inputs = [case.inputs(seed) for seed in range(6)]
    alone = [answers(model.run(**each)) for each in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(3):
            if not same(answers(model.run(**inputs[index])), alone[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
