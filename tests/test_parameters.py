"""Kernels with parameters: derivatives by finite differences, descent, relevance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from kernelweave import (
    GaussianWidths,
    KernelBank,
    Linear,
    MKLClassifier,
    Polynomial,
    PolynomialWidths,
    learn_parameters,
)
from kernelweave.banks.normalize import RULES
from kernelweave.kernels.differentiable import bends
from kernelweave.parameters import make_task
from kernelweave.parameters.normalized import LearnableKernel

KERNELS = {
    "one width": GaussianWidths(2.0),
    "ARD": GaussianWidths(2.0, per_feature=True),
    "given": GaussianWidths([1.0, 2.0, 3.0, 4.0]),
    "polynomial": PolynomialWidths(3, 2.0),
    "polynomial ARD": PolynomialWidths(2, 2.0, per_feature=True),
}


@pytest.fixture(scope="module")
def data():
    X, target = load_breast_cancer(return_X_y=True)
    X, y = X[::6, :4], 2.0 * target[::6] - 1.0
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def differences(f, t, step):
    moves = step * np.eye(t.size)
    return np.array([(f(t + h) - f(t - h)) / (2 * step) for h in moves])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_derivatives_of_the_kernel(data, kernel):
    X = data[0][:12]
    t = kernel.parameters(X)
    at = kernel.derivatives(X)
    np.testing.assert_allclose(at.matrix, kernel.cross(X, X), atol=1e-12)
    first = differences(lambda s: kernel.with_parameters(s).derivatives(X).matrix, t, 1e-5)
    for i in range(t.size):
        np.testing.assert_allclose(at.first(i), first[i], atol=1e-8)
        second = differences(
            lambda s, i=i: kernel.with_parameters(s).derivatives(X).first(i), t, 1e-5
        )
        for j in range(t.size):
            np.testing.assert_allclose(at.second(i, j), second[j], atol=1e-8)


@pytest.mark.parametrize("weights", [None, "some"])
@pytest.mark.parametrize("rule", RULES)
def test_derivatives_of_a_normalized_kernel(data, rule, weights):
    X = data[0][:12]
    counts = None if weights is None else np.arange(1.0, 13.0)
    kernel = GaussianWidths(2.0, per_feature=True)
    part = LearnableKernel("k", Tilted(kernel), X, RULES[rule], counts)
    t = kernel.parameters(X)
    at = part.expansion(t)
    bank = KernelBank([kernel], normalize=rule, scale=None).fit(X, sample_weight=counts)
    plain = LearnableKernel("k", kernel, X, RULES[rule], counts).expansion(t).matrix
    np.testing.assert_allclose(plain, bank.stack.block(0, slice(None), slice(None)), atol=1e-12)
    first = differences(lambda s: part.expansion(s).matrix, t, 1e-5)
    for i in range(t.size):
        np.testing.assert_allclose(at.first(i), first[i], atol=1e-8)
        second = differences(lambda s, i=i: part.expansion(s).first(i), t, 1e-5)
        for j in range(t.size):
            np.testing.assert_allclose(at.second(i, j), second[j], atol=1e-8)


class Tilted:
    """e^Σt times a Gaussian: its diagonal, unlike that of a Gaussian, has derivatives."""

    def __init__(self, inner):
        self.inner = inner

    def with_parameters(self, t):
        return Tilted(self.inner.with_parameters(t))

    def derivatives(self, X):
        inner = self.inner.derivatives(X)
        size = np.exp(self.inner.parameters(X).sum())

        class Expansion:
            matrix = size * inner.matrix

            def first(self, i):
                return size * (inner.matrix + inner.first(i))

            def second(self, i, j):
                return size * (inner.matrix + inner.first(i) + inner.first(j) + inner.second(i, j))

        return Expansion()


def test_distances_far_from_zero_lose_no_digits(data):
    X = data[0][:12]
    near, far = (GaussianWidths(2.0).derivatives(rows).matrix for rows in (X, X + 1e6))
    np.testing.assert_allclose(near, far, atol=1e-9)
    np.testing.assert_allclose(GaussianWidths(2.0).cross(X + 1e6, X + 1e6), near, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("criterion", ["margin", "radius", "trace"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_gradient_and_hessian_of_the_criterion(data, kernel, criterion, loss):
    """One kernel, so that no weight moves: both are those of F itself."""
    C = 3.0 if criterion != "trace" else 300.0
    task = make_task(*data, [KERNELS[kernel]], C, criterion, loss, 1, 1e-9)
    t = KERNELS[kernel].parameters(data[0])
    state = task.evaluate(t, None)
    by_hand = differences(lambda s: task.evaluate(s, None).value, t, 1e-4)
    np.testing.assert_allclose(state.gradient, by_hand, atol=1e-5 * np.abs(by_hand).max())
    bends = differences(lambda s: task.evaluate(s, None).gradient, t, 2e-4)
    np.testing.assert_allclose(state.hessian(), bends, atol=1e-2 * np.abs(bends).max())


@pytest.mark.parametrize(("criterion", "norm"), [("margin", 1), ("margin", 2), ("radius", 1)])
def test_gradient_with_several_kernels(data, criterion, norm):
    """The weights follow, but to first order they do not matter."""
    kernels = [GaussianWidths(1.0), GaussianWidths(4.0, per_feature=True)]
    task = make_task(*data, kernels, 3.0, criterion, "hinge", norm, 1e-8)
    t = np.concatenate([kernel.parameters(data[0]) for kernel in kernels])
    state = task.evaluate(t, None)
    by_hand = differences(lambda s: task.evaluate(s, None).value, t, 1e-4)
    np.testing.assert_allclose(state.gradient, by_hand, atol=1e-4 * np.abs(by_hand).max())


@pytest.mark.parametrize("method", ["newton", "gradient"])
@pytest.mark.parametrize("criterion", ["margin", "radius"])
@pytest.mark.parametrize("per_feature", [False, True])
def test_descent(data, per_feature, criterion, method):
    X, y = data
    kernels = [GaussianWidths(0.5, per_feature), GaussianWidths(5.0, per_feature)]
    options = {"C": 10.0, "criterion": criterion, "method": method}
    found = learn_parameters(X, y, kernels, n_starts=2, random_state=0, **options)
    assert np.all(np.diff(found.history) <= 0.0)
    assert found.objective == found.history[-1] == min(found.runs)
    assert found.history[-1] < found.history[0]
    assert found.solution.gap <= 1e-5
    values = found.decision_function(X)
    f = sum(
        d * kernel.cross(X, X) @ found.solution.coef
        for d, kernel in zip(found.solution.weights, found.kernels, strict=True)
    )
    np.testing.assert_allclose(values, f + found.solution.bias)
    assert np.mean(np.sign(values) == y) > 0.85


@pytest.mark.parametrize("criterion", ["margin", "radius"])
def test_newton_and_gradient_agree_on_one_width(data, criterion):
    """No width nearby is better."""
    X, y = data
    options = {"C": 1.0, "criterion": criterion, "tol": 1e-6, "max_iter": 100}
    newton, gradient = (
        learn_parameters(X, y, GaussianWidths(3.0), method=m, **options)
        for m in ("newton", "gradient")
    )
    assert newton.status == gradient.status == "optimal"
    assert newton.objective == pytest.approx(gradient.objective, rel=1e-4)
    assert newton.history.size <= 10
    near = newton.kernels[0].width * np.linspace(0.8, 1.25, 10)
    task = make_task(X, y, [GaussianWidths()], 1.0, criterion, "hinge", 1, 1e-6)
    values = [task.evaluate(np.log([width]), None).value for width in near]
    assert min(values) >= newton.objective * (1 - 1e-4)


@pytest.mark.parametrize("criterion", ["margin", "radius"])
def test_features_that_do_not_matter_get_wide(criterion):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 4))
    y = np.where(X[:, 0] ** 2 > 0.5, 1.0, -1.0)
    kernel = GaussianWidths(1.5, per_feature=True)
    found = learn_parameters(X, y, kernel, C=10.0, criterion=criterion)
    widths = found.kernels[0].width
    assert widths[0] < 0.3 * widths[1:].min()


def test_the_ridge_is_learned_with_the_width(data):
    """[chapelle2008, §5]: no C and no width nearby is better; the gradient is that of F."""
    task = make_task(*data, GaussianWidths(3.0), "learn", "margin", "squared_hinge", 1, 1e-9)
    t = np.log([3.0])
    by_hand = differences(lambda s: task.evaluate(s, None).value, t, 1e-4)
    np.testing.assert_allclose(task.evaluate(t, None).gradient, by_hand, rtol=1e-4)
    options = {"C": "learn", "loss": "squared_hinge", "criterion": "margin"}
    found = learn_parameters(*data, GaussianWidths(3.0), **options)
    assert 0.0 < found.solution.C < np.inf and found.history[-1] < found.history[0]


def test_predictions_of_centered_kernels(data):
    """The machine predicts with the kernels that it was trained on."""
    X, y = data
    found = learn_parameters(X, y, GaussianWidths(2.0), C=300.0, criterion="trace")
    part = LearnableKernel("k", found.kernels[0], X, RULES["center+unit_trace"])
    K = part.expansion(found.kernels[0].parameters(X)).matrix
    f = K @ found.solution.coef + found.solution.bias
    np.testing.assert_allclose(found.decision_function(X), f, atol=1e-9)
    assert np.trace(K) == pytest.approx(1.0)


def test_a_kernel_of_ones_own(data):
    """x·z scaled by exp(t): under the radius criterion its parameter cannot matter."""

    class Scaled:
        def __init__(self, t=0.0):
            self.t = t

        def parameters(self, X):
            return np.array([self.t])

        def with_parameters(self, t):
            return Scaled(float(t[0]))

        def cross(self, Z, X):
            return np.exp(self.t) * (Z @ X.T)

        def derivatives(self, X):
            K = self.cross(X, X)
            K = (K + K.T) / 2

            class Expansion:
                matrix = K

                def first(self, i):
                    return K

                def second(self, i, j):
                    return K

            return Expansion()

    found = learn_parameters(*data, Scaled(1.0), criterion="radius")
    assert found.status == "optimal" and found.history.size == 1
    wider = learn_parameters(*data, Scaled(-3.0), criterion="margin", max_iter=3)
    assert wider.kernels[0].t > -3.0  # the scaling problem: larger is always better


def test_a_step_too_far_is_shortened(data):
    """1 + e^(−40t) times a Gaussian: after a step of 1 no digit of the Gaussian is left."""

    class Fading:
        def __init__(self, t):
            self.t = t

        def parameters(self, X):
            return np.array([self.t])

        def with_parameters(self, t):
            return Fading(float(t[0]))

        def cross(self, Z, X):
            return 1.0 + np.exp(-40.0 * self.t) * GaussianWidths(np.exp(self.t)).cross(Z, X)

        def derivatives(self, X):
            inner, size = GaussianWidths(np.exp(self.t)).derivatives(X), np.exp(-40.0 * self.t)

            class Expansion:
                matrix = 1.0 + size * inner.matrix

                def first(self, i):
                    return size * (inner.first(0) - 40.0 * inner.matrix)

                def second(self, i, j):
                    return size * (
                        inner.second(0, 0) - 80.0 * inner.first(0) + 1600.0 * inner.matrix
                    )

            return Expansion()

    found = learn_parameters(*data, Fading(-2.0), C=1.0)
    assert found.history.size > 1 and np.all(np.diff(found.history) <= 0.0)


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"criterion": "beauty"}, ValueError, "criterion must be"),
        ({"criterion": ["radius"]}, ValueError, "criterion must be"),
        ({"method": "magic"}, ValueError, "method must be"),
        ({"n_starts": 0}, ValueError, "n_starts must be positive"),
        ({"n_starts": 1.5}, TypeError, "n_starts must be a positive int"),
        ({"max_iter": 0}, ValueError, "max_iter must be positive"),
        ({"tol": 0}, ValueError, "tol must be positive"),
        ({"tol": np.nan}, ValueError, "tol must be positive"),
        ({"tol": "tight"}, TypeError, "tol must be a positive float"),
        ({"C": "learn"}, ValueError, "goes with the margin criterion"),
        ({"C": np.nan}, ValueError, "C must be positive"),
        ({"weight_norm": None, "criterion": "margin"}, ValueError, "needs criterion='radius'"),
        ({"random_state": "seed", "n_starts": 2}, TypeError, "random_state must be"),
        ({"random_state": -1}, ValueError, "random_state must be"),
        ({"kernels": []}, ValueError, "kernels must hold at least one"),
        ({"kernels": None}, TypeError, "kernels must be a kernel that knows its derivatives"),
        ({"kernels": GaussianWidths}, TypeError, "kernels must be a kernel"),
        ({"kernels": [GaussianWidths(), "rbf"]}, TypeError, r"kernels\[1\] must be a kernel"),
        ({"kernels": GaussianWidths(-1.0)}, ValueError, "width must be positive"),
        ({"kernels": GaussianWidths("wide")}, TypeError, "width must hold real numbers"),
        ({"kernels": GaussianWidths([1.0, 2.0])}, ValueError, "2 widths"),
        ({"kernels": GaussianWidths(1e12)}, ValueError, r"coincide under K\[0\]"),
        ({"X": np.zeros((0, 4))}, ValueError, r"X must be a table .* \(0, 4\)"),
        ({"X": np.zeros(95)}, ValueError, r"X must be a table .* \(95,\)"),
        ({"X": [["a"]] * 95}, TypeError, "X must hold real numbers"),
        ({"X": np.full((95, 4), 1j)}, TypeError, "X must hold real numbers"),
    ],
)
def test_refusals(data, options, error, word):
    given = {"X": data[0], "y": data[1], "kernels": GaussianWidths(), **options}
    with pytest.raises(error, match=word):
        learn_parameters(**given)


def test_a_kernel_that_is_none(data):
    class Wrong(GaussianWidths):
        def with_parameters(self, t):
            return Wrong(np.exp(t))

        def derivatives(self, X):
            inner = super().derivatives(X)
            inner.matrix = inner.matrix - 2.0 * np.eye(len(X))
            return inner

    with pytest.raises(ValueError, match="not positive semidefinite"):
        learn_parameters(*data, Wrong(2.0))


class Odd(GaussianWidths):
    """A Gaussian of one width, parts of which are replaced."""

    def __init__(self, told=None, **parts):
        super().__init__(1.0)
        self.told, self.parts = np.zeros(1) if told is None else told, parts

    def parameters(self, X):
        return self.told

    def with_parameters(self, t):
        return Odd(t, **self.parts)

    def derivatives(self, X):
        inner = GaussianWidths(float(np.exp(np.sum(self.told)))).derivatives(X)
        vars(inner).update({name: part(inner, len(X)) for name, part in self.parts.items()})
        return inner


@pytest.mark.parametrize("method", ["newton", "gradient"])
@pytest.mark.parametrize(
    ("kernel", "error", "word"),
    [
        (Odd(0.3), ValueError, r"kernels\[0\].parameters must be a vector"),
        (Odd(np.zeros((1, 1))), ValueError, r"kernels\[0\].parameters must be a vector"),
        (Odd([np.nan]), ValueError, "finite"),
        (Odd("wide"), TypeError, r"kernels\[0\].parameters must hold real numbers"),
        (Odd(matrix=lambda inner, n: inner.matrix[1:, 1:]), ValueError, "94 rows"),
        (Odd(matrix=lambda inner, n: np.nan * inner.matrix), ValueError, "NaN"),
        (Odd(first=lambda inner, n: lambda i: np.eye(3)), ValueError, r"must be \(95, 95\)"),
        (Odd(first=lambda inner, n: lambda i: np.full((n, n), np.nan)), ValueError, "finite"),
    ],
)
def test_kernels_that_break_their_promise(data, kernel, error, word, method):
    with pytest.raises(error, match=word):
        learn_parameters(*data, kernel, method=method)


@pytest.mark.parametrize("method", ["newton", "gradient"])
def test_kernels_without_parameters(data, method):
    """Alone nothing is left to learn but weights; beside others they take part in these."""
    fixed = Odd(np.zeros(0))
    alone = learn_parameters(*data, [fixed, Odd([0.0])], method=method, max_iter=1)
    none = learn_parameters(*data, fixed, method=method)
    assert none.status == "optimal" and none.history.size == 1
    both = learn_parameters(*data, [fixed, GaussianWidths(3.0)], method=method)
    assert both.objective <= none.objective and alone.objective <= none.objective * (1 + 1e-6)


def test_a_step_out_of_a_kernels_domain_is_shortened(data):
    """Matrices of NaN away from where it began are no place to go."""
    found = learn_parameters(*data, Odd(matrix=nan_beyond), C=1.0)
    free = learn_parameters(*data, GaussianWidths(1.0), C=1.0)
    assert np.isfinite(found.history).all() and np.all(np.diff(found.history) <= 0.0)
    assert free.objective <= found.objective < found.history[0]


def nan_beyond(inner, n):
    return inner.matrix if inner.matrix.mean() < 0.27 else np.nan * inner.matrix


def test_predictions_look_at_their_rows(data):
    found = learn_parameters(*data, GaussianWidths(2.0), max_iter=1)
    for X, word in ((np.zeros((2, 3)), "3 features"), (np.full((2, 4), np.nan), "finite")):
        with pytest.raises(ValueError, match=f"X .*{word}"):
            found.decision_function(X)


def test_a_plateau_is_not_called_optimal():
    """Rows so far apart that the kernel is the identity, whatever the widths nearby."""
    X, target = load_breast_cancer(return_X_y=True)
    X, y = X[::6], 2.0 * target[::6] - 1.0
    kernel = GaussianWidths(1.0, per_feature=True)
    with pytest.warns(ConvergenceWarning, match=r"is flat.*Standardize the columns of X"):
        found = learn_parameters(X, y, kernel, criterion="margin", tol=1e-2)
    assert found.status == "flat" and len(found.history) == 1
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    better = learn_parameters(Z, y, kernel, criterion="margin", tol=1e-2)  # and no warning
    assert better.status in ("optimal", "stopped") and better.objective < found.objective


# --- products with second derivatives -----------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("polynomial", [False, True])
def test_products_are_those_of_all_second_derivatives(rule, tilted, per_feature, polynomial):
    rng = np.random.default_rng(0)
    X, M = rng.standard_normal((14, 4)), rng.standard_normal((14, 14))
    kernel = (
        PolynomialWidths(3, 2.0, per_feature) if polynomial else GaussianWidths(2.0, per_feature)
    )
    M = M + M.T
    t = kernel.parameters(X)
    part = LearnableKernel(
        "k", Tilted(kernel) if tilted else kernel, X, RULES[rule], np.arange(1.0, 15.0)
    )
    at = part.expansion(t)
    found = np.array([bends(at, M, t.size)(z) for z in np.eye(t.size)])
    whole = [[np.vdot(M, at.second(i, j)) for j in range(t.size)] for i in range(t.size)]
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize("criterion", ["margin", "trace"])
def test_products_with_many_parameters_by_finite_differences(criterion):
    """The squared hinge, whose machine is exact once its support rows are known."""
    X, y = _ring(60, 16)
    C = 3.0 if criterion == "margin" else 300.0
    kernel = GaussianWidths(4.0, per_feature=True)
    task = make_task(X, y, [kernel], C, criterion, "squared_hinge", 1, 1e-9)
    t, z = kernel.parameters(X), np.random.default_rng(1).standard_normal(16)
    state = task.evaluate(t, None)
    support = np.flatnonzero(state.solutions[0].alpha > 1e-6)

    def gradient(s):
        at = task.parts[0].expansion(s)
        size = support.size
        system = np.ones((size + 1, size + 1))
        system[:size, :size] = at.matrix[np.ix_(support, support)] + np.eye(size) / C
        system[size, size] = 0.0
        v = np.zeros(len(y))
        v[support] = np.linalg.solve(system, np.append(y[support], 0.0))[:size]
        assert (v * y)[support].min() > 0.0
        return np.array([-0.5 * v @ at.first(i) @ v for i in range(s.size)])

    np.testing.assert_allclose(state.gradient, gradient(t), rtol=1e-5)
    by_hand = (gradient(t + 1e-4 * z) - gradient(t - 1e-4 * z)) / 2e-4
    np.testing.assert_allclose(state.bend(z), by_hand, rtol=0, atol=1e-5 * np.abs(by_hand).max())


def test_products_under_the_radius_are_those_of_the_matrix_by_finite_differences():
    X, y = _ring(60, 16)
    kernel = GaussianWidths(4.0, per_feature=True)
    task = make_task(X, y, [kernel], 3.0, "radius", "squared_hinge", 1, 1e-9)
    t, z = kernel.parameters(X), np.random.default_rng(1).standard_normal(16)
    state = task.evaluate(t, None)
    ahead, behind = (task.evaluate(t + h * z, None).gradient for h in (1e-2, -1e-2))
    by_hand = (ahead - behind) / 2e-2  # balls and machines are exact to some 1e-6 here
    np.testing.assert_allclose(state.bend(z), by_hand, rtol=0, atol=1e-2 * np.abs(by_hand).max())


def _ring(n, features, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, features))
    return X, np.where(X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4, 1.0, -1.0)


@pytest.mark.parametrize("criterion", ["margin", "radius"])
def test_newton_by_products_ends_below_the_gradient(criterion):
    X, y = _ring(150, 30)
    kernel = GaussianWidths(None, per_feature=True)
    found = {
        method: learn_parameters(X, y, kernel, C=10.0, criterion=criterion, method=method)
        for method in ("newton", "gradient")
    }
    assert {name: one.method for name, one in found.items()} == {m: m for m in found}
    assert found["newton"].status == "optimal"
    assert found["newton"].objective < found["gradient"].objective
    widths = np.asarray(found["newton"].kernels[0].width)
    assert widths[:2].max() < 0.3 * widths[2:].min()


@pytest.mark.parametrize("seed", range(20))
def test_a_local_minimum_as_another_optimizer_finds_it(seed):
    """L-BFGS with F's own values, from where the search ended: it finds nothing better nearby."""
    X, y = _ring(40, 12, seed)
    kernel = GaussianWidths(None, per_feature=True)
    found = learn_parameters(
        X, y, kernel, C=2.0, criterion="margin", loss="squared_hinge", tol=1e-6, max_iter=200
    )
    task = make_task(X, y, [kernel], 2.0, "margin", "squared_hinge", 1, 1e-6)

    def value(t):
        state = task.evaluate(t, None)
        return state.value, state.gradient

    t = np.log(np.asarray(found.kernels[0].width))
    best = minimize(value, t, jac=True, method="L-BFGS-B", options={"maxiter": 30})
    assert found.status in ("optimal", "stopped")
    if found.status == "optimal":
        assert found.objective <= best.fun * (1 + 1e-4)


def test_an_estimator_learns_widths_of_a_polynomial():
    X, y = _ring(300, 12)
    model = MKLClassifier([PolynomialWidths(2, 3.0, per_feature=True), Linear()], C=1.0)
    fixed = MKLClassifier([Polynomial(2), Linear()], C=1.0).fit(X[:100], y[:100])
    model.fit(X[:100], y[:100])
    (kernel,) = model.learned_kernels_.values()
    widths = np.asarray(kernel.width)
    assert widths[:2].max() < 0.7 * widths[2:].min()
    assert model.parameter_search_["method"] == "newton"
    assert model.score(X[100:], y[100:]) > fixed.score(X[100:], y[100:])
    np.testing.assert_allclose(
        KernelBank([kernel], normalize=None, scale=None).fit(X[:9]).stack.diagonals()[0],
        (1.0 + np.square(X[:9] / widths).sum(axis=1)) ** 2,
    )
