"""Latencies as a picture.

Law: the one module that needs matplotlib; draws figures that it is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from asyncjit.cli._problems import CommandError

__all__ = ["check", "plot"]


def check(path: Path) -> None:
    """Whether a picture can be written there.

    Raises:
        CommandError: the suffix is that of no format.
    """
    formats = FigureCanvasAgg(Figure()).get_supported_filetypes()
    if path.suffix.removeprefix(".") not in formats:
        raise CommandError(f"--plot {path}: the suffix says the format, one of {', '.join(sorted(formats))}")


def plot(result: dict[str, Any], path: Path) -> None:
    """Median and 99th percentile over the number of callers, a colour an engine, to a file that ``check`` has let pass.

    Raises:
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, engine in enumerate(dict.fromkeys(row["engine"] for row in result["rows"])):
        rows = [row for row in result["rows"] if row["engine"] == engine]
        callers = [row["concurrency"] for row in rows]
        for name, style in (("p50_ms", "-"), ("p99_ms", "--")):
            label = f"{engine} {name.removesuffix('_ms')}"
            axes.plot(callers, [row[name] for row in rows], style, marker="o", color=f"C{index}", label=label)
    axes.set(xlabel="callers at once", ylabel="latency in ms", title=f"{result['model']}, {result['threads']} threads")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({row["concurrency"] for row in result["rows"]}))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)
