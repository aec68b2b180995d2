"""Pictures are decoded to their pixels; bytes that are none are refused with a reason.

Law: what ONNX's own tests leave out; formats are theirs.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

import asyncjit as aj
from tests.onnx.one_node import model_of, ours


def decoded(encoded: bytes, pixel_format: str) -> Any:
    data = np.frombuffer(encoded, np.uint8)
    return ours(model_of("ImageDecoder", [data], {"pixel_format": pixel_format}, opset=20), {"x0": data})[0]


def test_pixels_come_in_the_order_that_is_asked_for() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype("uint8")
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    np.testing.assert_array_equal(decoded(file.getvalue(), "RGB"), pixels)
    np.testing.assert_array_equal(decoded(file.getvalue(), "BGR"), pixels[:, :, ::-1])
    grey = decoded(file.getvalue(), "Grayscale")
    assert (grey.shape, grey.dtype) == ((5, 7, 1), np.uint8)
    # ITU-R 601-2, as Pillow says.
    assert np.abs(grey[:, :, 0] - pixels @ [0.299, 0.587, 0.114]).max() <= 1


@pytest.mark.parametrize("encoded", [b"no picture at all", b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_bytes_that_are_no_picture_are_refused(encoded: bytes) -> None:
    with pytest.raises(aj.OnnxError, match=f"ImageDecoder.*{len(encoded)} bytes that are no picture"):
        decoded(encoded, "RGB")
