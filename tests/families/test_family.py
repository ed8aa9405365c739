"""Learning over a hull: bounds that hold for every member, whatever the loss."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import kernelweave as kw
from kernelweave.families.widths import WidthRange
from kernelweave.stacks.dense import KernelStack


def moons(n=120):
    X, y = make_moons(n, noise=0.3, random_state=0)
    return X, np.where(y > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("loss", "C"),
    [("hinge", 1.0), ("hinge", 100.0), ("squared_hinge", 1.0), ("squared", 10.0),
     ("epsilon_insensitive", 1.0), ("one_class", 0.05)],
)  # fmt: skip
def test_optimum_over_the_continuum(loss, C):
    X, y = moons()
    family = WidthRange(X, 0.05, 5.0)
    solution = kw.learn(family, None if loss == "one_class" else y, C=C, loss=loss)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-3
    assert solution.weights.size == len(solution.extras["kernels"])
    # The optimum of a grid is not below the bound over the hull, and not far above it.
    grid = family.stack(np.geomspace(0.05, 5.0, 200))[0]
    there = kw.learn(grid, None if loss == "one_class" else y, C=C, loss=loss, tol=1e-5)
    size = abs(there.primal)
    assert solution.dual <= there.primal + 1e-9 * size
    assert solution.primal <= there.primal + 1.5e-3 * size
    # What the bound is computed from holds for widths that are not on any grid.
    V = solution.problem.to_all_rows(np.atleast_2d(solution.dual_alpha))
    assert V.shape == (1, len(X))


def test_machines_share_the_weights():
    X, y = moons()
    Y = np.column_stack([y, np.where(X[:, 0] > 0.5, 1.0, -1.0)])
    solution = kw.learn(WidthRange(X, 0.05, 5.0), Y)
    assert solution.gap <= 1e-3
    assert solution.coef.shape == (2, len(X))


def test_tighter_from_a_solution():
    X, y = moons()
    family = WidthRange(X, 0.05, 5.0)
    first = kw.learn(family, y)
    second = kw.learn(family, y, start=first, tol=1e-5)
    assert second.gap <= 1e-5
    assert first.dual <= second.primal and second.dual <= first.primal


class Degrees:
    """Polynomials of two degrees: a family whose best kernel is found by looking at both."""

    def __init__(self, X):
        self.X, self.n = X, len(X)

    def matrix(self, degree):
        K = (self.X @ self.X.T + 1.0) ** degree
        return K / K.trace() * self.n

    def begin(self):
        return [1]

    def stack(self, kernels):
        return KernelStack([self.matrix(degree) for degree in kernels]), kernels

    def largest(self, V):
        from kernelweave.families.family import Largest

        values = {k: sum(v @ self.matrix(k) @ v for v in V) for k in (1, 2, 3)}
        best = max(values, key=values.get)
        return Largest([best], values[best] * (1.0 + 1e-12))


def test_a_family_of_ones_own():
    X, y = moons()
    solution = kw.learn(Degrees(X), y)
    K = [Degrees(X).matrix(degree) for degree in (1, 2, 3)]
    whole = kw.learn(K, y, tol=1e-6)
    assert solution.gap <= 1e-3
    assert solution.dual <= whole.primal and whole.dual <= solution.primal
    assert set(solution.extras["kernels"]) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_norm": 2}, "weight_norm must be 1 for a family of kernels, found 2"),
        ({"trace": 1.0}, "trace, recenter and C='learn' do not go with a family"),
        ({"learner": "alignment"}, "does not minimize J"),
        ({"start": np.ones(5)}, "start must be a solution over the same family"),
    ],
)
def test_what_has_no_meaning_over_a_hull_is_refused(options, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        kw.learn(WidthRange(X, 0.1, 1.0), y, **options)
