"""What the machine gives this process: cores, quota, memory, libraries.

Law: reads, and changes nothing. What cannot be found out is None. Files of the kernel are read below ``root``, so that
the reading can be tried on any tree of files.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["blas_libraries", "cgroup_cores", "cgroup_memory_bytes", "cores_usable", "load_average", "version_of"]


def cores_usable() -> int:
    """Cores that the scheduler may put this process on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def load_average() -> float | None:
    """Processes that ran or wanted to, over the last minute."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def cgroup_cores(root: Path = Path("/")) -> float | None:
    """Cores that a container's quota amounts to, the least on the way up; None where there is none.

    Version 2: ``cpu.max`` holds "QUOTA PERIOD", or "max PERIOD". Version 1: ``cpu.cfs_quota_us``, -1 for none, and
    ``cpu.cfs_period_us``.
    """
    found = []
    for folder in _cgroup_folders(root, ""):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and quota[0].isdecimal() and period[0].isdecimal() and int(period[0]):
            found.append(int(quota[0]) / int(period[0]))
    return min(found, default=None)


def cgroup_memory_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that a container may use; None where there is no limit."""
    files = [folder / "memory.max" for folder in _cgroup_folders(root, "")]
    files += [folder / "memory.limit_in_bytes" for folder in _cgroup_folders(root, "memory")]
    limits = [int(words[0]) for words in map(_words, files) if words and words[0].isdecimal()]
    # Version 1 says "no limit" with a number that no machine has.
    return min((limit for limit in limits if limit < 2**60), default=None)


def _cgroup_folders(root: Path, controller: str) -> Iterable[Path]:
    """The folders of this process's control groups, up to the top. ``controller`` is empty in version 2."""
    top = root / "sys/fs/cgroup" / controller
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller not in controllers.split(","):
            continue
        inner = top / path.strip("/")
        yield inner
        yield from (each for each in inner.parents if each == top or top in each.parents)
    # In a container of its own the path is that of the outside, and the files lie at the top.
    yield top


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def blas_libraries() -> list[dict[str, Any]]:
    """What NumPy and others have loaded for linear algebra: ``internal_api``, ``version``, ``num_threads``."""
    from threadpoolctl import threadpool_info

    return [each for each in threadpool_info() if each.get("user_api") == "blas"]


def version_of(package: str) -> str | None:
    """The version that is installed, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
