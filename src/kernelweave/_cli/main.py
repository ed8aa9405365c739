"""The command line. A command is a function that adds itself to the parser."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelweave import __version__

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    if sys.stdout is None:
        _tell("standard output is closed")
        return 1
    try:
        try:
            _run(argv)
        finally:  # also after --help, which exits
            sys.stdout.flush()
    except OSError as error:
        if error.filename is None:  # the reader, such as head, has gone, or the disk is full
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _tell(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(argv: Sequence[str] | None) -> None:
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of kernels are not all ASCII
    args.run(args)


def _tell(message: str) -> None:
    if sys.stderr is not None:
        print(f"kernelweave: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernelweave",
        description="Learn which kernels and views matter, with a certificate of optimality.",
    )
    parser.add_argument("--version", action="version", version=f"kernelweave {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    _add_demo(commands)
    return parser


def _add_demo(commands: Commands) -> None:
    told = "learn on two views of scikit-learn's breast cancer data and show the result"
    parser = commands.add_parser("demo", help=told, description=f"{told.capitalize()}.")
    parser.add_argument(
        "--seed", type=_seed, default=0, help="random seed of the splits (default: 0)"
    )
    parser.set_defaults(run=_demo)


def _seed(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number ≥ 0, found {text!r}")
    return int(text)


def _demo(args: Any) -> None:
    from kernelweave._cli.demo import run

    run(seed=args.seed)
