"""The dual QP that every supported machine lowers to, and the primal that bounds it.

    max_v  cᵀv − ½ vᵀKv − ½ Σ ρ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi

The variables are signed: v = s∘α, so the labels live in c, lo and hi, and K is the kernel
matrix itself. For an SVM c = y and v_i lies between 0 and C·y_i. With more variables than
kernel rows (two per row in ε-insensitive regression) variable i + k·n uses kernel row i. A row
whose variables have the bounds 0 and 0 takes no part: its loss is zero, whatever f is there.

With ℓ_i(h) = max_{lo_i ≤ u ≤ hi_i} hu − ½ρ_i u², the loss that the box and the ridge stand for,

    P(f, b) = ½‖f‖² + Σ ℓ_i(c_i − f_i − b) + r·b

is at least the dual value, for every f and b and every feasible v. Hinge, squared hinge,
hard margin, box with ridge (ω_{C,τ}, [lanckriet2004, eq. 20]), ε-insensitive and squared loss,
one-class and the enclosing ball differ in these five arrays and numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import EPS, SLACK, SUM_ROUNDING, TIE
from kernelweave._core.types import Array, Places


@dataclass(frozen=True)
class DualQP:
    """Data of the dual QP, apart from the kernel.

    ``linear`` is c, ``total`` is r; ``n`` is the number of kernel rows, which divides the number
    of variables. ``ridge`` is ρ, one number or one per variable: zero for all or positive for all.
    ``sign`` says how users see the variables: alpha = sign∘coef, the labels in classification; None
    is 1 for every row. Targets are measured from ``origin``, and so is the bias; rounding may have
    moved each c_i by ``doubt``.

    ``is_smooth``: there is a ridge, so that the loss has no corners. ``is_hard``: some slack costs
    infinitely much, so that the primal may be infeasible. ``is_unbounded``: no variable has a
    bound, so that a linear system is all there is to solve.
    """

    linear: Array
    lower: Array
    upper: Array
    n: int
    ridge: float | Array = 0.0
    total: float = 0.0
    sign: Array | None = None
    origin: float = 0.0
    doubt: float | Array = 0.0
    is_smooth: bool = field(init=False, repr=False)
    is_hard: bool = field(init=False, repr=False)
    is_unbounded: bool = field(init=False, repr=False)

    size = property(attrgetter("linear.size"), doc="Number of variables.")

    def __post_init__(self) -> None:
        smooth, bounds = bool(np.all(self.ridge > 0.0)), np.concatenate([self.lower, self.upper])
        open_ends = np.count_nonzero(np.isinf(bounds))
        vars(self).update(
            is_smooth=smooth,
            is_hard=not smooth and open_ends > 0,
            is_unbounded=smooth and self.size == self.n and open_ends == bounds.size,
        )

    @cached_property
    def ceiling(self) -> float:
        """What f = 0 costs: no dual value under a positive semidefinite kernel exceeds it."""
        nothing = np.zeros(self.n)
        return self.primal_value(nothing, self.best_bias(nothing), 0.0)

    @property
    def ridges(self) -> Array:
        """The ridge of each variable."""
        return np.full(self.linear.shape, self.ridge)

    @property
    def one_ridge(self) -> float:
        """The ridge, for those who need the same for all variables."""
        if np.ptp(self.ridge) > 0.0:
            raise ValueError("the ridge of a ball is one number: give one C, and no sample_weight")
        return float(np.max(self.ridge))

    def rows_in_part(self) -> Places:
        """The kernel rows that take part: those with a variable that may move or is not zero."""
        part = (self.lower < self.upper) | (self.lower != 0.0)
        return np.flatnonzero(part.reshape(-1, self.n).any(axis=0))

    def on_rows(self, rows: Places) -> DualQP:
        """The QP of the variables of some kernel rows."""
        inside = self.variables(rows)
        return DualQP(
            linear=self.linear[inside],
            lower=self.lower[inside],
            upper=self.upper[inside],
            n=rows.size,
            ridge=self.ridge if np.ndim(self.ridge) == 0 else self.ridges[inside],
            total=self.total,
            sign=None if self.sign is None else self.sign[rows],
            origin=self.origin,
            doubt=self.doubt if np.ndim(self.doubt) == 0 else np.asarray(self.doubt)[inside],
        )

    def variables(self, rows: Places) -> Places:
        """The places of all variables of some kernel rows."""
        return (np.arange(0, self.size, self.n)[:, None] + rows).ravel()

    def fold(self, v: Array) -> Array:
        """Coefficients of the kernel rows: variables that share a row added up."""
        return v if v.size == self.n else v.reshape(-1, self.n).sum(axis=0)

    def alpha(self, v: Array) -> Array:
        """What users see of ``v``: one number per kernel row, ≥ 0 in classification."""
        coef = self.fold(v)
        return coef if self.sign is None else self.sign * coef

    def from_alpha(self, alpha: Array) -> Array:
        """A feasible v whose ``alpha`` is the one given, or near it where that is not feasible.

        Where a row has several variables, each takes what of the coefficient its bounds allow.
        """
        return self.feasible(self.tile(alpha if self.sign is None else self.sign * alpha))

    def rescaled(self, unit: float, size: float = 1.0) -> DualQP:
        """The QP in u = v/unit and f/size: that of this one under K·unit/size in place of K."""
        return replace(
            self,
            linear=self.linear / size,
            lower=self.lower / unit,
            upper=self.upper / unit,
            ridge=self.ridge * unit / size,
            total=self.total / unit,
            origin=self.origin / size,
            doubt=self.doubt / size,
        )

    def costlier(self, times: float) -> DualQP:
        """The QP in which slacks cost ``times`` as much; Σv = r stays."""
        return replace(
            self,
            lower=times * self.lower,
            upper=times * self.upper,
            ridge=self.ridge / times,
        )

    def tile(self, f: Array) -> Array:
        """Values at the kernel rows, repeated for every variable of a row."""
        return f if self.linear.size == self.n else np.tile(f, self.linear.size // self.n)

    def dual_value(self, v: Array, quad: float) -> float:
        """Dual value of a feasible ``v`` with ``quad`` = vᵀKv."""
        return self.dual_linear(v) - 0.5 * quad

    def dual_linear(self, v: Array) -> float:
        """cᵀv − ½ρ‖v‖²: the part of the dual value that does not depend on the kernel."""
        return float(self.linear @ v - 0.5 * self.bend(v))

    def bend(self, v: Array) -> float:
        """Σ ρ_i v_i²."""
        return float(v @ (self.ridge * v))

    def primal_value(self, f: Array, bias: float, quad: float, rounding: float = 0.0) -> float:
        """Primal value of decision values ``f`` + ``bias``, with ``quad`` = ‖f‖².

        In a hard margin a slack within ``rounding``, how exactly f is known, is none.
        """
        slack = self.linear - self.tile(f) - bias
        if self.is_hard:
            rounding = max(rounding, SLACK * (1.0 + np.abs(f).max() + abs(bias)))
            slack[np.abs(slack) <= rounding] = 0.0
        return float(0.5 * quad + self._losses(slack).sum() + self.total * bias)

    def primal_bound(self, f: Array, error: Array, bias: float, quad: float) -> float:
        """An upper bound of the primal value of all f within ``error``, ‖f‖² at most ``quad``.

        f may be in extended precision. Not for hard margins.
        """
        values = self.tile(f)
        eps = float(np.finfo(values.dtype).eps)
        slack = self.linear - values - bias
        e = self.tile(error) + eps * (np.abs(self.linear) + np.abs(values) + abs(bias)) + self.doubt
        worst = np.maximum(self._losses(slack - e), self._losses(slack + e))
        return float(0.5 * quad + worst.sum() + self.total * bias)

    def loss_of_rounding(self) -> float:
        """The loss of slacks that are nothing but the rounding of c − f − b."""
        slack = 8.0 * EPS * (np.abs(self.linear) + abs(self.origin))
        return float(np.maximum(self._losses(-slack), self._losses(slack)).sum())

    def dual_floor(self, v: Array, slope: float) -> float:
        """A lower bound of cᵀv − ½ρ‖v‖² once Σv is brought to r.

        ``slope`` bounds what the kernels add to the slope of the dual value.
        """
        fine = v.astype(np.longdouble)
        eps = float(np.finfo(fine.dtype).eps)
        linear = float(self.linear @ fine - 0.5 * (fine @ (self.ridge * fine)))
        size = float(np.abs(self.linear) @ np.abs(v)) + self.bend(v)
        doubt = float(np.sum(self.doubt * np.abs(v)))
        missing = abs(float(fine.sum() - self.total)) + v.size * eps * float(np.abs(v).sum())
        steepest = float(np.abs(self.linear).max() + np.max(self.ridge * np.abs(v))) + slope
        return linear - (v.size * eps + 2.0 * EPS) * size - doubt - 2.0 * missing * steepest

    def best_bias(self, f: Array) -> float:
        """The b that minimizes P(f, b); the middle of them where there is an interval.

        At the optimum Σ u_i(c_i − f_i − b) = r, where u_i = ℓ_i' falls from hi_i to lo_i as b
        grows: at a jump without a ridge, over a ramp of slope 1/ρ with one. Users get b + origin,
        rounded: what is left of it when the origin is taken off is this b.
        """
        slack = self.linear - self.tile(f)
        bias = self._ramp_bias(slack) if self.is_smooth else self._jump_bias(slack)
        return (bias + self.origin) - self.origin

    def improve(self, f: Array, quad: float) -> tuple[float, float, float]:
        """Scale and bias that minimize P(t·f, b), and the value there: ``(t, b, P)``.

        A hard margin is met by scaling alone; its value is infinite where f does not separate.
        """
        if self.is_hard:
            return self.separate(f, np.zeros_like(f), quad)
        from scipy.optimize import minimize_scalar  # loads slowly

        def value(scale: float) -> float:
            return self.primal_value(scale * f, self.best_bias(scale * f), scale * scale * quad)

        best = minimize_scalar(value, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-9})
        scale = best.x if best.fun < value(1.0) else 1.0
        bias = self.best_bias(scale * f)
        return scale, bias, self.primal_value(scale * f, bias, scale * scale * quad)

    def separates(self, f: Array, error: Array, bias: float) -> bool:
        """Whether no f within ``error`` leaves a slack on the wrong side of a hard margin."""
        values, e = self.tile(f), self.tile(error)
        e = e + float(np.finfo(values.dtype).eps) * (np.abs(values) + abs(bias) + 1.0)
        slack = self.linear - values - bias
        up, down = np.isinf(self.upper), np.isinf(self.lower)
        return bool((slack + e)[up].max() <= 0.0 and (slack - e)[down].min() >= 0.0)

    def separate(self, f: Array, error: Array, quad: float) -> tuple[float, float, float]:
        """Least scale of f, with its bias, at which no slack is on the wrong side.

        It holds for every f within ``error``.
        """
        values, e = self.tile(f), self.tile(error)
        up, down = np.isinf(self.upper), np.isinf(self.lower)
        low, high = (values - e)[up].min(), (values + e)[down].max()
        most, least = self.linear[up].max(), self.linear[down].min()
        if not low > high:
            return 1.0, self.best_bias(f), np.inf
        scale = (most - least) / (low - high)
        scale *= 1.0 + 4e-15 * (1.0 + scale * np.abs(values).max())  # more than rounding takes
        bias = 0.5 * (most + least - scale * (low + high))
        return float(scale), float(bias), float(0.5 * scale * scale * quad)

    def feasible(self, v: Array | None = None) -> Array:
        """A feasible point: ``v`` clipped to the box, then brought to Σv = r.

        Without one it is near 0, with few variables: only their rows of K tell what f is.
        What is there on the wrong side is given back before anything is added. What is rounding is
        taken from variables between their bounds, so that those on a bound stay there.
        """
        if v is None:
            v = np.zeros_like(self.linear)
            if self.total > 0.0 and np.isfinite(self.upper).all():
                v = self.total + self.upper - np.cumsum(self.upper)
        v = np.minimum(np.maximum(v, self.lower), self.upper)  # half of the time of np.clip
        for _ in range(3):  # the first pass does it; the others remove rounding
            missing = self.total - v.sum()
            if missing == 0.0:
                break
            ahead = (self.upper if missing > 0.0 else self.lower) - v
            if abs(missing) <= SUM_ROUNDING * np.abs(v).sum():
                room = np.where((v > self.lower) & (v < self.upper), ahead, 0.0)
            else:
                room = np.where(v * missing < 0.0, self._nearest_zero - v, 0.0)
            if abs(room.sum()) < abs(missing):
                room = ahead
            if np.isinf(room).any():
                room = np.isinf(room).astype(float)
            v = v + missing * room / room.sum()
            v = np.minimum(np.maximum(v, self.lower), self.upper)
        return v

    @cached_property
    def _nearest_zero(self) -> Array:
        return np.clip(0.0, self.lower, self.upper)

    def _losses(self, slack: Array) -> Array:
        """ℓ(h) for every variable."""
        if self.is_smooth:
            u = np.clip(slack / self.ridge, self.lower, self.upper)
            return slack * u - 0.5 * self.ridge * u * u
        bound = np.where(slack > 0.0, self.upper, self.lower)
        with np.errstate(invalid="ignore"):
            return np.where(slack == 0.0, 0.0, slack * bound)

    def _jump_bias(self, slack: Array) -> float:
        if self.is_hard:
            least = slack[np.isinf(self.upper)].max(initial=-np.inf)
            most = slack[np.isinf(self.lower)].min(initial=np.inf)
            return float(0.5 * (least + most)) if np.isfinite(least + most) else 0.0
        order = np.argsort(-slack)
        order = order[(self.lower < self.upper)[order]]
        if not order.size:
            return 0.0
        reached = self.lower.sum() + np.cumsum((self.upper - self.lower)[order])
        tie = TIE * float(np.abs(reached).max())
        size = float(np.abs(slack[order]).max() + np.abs(self.linear).max() + abs(self.origin))
        if abs(self.lower.sum() - self.total) <= tie:  # flat above the first jump: rounding
            return float(slack[order[0]] + 16.0 * EPS * size)  # then has no loss either
        if abs(reached[-1] - self.total) <= tie:
            return float(slack[order[-1]] - 16.0 * EPS * size)
        first = min(int(np.searchsorted(reached, self.total - tie)), order.size - 1)
        last = first
        if reached[first] <= self.total + tie:  # flat from here to the next jump
            last = min(first + 1, order.size - 1)
        return float(0.5 * (slack[order[first]] + slack[order[last]]))

    def _ramp_bias(self, slack: Array) -> float:
        def excess(bias: float) -> float:
            u = np.clip((slack - bias) / self.ridge, self.lower, self.upper)
            return float(u.sum() - self.total)

        ends = np.concatenate([slack - self.ridge * self.upper, slack - self.ridge * self.lower])
        ends = np.sort(ends[np.isfinite(ends)])
        if not ends.size:  # no bounds: Σ (slack − b)/ρ = r
            return float(((slack / self.ridges).sum() - self.total) / (1.0 / self.ridges).sum())
        below, above = 0, ends.size  # excess ≥ 0 at every end before ``below``, < 0 from ``above``
        while below < above:
            middle = (below + above) // 2
            if excess(ends[middle]) >= 0.0:
                below = middle + 1
            else:
                above = middle
        left = ends[below - 1] if below > 0 else ends[0] - 1.0
        right = ends[below] if below < ends.size else left + 1.0
        inside = 0.5 * (left + right)
        u = (slack - inside) / self.ridge
        slope = float(((u > self.lower) & (u < self.upper)) @ (1.0 / self.ridges))
        if slope > 0.0:
            return float(inside + excess(inside) / slope)
        return float(inside if below < ends.size else left)


def relative_gap(primal: float, dual: float) -> float:
    """(primal − dual) / max(|primal|, |dual|), and 0 where the two are equal.

    Infinite where a bound is not finite, and so proves nothing. Where rounding has put the dual
    above the primal, the size of the difference counts. Above 1 where 0 lies between the two, even
    if one is lost in rounding.
    """
    if not np.isfinite(primal - dual):
        return float(np.inf)
    distance = abs(primal - dual)
    gap = distance / max(abs(primal), abs(dual)) if distance > 0.0 else 0.0
    return max(gap, 1.0 + EPS) if dual < 0.0 < primal else gap
