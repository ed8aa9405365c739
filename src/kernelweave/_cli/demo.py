"""``kernelweave demo``: which view of a tumor tells malignant from benign, with a certificate."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave.banks.bank import KernelBank
from kernelweave.banks.default import default_kernels
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.inspection import report
from kernelweave.io.datasets import DataSet, breast_cancer

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def run(seed: int = 0, splits: int = 10) -> None:
    """Learn on two views of the breast cancer data, and print the results."""
    began = time.perf_counter()
    data = breast_cancer()
    bank = KernelBank(views=data.views)
    classes = ", ".join(f"{count} {name}" for name, count in zip(*_counts(data.y), strict=True))
    _say(f"Breast cancer data: {len(data.y)} tumors ({classes}) in two views")
    for name, columns in data.views.items():
        told = f"{name}, {len(columns)} columns: {', '.join(_properties(data, columns))}"
        _say(textwrap.fill(told, 79, initial_indent="  ", subsequent_indent="    "))

    since = time.perf_counter()
    _say("\nCompiling, or loading what an earlier run compiled:", end=" ")
    MKLClassifier(bank).fit(data.X[::5], data.y[::5])
    _say(_since(since))

    since = time.perf_counter()
    model = MKLClassifier(bank).fit(data.X, data.y)
    _say(f"Learning the weights of {len(model.weights_)} kernels: {_since(since)}")
    _say("\nWeight by kernel\n" + _indented(report.weights_by_kernel(model)))
    _say("\nWeight by view\n" + _indented(report.weights_by_view(model)))
    _say("\nCertificate, computed from the data\n" + _indented(report.certificate(model)))

    since = time.perf_counter()
    _say(f"\nAccuracy on a third of the rows, held out; mean of {splits} splits (standard error)")
    for name, (mean, error) in _compare(data, bank, seed, splits).items():
        _say(f"  {100 * mean:.1f} % ({100 * error:.1f})  {name}")
    _say(f"  {_since(since)}")
    _say(f"\nDone in {_since(began)}")


def _compare(
    data: DataSet, bank: KernelBank, seed: int, splits: int
) -> dict[str, tuple[float, float]]:
    """Mean and standard error of the accuracy of three ways to weight the bank's kernels."""
    rng = np.random.default_rng(seed)
    scores: dict[str, list[float]] = {}
    for _ in range(splits):
        train, test = next(_folds(data.y, 3, rng))
        for name, model in {
            "learned weights": MKLClassifier(bank),
            "equal weights": MKLClassifier(bank, learner="uniform"),
            "best single kernel, chosen by cross-validation on the training rows": MKLClassifier(
                _best_single(data, train, rng)
            ),
        }.items():
            model.fit(data.X[train], data.y[train])
            scores.setdefault(name, []).append(model.score(data.X[test], data.y[test]))
    return {
        name: (float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(splits)))
        for name, found in scores.items()
    }


def _best_single(data: DataSet, rows: NDArray[np.intp], rng: np.random.Generator) -> KernelBank:
    """The kernel on one view with the best cross-validated accuracy on these rows."""
    banks = [
        KernelBank([kernel], {view: columns}, scale="standard")
        for view, columns in data.views.items()
        for kernel in default_kernels()
    ]
    X, y = data.X[rows], data.y[rows]
    folds = list(_folds(y, 3, rng))

    def score(bank: KernelBank) -> float:
        models = (MKLClassifier(bank).fit(X[train], y[train]) for train, _ in folds)
        return sum(m.score(X[test], y[test]) for m, (_, test) in zip(models, folds, strict=True))

    return max(banks, key=score)


def _folds(y: NDArray[Any], many: int, rng: np.random.Generator) -> Iterator[Split]:
    """Training and test rows of a stratified ``many``-fold split."""
    shuffled = rng.permutation(len(y))
    part = np.empty(len(y), dtype=int)
    part[shuffled[np.argsort(y[shuffled], kind="stable")]] = np.arange(len(y)) % many
    for fold in range(many):
        yield np.flatnonzero(part != fold), np.flatnonzero(part == fold)


def _counts(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    return np.unique(y, return_counts=True)


def _properties(data: DataSet, columns: list[int]) -> list[str]:
    """Measured properties: "mean radius", "radius error" and "worst radius" count once."""
    words = [data.columns[j].replace("mean ", "").replace("worst ", "") for j in columns]
    return list(dict.fromkeys(word.replace(" error", "") for word in words))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def _since(then: float) -> str:
    return f"{time.perf_counter() - then:.1f} s"
