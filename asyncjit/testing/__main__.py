"""The command line of the tests: ``python -m asyncjit.testing soak`` and ``python -m asyncjit.testing worlds``.

Law: argument parsing and printing; what runs is in ``soak`` and ``worlds``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

from asyncjit.testing.soak import play_seed, play_threads
from asyncjit.testing.worlds import Bound, explore

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 when all is as in the serial run, 1 when something is not, 2 when nothing was run."""
    options = _parse(arguments)
    return _soak(options) if options.command == "soak" else _worlds(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m asyncjit.testing", description="Soak runs and small worlds.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "random programs on the engine against a serial NumPy run"
    soak = commands.add_parser("soak", help=text, description=text)
    soak.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many (default 1000)")
    soak.add_argument("--first", type=int, default=0, metavar="S", help="the first seed (default 0)")
    soak.add_argument("--seconds", type=float, default=float("inf"), metavar="T", help="stop after so long")
    soak.add_argument("--device", choices=("sim", "cpu"), default="sim", help="virtual time, or real threads")
    soak.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="the event loop (sim only)")
    text = "every order of events of small programs on the scheduler"
    worlds = commands.add_parser("worlds", help=text, description=text)
    worlds.add_argument("--replays", type=int, default=3, help="replays of a program (default 3)")
    worlds.add_argument("--segments", type=int, default=2, help="segments of a replay (default 2; try 4)")
    worlds.add_argument("--bytes", type=int, default=1, help="bytes of state (default 1)")
    worlds.add_argument("--disturbances", type=int, default=1, help="cancellations and faults (default 1)")
    worlds.add_argument("--every", type=int, default=1, metavar="N", help="of all programs each N-th (default 1)")
    worlds.add_argument("--seconds", type=float, default=float("inf"), metavar="T", help="stop after so long")
    return parser.parse_args(arguments)


def _soak(options: argparse.Namespace) -> int:
    play: Callable[[int], Counter[str]] = play_threads
    if options.device == "sim":

        def play(seed: int) -> Counter[str]:
            return play_seed(seed, backend=options.backend)

    end_s = time.monotonic() + options.seconds
    total: Counter[str] = Counter()
    count = 0
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() > end_s:
            break
        try:
            total += play(seed)
        except Exception:
            print(f"seed {seed} fails", file=sys.stderr)
            traceback.print_exc()
            return 1
        count += 1
    if not count:
        print("no seed was played: give --seeds and --seconds above 0", file=sys.stderr)
        return 2
    print(f"{count} seeds from {options.first} on are as in the serial run; statements: {dict(total)}")
    return 0


def _worlds(options: argparse.Namespace) -> int:
    bound = Bound(options.replays, options.segments, options.bytes)
    end_s = time.monotonic() + options.seconds
    programs = ends = 0
    for number, calls in bound.programs(options.every):
        if time.monotonic() > end_s:
            break
        try:
            for world in explore(calls, options.disturbances):
                world.judge()
                ends += 1
        except Exception:
            print(f"program {number} of {bound} fails", file=sys.stderr)
            traceback.print_exc()
            return 1
        programs += 1
    if not programs:
        print(f"no program of {bound} was explored: give --every and --seconds that leave some", file=sys.stderr)
        return 2
    print(f"{programs} programs of {bound} come to {ends} ends, all as in the serial run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
