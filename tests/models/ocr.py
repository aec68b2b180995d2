"""Reading the text of a picture with the three models of PaddleOCR, whoever runs them.

Law: what comes before, between and after the models, for lines that lie flat; an engine comes in as a function. The
detector's map becomes boxes by the method of DB (Liao et al., "Real-time Scene Text Detection with Differentiable
Binarization", 2020): threshold, connected regions, and a margin in proportion to area over perimeter.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

__all__ = ["FILES", "Box", "Reader", "boxes_of", "characters", "decoded", "page", "turned"]

Host: TypeAlias = "np.ndarray[Any, Any]"
#: Runs a model, by its part, on its one input, and gives its one output.
Infer: TypeAlias = Callable[[str, Host], Awaitable[Host]]

FILES = {
    "detect": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "classify": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "read": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}

#: A pixel is text above this; a region counts when its mean is above the second; of its margin.
THRESHOLD, BOX_THRESHOLD, MARGIN = 0.3, 0.5, 1.6
LINE_HEIGHT, CLASSIFIED_WIDTH, TURNED_THRESHOLD = 48, 192, 0.9


@dataclass(frozen=True, slots=True)
class Box:
    """A line of text in pixels of the picture."""

    top: int
    left: int
    bottom: int
    right: int


def page(lines: Sequence[str], size: int = 30, width: int = 480) -> Host:
    """Black text on white, a line under the other: a picture of 8 bits, its sides multiples of 32."""
    height = math.ceil((len(lines) * 2 * size + size) / 32) * 32
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for index, line in enumerate(lines):
        draw.text((size, size // 2 + index * 2 * size), line, "black", font)
    return np.asarray(image)


def turned(picture: Host) -> Host:
    """The picture as it is when the page lies upside down."""
    return np.ascontiguousarray(picture[::-1, ::-1])


def normalised(picture: Host) -> Host:
    """Channels first, between -1 and 1."""
    return (picture.astype(np.float32).transpose(2, 0, 1) / 127.5 - 1).astype(np.float32)


def boxes_of(probabilities: Host) -> list[Box]:
    """Lines of text in the detector's map, from top to bottom."""
    # Grown by a pixel to the right and below, so that letters with a hair between them are one region.
    mask = ndimage.binary_dilation(probabilities > THRESHOLD, np.ones((2, 2)))
    regions, _ = ndimage.label(mask, np.ones((3, 3)))
    boxes = []
    for index, (rows, columns) in enumerate(ndimage.find_objects(regions), 1):
        inside = regions[rows, columns] == index
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if min(height, width) < 3 or probabilities[rows, columns][inside].mean() < BOX_THRESHOLD:
            continue
        margin = round(height * width * MARGIN / (2 * (height + width)))
        top, left = max(0, rows.start - margin), max(0, columns.start - margin)
        bottom, right = (
            min(extent, end.stop + margin) for extent, end in zip(mask.shape, (rows, columns), strict=True)
        )
        boxes.append(Box(top, left, bottom, right))
    return sorted(boxes, key=lambda box: (box.top, box.left))


def strip(picture: Host, box: Box) -> Host:
    """A line, scaled to the height that both models take."""
    part = Image.fromarray(picture[box.top : box.bottom, box.left : box.right])
    width = max(1, math.ceil(LINE_HEIGHT * part.width / part.height))
    return np.asarray(part.resize((width, LINE_HEIGHT), Image.Resampling.BILINEAR))


def batch(strips: Sequence[Host], width: int) -> Host:
    """Strips as rows, at most ``width`` wide, with grey behind the shorter ones."""
    rows = np.zeros((len(strips), 3, LINE_HEIGHT, width), np.float32)
    for row, each in zip(rows, strips, strict=True):
        if each.shape[1] > width:
            each = np.asarray(Image.fromarray(each).resize((width, LINE_HEIGHT), Image.Resampling.BILINEAR))
        row[:, :, : each.shape[1]] = normalised(each)
    return rows


def characters(text: str) -> list[str]:
    """The reader's classes: nothing, what its metadata list, and a blank."""
    return ["", *text.splitlines(), " "]


def decoded(scores: Host, classes: Sequence[str]) -> str:
    """The likeliest class of each column; repeated ones are one letter unless nothing stands between them."""
    best = scores.argmax(axis=-1)
    kept = best[np.insert(best[1:] != best[:-1], 0, True)]
    return "".join(classes[index] for index in kept)


class Reader:
    """The stages of reading a picture: ``find``, ``orient``, ``read``, each a coroutine function of one item."""

    def __init__(self, infer: Infer, classes: Sequence[str]) -> None:
        self._infer = infer
        self._classes = classes

    async def find(self, picture: Host) -> list[Host]:
        """The lines of a picture as strips."""
        maps = await self._infer("detect", normalised(picture)[None])
        return [strip(picture, box) for box in boxes_of(maps[0, 0])]

    async def orient(self, strips: list[Host]) -> list[Host]:
        """The strips the right way up."""
        if not strips:
            return strips
        scores = await self._infer("classify", batch(strips, CLASSIFIED_WIDTH))
        return [turned(each) if s[1] > TURNED_THRESHOLD else each for each, s in zip(strips, scores, strict=True)]

    async def read(self, strips: list[Host]) -> list[str]:
        """The text of each strip."""
        if not strips:
            return []
        scores = await self._infer("read", batch(strips, max(320, *(each.shape[1] for each in strips))))
        return [decoded(each, self._classes) for each in scores]
