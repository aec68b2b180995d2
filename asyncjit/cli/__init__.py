"""The command line: ``asyncjit COMMAND``, or ``python -m asyncjit COMMAND``.

Law: each command has a module with ``add_arguments`` and ``run``, which imports what it needs when it runs. What a user
did wrong, or has not installed, is one line on stderr and an exit code, never a traceback; a traceback is a bug.

Exit codes: 0 all is well; 1 the work failed, or found something wrong; 2 the command cannot be done as given: a wrong
argument, a missing file or package; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from asyncjit import __version__, demo
from asyncjit.cli import _bench, _doctor, _info, _run, _show
from asyncjit.cli._problems import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNUSABLE, CommandError, missing_package
from asyncjit.errors import AsyncJitError, InternalError

__all__ = ["main"]

_DESCRIPTION = """\
An asyncio-native engine for array programs and ONNX models.

  asyncjit info model.onnx                             what it takes, gives and needs
  asyncjit run model.onnx --input x=data.npy           run it once
  asyncjit bench model.onnx --compare onnxruntime      how fast, at 1, 4 and 16 callers
  asyncjit doctor                                      what is installed, and what is in the way
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a command line that makes no sense exits with 2."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read has left, as `| head` does. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except CommandError as error:
        return _complain(options, str(error), EXIT_UNUSABLE)
    except ModuleNotFoundError as error:
        advice = missing_package(error.name)
        if advice is None:
            raise
        return _complain(options, advice, EXIT_UNUSABLE)
    except InternalError:
        raise
    except AsyncJitError as error:
        return _complain(options, str(error), EXIT_FAILED)
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _complain(options, named, EXIT_UNUSABLE)
    return code


def _complain(options: argparse.Namespace, message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"asyncjit {options.command}: {line}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asyncjit", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"asyncjit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, module, text in (
        ("info", _info, "what an ONNX model takes, gives, consists of and needs"),
        ("run", _run, "run an ONNX model once and show or store what it gives"),
        ("bench", _bench, "measure an ONNX model under several callers at once"),
    ):
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    for name, text in _show.COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        _show.add_arguments(command, name)
        command.set_defaults(run=_show.run)
    text = "look at this machine and installation, and say what to do about each problem"
    command = commands.add_parser("doctor", help=text, description=f"{text[0].upper()}{text[1:]}.")
    _doctor.add_arguments(command)
    command.set_defaults(run=_doctor.run)
    text = "train a small network and serve it at the same time, and check every answer"
    command = commands.add_parser("demo", help=text, description=text)
    demo.add_arguments(command)
    command.set_defaults(run=demo.run)
    return parser
