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
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of kernels are not all ASCII
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head or less, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


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
        "--seed", type=int, default=0, help="random seed of the splits (default: 0)"
    )
    parser.set_defaults(run=_demo)


def _demo(args: Any) -> None:
    from kernelweave._cli.demo import run

    run(seed=args.seed)
