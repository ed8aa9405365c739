"""Walk through one ``MKLClassifier().fit`` and one ``predict``: what runs, and what is handed over.

    python -m benchmarks.harness.walk                              the package that is installed
    PYTHONPATH=OTHER/src python -m benchmarks.harness.walk         another one
    python -m benchmarks.harness.walk --counts                     the numbers alone

The data are scikit-learn's breast cancer. A fit and a predict before them do not count: they
compile and import. Then ``sys.setprofile`` sees every call.

How it counts: distinct pairs (file, qualified name) of Python functions defined in the package
directory. Lambdas and comprehensions are functions too, as in Python 3.11. Later versions run most
comprehensions in place, so that only counts by one version compare. A compiled function counts
where Python calls it, not where compiled code does.

The walk is a tree. A line is a call from one file of the package into another, with the types of
its arguments and the shapes of arrays. A function has a line the first time that it is called so.
"(again)" stands before a function that had one, where a later call of it leads to something new.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

import kernelweave

PACKAGE = pathlib.Path(kernelweave.__file__).resolve().parent
CHECKS = ("check_", "validate", "refuse_")  # how the names of functions begin that look at input

Function = tuple[str, str]  # file in the package, qualified name


@dataclass
class Call:
    """A call into another file, and those made below it."""

    function: Function
    handed: str = ""
    first: bool = False
    below: dict[Function, Call] = field(default_factory=dict)

    def lines(self, depth: int = 0) -> list[str]:
        """The tree, without calls that show nothing new."""
        deeper = [line for call in self.below.values() for line in call.lines(depth + 1)]
        if not self.first and not deeper:
            return []
        file, name = self.function
        told = f"{name}({self.handed})" if self.first else f"(again) {name}"
        return [f"{'  ' * depth}{file}: {told}", *deeper]


class Walk:
    """What ran while ``action`` did."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.counts: Counter[Function] = Counter()
        self.root = Call(("", ""), first=True)
        self._entered: set[Function] = set()
        self._files: dict[str, str | None] = {}
        self._stacks = threading.local()
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            action()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.counts}

    def tree(self) -> str:
        return "\n".join(line for call in self.root.below.values() for line in call.lines())

    def repeated_checks(self) -> list[tuple[Function, int]]:
        """Functions that look at input and ran more than once, the most frequent first."""
        return [
            (function, count)
            for function, count in self.counts.most_common()
            if count > 1 and function[1].rpartition(".")[2].lstrip("_").startswith(CHECKS)
        ]

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        file = self._file(code)
        if file is None:
            return
        stack: list[tuple[str, Call]] = self._stacks.__dict__.setdefault("calls", [])
        if event == "return":
            if stack:
                stack.pop()
            return
        function = (file, code.co_qualname)
        self.counts[function] += 1
        caller, call = stack[-1] if stack else ("", self.root)
        if file != caller:
            call = self._enter(call, function, frame)
        stack.append((file, call))

    def _enter(self, above: Call, function: Function, frame: FrameType) -> Call:
        first = function not in self._entered
        self._entered.add(function)
        if function not in above.below:
            handed = arguments(frame) if first else ""
            above.below[function] = Call(function, handed, first)
        return above.below[function]

    def _file(self, code: CodeType) -> str | None:
        """The file in the package; None for code from elsewhere."""
        name = code.co_filename
        if name not in self._files:
            path = pathlib.Path(name)
            inside = path.is_absolute() and path.resolve().is_relative_to(PACKAGE)
            self._files[name] = path.resolve().relative_to(PACKAGE).as_posix() if inside else None
        return self._files[name]


def arguments(frame: FrameType) -> str:
    """Names, types and shapes of what a function was given."""
    names, rest, options, values = inspect.getargvalues(frame)
    if names and not values:
        return "compiled, not seen"
    given = [name for name in (*names, rest, options) if name and name not in ("self", "cls")]
    return ", ".join(f"{name}: {kind(values[name])}" for name in given if name in values)


def kind(value: Any) -> str:
    """The type of a value; of an array its shape too, and its dtype unless float64."""
    if isinstance(value, np.ndarray):
        dtype = "" if value.dtype == np.float64 else f" {value.dtype}"
        return f"array{dtype} {value.shape}"
    if isinstance(value, list | tuple | dict):
        of = {type(item).__name__ for item in value} if not isinstance(value, dict) else set()
        inner = f" of {of.pop()}" if len(of) == 1 else ""
        return f"{type(value).__name__} ({len(value)}){inner}"
    return "None" if value is None else type(value).__name__


def show(title: str, walk: Walk, counts_only: bool) -> None:
    print(f"{title}: {len(walk.files)} files, {len(walk.counts)} functions")
    if not counts_only:
        print(f"\n{walk.tree()}\n")
    print("checks that ran more than once:")
    for (file, name), count in walk.repeated_checks():
        print(f"  {count} times {file}: {name}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", action="store_true", help="print no walk")
    args = parser.parse_args()
    X, y = load_breast_cancer(return_X_y=True)
    kernelweave.MKLClassifier().fit(X, y).predict(X)
    model = kernelweave.MKLClassifier()
    show("fit", Walk(lambda: model.fit(X, y)), args.counts)
    show("predict", Walk(lambda: model.predict(X)), args.counts)


if __name__ == "__main__":
    main()
