"""Real models on real inputs: from the bytes of a file and the pixels of a picture to an answer.

Law: ONNX Runtime runs the same models with the same code around them; both must say the same.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import asyncjit as aj
import asyncjit.onnx
from examples.label_files import Labeller, features, has_too_little, label_of
from tests._source import CHECKOUT
from tests.models import ocr
from tests.models.judging import session
from tests.models.wheels import needed


def source_files() -> list[tuple[Path, str]]:
    """Files of the checkout that are long enough to tell, and what they are: every page, and some of the modules."""
    kinds = {".py": "python", ".md": "markdown", ".toml": "toml"}
    modules = sorted((CHECKOUT / "asyncjit").rglob("*.py"))[::16]
    paths = [*modules, *sorted(CHECKOUT.glob("*")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
    return [(path, kinds[path.suffix]) for path in paths if path.suffix in kinds and path.stat().st_size > 1000]


async def test_magika_knows_the_source_files_of_this_project() -> None:
    model = needed("magika", "magika/models/standard_v3_3/model.onnx")
    files = source_files()
    async with aj.Engine():
        labeller = Labeller(model.parents[2])
        found = await asyncio.gather(*(labeller.label(path) for path, _ in files))
    assert {kind for _, kind in files} == {"python", "markdown", "toml"}
    told = [(path.name, kind, label) for (path, kind), (label, _) in zip(files, found, strict=True)]
    # A page of prose may be unsure enough to be called text.
    assert [each for each in told if each[2] not in (each[1], "txt" if each[1] == "markdown" else each[1])] == []
    pages = [label for _, kind, label in told if kind == "markdown"]
    assert pages.count("markdown") > 0.8 * len(pages)
    rows = np.stack([features(path.read_bytes(), labeller.config) for path, _ in files])
    [expected] = session(model).run(None, {"bytes": rows})
    for (label, score), scores in zip(found, expected, strict=True):
        assert (label, pytest.approx(score, abs=1e-4)) == label_of(scores, labeller.config, labeller.kinds)


def test_magika_takes_both_ends_of_a_file_without_the_whitespace_around() -> None:
    config = {"block_size": 32, "beg_size": 8, "end_size": 8, "padding_token": 256, "min_file_size_for_dl": 4}
    assert features(b"  abc \n", config).tolist() == [*b"abc \n", 256, 256, 256, 256, 256, 256, *b"  abc"]
    assert features(b"\t" + bytes(range(64, 128)) + b"\n\n", config).tolist() == [
        *range(64, 72),
        *range(120, 128),
    ]
    assert has_too_little(b"   abc  ", config) is False
    assert has_too_little(b" " * 30 + b"abcdef", config) is True


TEXTS = (["asyncjit capture", "and replay"], ["Total: 1234.56 EUR", "paid in full", "thank you"], ["one line"])


async def test_ocr_finds_turns_and_reads_lines_as_one_pipeline() -> None:
    files = {part: needed("rapidocr-onnxruntime", path) for part, path in ocr.FILES.items()}
    sessions = {part: session(file, os.cpu_count() or 1) for part, file in files.items()}
    listed = {each.key: each.value for each in onnx.load(files["read"]).metadata_props}
    classes = ocr.characters(listed["character"])
    pictures = [ocr.page(lines) for lines in TEXTS]
    pictures.append(ocr.turned(pictures[0]))

    async def oracle(part: str, x: np.ndarray) -> np.ndarray:
        [output] = await asyncio.to_thread(sessions[part].run, None, {"x": x})
        return output

    expected = []
    other = ocr.Reader(oracle, classes)
    for picture in pictures:
        expected.append(await other.read(await other.orient(await other.find(picture))))

    async with aj.Engine():
        models = {part: aj.onnx.load(file) for part, file in files.items()}

        async def infer(part: str, x: np.ndarray) -> np.ndarray:
            [output] = (await models[part](x=x)).values()
            return np.asarray(output)

        reader = ocr.Reader(infer, classes)
        async with aj.pipeline(reader.find, reader.orient, reader.read, in_flight=3)(pictures) as outputs:
            read = [lines async for lines in outputs]
    assert read == expected
    for lines, texts in zip(read, [*TEXTS, TEXTS[0][::-1]], strict=True):
        assert [line.replace(" ", "") for line in lines] == [text.replace(" ", "") for text in texts]
