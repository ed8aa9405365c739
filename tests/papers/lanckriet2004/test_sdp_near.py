"""Signed weights of kernels that differ by very little: order of the criteria, honest bounds."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from _helpers.references import gaussian, gram, labels, points, sdp_optimum
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelStack, duality_gap, learn
from kernelweave._solvers.svm import smo
from kernelweave.machines.evaluator import HardMarginInfeasible

CRITERIA = ("hard", "hinge", "squared_hinge", "learn")
TOL = 1e-4


def options_of(criterion: str, C: float) -> dict:
    if criterion == "hard":
        return {"C": np.inf}
    if criterion == "learn":
        return {"C": "learn", "loss": "squared_hinge"}
    return {"C": C, "loss": criterion}


def unit(K: np.ndarray) -> np.ndarray:
    """Scaled to tr K = n."""
    return K * (len(K) / np.trace(K))


# --- kernels that differ by the share δ of their size ---------------------------------------------


def moved(rng, y, m, delta):
    """Gaussians of points that move a little."""
    X = points(rng, y.size, 3, y)
    return [gaussian(X + delta * rng.standard_normal(X.shape), 1.5) for _ in range(m)]


def added(rng, y, m, delta):
    """One kernel, and what is added to it."""
    base = unit(gram(points(rng, y.size, int(rng.integers(2, y.size)), y)))
    more = [gram(points(rng, y.size, int(rng.integers(1, y.size)), y)) for _ in range(m - 1)]
    return [base, *(base + delta * unit(K) for K in more)]


def low_rank(rng, y, m, delta):
    """The same with ranks two and one."""
    base = unit(gram(points(rng, y.size, 2, y)))
    return [base, *(base + delta * unit(gram(points(rng, y.size, 1, y))) for _ in range(m - 1))]


def far_scaled(rng, y, m, delta):
    """Nearly the same kernel, at scales 1e12 apart."""
    base, other = gaussian(points(rng, y.size, 3, y), 3.0), points(rng, y.size, 2, y)
    near = [base + delta * gaussian(other, 1.0 + k) for k in range(m)]
    return [10.0 ** rng.uniform(-6, 6) * K for K in near]


def flat(rng, y, m, delta):
    """Gaussians so wide that they are nearly constant, and what matters nearly rounding."""
    X = points(rng, y.size, 3, y)
    return [np.ones((y.size, y.size)), *(gaussian(X, (1 + k) / delta**0.5) for k in range(m - 1))]


def copies(rng, y, m, delta):
    """A kernel, twice the same, nearly the same, and another one."""
    X = points(rng, y.size, 3, y)
    base, other = gaussian(X, 1.5), unit(gram(X))
    return [base, 6.0 * base / 3.0, base + delta * other, other]


KINDS = (moved, added, low_rank, far_scaled, flat, copies)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_signed_below_nonnegative_below_single(kind, criterion, seed):
    """Under the same trace; and no bound is above what some weights reach."""
    rng = np.random.default_rng([KINDS.index(kind), CRITERIA.index(criterion), seed])
    n, m = int(rng.integers(10, 25)), int(rng.integers(2, 5))
    barely = criterion == "hard" and kind in (low_rank, flat)  # separable, if at all
    delta = 10.0 ** rng.uniform(-6 if barely else -12, -4)
    y = labels(rng, n)
    K = np.stack(kind(rng, y, m, delta))
    options = options_of(criterion, 10.0 ** rng.uniform(-1, 2.5))
    if seed == 1:  # transduction
        y[rng.permutation(n)[: n // 4]] = 0.0
    stack = KernelStack(K, dtype=np.float32 if seed == 2 and not barely else np.float64)
    options |= {"trace": float(stack.traces().mean()), "tol": TOL}
    nonnegative = [
        value(stack.select(kernels), y, options)
        for kernels in [range(stack.m), *([k] for k in range(stack.m))]
    ]
    if nonnegative[0] == np.inf:
        return
    signed = learn(stack, y, learner="sdp", **options)
    assert signed.primal <= min(nonnegative) * (1 + 2 * TOL)
    assert signed.dual <= min(nonnegative) * (1 + 1e-9)
    assert signed.gap <= 1e-3 or kind is flat  # what is flat has no digits to close it
    del options["tol"]
    ridge = 1.0 / signed.C if criterion == "learn" else 0.0
    judged = duality_gap(
        stack, y, signed.weights, signed.coef, signed.bias, dual_alpha=signed.dual_alpha,
        signed=True, ridge=ridge, **options,
    )  # fmt: skip
    assert judged.primal == pytest.approx(signed.primal, rel=1e-5)
    assert judged.dual <= min(nonnegative) * (1 + 1e-9)


def value(stack: KernelStack, y: np.ndarray, options: dict) -> float:
    """What nonnegative weights reach; infinite where they do not separate."""
    try:
        return learn(stack, y, learner="newton", **options).primal
    except HardMarginInfeasible:
        return np.inf


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("delta", [1e-4, 1e-5, 1e-6])
def test_as_good_as_the_difference_itself(delta, criterion):
    """Signed combinations of K and K + δL are those of K and L, whatever δ."""
    rng = np.random.default_rng(0)
    y = labels(rng, 20)
    X = points(rng, 20, 4, y)
    K, L = gaussian(X, 2.0), unit(gram(X))
    options = options_of(criterion, 10.0) | {"trace": 20.0}
    best = sdp_optimum(np.stack([K, L]), y, **options)
    signed = learn(np.stack([K, K + delta * L]), y, learner="sdp", tol=1e-5, **options)
    assert signed.dual <= best * (1 + 1e-6)
    assert signed.primal == pytest.approx(best, rel=3e-5)


def test_the_limit_is_told():
    """Where weights would be larger than rounding allows, the best within the limit are found."""
    rng = np.random.default_rng(1)
    y = labels(rng, 20)
    X = points(rng, 20, 4, y)
    K, L = gaussian(X, 2.0), unit(gram(X))
    reached = []
    for delta in (1e-8, 1e-9, 1e-10):
        with pytest.warns(UserWarning, match="weights near -5e\\+06 of the trace"):
            reached.append(learn(np.stack([K, K + delta * L]), y, C=10.0, learner="sdp"))
    best = learn(np.stack([K, L]), y, C=10.0, learner="sdp", trace=20.0)
    values = [best.primal, *(solution.primal for solution in reached)]
    assert values == sorted(values)
    assert all(solution.status == "optimal" for solution in reached)


@pytest.mark.filterwarnings("ignore")
def test_machines_get_kernels(monkeypatch):
    """None is asked about a matrix with eigenvalues that are no rounding: it would not end."""
    rng = np.random.default_rng(2)
    y = labels(rng, 22)
    K = np.stack(flat(rng, y, 2, 2e-6))
    least = []
    solve = smo.solve

    def watch(K, *args, **options):
        least.append(np.linalg.eigvalsh(K)[0] / np.trace(K))
        return solve(K, *args, **options)

    monkeypatch.setattr(smo, "solve", watch)
    learn(K, y, C=np.inf, learner="sdp")
    assert min(least) > -1.1e-9


def test_copies_are_no_small_difference():
    rng = np.random.default_rng(3)
    y = labels(rng, 30)
    K = np.stack([gram(points(rng, 30, 5, y)) for _ in range(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learn([*K, 3.0 * K[0] / 3.0], y, learner="sdp").status == "optimal"


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_nearly_constant(C):
    """Nonnegative weights use differences of 1e-7, signed ones do no worse."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = np.sign(X[:, 0])
    K = np.stack([np.ones((20, 20)), gaussian(X, 4000.0)])
    plain = learn(K, y, C, "newton", trace=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        signed = learn(K, y, C, "sdp", trace=20.0)
    assert signed.primal <= plain.primal
    assert signed.dual <= plain.primal
    judged = duality_gap(
        K, y, signed.weights, signed.coef, signed.bias, C=C, trace=20.0, signed=True
    )
    assert judged.dual <= plain.primal


@pytest.mark.filterwarnings("ignore:some kernels differ")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-7])
def test_the_value_is_true_where_weights_cancel(delta, scale, loss):
    """In exact arithmetic the model is never worse than it is said to be."""
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((12, 3)), rng.standard_normal((12, 12))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    base = gaussian(X, 2.0)
    K = scale * np.stack([base, base + delta * gram(A) / 12])
    for C in (1.0, 1e4):
        found = learn(K, y, C=C, loss=loss, learner="sdp", tol=1e-5)
        assert found.weights.min() < -10.0 and found.gap <= 1e-5
        for order in (slice(None), slice(None, None, -1)):
            judged = duality_gap(
                K[order], y, found.weights[order], found.coef, found.bias,
                C=C, loss=loss, dual_alpha=found.dual_alpha, signed=True,
            )  # fmt: skip
            assert judged.primal == pytest.approx(found.primal, rel=1e-6)
        assert exact_primal(K, y, found, C, loss) <= found.primal


def exact_primal(K, y, found, C, loss):
    weights, coef = [Fraction(x) for x in found.weights], [Fraction(x) for x in found.coef]
    f = [
        sum(d * Fraction(x) * c for d, row in zip(weights, rows, strict=True)
            for x, c in zip(row, coef, strict=True))
        for rows in K.transpose(1, 0, 2)
    ]  # fmt: skip
    slack = [
        max(1 - int(sign) * (value + Fraction(found.bias)), 0)
        for sign, value in zip(y, f, strict=True)
    ]
    losses = [s if loss == "hinge" else s * s / 2 for s in slack]
    return sum(c * v for c, v in zip(coef, f, strict=True)) / 2 + Fraction(C) * sum(losses)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_for_a_set_with_the_weights(seed):
    """Whether a fast-decaying kernel less a constant is one is decided by its last digits.

    Weights from a set that lets K be negative by rounding are not judged by a smaller one, nor
    weights from a smaller one by that set.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.standard_normal((25, 1)), axis=0)
    K = np.stack([gaussian(x, 2.0), np.ones((25, 25)), (1.0 + x @ x.T) ** 2])
    y = labels(rng, 25)
    y[rng.random(25) < 0.5] = 0.0
    found = learn(K, y, C=10.0, learner="sdp")
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias,
        C=10.0, dual_alpha=found.dual_alpha, signed=True,
    )  # fmt: skip
    assert judged.dual <= judged.primal
    assert judged.gap <= found.gap <= 1e-3


@pytest.mark.parametrize("C", [1e8, np.inf])
def test_kernels_that_differ_where_they_nearly_vanish(C):
    """Weights of both signs, 150 and −149, are worth it there: no bound may deny that."""
    big, small, rest = (np.diag(np.repeat(row, (4, 2, 38))) for row in np.eye(3))
    tiny = 1e-11
    K = np.stack([big + tiny * (small + rest), big + tiny * (0.9 * small + 38.2 / 38 * rest)])
    y = np.repeat([0.0, 1.0, -1.0, 0.0], (4, 1, 1, 38))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = learn(K, y, C=C, learner="sdp")
    better = np.tensordot([150.0, -149.0], K, axes=1)
    assert np.linalg.eigvalsh(better)[0] > 0.0
    alone = learn(better[None], y, C=C, trace=float(np.trace(K[0])))
    assert found.dual <= alone.primal * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_large_kernels_of_low_rank(seed):
    """J hardly depends on the weights: steps end before the multiplier proves it."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((3, 10, 2))
    y = labels(rng, 10)
    found = learn(1e6 * (U @ U.transpose(0, 2, 1)), y, C=100.0, learner="sdp")
    assert found.gap <= 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_kernels_that_were_kept_in_float32(seed):
    """They are indefinite by rounding; K stays within what kernels may be, judged as told."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 2))
    K = np.stack([gaussian(X, width) for width in (0.7, 2.0, 6.0)]).astype(np.float32)
    K, y = K.astype(float), labels(rng, 20)
    y[10:] = 0.0
    found = learn(K, y, C=10.0, learner="sdp")
    combined = np.tensordot(found.weights, K, axes=1)
    assert np.linalg.eigvalsh(combined)[0] >= -1e-8 * np.trace(combined)
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias,
        C=10.0, dual_alpha=found.dual_alpha, signed=True,
    )  # fmt: skip
    assert judged.gap <= found.gap * (1 + 1e-6) <= 1e-3
