"""The voice detector hears speech, step after step, with its state handed on before it is computed.

Law: ONNX Runtime takes the same steps one after the other; both must say the same at each.
"""

from __future__ import annotations

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.onnx
from tests.models.judging import session
from tests.models.speech import RATE_HZ, STEP, speech, windows
from tests.models.wheels import needed

STEPS = 170


@pytest.mark.parametrize("name", ["silero_vad.onnx", "silero_vad_op18_ifless.onnx"])
async def test_silero_hears_speech_with_its_state_carried_from_step_to_step(name: str) -> None:
    file = needed("silero-vad", f"silero_vad/data/{name}")
    heard, oracle = speech(STEPS), session(file)
    state = np.zeros((2, 1, 128), np.float32)
    rate = np.array(RATE_HZ, np.int64)
    replays = []
    async with aj.Engine():
        model = aj.onnx.load(file)
        carried: object = state
        for window in windows(heard.samples):
            replays.append(model(input=window[None], state=carried, sr=rate))
            carried = replays[-1].result["stateN"]  # not computed yet: the next step is submitted behind it
        outputs = [await replay for replay in replays]
        ours = np.array([float(np.asarray(each["output"]).item()) for each in outputs])
        states = [np.asarray(each["stateN"]) for each in outputs]
    theirs = []
    for window, mine in zip(windows(heard.samples), states, strict=True):
        probability, state = oracle.run(None, {"input": window[None], "state": state, "sr": rate})
        theirs.append(probability.item())
        np.testing.assert_allclose(mine, state, atol=1e-4 * np.abs(state).max())
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    begin, end = heard.begin // STEP, heard.end // STEP
    assert ours[: begin - 1].mean() < 0.1
    assert ours[begin + 4 : end - 4].mean() > (0.8 if heard.is_real else 0.5)
