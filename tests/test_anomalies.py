"""The first thing fails, then the second, …, until nothing fails: allocations, writes, callbacks.

In the manner of SQLite's tests of anomalies. Each time the right answer comes or a clear error,
what was there before is still there, and nothing is half written.
"""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _helpers.scarce_memory import refusing

from kernelweave import (
    Gaussian,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Nystroem,
    TransductiveMKLClassifier,
    learn,
    load,
)
from kernelweave.stacks.lazy import LazyStack

rng = np.random.default_rng(0)
N = 36
X = rng.normal(size=(N, 3))
HOLES = np.where(rng.random((N, 3)) < 0.1, np.nan, X)
Y = (X[:, 0] > 0).astype(int)
THREE = np.arange(N) % 3
KERNELS = [Gaussian(1.0), Linear()]
EARLIER = rng.normal(size=(12, 3))

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(sys.platform == "win32", reason="functions of the C library by name"),
]


# --- memory -------------------------------------------------------------------------------------


def bank(**options: Any) -> KernelBank:
    return KernelBank(KERNELS, **options)


FITS = {
    "classes": (MKLClassifier(bank()), X, THREE),
    "an own machine each": (MKLClassifier(bank(), shared_weights=False), X, THREE),
    "missing cells": (MKLClassifier(KernelBank(KERNELS, "each")), HOLES, Y),
    "factors": (MKLClassifier(bank(storage="factors")), X, Y),
    "on demand": (MKLRegressor(bank(storage="lazy")), X, X[:, 0]),
    "landmarks": (MKLClassifier(bank(approximation=Nystroem(20))), X, Y),
    "squared": (MKLRegressor(bank(), loss="squared"), X, X[:, 1]),
    "one class": (MKLOneClass(bank()), X, None),
    "rows known beforehand": (
        TransductiveMKLClassifier(bank()), X, np.where(np.arange(N) < 6, -1, Y)
    ),
    "chosen by folds": (MKLClassifierCV(bank(), Cs=[1.0], weight_norms=[1], cv=2), X, Y),
}  # fmt: skip


def numbers() -> Iterator[int]:
    """1, 2, … 40, and then fewer and fewer."""
    number = 0.0
    while True:
        number += max(1.0, number / 40.0)
        yield int(number)


def until_it_passes(run: Callable[[], Any]) -> Iterator[tuple[int, Exception | None, Any]]:
    """Refuse the first large array, then the second, …: each time the error or the result."""
    for number in numbers():
        with refusing(number) as seen:
            try:
                found, error = run(), None
            except MemoryError as refused:
                found, error = None, refused
        if seen() < number:
            return
        yield number, error, found


@pytest.mark.parametrize("name", FITS)
def test_the_kth_large_array_cannot_be_had(name: str) -> None:
    """While a model is fitted again, and while it predicts."""
    model, data, y = FITS[name]
    right = model.fit(data, y).predict(data)
    labels = None if y is None else y[: len(EARLIER)]
    before = model.fit(EARLIER, labels).predict(EARLIER)
    refused = 0
    for number, error, _ in until_it_passes(lambda: model.fit(data, y)):
        if error is None:  # done without that array
            np.testing.assert_array_equal(model.predict(data), right)
            model.fit(EARLIER, labels)
        else:
            refused += 1
            assert str(error), number
        np.testing.assert_array_equal(model.predict(EARLIER), before)
    assert refused
    np.testing.assert_array_equal(model.predict(data), right)
    for _, error, found in until_it_passes(lambda: model.predict(data)):
        if error is None:
            np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(model.predict(data), right)


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "skm", "qcqp", "radius"])
def test_learners_leave_the_kernels_as_they_were(learner: str) -> None:
    far = ((X[:, None] - X) ** 2).sum(axis=2)
    stack = KernelStack(np.array([np.exp(-far), X @ X.T, np.exp(-far / 9)]))
    y = np.where(Y, 1.0, -1.0)
    right = learn(stack, y, learner=learner)
    for number, _, found in until_it_passes(lambda: learn(stack, y, learner=learner)):
        if found is not None:
            assert found.gap == right.gap, number
    np.testing.assert_array_equal(learn(stack, y, learner=learner).weights, right.weights)


# --- files --------------------------------------------------------------------------------------


class Disk:
    """Counts writes, syncs and moves, and fails at one of them."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: int = errno.ENOSPC) -> None:
        self.seen, self.fails, self.error = 0, 0, OSError(kind, os.strerror(kind))
        plain, fsync, replace = builtins.open, os.fsync, os.replace

        def opened(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if "w" not in mode and "x" not in mode:
                return plain(path, mode, *args, **options)
            raw = io.BufferedWriter(self.file(path, mode.replace("b", "")), 256)
            options.pop("buffering", None)
            return raw if "b" in mode else io.TextIOWrapper(raw, **options)

        def synced(number: int) -> None:
            self.count()
            fsync(number)

        def moved(old: Any, new: Any) -> None:
            self.count()
            replace(old, new)

        patch.setattr(builtins, "open", opened)
        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "replace", moved)

    def file(self, path: Any, mode: str) -> io.FileIO:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                disk.count()
                return super().write(data)

        return File(path, mode)

    def count(self) -> None:
        self.seen += 1
        if self.seen == self.fails:
            raise self.error


MODEL = MKLClassifier(bank()).fit(X, Y)
SOLUTION = learn(np.array([X @ X.T + np.eye(N)]), np.where(Y, 1.0, -1.0))
WRITERS: dict[str, Callable[[Path], Any]] = {
    "model.kweave": MODEL.save,
    "case.npz": SOLUTION.dump,
    "report.html": lambda path: MODEL.report(path),  # what the model knows: no data, no folds
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("exists", [True, False])
def test_the_kth_write_fails(
    name: str, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / name, WRITERS[name]
    if exists:
        path.write_bytes(b"as it was")
    for number in itertools.count(1):
        with monkeypatch.context() as patch:
            disk = Disk(patch)
            disk.fails = number
            try:
                write(path)
            except OSError as error:
                assert str(path) in str(error) and "No space left" in str(error)
            else:
                assert disk.seen < number
                break
        assert [entry.name for entry in tmp_path.iterdir()] == [name] * exists
        assert not exists or path.read_bytes() == b"as it was"
    assert number > 3 and path.stat().st_size > 100
    if name == "model.kweave":
        np.testing.assert_array_equal(load(path).predict(X), MODEL.predict(X))


# --- what users bring ---------------------------------------------------------------------------


class Planned(Exception):
    """What a user's function raises."""


class Fails:
    """A function that fails at one of its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seen, self.fails = function, 0, 0

    def __call__(self, *args: Any) -> Any:
        self.seen += 1
        if self.seen == self.fails:
            raise Planned
        return self.function(*args)


def test_the_kth_call_of_a_kernel_fails() -> None:
    kernel = Fails(lambda a, b: a @ b.T)
    model = MKLClassifier(KernelBank([kernel, Gaussian(1.0)]))
    right = model.fit(X, Y).predict(X)
    before = model.fit(EARLIER, Y[:12]).predict(EARLIER)
    for number in itertools.count(1):
        kernel.seen, kernel.fails = 0, number
        try:
            model.fit(X, Y)
            break
        except Planned:
            kernel.fails = 0
            np.testing.assert_array_equal(model.predict(EARLIER), before)
    assert number > 1
    kernel.fails = 0
    np.testing.assert_array_equal(model.predict(X), right)


@pytest.mark.parametrize("learner", ["newton", "simple", "skm"])
def test_the_kth_block_of_a_stack_fails(learner: str) -> None:
    K = np.array([X @ X.T, np.eye(N)])
    block = Fails(lambda k, rows, columns: K[k][np.ix_(rows, columns)])
    stack, y = LazyStack(block, np.einsum("kii->ki", K)), np.where(Y, 1.0, -1.0)
    right = learn(stack, y, learner=learner)
    calls = block.seen
    for number in {*range(1, 30), *range(30, calls + 2, max(1, calls // 20)), calls + 1}:
        fresh = LazyStack(block, np.einsum("kii->ki", K))
        block.seen, block.fails = 0, number
        if number <= calls:
            with pytest.raises(Planned):
                learn(fresh, y, learner=learner)
            block.fails = 0
        again = learn(fresh, y, learner=learner)  # what was kept of it is whole
        assert again.gap <= 1e-3 and again.status == right.status


def test_the_kth_callback_fails() -> None:
    pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")
    listener = Listener()
    model = MKLClassifier(bank()).set_callbacks(listener)
    after = model.fit(X, Y).decision_function(EARLIER)
    before = model.fit(EARLIER, Y[:12]).decision_function(EARLIER)
    for number in itertools.count(1):
        listener.heard, listener.fails = 0, number
        try:
            model.fit(X, Y)
            break
        except Planned:
            listener.fails = 0
            found = model.decision_function(EARLIER)  # the last ones hear of a fitted model
            assert np.array_equal(found, before) or np.array_equal(found, after)
            model.fit(EARLIER, Y[:12])
    assert number > 3
    np.testing.assert_array_equal(model.decision_function(EARLIER), after)


class Listener:
    """Fails at one of the things it hears."""

    def __init__(self) -> None:
        self.heard, self.fails = 0, 0

    def _hear(self, *args: Any, **more: Any) -> bool:
        self.heard += 1
        if self.heard == self.fails:
            raise Planned
        return False

    setup = teardown = on_fit_task_begin = on_fit_task_end = _hear
