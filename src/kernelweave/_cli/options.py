"""The options that commands share: their names, their values and their words of help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kernelweave._core.checks import did_you_mean
from kernelweave.learners import NAMES

EPILOG = """
From two tables with a column of ids in common to a report, in one command:

\b
  kernelweave fit clinical.csv --target status --id patient \\
      --view genes=genes.csv -o model.kweave --report report.html

Completion: eval "$(_KERNELWEAVE_COMPLETE=bash_source kernelweave)" in bash; the same with
zsh_source or fish_source in other shells.
"""

_LEARNERS = tuple(name for name in NAMES if name != "sdp")  # it needs rows known beforehand


class Cost(click.ParamType):
    """A positive number, or "auto"."""

    name = "number|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """None for "auto"."""
        return None if value == "auto" else click.FloatRange(0.0, min_open=True)(value, param, ctx)


class LearnerName(click.ParamType):
    """The name of a learner; a wrong one gets the nearest names."""

    name = "name"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The name itself."""
        if value not in _LEARNERS:
            self.fail(f"{value!r} is no learner of this command; {did_you_mean(value, _LEARNERS)}")
        return value


TARGET = (
    click.option("--target", help="Column to predict."),
    click.option("--time", metavar="COLUMN", help="Column of times to an event, with --event."),
    click.option(
        "--event",
        metavar="COLUMN",
        help="Column that says whether the event came then (1), or the row was last seen then (0).",
    ),
)
FILES = (
    click.option("--id", "key", help="Column of row ids; other tables are joined on it."),
    click.option(
        "--text-ids",
        is_flag=True,
        help="Ids that differ by leading zeros alone, 007 and 7, are of different rows.",
    ),
    click.option(
        "--view",
        "views",
        multiple=True,
        metavar="NAME=COLUMNS|FILE",
        help="Columns that belong together (age,bp,chol*), a table of their own (genes.csv), or a "
        "kernel matrix (K.npy); once for each view.",
    ),
    click.option(
        "--delimiter", help="What separates the columns of CSV files; found out by default."
    ),
)
DATA = click.argument("table", type=click.Path()), *TARGET, *FILES
SEED = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    help="Random seed of the folds.",
)
JOBS = click.option("--jobs", type=int, help="Number of threads; -1 for one per core.")
DROP_UNLABELED = click.option(
    "--drop-unlabeled", is_flag=True, help="Leave rows without a target out; they are counted."
)
LEARNING = (
    DROP_UNLABELED,
    click.option(
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="A column of TABLE or of a view file to leave out (note, chol*); once for each.",
    ),
    click.option(
        "--task",
        type=click.Choice(["auto", "classification", "regression"]),
        default="auto",
        help="What the target is.",
    ),
    click.option(
        "--learner",
        type=LearnerName(),
        default="auto",
        help=f"How weights are learned: {', '.join(_LEARNERS)}.",
    ),
    click.option(
        "--norm",
        type=click.FloatRange(1.0),
        default=1.0,
        help="Norm of the weights: 1 makes most zero, more makes them even.",
    ),
    click.option(
        "--impute",
        type=click.Choice(["median", "mean", "none"]),
        default="median",
        help="What empty cells of numbers hold, learned on the training rows; none refuses them.",
    ),
    click.option(
        "--class-weight",
        type=click.Choice(["none", "balanced"]),
        default="none",
        help="balanced: errors on rare classes cost more, so that all classes cost the same in "
        "total; scores are then balanced accuracy.",
    ),
    SEED,
    JOBS,
)
COST = click.option(
    "-C",
    "C",
    type=Cost(),
    default="1",
    help="Cost of errors in training; 0.1 for times to an event, unless it is given. auto: chosen "
    "by cross-validation, together with the norm.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ON_CLUSTER = (
    click.argument("more", type=click.Path(), nargs=-1),
    click.option(
        "--cluster",
        metavar="local|ADDRESS",
        help="Learn on a Dask cluster: local starts one on this machine, tcp://… names one.",
    ),
    click.option(
        "--landmarks",
        type=click.IntRange(1),
        default=300,
        help="With --cluster: rows that each kernel is approximated by.",
    ),
)
NAME_ROWS = click.option(
    "--name-rows",
    is_flag=True,
    help="Show the ids of the hardest rows in the report; by default not, as rows may be people.",
)


def takes(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Decorate a command with options, in the order in which its help has them."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def parse_view(text: str) -> tuple[str, str]:
    """``name=columns`` or ``name=file``."""
    name, equals, what = text.partition("=")
    if not (equals and name.strip() and what.strip()):
        raise ValueError(
            f"--view must be name=columns or name=file, such as clinical=age,chol*; found {text!r}"
        )
    return name.strip(), what.strip()
