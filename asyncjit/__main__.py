"""The command line: ``python -m asyncjit COMMAND``.

Law: argument parsing only; a command lives in a package of its own, imported when it is asked for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from asyncjit import demo

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a command line that makes no sense exits with 2."""
    parser = argparse.ArgumentParser(
        prog="python -m asyncjit", description="An asyncio-native engine for array programs."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "train a small network and serve it at the same time, and check every answer"
    demo.add_arguments(commands.add_parser("demo", help=text, description=text))
    return demo.run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
