"""Columns of text.

Law: strings in, lines out.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["byte_count", "columns"]


def columns(rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> list[str]:
    """Rows under each other, each column as wide as it must be; columns of ``right`` end in line."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def byte_count(nbytes: float) -> str:
    """``3.2 MB``, by thousands."""
    size, units = float(nbytes), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)) is not None:
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
