"""What is in these files? A model that somebody else trained tells from their bytes, whatever their names say.

Run it: ``pip install '.[onnx]' && pip install --no-deps magika==1.0.3``, then
``python examples/label_files.py README.md pyproject.toml asyncjit/jit/*.py``. The model is Google's Magika (Apache-2.0,
3 MB): 214 kinds of content, told by the first and the last kilobyte. Only its files are used, not the package's code.
Each file is a request of its own, as in a server; requests that are there at the same time share a replay.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

import asyncjit as aj
import asyncjit.onnx

ROWS_MAX = 16


def features(content, config):
    """The row of numbers that the model takes: bytes of both ends without the whitespace around, and padding."""
    block, pad = config["block_size"], config["padding_token"]
    first = content[:block].lstrip()[: config["beg_size"]]
    last = content[-block:].rstrip()[-config["end_size"] :]
    row = np.full(config["beg_size"] + config["end_size"], pad, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[len(row) - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def has_too_little(content, config):
    """Whether there is too little for the model to go by."""
    return len(content[: config["block_size"]].lstrip()) < config["min_file_size_for_dl"]


def simple_label(content):
    """What can be said of a few bytes: nothing, text, or neither."""
    if not content:
        return "empty"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "unknown"
    return "txt"


def label_of(scores, config, kinds):
    """The label for the model's scores: the likeliest, or just "text" or "unknown" where it is not likely enough."""
    best = int(np.argmax(scores))
    name = config["target_labels_space"][best]
    label = config["overwrite_map"].get(name, name)
    if scores[best] < config["thresholds"].get(name, config["medium_confidence_threshold"]):
        label = "txt" if kinds[label]["is_text"] else "unknown"
    return label, float(scores[best])


class Labeller:
    """The model with its rules, from the folder of the package ``magika``."""

    def __init__(self, folder):
        model = folder / "models" / "standard_v3_3"
        self.config = json.loads((model / "config.min.json").read_text(encoding="utf-8"))
        self.kinds = json.loads((folder / "config" / "content_types_kb.min.json").read_text(encoding="utf-8"))
        self.model = aj.onnx.load(model / "model.onnx")
        self.scores = self.model.batched(rows_max=ROWS_MAX, wait_max_s=0.002)

    async def label(self, path):
        """Label and score of one file."""
        content = await asyncio.to_thread(path.read_bytes)
        if has_too_little(content, self.config):
            return simple_label(content[: self.config["block_size"]]), 1.0
        outputs = await self.scores(features(content, self.config)[None])
        return label_of(np.asarray(outputs["target_label"])[0], self.config, self.kinds)


def installed():
    """The folder of magika, which is not imported, or None."""
    spec = importlib.util.find_spec("magika")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


async def main(paths, folder):
    labeller = Labeller(folder)
    answers = await asyncio.gather(*(labeller.label(path) for path in paths))
    width = max(len(str(path)) for path in paths)
    for path, (label, score) in zip(paths, answers, strict=True):
        described = labeller.kinds.get(label, {}).get("description") or label
        print(f"{str(path).ljust(width)}  {label.ljust(10)}  {score:4.0%}  {described}")
    counts = labeller.scores.statistics()
    print(f"{counts.calls} requests, {counts.batches} replays")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Say what is in files.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--magika", type=Path, default=installed(), metavar="FOLDER", help="where the package is")
    options = parser.parse_args()
    if options.magika is None:
        sys.exit("the model is not there: pip install --no-deps magika==1.0.3")
    asyncio.run(main(options.paths, options.magika))
