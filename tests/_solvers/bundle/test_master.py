"""The master problem: against conic and linear programs, and by its own conditions."""

from __future__ import annotations

import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import solve
from scipy.optimize import linprog

from kernelweave._core.settings import SETTINGS
from kernelweave._solvers.bundle import master, wide_system
from kernelweave._solvers.bundle.master import solve_master


def random_cuts(seed: int, cuts: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts that support one convex function near its minimum, and a sparse centre."""
    rng = np.random.default_rng(seed)
    g = rng.gamma(1.0, size=(cuts, m))
    a = 3.0 + g.mean(axis=1) + 0.3 * rng.standard_normal(cuts)
    center = rng.random(m) * (rng.random(m) < 0.5)
    center[0] += 0.1
    return a, g, center / center.sum()


def objective(
    e: np.ndarray,
    a: np.ndarray,
    g: np.ndarray,
    center: np.ndarray,
    delta: float,
    factor: np.ndarray | None,
) -> float:
    step = e - center
    value = (a - g @ e).max() + 0.5 * delta * (step @ step)
    return float(value if factor is None else value + 0.5 * ((factor @ step) ** 2).sum())


def reference(
    a: np.ndarray, g: np.ndarray, center: np.ndarray, delta: float, factor: np.ndarray | None
) -> float:
    e = cp.Variable(center.size, nonneg=True)
    value = cp.max(a - g @ e) + 0.5 * delta * cp.sum_squares(e - center)
    if factor is not None:
        value = value + 0.5 * cp.sum_squares(factor @ (e - center))
    return solve(cp.Problem(cp.Minimize(value), [cp.sum(e) == 1]))


SIZES = [(1, 1), (1, 8), (4, 1), (3, 5), (12, 7), (5, 60), (30, 45)]


@pytest.mark.parametrize("curved", [False, True], ids=["proximal", "factor"])
@pytest.mark.parametrize("delta", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize(("cuts", "m"), SIZES)
def test_optimum(cuts: int, m: int, delta: float, curved: bool) -> None:
    a, g, center = random_cuts(cuts + m, cuts, m)
    factor = np.random.default_rng(m).standard_normal((3, m)) if curved else None
    e, multipliers = solve_master(a, g, center, delta, factor)
    assert e.min() >= 0.0 and e.sum() == pytest.approx(1.0, abs=1e-12)
    assert multipliers.min() >= 0.0 and multipliers.sum() == pytest.approx(1.0, abs=1e-12)
    found = objective(e, a, g, center, delta, factor)
    best = reference(a, g, center, delta, factor)
    assert found == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("curved", [False, True], ids=["proximal", "factor"])
@pytest.mark.parametrize(("cuts", "m"), SIZES)
def test_multipliers_prove_the_optimum(cuts: int, m: int, curved: bool) -> None:
    """With the multipliers in place of the max, no weight wants to move, on any kernel."""
    delta = 0.5
    a, g, center = random_cuts(100 + cuts + m, cuts, m)
    factor = np.random.default_rng(m).standard_normal((3, m)) if curved else None
    e, multipliers = solve_master(a, g, center, delta, factor)
    slope = delta * (e - center) - multipliers @ g
    if factor is not None:
        slope += factor.T @ (factor @ (e - center))
    unit = np.ptp(g) + 1.0
    assert e @ slope - slope.min() <= 1e-7 * unit
    values = a - g @ e
    assert values.max() - multipliers @ values <= 1e-7 * unit


@pytest.mark.parametrize("seed", range(5))
def test_without_a_proximal_term_it_is_the_linear_program(seed: int) -> None:
    cuts, m = 20, 30
    a, g, center = random_cuts(seed, cuts, m)
    e, multipliers = solve_master(a, g, center, 1e-10 * float(np.ptp(g)))
    lp = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.column_stack([-g, -np.ones(cuts)]),
        b_ub=-a,
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    assert (a - g @ e).max() == pytest.approx(lp.fun, rel=1e-7)
    # the multipliers alone give the same value from below: Σ λ_k a_k − max_m Σ λ_k g_km
    assert multipliers @ a - (multipliers @ g).max() == pytest.approx(lp.fun, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_units_do_not_matter(scale: float) -> None:
    a, g, center = random_cuts(3, 8, 12)
    factor = np.random.default_rng(0).standard_normal((2, 12))
    one, _ = solve_master(a, g, center, 0.1, factor)
    scaled = solve_master(scale * a, scale * g, center, 0.1 * scale, np.sqrt(scale) * factor)[0]
    best = objective(one, a, g, center, 0.1, factor)
    assert objective(scaled, a, g, center, 0.1, factor) == pytest.approx(best, rel=1e-7)


def test_far_apart_kernels() -> None:
    """g over twelve orders of magnitude, as kernels 1e6 apart give."""
    rng = np.random.default_rng(0)
    cuts, m = 6, 5
    g = rng.random((cuts, m)) * np.array([1.0, 1e6, 1e-6, 1e3, 1.0])
    a = 1e5 * rng.random(cuts)
    center = np.full(m, 0.2)
    e, multipliers = solve_master(a, g, center, 1e-3 * float(np.ptp(g)))
    assert np.isfinite(e).all() and np.isfinite(multipliers).all()
    unit = float(np.ptp(g))
    best = reference(a / unit, g / unit, center, 1e-3, None)
    assert objective(e, a, g, center, 1e-3 * unit, None) / unit == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("m", [1, 2, 30])
def test_equal_cuts(m: int) -> None:
    """Duplicate cuts, all-equal gradients: the multipliers are not unique, the value is."""
    center = np.full(m, 1.0 / m)
    g, a = np.full((4, m), 2.0), np.full(4, 5.0)
    e, multipliers = solve_master(a, g, center, 1.0)
    assert multipliers.sum() == pytest.approx(1.0, abs=1e-12)
    assert objective(e, a, g, center, 1.0, None) == pytest.approx(3.0, rel=1e-9)
    zero, _ = solve_master(a, np.zeros((4, m)), center, 1.0)
    assert zero.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_kernel_outside_the_first_working_set_joins() -> None:
    """The best kernel is none of the newest cuts' largest: it is priced in."""
    m, cuts = 200, 5
    rng = np.random.default_rng(1)
    g = rng.random((cuts, m))
    g[:3, 150] = 0.0
    g[0, 7], g[-3:, 7] = 60.0, 0.0
    a = np.array([50.0, 1.0, 1.0, 1.0, 1.0])
    center = np.zeros(m)
    center[0] = 1.0
    e, _ = solve_master(a, g, center, 1e-2)
    assert e[7] > 0.1
    best = reference(a, g, center, 1e-2, None)
    assert objective(e, a, g, center, 1e-2, None) == pytest.approx(best, rel=1e-7)


# --- many kernels --------------------------------------------------------------------------------


def many(seed: int, kind: str, cuts: int, bends: int, m: int = 150) -> tuple[np.ndarray, ...]:
    """Cuts a, g and rows B over many kernels, of a kind that makes systems singular."""
    rng = np.random.default_rng(seed)
    g, B = rng.gamma(1.0, size=(cuts, m)), rng.standard_normal((bends, m))
    few, noise = rng.integers(0, 5, m), {"near kernels": 1e-8, "near cuts": 1e-9}.get(kind, 0.0)
    if kind in ("same kernels", "near kernels"):
        g, B = g[:, few], B[:, few]
    a = 3.0 + g.mean(axis=1) + 0.3 * rng.standard_normal(cuts)
    if kind in ("same cuts", "near cuts"):
        pick = rng.integers(0, 3, cuts) % cuts
        a, g = a[pick], g[pick]
    if kind == "far apart":
        far = 10.0 ** rng.uniform(-4, 2, m)
        g, B = g * far, B * far
    if kind == "flat":
        g = np.full((cuts, m), 2.0)
    a, g, B = (x * (1.0 + noise * rng.standard_normal(x.shape)) for x in (a, g, B))
    return a, g, B


KINDS = ["plain", "same kernels", "near kernels", "same cuts", "near cuts", "far apart", "flat"]


@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1.0, 1e3])
@pytest.mark.parametrize(("cuts", "bends"), [(1, 0), (1, 5), (6, 0), (25, 8)])
@pytest.mark.parametrize("kind", KINDS)
def test_conditions_hold_over_many_kernels(kind: str, cuts: int, bends: int, delta: float) -> None:
    """Stationarity, signs and complementarity by definition; the dense system finds no better e."""
    a, g, B = many(cuts + bends, kind, cuts, bends)
    m = g.shape[1]
    pull = -delta / m - B.mean(axis=1) @ B
    args = a, g, pull, np.full(m, delta), B
    e, multipliers, level = master._interior_point(*args, 1.0)
    slope = delta * e + pull + (B @ e) @ B - multipliers @ g + level
    assert e.min() >= 0.0 and multipliers.min() >= 0.0
    assert slope.min() >= -1e-9 and e @ slope <= 1e-9
    values = a - g @ e
    assert values.max() - multipliers @ values <= 1e-9

    def value(x: np.ndarray) -> float:
        return (a - g @ x).max() + 0.5 * delta * x @ x + 0.5 * ((B @ x) ** 2).sum() + pull @ x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "wide", m)
        dense = master._interior_point(*args, 1.0)[0]
    assert value(e) <= value(dense) + 1e-9 * max(1.0, abs(value(dense)))


def test_many_kernels_and_few_cuts_need_no_dense_system(monkeypatch) -> None:
    monkeypatch.setattr(master, "NarrowSystem", None)  # would be called otherwise
    for kind in ("plain", "same kernels", "near kernels"):
        a, g, B = many(0, kind, 6, 4)
        e, _, _ = master._interior_point(a, g, np.zeros(150), np.full(150, 0.1), B, 1.0)
        assert e.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_exact_beside_cuts_that_do_not_matter(seed: int) -> None:
    """s/λ spans all orders of magnitude near the end of the path."""
    rng = np.random.default_rng(seed)
    g, D = rng.uniform(0.0, 5.0, (6, 120)), 10.0 ** rng.uniform(-1.0, 6.0, 120)
    theta = 10.0 ** np.array([-6.0, -5.0, 0.0, 6.0, 12.0, 13.0])
    slopes, cuts = rng.standard_normal(120), 1e-3 * rng.standard_normal(6)
    none = np.zeros(120)
    program = master.Program(np.zeros(6), g, none, none, np.zeros((0, 120)))
    system = wide_system.WideSystem(program)
    system.factor(np.ones(120), D, theta, np.ones(6))
    work = np.zeros((7, 126))
    work[master.SIDE] = np.append(slopes, cuts)
    dz, dn = system._step(work, 0.0, 0.0)
    de, dl = work[master.DX, :120], work[master.DY, 120:]
    np.testing.assert_allclose(D * de - dl @ g + dn, slopes, rtol=0.0, atol=1e-12)
    terms = np.array([theta * dl, g @ de, np.full(6, dz)])
    assert np.all(np.abs(terms.sum(axis=0) - cuts) <= 1e-10 * np.abs(terms).sum(axis=0))
    assert abs(dl.sum()) <= 1e-15 and abs(de.sum()) <= 1e-12


def test_where_one_system_fails_the_other_is_solved(monkeypatch) -> None:
    def singular(*args: object) -> None:
        raise np.linalg.LinAlgError

    a, g, B = many(1, "plain", 6, 4)
    center = np.full(150, 1 / 150)
    best = objective(solve_master(a, g, center, 10.0, B)[0], a, g, center, 10.0, B)
    monkeypatch.setattr(wide_system.WideSystem, "factor", singular)
    e, _ = solve_master(a, g, center, 10.0, B)
    assert objective(e, a, g, center, 10.0, B) == pytest.approx(best, rel=1e-10)


@pytest.mark.parametrize("bends", [0, 3])
def test_a_dense_step(bends: int, monkeypatch) -> None:
    """Weights that all stay in use: they join in a few rounds, and none is missed."""
    m, sizes = 1500, []
    a, g, B = many(2, "plain", 2, bends, m)
    center, delta = np.full(m, 1.0 / m), 100.0 * m

    def count(*args):
        sizes.append(args[2].size)
        return real(*args)

    real = master._interior_point
    monkeypatch.setattr(master, "_interior_point", count)
    e, multipliers = solve_master(a, g, center, delta, B)
    assert np.count_nonzero(e) == m
    slope = delta * (e - center) - multipliers @ g + (B @ (e - center)) @ B
    assert np.ptp(slope) <= 1e-7
    assert len(sizes) <= 9 and sizes[-1] == m


SCATTERED = """
import random
import numpy as np
from kernelweave._solvers.bundle.master import solve_master

rng, cases = np.random.default_rng(0), []
for cuts, m in ((1, 4), (8, 4), (14, 4), (5, 9), (20, 3)):
    g = rng.gamma(1.0, size=(cuts, m))
    a = 3 + g.mean(axis=1) + 0.3 * rng.standard_normal(cuts)
    cases.append((a, g, rng.dirichlet(np.ones(m))))
results, junk = [set() for _ in cases], []
random.seed(0)
for _ in range(2000):
    for found, case in zip(results, cases):
        junk += [np.empty(random.randint(1, 12)) for _ in range(random.randint(0, 6))]
        while len(junk) > 200:
            junk.pop(random.randrange(len(junk)))
        e, multipliers = solve_master(*(x.copy() for x in case), 0.1)
        found.add(e.tobytes() + multipliers.tobytes())
print(*map(len, results))
"""


def test_same_bits_wherever_the_arrays_lie() -> None:
    """A compiler may add in another order when arrays are neighbors in memory: not here.

    In a fresh process, whose heap is what makes them neighbors.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCATTERED], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"] * 5


@pytest.mark.parametrize("left", [2.0**-53, 1e-16, 1e-10])
def test_cuts_that_are_rounding_alone(left):
    """Where J is 0, its cuts are what rounding left: the answer is a point all the same."""
    g = np.zeros((3, 3))
    g[2, 0] = left
    e, multipliers = solve_master(np.zeros(3), g, np.full(3, 1 / 3), 0.0)
    assert e.min() >= 0.0 and e.sum() == pytest.approx(1.0)
    assert multipliers.sum() == pytest.approx(1.0)
