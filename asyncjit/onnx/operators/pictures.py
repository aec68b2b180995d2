"""Pictures as files: ImageDecoder, by Pillow where it is installed.

Law: one operator, on the host; its result has the size of the picture, which no recording knows.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np

from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, Unsupported, operator

__all__: list[str] = []


@operator("ImageDecoder", since=20, host=ALL)
def image_decoder(node: Node, encoded: Host) -> Host:
    """uint8 of shape (height, width, channels)."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise Unsupported("decoding pictures needs Pillow: pip install pillow") from None
    pixels = node.str("pixel_format", "RGB")
    if pixels not in ("RGB", "BGR", "Grayscale"):
        raise Unsupported(f"pixel_format is RGB, BGR or Grayscale, given {pixels!r}")
    try:
        with Image.open(BytesIO(encoded.astype(np.uint8).tobytes())) as picture:
            decoded = np.asarray(picture.convert("L" if pixels == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise Unsupported(f"{encoded.size} bytes that are no picture: {error}") from error
    if pixels == "Grayscale":
        return decoded[:, :, None].copy()
    return decoded[:, :, ::-1].copy() if pixels == "BGR" else decoded.copy()
