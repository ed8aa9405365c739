"""Random problems made to break promises, for ``fuzz.py``; and how a problem is kept as a file.

``make`` draws a fit, ``varied`` changes some: kernels that are not quite symmetric, one class in
any units, stacks with rough sums.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.exact_gap import Exact, of_solution
from benchmarks.harness.fuzz_storages import STORAGES
from benchmarks.harness.internals import read_problem, write_problem
from kernelweave.learners import NAMES, make_learner

SECONDS = 5.0  # max_time of a fit, unless told
JUDGED = {"loss", "weight_norm", "trace", "ridge", "sample_weight", "epsilon", "quantile"}
USUAL = {"trace": None, "recenter": False, "ridge": 0.0, "sample_weight": None, "solver": "auto"}
USUAL["weight_norm"] = 1
TOLD = {"seed": 0, "number": 0, "words": "", "storage": "array", "relation": ""}
TOLD["seconds"] = SECONDS
OF_THE_HINGE = tuple(name for name in NAMES if make_learner(name).losses is None)
KNOWS_TIME = "max_time" in inspect.signature(kw.learn).parameters

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One fit: ``learn(K, y, C, learner, tol=tol, **problem)``.

    ``K`` are the numbers of the kernels, ``storage`` is how ``learn`` gets them. ``relation`` has
    to hold between this fit and another, which ``seed`` and ``number`` draw.
    """

    seed: int
    number: int
    K: Any = field(repr=False)
    y: Any = field(repr=False)
    C: Any
    learner: Any
    tol: float
    problem: dict[str, Any]
    words: str
    storage: str = "array"
    relation: str = ""
    seconds: float = SECONDS

    def __str__(self) -> str:
        C = f"{self.C:.3g}" if isinstance(self.C, float) else self.C
        C = C if isinstance(C, str) else f"{C.min():.3g}…{C.max():.3g} per row"
        short = {name: shown(value) for name, value in self.problem.items()}
        told = ", ".join(f"{name}={value}" for name, value in short.items())
        told = f", {told}" if told else ""
        told += f", y {np.shape(self.y)}" if np.ndim(self.y) > 1 else ""
        told += f", {self.storage}" if self.storage != "array" else ""
        told += f", {self.relation}" if self.relation else ""
        return f"{self.learner}, C={C}, tol={self.tol:g}{told}; {self.words}"

    @property
    def made(self) -> Any:
        """The learner as an object."""
        return make_learner(self.learner)

    def fit(self) -> Any:
        options: dict[str, Any] = {"max_time": self.seconds} if KNOWS_TIME else {}
        options |= self.problem
        K = STORAGES[self.storage].hand(self.K)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kw.learn(K, self.y, self.C, self.learner, tol=self.tol, **options)

    @property
    def is_judged(self) -> bool:
        """Whether ``exact_gap.py`` knows the problem: no signed weights, groups, missing labels."""
        unlabeled = self.y is not None and not self.loss_of_numbers and not np.all(self.y)
        known = self.problem.keys() <= JUDGED and not isinstance(self.norm, kw.GroupNorm)
        return known and not self.made.signed and (np.ndim(self.y) == 2 or not unlabeled)

    @property
    def loss_of_numbers(self) -> bool:
        return self.problem.get("loss", "hinge") not in ("hinge", "squared_hinge")

    @property
    def counted(self) -> Any:
        """The rows with a weight."""
        return np.flatnonzero(self.problem.get("sample_weight", np.ones(self.K.shape[1])))

    @property
    def norm(self) -> Any:
        return self.problem.get("weight_norm", 1)

    def exact(self, solution: Any, same_f: bool = False) -> Exact:
        """The gap of these numbers for the kernels as blocks give them: those are certified."""
        K = STORAGES[self.storage].certified(self.K)
        return of_solution(K, self.y, solution, self.C, **self.problem, same_f=same_f)

    def write(self, path: Path, **found: Any) -> None:
        """Keep it as a file."""
        own = {name: getattr(self, name) for name in ("K", "y", "C", "learner", "tol")}
        told = {name: getattr(self, name) for name in TOLD}
        write_problem(path, {**own, **self.problem}, {**told, **found})


def read(path: Path) -> tuple[Case, dict[str, Any]]:
    """A case of the fuzzer, or what ``Solution.dump`` wrote; and what the file says was found."""
    problem, found = read_problem(path)
    own = {name: problem.pop(name) for name in ("K", "y", "C")}
    own |= {"learner": problem.pop("learner", "auto"), "tol": problem.pop("tol", 1e-3)}
    problem = {k: v for k, v in problem.items() if not (np.ndim(v) == 0 and USUAL.get(k, "") == v)}
    if isinstance(own["C"], np.ndarray) and not own["C"].ndim:
        own["C"] = float(own["C"])
    told = {name: found.get(name, usual) for name, usual in (TOLD | {"words": str(path)}).items()}
    return Case(**own, problem=problem, **told), found


def make(seed: int, number: int, names: tuple[str, ...] = OF_THE_HINGE) -> Case:
    """The fit of that number; ``names`` are the learners to draw from."""
    rng = np.random.default_rng([seed, number])
    n, m = 2 + int(59 * rng.random() ** 1.5), int(rng.integers(1, 9))
    y = np.where(rng.random(n) < rng.uniform(0.2, 0.8), 1.0, -1.0)
    y[rng.choice(n, 2, replace=False)] = 1.0, -1.0
    single = rng.random() < 0.15
    separable = rng.random() < 0.4
    learner = str(rng.choice(names))
    # radius_bound refuses kernels under which all points coincide: mostly it gets none
    blind = learner != "radius_bound" or rng.random() < 0.05
    kinds = [kind for kind in MAKERS if blind or kind not in ("zero", "constant")]
    K, words = [], []
    for _ in range(m):
        kind = str(rng.choice(kinds))
        matrix = MAKERS[kind](rng, points(rng, y, separable), K, single)
        K.append((matrix + matrix.T) / 2)
        words.append(kind)
    scale = 1.0
    if chance := rng.random() < 0.4:
        scale = 10.0 ** (rng.uniform(-15, 15) if single else rng.uniform(-30, 30))
    scales = np.full(m, scale)
    if not chance and rng.random() < 0.3:
        scales = scales * 10.0 ** rng.uniform(-6, 6, m)
    stack = np.array(K) * scales[:, None, None]
    stack = stack.astype(np.float32) if single else stack
    size = f"{m} × {n}{' float32' if single else ''}, scales {scales.min():.2g}…{scales.max():.2g}"
    C, problem = options(rng, learner, stack, scale)
    y, C, problem = task(rng, learner, y, C, problem)
    tol = float(10.0 ** -rng.integers(2, 11))
    words.append("separable" if separable else "not separable")
    return Case(seed, number, stack, y, C, learner, tol, problem, f"{size}: {', '.join(words)}")


IN_UNITS = ("ridge", "trace")  # of the kernels


def options(rng: Random, learner: str, K: Any, scale: float) -> tuple[Any, dict[str, Any]]:
    """C and the rest of the problem, of what the learner can do."""
    made = make_learner(learner)
    norms = made.weight_norms or (1, 1, 1, 4 / 3, 2, np.inf)
    problem: dict[str, Any] = {}
    if (p := norms[rng.integers(len(norms))]) != 1:
        problem["weight_norm"] = float(p)
    traces = np.trace(K.astype(float), axis1=1, axis2=2)
    usable = "weight_norm" not in problem and traces.min() > 0.0
    if rng.random() < 0.3:
        problem["loss"] = "squared_hinge"
    if usable and rng.random() < 0.15:
        problem["trace"] = float(10.0 ** rng.uniform(-3, 3) * traces.mean())
    if usable and made.objective == "margin" and rng.random() < 0.08:
        return "learn", {**problem, "loss": "squared_hinge"}
    if rng.random() < 0.1:
        problem["ridge"] = float(scale * 10.0 ** rng.uniform(-8, 1))
    kind = rng.random()
    if kind < 0.12:
        return np.inf, problem
    C = 10.0 ** rng.uniform(-3, 14) if kind < 0.6 else 10.0 ** rng.uniform(-3, 4) / scale
    if "loss" not in problem and rng.random() < 0.15:
        return C * 10.0 ** rng.uniform(-2, 2, K.shape[1]), problem
    return float(C), problem


def task(rng: Random, learner: str, y: Any, C: Any, problem: dict[str, Any]) -> tuple[Any, ...]:
    """What y holds, and for how many machines, with the C and the problem that go with it."""
    made, n, kind = make_learner(learner), y.size, rng.random()
    soft = not isinstance(C, str) and bool(np.isfinite(C).all())
    if soft and kind < 0.35 and "values" in made.targets:
        loss = str(rng.choice(["epsilon_insensitive", "squared", "huber", "quantile"]))
        size = 10.0 ** rng.uniform(-6, 6)
        y = size * (rng.standard_normal(n) + rng.choice([0.0, 0.0, 100.0]))
        problem = {**problem, "loss": loss, "epsilon": float(size * 10.0 ** rng.uniform(-3, 0))}
        problem["quantile"] = float(rng.uniform(0.05, 0.95))
    elif soft and kind < 0.45 and "nothing" in made.targets:
        return None, float(1.0 / (rng.uniform(0.1, 1.0) * n)), {**problem, "loss": "one_class"}
    if made.sums and rng.random() < 0.4:
        y = several(rng, y, values="epsilon" in problem)
    if made.weighted and soft and rng.random() < 0.3:
        weights = 10.0 ** rng.uniform(-3, 3, n) if rng.random() < 0.5 else rng.integers(1, 4, n)
        absent = rng.random(n) < 0.2
        left = y[~absent]
        if len(left) > 1 and ("epsilon" in problem or (np.ptp(left, axis=0) == 2.0).all()):
            weights = np.where(absent, 0.0, weights)
        problem = {**problem, "sample_weight": weights.astype(float)}
    return y, C, problem


def several(rng: Random, y: Any, values: bool) -> Any:
    """Columns: targets, or each of up to four classes against the rest or against another."""
    if values:
        return y[:, None] * rng.uniform(0.1, 3.0, int(rng.integers(1, 4)))
    kinds = rng.integers(0, min(4, y.size), y.size)
    kinds[rng.choice(y.size, 2, replace=False)] = 0, 1
    found = np.unique(kinds)
    if rng.random() < 0.5 and found.size > 2:
        pairs = [(a, b) for a in found for b in found if a < b]
        return np.stack([1.0 * (kinds == a) - (kinds == b) for a, b in pairs], axis=1)
    return np.where(kinds[:, None] == found, 1.0, -1.0)


def shown(value: Any) -> Any:
    """A value in a line of text."""
    return f"{value.min():.3g}…{value.max():.3g}" if isinstance(value, np.ndarray) else value


def points(rng: Random, y: Any, separable: bool) -> Any:
    X = rng.standard_normal((y.size, int(rng.integers(1, 8))))
    X[:, 0] = y * (0.5 + rng.random(y.size)) if separable else X[:, 0] + 0.7 * y
    return X


def gaussian(rng: Random, X: Any, width: float | None = None) -> Any:
    width = 10.0 ** rng.uniform(-0.5, 1.5) if width is None else width
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2.0 * width**2))


def near_duplicate(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    base = earlier[int(rng.integers(len(earlier)))] if earlier else gaussian(rng, X, 1.0)
    return base + 10.0 ** rng.uniform(-15, -4) * np.trace(base) / len(base) * (X @ X.T)


def indefinite(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    A = gaussian(rng, X) if rng.random() < 0.5 else X @ X.T
    u = rng.standard_normal(len(A))
    return A - 1e-9 * np.linalg.norm(A, 2) * np.outer(u, u) / (u @ u)


def plus_constant(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    return gaussian(rng, X, 1.0) + 10.0 ** rng.uniform(0, 1 if single else 8)


MAKERS: dict[str, Any] = {
    "linear": lambda rng, X, earlier, single: X @ X.T,
    "Gaussian": lambda rng, X, earlier, single: gaussian(rng, X),
    "polynomial": lambda rng, X, earlier, single: (1.0 + X @ X.T) ** 2,
    "rank one": lambda rng, X, earlier, single: np.outer(X[:, -1], X[:, -1]),
    "coarse": lambda rng, X, earlier, single: np.sign(X) @ np.sign(X).T,
    "identity": lambda rng, X, earlier, single: np.eye(len(X)),
    "zero": lambda rng, X, earlier, single: np.zeros((len(X), len(X))),
    "constant": lambda rng, X, earlier, single: np.ones((len(X), len(X))),
    "plus constant": plus_constant,
    "near duplicate": near_duplicate,
    "indefinite": indefinite,
}


# --- what came later ----------------------------------------------------------------------------


def varied(case: Case) -> Case:
    """The case, or one made of it: in a stream of its own, so that ``make`` draws what it drew."""
    rng = np.random.default_rng([case.seed, case.number, 1])
    changes = (0.2, lopsided), (0.5, in_any_unit), (0.2, roughly_summed), (0.7, censored)
    for share, change in changes:
        if rng.random() < share:
            case = change(rng, case)
    return case


def lopsided(rng: Random, case: Case) -> Case:
    """Kernels off from symmetry by 1e-13 to 1e-9 of their diagonal, in some entries or all."""
    if case.K.dtype != np.float64:
        return case
    sizes = np.sqrt(np.abs(np.einsum("kii->ki", case.K)))
    noise = rng.standard_normal(case.K.shape) * (rng.random(case.K.shape) < rng.choice([0.1, 1.0]))
    off = 10.0 ** rng.uniform(-13, -9)
    K = case.K + off * noise * sizes[:, :, None] * sizes[:, None, :]
    return replace(case, K=K, words=f"{case.words}, lopsided by {off:.1g}")


def censored(rng: Random, case: Case) -> Case:
    """Targets known but for an interval, which may be open on one side or on both."""
    plain = case.problem.get("loss") == "epsilon_insensitive" and np.ndim(case.y) == 1
    if not plain or type(case.made).__name__ == "Alignment":
        return case
    unknown, size = rng.random((2, case.y.size)), np.ptp(case.y) * 10.0 ** rng.uniform(-3, 1)
    open_ends = unknown > rng.uniform(0.1, 1.1, (2, 1))  # of one side perhaps all, or none
    wide = np.where(rng.random(case.y.size) < 0.5, size * unknown[0], 0.0)
    low = np.where(open_ends[0], -np.inf, case.y - wide)
    high = np.where(open_ends[1], np.inf, case.y + wide)
    if not (np.isfinite(low) | np.isfinite(high))[case.counted].any():
        return case
    problem = {**case.problem, "loss": "interval"}
    return replace(case, y=np.stack([low, high], axis=1), problem=problem)


def in_any_unit(rng: Random, case: Case) -> Case:
    """One class: its objective has the unit of the kernels, which may be very large or small."""
    if case.problem.get("loss") != "one_class" or case.K.dtype != np.float64:
        return case
    size = np.abs(case.K).max() or 1.0
    unit = 10.0 ** rng.uniform(-150, 150)
    scaled = {key: value * unit / size for key, value in case.problem.items() if key in IN_UNITS}
    words = f"{case.words}, in units of {unit:.1g}"
    return replace(case, K=case.K / size * unit, problem={**case.problem, **scaled}, words=words)


def roughly_summed(rng: Random, case: Case) -> Case:
    """A stack of one's own that sums in float32, or multiplies as tensor cores do."""
    size = np.abs(case.K).max()
    if case.made.needs_dense or not 1e-15 < size < 1e15 or case.K.dtype != np.float64:
        return case
    return replace(case, storage=str(rng.choice(["float32 sums", "tf32 sums"])))
