"""``python -m asyncjit COMMAND``, the same as ``asyncjit COMMAND``.

Law: the way in; the commands are in ``asyncjit.cli``.
"""

from __future__ import annotations

import sys

from asyncjit.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
