"""What a fit will take is told beforehand, and refused before anything large is computed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from kernelweave import (
    Gaussian,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    Nystroem,
    Polynomial,
)
from kernelweave.banks import forecast
from kernelweave.kernels.numeric import Gaussian as Kernel
from kernelweave.stacks.factors import FactorStack

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 12))
ONE_COLUMN = KernelBank([Gaussian(2.0), Polynomial(2), Linear()], views="each")
WIDE = KernelBank([Gaussian(1.0), Gaussian(3.0)])


def available(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(forecast, "available_bytes", lambda: size)


def kept(stack: Any) -> int:
    """Bytes of a stack of one kind."""
    if type(stack) is FactorStack:
        return stack.nbytes
    return stack.m * stack.n**2 * stack.precision.itemsize


@pytest.mark.parametrize(
    ("bank", "kind"),
    [
        (ONE_COLUMN, "factor"),
        (WIDE, "matrix"),
        (KernelBank(WIDE.kernels, dtype="float32"), "matrix"),
        (KernelBank(WIDE.kernels, approximation=Nystroem(70)), "factor"),
        (KernelBank([Gaussian(3.0)], views={"a": [0, 1]}, storage="factors"), "factor"),
    ],
    ids=["one column", "wide", "float32", "approximation", "factors"],
)
def test_the_plan_is_what_happens(bank: Any, kind: str) -> None:
    told, stack = bank.plan(X), bank.fit(X).stack
    assert set(told.storage) == {kind} and len(told.names) == stack.m
    assert type(stack) is (KernelStack if kind == "matrix" else FactorStack)
    assert sum(told.nbytes) == pytest.approx(kept(stack), rel=0.15)
    assert told.peak > sum(told.nbytes) and told.fits
    assert f"{stack.m} kernels on 1500 rows" in repr(told) and told.names[0] in repr(told)


def test_a_mixed_bank() -> None:
    bank = KernelBank([Gaussian(1.0)], views="all+each")
    told, stack = bank.plan(X), bank.fit(X).stack
    assert told.storage.count("factor") == 12 and told.storage.count("matrix") == 1
    assert sum(told.nbytes) == pytest.approx(sum(map(kept, stack.stacks)), rel=0.15)


@pytest.mark.parametrize(
    ("bank", "advice"),
    [
        (WIDE, "approximation=Nystroem.*fewer kernels.*float32"),
        (KernelBank(WIDE.kernels, dtype="float32"), "approximation=Nystroem.*fewer kernels$"),
        (KernelBank(WIDE.kernels, approximation=Nystroem(500)), "fewer features"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    bank: Any, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the kernels would fit, but learning with them would not."""
    peak, y = bank.plan(X).peak, np.sign(X[:, 0])
    available(monkeypatch, peak)
    bank.fit(X)
    available(monkeypatch, 0.95 * peak)
    monkeypatch.setattr(Kernel, "train", None)  # no kernel is computed
    began = time.process_time()
    with pytest.raises(MemoryError, match=advice):
        MKLClassifier(bank).fit(X, y)
    assert time.process_time() - began < 1.0


def test_factors_that_fit_are_not_refused_for_the_matrices_that_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = ONE_COLUMN.plan(X)
    available(monkeypatch, told.peak)
    assert forecast.worst(0, 10, 8) == forecast.worst(0, 99, 8) > 0  # buffers
    ONE_COLUMN.fit(X)
    available(monkeypatch, None)
    assert ONE_COLUMN.plan(X).fits


def test_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1e4, 1.5))
    monkeypatch.setattr(forecast.time, "perf_counter", lambda: next(clock))
    for bank in (WIDE, ONE_COLUMN):
        bank.fit(X[:200], verbose=1)
        told = capsys.readouterr().err
        assert "kernels on 200 rows" in told and "[kernelweave] kernel 2 of" in told
    WIDE.fit(X[:200])
    assert not capsys.readouterr().err
