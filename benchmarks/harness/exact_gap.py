"""Primal, dual and gap of a solution in exact arithmetic, apart from the library that it judges.

    P = ½ coefᵀK(d)coef + Σ ℓ(c − f − b) + rb,   f = K(d)coef,    ℓ(h) = max_{lo≤u≤hi} hu − ½ρu²
    D = cᵀv − ½Σρv² − ½σ(q),                     q_m = vᵀK_m v,   gap = (P − D)/max(|P|, |D|)

both added up over machines, where y has columns. c, lo, hi, ρ and r say what the loss is.

Every float is an integer over a power of two. So sums and products are those of Python's integers,
and quotients are fractions. Only ℓp norms with 1 < p < ∞ are rounded, to 60 digits.

What misses its constraints is repaired exactly. Weights are divided by their norm, or with
``trace`` scaled to Σ d_m tr K_m = trace. v = y∘dual_alpha is clipped to the box; then the entries
of the heavier sign shrink until Σv = 0, and with one class all that may grow or shrink do until
Σv = 1. Squared losses have ρ = ridge + 1/C, a fraction, and y ± ε are fractions, too. C times the
weight of a row and C times a quantile are those numbers in double precision. An end that is open
has the bounds 0 and 0. Rows of weight 0 are left out.
Dividing the weights moves f by a share of 1e-16, which C times the diagonal of K may make large.
``same_f`` multiplies coef by the same norm instead, so that f stays what it was.

With C="learn" the identity is one more kernel, and its weight is 1/``learned``. Other criteria:

- "given": weights as they are, σ(q) = d·q;
- "radius": P = ½R² coefᵀK(d)coef + Σ ℓ. R² is what a center proves that is solved for in long
  doubles, β·diag K − βᵀKβ ≤ R²: P may be too small by the error of that center, never too large.
  It is about 1e-18; up to 1e-10 where most points are as far from the center. Where K is indefinite
  by rounding, β·diag K − βᵀKβ may exceed R² at another stationary β: no more than the ball around
  the reported center counts.
  D = Σ yv − ½ρ‖v‖² − ½ max_m q_m/c_m(β), and β is the reported ``center``. Kernels under which all
  points coincide, up to rounding, do not count;
- "radius_bound": R² times P and D at the same weights. R² cancels, and the gap is that of "given".

Left out: ``sdp``, because its σ is the value of a semidefinite program and the multiplier that
proves it is not exported; rows without a label; ``recenter``. Where K is indefinite by rounding,
weak duality itself may fail by a little. What is judged is the formula P − D, with max(σ(q), 0)
because weights may be smaller; it may be negative.

    python -m benchmarks.harness.exact_gap      five cases that were wrong: reported and exact gaps
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Exact(NamedTuple):
    """Primal and gap are infinite where a hard margin is not met; ``slack`` is the largest."""

    primal: Any
    dual: Any
    gap: Any
    slack: Fraction


class Machine(NamedTuple):
    """c, lo, hi and ρ of each variable, and r; the labels, where there are some."""

    linear: Any
    lower: Any
    upper: Any
    ridge: Any
    total: int = 0
    sides: Any = None


def exact_gap(
    K: Any,
    y: Any,
    C: Any,
    weights: Any,
    coef: Any,
    bias: Any,
    dual_alpha: Any,
    *,
    loss: str = "hinge",
    weight_norm: float | None = 1,
    trace: float | None = None,
    ridge: float = 0.0,
    criterion: str = "margin",
    center: Any = None,
    learned: float = math.inf,
    same_f: bool = False,
    sample_weight: Any = None,
    epsilon: float = 0.1,
    quantile: float = 0.5,
) -> Exact:
    """Judge the numbers of a solution of the problem that ``kernelweave.learn`` documents."""
    K, learns = np.asarray(K), isinstance(C, str)
    every = np.ones(K.shape[1]) if sample_weight is None else np.asarray(sample_weight, float)
    rows = np.flatnonzero(every)
    K, n = K[:, rows][:, :, rows], rows.size
    costs = np.broadcast_to(math.inf if learns else C, every.size)[rows] * every[rows]
    given = np.zeros(n) if y is None else np.asarray(y)[rows]
    columns = [given] if loss == "interval" else np.atleast_2d(given.astype(float).T)
    knobs = {"epsilon": epsilon, "quantile": quantile}
    machines = [lowered(side, costs, loss, ridge, **knobs) for side in columns]
    alphas, coefs = np.atleast_2d(dual_alpha)[:, rows], np.atleast_2d(coef)[:, rows]
    matrices, unit = integers(K)
    traces = unit * np.array([np.diagonal(A) @ fractions(every[rows]) for A in matrices])
    d, tau = fractions(weights), Fraction(0) if math.isinf(learned) else 1 / Fraction(learned)
    size = Fraction(1)

    linear, q, norm2, v = Fraction(0), np.zeros(len(K), object), Fraction(0), None
    for machine, alpha in zip(machines, alphas, strict=True):
        point = feasible(alpha, machine)
        linear += point @ machine.linear - (machine.ridge * point) @ point / 2
        v, v_unit = integers(point.reshape(-1, n).sum(axis=0))
        q = q + unit * v_unit**2 * np.array([v @ A @ v for A in matrices])
        norm2 += v_unit**2 * (v @ v)
    if criterion == "radius":
        means = unit * matrices.sum(axis=(1, 2)) * Fraction(1, n)
        plain = unit * np.trace(matrices, axis1=1, axis2=2)
        seen = plain - means > 1000 * Fraction(float(np.finfo(K.dtype).eps)) * plain
        pairs = zip(q[seen], unit * slopes_of(matrices[seen], center), strict=True)
        most = max(x / c if c > 0 else math.inf for x, c in pairs) if v.any() else 0
    elif criterion != "margin":
        most = d @ q
    elif learns or trace is not None:
        sizes = np.append(traces, Fraction(n)) if learns else traces
        amount = sizes.sum() / len(sizes) if trace is None else Fraction(trace)
        most = amount * max((np.append(q, norm2) if learns else q) / sizes)
        size = (d @ traces + tau * n) / amount
    else:
        most, size = norm(np.maximum(q, 0), conjugate(weight_norm)), norm(d, weight_norm)
    d, tau = d / size, tau / size
    dual = linear - max(most, Fraction(0)) / 2

    parts, d_unit = integers(d)
    combined, unit = np.tensordot(parts, matrices, 1), unit * d_unit
    larger = Fraction(1)
    if criterion == "radius":
        larger = unit * min(radius2(combined), enclosing2(combined, center))
    primal, slack = Fraction(0), Fraction(0)
    for machine, w, b in zip(machines, coefs, np.atleast_1d(bias), strict=True):
        numbers, w_unit = integers(w)
        w_unit *= size if same_f else 1
        f = unit * w_unit * (combined @ numbers)
        quad = unit * w_unit**2 * (numbers @ combined @ numbers)
        h = machine.linear - np.tile(f, len(machine.linear) // n) - Fraction(float(b))
        losses = map(loss_of, h, machine.lower, machine.upper, machine.ridge + tau)
        primal += larger * quad / 2 + sum(losses) + machine.total * Fraction(float(b))
        slack = max(slack, *(h if machine.sides is None else machine.sides * h))
    gap = 0 if primal == dual else math.inf
    if abs(primal) < math.inf and primal != dual and abs(dual) < math.inf:
        gap = (primal - dual) / max(abs(primal), abs(dual))
    return Exact(primal, dual, gap, slack)


def lowered(
    y: Any, costs: Any, loss: str, ridge: float, epsilon: float, quantile: float
) -> Machine:
    """The machine of one column of y, as ``kernelweave.problems.losses`` writes it down."""
    none, free = np.zeros(len(y)), np.full(len(y), math.inf)
    rho = np.full(len(y), Fraction(ridge))
    if loss in ("squared", "squared_hinge", "huber"):
        rho = rho + np.array([0 if math.isinf(c) else 1 / Fraction(c) for c in costs.tolist()])
    if loss in ("hinge", "squared_hinge"):
        top = free if loss == "squared_hinge" else costs
        lower, upper = np.where(y < 0, -top, 0.0), np.where(y > 0, top, 0.0)
        return Machine(fractions(y), lower, upper, rho, sides=y.astype(int).astype(object))
    if loss == "epsilon_insensitive":
        lower, upper = np.concatenate([none, -costs]), np.concatenate([costs, none])
        return Machine(tube(np.tile(y, 2), epsilon), lower, upper, np.tile(rho, 2))
    if loss == "interval":
        ends = np.concatenate(ends_of(y))
        known = np.isfinite(ends)
        lower, upper = np.concatenate([none, -costs]), np.concatenate([costs, none])
        bounds = np.where(known, lower, 0.0), np.where(known, upper, 0.0)
        return Machine(tube(np.where(known, ends, 0.0), epsilon), *bounds, np.tile(rho, 2))
    if loss == "squared":
        return Machine(fractions(y), -free, free, rho)
    if loss == "huber":  # δ = 1
        return Machine(fractions(y), -costs, costs, rho)
    if loss == "quantile":
        return Machine(fractions(y), (quantile - 1.0) * costs, quantile * costs, rho)
    return Machine(fractions(none), none, costs, rho, total=1)


def tube(ends: Any, epsilon: float) -> Any:
    """Lower ends less ε, upper ones and ε."""
    side = Fraction(epsilon) * np.repeat([-1, 1], len(ends) // 2)
    return fractions(ends) + side


def ends_of(y: Any) -> tuple[Any, Any]:
    """Lower and upper ends: the fields of y, its columns, or y twice where it is exact."""
    if y.dtype.names:
        return y["lower"], y["upper"]
    return tuple(y.T) if y.ndim == 2 else (y, y)


def integers(values: Any) -> tuple[Any, Fraction]:
    """Floats or fractions as integers, and the fraction that each of them is multiplied by."""
    ratios = [x.as_integer_ratio() for x in np.ravel(values).tolist()]
    whole = math.lcm(*{below for _, below in ratios})
    numbers = np.array([above * (whole // below) for above, below in ratios], dtype=object)
    return numbers.reshape(np.shape(values)), Fraction(1, whole)


def fractions(values: Any) -> Any:
    return np.array([Fraction(x) for x in np.ravel(values).tolist()])


def feasible(alpha: Any, machine: Machine) -> Any:
    """v from α, in the box and with Σv = r."""
    whole = alpha if machine.sides is None else machine.sides.astype(float) * alpha
    whole = np.tile(whole, len(machine.linear) // len(alpha))
    v = fractions(np.clip(whole, machine.lower, machine.upper))
    if machine.total == 0:  # the heavier sign shrinks
        up, down = v[v > 0].sum(), -v[v < 0].sum()
        return v * np.where(v > 0, min(up, down) / (up or 1), min(up, down) / (down or 1))
    if (missing := machine.total - v.sum()) < 0:
        return v * (machine.total / v.sum())
    room = fractions(machine.upper) - v
    return v + room * missing / room.sum() if missing else v


def norm(x: Any, p: Any) -> Any:
    """‖x‖_p for x ≥ 0, to 60 digits where p is neither 1 nor ∞."""
    top = x.max()
    if top == 0 or p == 1 or p == math.inf:
        return x.sum() if p == 1 else top
    with localcontext(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN):
        power = decimal(Fraction(p))
        return top * Fraction(sum(decimal(part) ** power for part in x / top) ** (1 / power))


def conjugate(p: Any) -> Any:
    return {1: math.inf, math.inf: 1}.get(p) or 1 + 1 / (Fraction(p) - 1)


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def loss_of(h: Fraction, lower: float, upper: float, rho: Fraction) -> Any:
    """max_{lower≤u≤upper} hu − ½ρu²."""
    end = upper if h > 0 else lower
    if h == 0 or end == 0:
        return 0
    if rho == 0:
        return h * Fraction(float(end)) if abs(end) < math.inf else math.inf
    u = h / rho if abs(h / rho) < abs(end) else Fraction(float(end))
    return h * u - rho * u * u / 2


def slopes_of(matrices: Any, center: Any) -> Any:
    """c_m(β) = Σ β_i K_m,ii − βᵀK_m β, β divided by its sum; in units of the matrices."""
    beta, total = integers(center)[0], integers(center)[0].sum()
    whole = [beta @ np.diagonal(A) * total - beta @ A @ beta for A in matrices]
    return np.array([Fraction(x, total**2) for x in whole])


def radius2(G: Any) -> Fraction:
    """The squared radius of the ball around all points, in units of G, as its center proves it."""
    A = G - G[:1] - G[:, :1] + G[0, 0]  # as seen from the first point
    squares, largest = np.diagonal(A), max(np.diagonal(A))
    if largest <= 0:
        return Fraction(0)
    rough = (A * 2**80 // largest).astype(np.longdouble) / np.longdouble(2) ** 80
    beta, slope = np.eye(1, len(A), dtype=np.longdouble)[0], np.diagonal(rough) - 2 * rough[0]
    for k in range(5000):
        i = slope.argmax()
        if slope[i] - beta @ slope <= 1e-18:
            break
        move = np.zeros_like(beta)
        if k % 9 == 8:  # all that have a part of the center at once
            at = np.flatnonzero(beta)
            system = np.pad(2 * rough[np.ix_(at, at)].astype(float), (0, 1), constant_values=1.0)
            system[-1, -1] = 0.0
            right = np.append(slope[at] - slope[at].mean(), 0.0).astype(float)
            move[at] = np.linalg.lstsq(system, right, rcond=1e-13)[0][:-1]
            move[at] -= move[at].mean()
        else:  # from j to i
            apart = np.maximum(rough[i, i] + np.diagonal(rough) - 2 * rough[i], 1e-30)
            j = np.where(beta > 0, np.maximum(slope[i] - slope, 0) ** 2 / apart, -1).argmax()
            move[i], move[j] = move[i] + 1, move[j] - 1
        rise, bend, down = move @ slope, move @ rough @ move, move < 0
        if rise > 0:
            step = min((beta[down] / -move[down]).min(), rise / (2 * max(bend, 1e-30)))
            beta = np.maximum(beta + step * move, 0)
            slope = np.diagonal(rough) - 2 * rough @ beta
    b = np.array([int(x * 2**80) for x in beta], dtype=object)
    total, near = b.sum(), A @ b
    return Fraction(total * (squares @ b) - b @ near, total**2)


def enclosing2(G: Any, center: Any) -> Fraction:
    """The squared radius of the ball around Σ β_i φ_i that holds all points, in units of G."""
    beta, total = integers(center)[0], integers(center)[0].sum()
    far = np.diagonal(G) * total - 2 * (G @ beta)
    return Fraction(int(max(far)), int(total)) + Fraction(int(beta @ G @ beta), int(total) ** 2)


def of_solution(K: Any, y: Any, solution: Any, C: Any = 1.0, **problem: Any) -> Exact:
    """The exact gap of what ``learn(K, y, C, **problem)`` returned."""
    s = solution
    numbers = s.weights, s.coef, s.bias, s.dual_alpha
    rows = np.flatnonzero(problem.get("sample_weight", np.ones(np.shape(K)[1])))
    center = s.extras.get("center", np.ones(np.shape(K)[1]))  # none: v = 0, and any will do
    problem["center"] = center if len(center) == rows.size else center[rows]
    problem["learned"] = s.C if isinstance(C, str) else math.inf
    return exact_gap(K, y, C, *numbers, criterion=s.criterion, **problem)


def main() -> None:
    """The cases of the issue that asked for this file, or data made like theirs."""
    import kernelweave as kw

    def points(seed: int) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 3))
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        y[:2] = 1, -1
        X[:, 0] += y
        squares = ((X[:, None] - X[None]) ** 2).sum(-1)
        return X, y, np.array([X @ X.T, np.exp(-squares / 2)])

    def show(name: str, K: Any, y: Any, solution: Any, **problem: Any) -> None:
        found = of_solution(K, y, solution, **problem)
        wrong = found.gap > Fraction(solution.gap) + Fraction(1, 10**15)
        print(
            f"{name:36} {solution.status:9} reported {solution.gap:8.2g}, "
            f"exact {float(found.gap):8.2g}{'  WRONG' if wrong else ''}"
        )

    X, y, K = points(23)
    for C in (1e6, 1e9):
        show(f"kernels times 1e8, C = {C:g}", K * 1e8, y, kw.learn(K * 1e8, y, C=C), C=C)
    for seed in range(24):
        _, sides, A = points(seed)
        A = A / np.trace(A, axis1=1, axis2=2)[:, None, None]
        name = f"unit trace, C = 1e10, tol 1e-6, #{seed}"
        show(name, A, sides, kw.learn(A, sides, C=1e10, tol=1e-6), C=1e10)
    C = 8.5e11 / np.diagonal(K[0]).max()
    show("radius, C·K_ii = 8.5e11", K, y, kw.learn(K, y, C=C, learner="radius"), C=C)
    bank = kw.KernelBank(normalize=None, scale=None)
    model = kw.MKLClassifier(bank, C=1e6).fit(X * 1e4, y)
    stack, every = bank.fit(X * 1e4).stack, np.arange(len(y))
    A = np.array([stack.block(m, every, every) for m in range(stack.m)])
    show("estimator, columns of 1e4, C = 1e6", A, y, model.solution_, C=1e6)


if __name__ == "__main__":
    main()
