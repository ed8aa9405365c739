"""``kernelweave demo``: which view of a tumor tells malignant from benign, with a certificate."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import numpy as np

from kernelweave._cli.models import Labeled
from kernelweave._cli.output import indented
from kernelweave._cli.reporting import Report
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.inspection import report
from kernelweave.io.datasets import DataSet, breast_cancer


def run(asked: Report) -> None:
    """Learn on two views of the breast cancer data, print the results, and write a report."""
    began = time.perf_counter()
    data = breast_cancer()
    bank = KernelBank(views=data.views)
    counts = zip(*np.unique(data.y, return_counts=True), strict=True)
    classes = ", ".join(f"{count} {name}" for name, count in counts)
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
    _say("\nWeight by kernel\n" + indented(report.weights_by_kernel(model)))
    _say("\nWeight by view\n" + indented(report.weights_by_view(model)))
    _say("\nCertificate, computed from the data\n" + indented(report.certificate(model)))

    since = time.perf_counter()
    _say("\nWhat the weights and the views are worth, found on rows held out and shuffled")
    verdict = asked.write(model, Labeled(data.X, data.y), "malignant tumors")
    for sentence in verdict.splitlines():
        _say(textwrap.fill(sentence, 79, initial_indent="  ", subsequent_indent="    "))
    _say(f"  {_since(since)}")
    _say(f"\nDone in {_since(began)}. The report is in {Path(asked.path).absolute()}")


def _properties(data: DataSet, columns: list[int]) -> list[str]:
    """Measured properties: "mean radius", "radius error" and "worst radius" count once."""
    words = [data.columns[j].replace("mean ", "").replace("worst ", "") for j in columns]
    return list(dict.fromkeys(word.replace(" error", "") for word in words))


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def _since(then: float) -> str:
    return f"{time.perf_counter() - then:.1f} s"
