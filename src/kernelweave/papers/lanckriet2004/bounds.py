"""A bound on the errors of a transduction [lanckriet2004, th. 24].

2n rows are split at random into n with labels and n without. Consider all kernel expansions
f = Σ_i α_i k(x_i, ·) over the 2n rows, without a bias, with αᵀKα ≤ 1/γ² and K in a class 𝒦 of
kernel matrices. With probability 1 − δ, each of them errs on at most a share

    (1/n) Σ max(1 − y_i f(x_i), 0)  +  4/√n  +  2√(log(1/δ)/n)  +  √C(𝒦)/(nγ)

of the rows without labels. The sum is over the rows with labels; C(𝒦) = E max_{K ∈ 𝒦} σᵀKσ for
random signs σ. The classes are combinations of given kernels with tr K ≤ c. With weights ≥ 0

    C = c E max_j σᵀK_jσ/tr K_j ≤ c min(m, 2n max_j λ_j/tr K_j),

λ_j the largest eigenvalue of K_j; with signed weights and K ⪰ 0, C ≤ 2cn. As printed, the theorem
has √(2 log(1/δ)) where its proof gives 2√log(1/δ), and n in place of ‖σ‖² = 2n.

For the 2-norm soft margin (``loss="squared_hinge"``) the same holds with the mean of
max(1 − y_i f(x_i), 0)², and twice the last term. The proof goes through with the cost

    φ₂(a) = 1 for a ≤ 0,  (1 − a)² for 0 < a ≤ 1,  0 for a > 1

in place of φ. Step 1 asks that 1[a ≤ 0] ≤ φ₂(a) ≤ max(1 − a, 0)²: so it is. Steps 2 and 3 ask for
values in [0, 1]. Step 4, the contraction lemma, asks for a Lipschitz constant L and gives
R̂(φ₂∘F) ≤ L·R̂(F): on [0, 1] the slope −2(1 − a) is between −2 and 0, elsewhere 0, and φ₂ has no
jump, so that L = 2, where that of φ is 1. Step 5 does not know the cost.

Only √c/γ matters: a kernel ten times as large with a tenth of αᵀKα gives the same functions. The
theorem requires √c/γ to be fixed before the labels are seen. If it is taken from the model instead,
the bound is made to hold for all values 2⁻ᵏn, k = 0, 1, …, at once, each with the share
1/((k+1)(k+2)) of δ; above n nothing is proven anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_choice, check_finite, check_number, check_vector
from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array
from kernelweave._solvers.signed.semidefinite_set import Joint
from kernelweave.certificate import check_semidefinite
from kernelweave.papers.lanckriet2004._supports import supports
from kernelweave.problems.losses import check_labels
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.protocol import Stack

_SLOPES = {"hinge": (1.0, 1), "squared_hinge": (2.0, 2)}  # Lipschitz constant, power of slacks


@dataclass(frozen=True)
class Capacity:
    """C(𝒦) of a class of kernel matrices of trace at most c.

    Attributes
    ----------
    mean, error : float
        Estimate of C(𝒦) by random signs, and its standard error.
    limit : float
        A closed-form upper bound of C(𝒦).
    """

    mean: float
    error: float
    limit: float


@dataclass(frozen=True)
class ErrorBound:
    """The terms of theorem 24, which add up to ``total``.

    Attributes
    ----------
    margin_cost : float
        Mean of max(1 − y f, 0), for the 2-norm of its square, over the rows with labels.
    sampling : float
        4/√n, the cost of symmetrization.
    confidence : float
        2√(log(1/δ)/n), with the share of δ for this margin.
    complexity : float
        √C(𝒦)/(nγ), for the 2-norm twice that, with C(𝒦) estimated.
    complexity_limit : float
        The same with the closed-form bound of C(𝒦).
    margin : float
        γ, for a kernel of trace ``trace``.
    trace : float
        c.
    capacity : Capacity
        C(𝒦), as estimated and in closed form.
    """

    margin_cost: float
    sampling: float
    confidence: float
    complexity: float
    complexity_limit: float
    margin: float
    trace: float
    capacity: Capacity

    def __repr__(self) -> str:
        terms = ", ".join(f"{term.name}={getattr(self, term.name)!r}" for term in fields(self))
        return f"ErrorBound(total={self.total!r}, vacuous={self.vacuous}, {terms})"

    @property
    def total(self) -> float:
        """The bound, up to the standard error of the estimated C(𝒦)."""
        return self.margin_cost + self.sampling + self.confidence + self.complexity

    @property
    def total_limit(self) -> float:
        """The bound with the closed-form C(𝒦): nothing in it is estimated."""
        return self.total - self.complexity + self.complexity_limit

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is 1 or more."""
        return self.total >= 1.0


def error_bound(
    K: ArrayLike | Stack,
    y: ArrayLike,
    weights: ArrayLike,
    coef: ArrayLike,
    *,
    bias: float | None = None,
    delta: float = 0.05,
    margin: float | None = None,
    trace: float | None = None,
    signed: bool = False,
    samples: int = 200,
    random_state: int = 0,
    loss: str = "hinge",
) -> ErrorBound:
    """Bound the share of errors of f = Σ_m weights_m K_m coef on the rows without labels.

    Parameters
    ----------
    K : array (m, 2n, 2n) or KernelStack
        Kernels on all rows, chosen without looking at the labels.
    y : array (2n,)
        Labels -1 and +1 for a random half of the rows, 0 for the others.
    weights : array (m,)
    coef : array (2n,)
        The model, as ``learn`` finds it from the same K and y.
    bias : float, optional
        Added to f. The theorem has no bias, so the constant kernel, 1 everywhere, joins the class,
        with the weight that is best for the bound. Do not decide for or against a bias by its
        value: give it even if it is 0.
    delta : float
        The probability that the bound fails, over the choice of the rows with labels.
    margin, trace : float, optional
        γ and c, both fixed in advance, as in the theorem. By default they are taken from the model,
        which makes the bound somewhat larger.
    signed : bool
        Whether the class has signed weights with K ⪰ 0.
    samples : int
        Number of random sign vectors that estimate C(𝒦). With signed weights each needs a small
        semidefinite program, solved to 1e-3 from above.
    random_state : int
        Seed of the signs.
    loss : "hinge" or "squared_hinge"
        The cost that the bound begins with, whatever the model was learned with. Both hold; do not
        choose between them by their values.

    Returns
    -------
    ErrorBound

    Examples
    --------
    For a fitted ``TransductiveMKLClassifier``, which keeps no kernel matrices:

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kernelweave import KernelBank, TransductiveMKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> rows = np.random.default_rng(0).permutation(len(y))[:200]
    >>> X, partly = X[rows], np.where(np.arange(200) < 100, y[rows], -1)
    >>> bank = KernelBank()
    >>> model = TransductiveMKLClassifier(bank).fit(X, partly)
    >>> signs = np.select([partly == model.classes_[0], partly == model.classes_[1]], [-1, 1])
    >>> found, stack = model.solution_, bank.fit(X).stack
    >>> bound = error_bound(stack, signs, found.weights, found.coef, bias=found.bias)
    >>> bound.vacuous  # with so few rows
    True
    """
    check_choice("loss", loss, _SLOPES)
    stack = as_stack(K)
    labels = check_labels(y, stack.n, partly=True)
    rows = np.flatnonzero(labels)
    n = rows.size
    if stack.n != 2 * n:
        raise ValueError(
            f"the bound needs as many rows with labels as without, found {n} with and "
            f"{stack.n - n} without"
        )
    d, w = check_vector("weights", weights, stack.m), check_vector("coef", coef, stack.n)
    delta = check_number("delta", delta)
    if delta >= 1.0:
        raise ValueError(f"delta must be less than 1, found {delta!r}")
    f, size, radius = _model(stack, d, w, bias, signed)
    one = capacity(
        stack, signed=signed, constant=bias is not None, samples=samples, random_state=random_state
    )
    slope, power = _SLOPES[loss]
    slacks = np.maximum(1.0 - labels[rows] * f[rows], 0.0)
    if margin is None and trace is None:
        trace = size
        radius, share = _stratum(radius, n, delta, slope * slope * one.mean)
    elif margin is None or trace is None:
        raise ValueError("margin and trace define the class together: give both, or neither")
    else:
        trace, share = check_number("trace", trace), delta
        given = float(np.sqrt(trace)) / check_number("margin", margin)
        if radius > given * (1.0 + 1e-9):
            raise ValueError(
                f"the model is not in the class: with trace {trace:g} its margin is "
                f"{np.sqrt(trace) / radius:g}, not {margin:g}"
            )
        radius = given
    return ErrorBound(
        margin_cost=float((slacks**power).mean()),
        sampling=4.0 / float(np.sqrt(n)),
        confidence=_confidence(share, n),
        complexity=slope * float(np.sqrt(one.mean)) * radius / n,
        complexity_limit=slope * float(np.sqrt(one.limit)) * radius / n,
        margin=float(np.sqrt(trace)) / radius if radius > 0.0 else np.inf,
        trace=trace,
        capacity=Capacity(trace * one.mean, trace * one.error, trace * one.limit),
    )


def _model(
    stack: Stack, d: Array, w: Array, bias: float | None, signed: bool
) -> tuple[Array, float, float]:
    """f on all rows, the trace c of the combined kernel, and √c/γ of the model."""
    if not signed and d.min() < 0.0:
        raise ValueError(
            f"weights must be nonnegative, found {d.min():g}; those of learner='sdp' may be "
            "negative: pass signed=True"
        )
    combined = np.asarray(stack.combined(d).dense(), dtype=float)
    size = float(np.trace(combined))
    if signed:
        check_semidefinite(combined, size, stack.precision)
    f = combined @ w
    if not size > 0.0:
        raise ValueError(f"weights must give the combined kernel a trace > 0, found {size:g}")
    radius = float(np.sqrt(max(float(w @ f), 0.0) * size))
    if bias is None:
        return f, size, radius
    # K + μ11ᵀ has trace c + 2nμ, and the model has squared norm 1/γ² + bias²/μ; the smallest
    # root of their product is this sum
    b = check_finite("bias", bias)
    return f + b, size, radius + float(np.sqrt(stack.n)) * abs(b)


def capacity(
    K: ArrayLike | Stack,
    trace: float = 1.0,
    *,
    signed: bool = False,
    constant: bool = False,
    samples: int = 200,
    random_state: int = 0,
) -> Capacity:
    """C(𝒦) = E max_{K ∈ 𝒦} σᵀKσ over combinations of the kernels of trace at most ``trace``.

    ``signed`` and ``samples`` are as for ``error_bound``; ``constant`` adds the constant kernel.
    Kernels of trace zero are ignored. Signed weights are limited as in ``Sdp``: if kernels differ
    by 1e-8 of their size or less, the class is smaller than all K ⪰ 0.
    """
    stack = as_stack(K)
    if signed and constant:
        stack = KernelStack([*matrices(stack), np.ones((stack.n, stack.n))], check=False)
    trace = check_number("trace", trace)
    count = check_number("samples", samples, int)
    traces = stack.traces()
    if not traces.any():
        raise ValueError("the kernels are all zero: the class needs one that is not")
    scale = np.divide(1.0, traces, out=np.zeros(stack.m), where=traces > 0.0)
    rng = np.random.default_rng(check_number("random_state", random_state, int, zero=True))
    signs = rng.choice([-1.0, 1.0], (stack.n, count))
    q = np.stack([np.einsum("is,is->s", signs, K @ signs) for K in matrices(stack)])
    q = scale[:, None] * q
    if signed:
        most = supports(Joint(stack, scale), q.T, 1e-3)
        limit = float(stack.n)
    else:
        ones = np.sum(signs, axis=0) ** 2 / stack.n
        most = np.vstack([q, ones] if constant else q).max(axis=0)
        limit = _limit(stack, constant)
    error = float(most.std(ddof=1) / np.sqrt(count)) if count > 1 else np.inf
    mean = min(float(most.mean()), limit)  # the estimate may exceed it by chance
    return Capacity(trace * mean, trace * error, trace * limit)


def _limit(stack: Stack, constant: bool) -> float:
    """min(m, 2n max_j λ_j/tr K_j); the constant kernel has λ = tr K."""
    kernels = [(K, r) for K, r in zip(matrices(stack), stack.traces(), strict=True) if r > 0.0]
    count = len(kernels) + constant
    largest = 1.0 if constant else max((np.linalg.norm(K) / r) ** 2 for K, r in kernels)
    if stack.n * largest < count:  # λ_j tr K_j ≥ ‖K_j‖² is not enough to decide
        largest = max(largest, *(np.linalg.eigvalsh(K)[-1] / r for K, r in kernels))
    return float(min(count, stack.n * largest))


def _stratum(radius: float, n: int, delta: float, capacity: float) -> tuple[float, float]:
    """The 2⁻ᵏn above ``radius`` with the smallest bound, and its share of δ."""
    k = np.arange(1 + int(np.clip(np.floor(np.log2(n / max(radius, TINY))), 0, 200)))
    shares = delta / ((k + 1.0) * (k + 2.0))
    bounds = np.sqrt(capacity) * 2.0**-k + [_confidence(share, n) for share in shares]
    best = int(np.argmin(bounds))
    return max(float(n * 2.0**-best), radius), float(shares[best])


def _confidence(delta: float, n: int) -> float:
    return float(2.0 * np.sqrt(np.log(1.0 / delta) / n))
