"""Sums in extended precision: within their error in exact fractions, and linear in n on factors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from kernelweave import FactorStack, KernelStack, learn
from kernelweave._core.settings import SETTINGS
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.rounding import fine_values, quad_bounds

RNG = np.random.default_rng(0)
N = 23
FACTORS = [RNG.standard_normal((N, r)) * scale for r, scale in ((4, 1.0), (1, 1e8), (6, 1e-5))]
GRAM = RNG.standard_normal((N, 3))
D = np.array([0.3, 1e-17, 2e9, 0.1])
COEF = np.where(RNG.random(N) < 0.7, RNG.standard_normal(N) * 10.0 ** RNG.integers(-3, 6, N), 0.0)


def exact(F: np.ndarray, w: np.ndarray) -> list[Fraction]:
    """F(Fᵀw) in fractions."""
    rows = [[Fraction(float(x)) for x in row] for row in F]
    onto = [
        sum(r[c] * Fraction(float(x)) for r, x in zip(rows, w, strict=True))
        for c in range(F.shape[1])
    ]
    return [sum(a * b for a, b in zip(row, onto, strict=True)) for row in rows]


@pytest.fixture
def stack(monkeypatch):
    """Factors and an array in one stack; nobody may ask for entries of FFᵀ."""

    def refuse(*_):
        raise AssertionError("entries of a factor's kernel were asked for")

    monkeypatch.setattr(FactorStack, "block", refuse)
    monkeypatch.setattr(SETTINGS, "block", 20)  # several blocks
    K = np.round(2**20 * (GRAM @ GRAM.T)) / 2**20  # an array is what it is
    return MixedStack([FactorStack(FACTORS), KernelStack(K[None], check=False)])


def test_values_are_within_their_error(stack):
    K = stack.stacks[1].block(0, np.arange(N), np.arange(N))
    parts = [exact(F, COEF) for F in FACTORS]
    parts.append(
        [
            sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, COEF, strict=True))
            for row in K
        ]
    )
    truth = [
        sum(Fraction(float(d)) * p[i] for d, p in zip(D, parts, strict=True)) for i in range(N)
    ]
    found = fine_values(stack, D, COEF)
    for value, error, true in zip(found.f, found.error, truth, strict=True):
        assert abs(Fraction(*value.as_integer_ratio()) - true) <= Fraction(float(error))
    assert found.error.max() <= 1e-12 * np.abs(found.f).max()


def test_quadratic_forms_are_not_above_their_bounds(stack):
    """Summed over two machines, every one of them tight where not only the largest counts."""
    parts = [COEF, np.roll(COEF, 3)]
    q = sum(stack.quad_forms(v) for v in parts)
    true = [
        sum(Fraction(float(w)) * f for v in parts for w, f in zip(v, exact(F, v), strict=True))
        for F in FACTORS
    ]
    every = quad_bounds(stack, np.ones(4), parts, q, True, False)
    for bound, quad in zip(every[:3], true, strict=True):
        assert quad <= Fraction(float(bound)) <= quad * (1 + Fraction(1, 10**9))
    largest = quad_bounds(stack, np.ones(4), parts, q, True, True)
    assert largest.max() == every.max()
    assert all(quad <= Fraction(float(b)) for b, quad in zip(largest[:3], true, strict=True))


@pytest.mark.usefixtures("stack")
def test_certificates_of_factors_need_no_matrix():
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    found = learn(FactorStack([FACTORS[0], 1e5 * FACTORS[2]]), y, C=2.0, tol=1e-8)
    assert found.status == "optimal"
    assert found.certificate().gap <= 1e-8
