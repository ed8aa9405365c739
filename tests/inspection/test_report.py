"""Text reports: weights by kernel and by view, the certificate."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from kernelweave import KernelBank, MKLClassifier, learn
from kernelweave.inspection.report import (
    WIDTH,
    bars,
    certificate,
    weights_by_kernel,
    weights_by_view,
)


def model(weights, views):
    names = np.array([f"kernel {k}" for k in range(len(weights))])
    return SimpleNamespace(
        weights_=np.array(weights), kernel_names_=names, bank_=SimpleNamespace(views=views)
    )


def test_bars_are_proportional_and_aligned():
    lines = bars([("small", 0.25), ("large", 0.5), ("none", 0.0)]).splitlines()
    assert lines[0] == f"0.500  {'#' * WIDTH}  large"
    assert lines[1] == f"0.250  {'#' * (WIDTH // 2)}{' ' * (WIDTH // 2)}  small"
    assert lines[2] == f"0.000  {' ' * WIDTH}  none"
    assert len({line.rindex("  ") for line in lines}) == 1
    signed = bars([("less", -0.25), ("more", 0.5)]).splitlines()
    assert signed[0] == f" 0.500  {'#' * WIDTH}  more"
    assert signed[1] == f"-0.250  {'-' * (WIDTH // 2)}{' ' * (WIDTH // 2)}  less"
    assert bars([]) == ""
    assert bars([("a", 0.0)]).endswith("a")


def test_weights_by_kernel():
    lines = weights_by_kernel(model([0.1, 0.0, 0.9, 1e-9], "aabb")).splitlines()
    assert [line.split()[0] for line in lines] == ["0.900", "0.100", "0.000"]
    assert lines[0].endswith("  kernel 2")
    assert lines[2] == "0.000  2 other kernels"
    assert weights_by_kernel(model([1.0, 0.0], "aa")).endswith("1 other kernel")
    assert weights_by_kernel(model([1.0], "a")).count("\n") == 0
    assert weights_by_kernel(model([1.5, -0.5], "aa")).endswith("kernel 1")


def test_weights_by_view():
    lines = weights_by_view(model([0.1, 0.2, 0.3, 0.4], ["a", "b", "a", "b"])).splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("0.600", "b"),
        ("0.400", "a"),
    ]


def test_reports_of_a_fitted_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    fitted = MKLClassifier(KernelBank(views="each")).fit(X, X[:, 0] > 0)
    assert weights_by_view(fitted).splitlines()[0].endswith("  x0")
    shown = [float(line.split()[0]) for line in weights_by_view(fitted).splitlines()]
    assert sum(shown) == pytest.approx(1.0, abs=2e-3)
    assert certificate(fitted) == certificate(fitted.solution_)


def test_certificate_states_both_bounds():
    X = np.linspace(-1.0, 1.0, 20)
    solution = learn(np.outer(X, X)[None], np.sign(X), C=10.0)
    lines = certificate(solution).splitlines()
    assert float(lines[0].split()[-1]) == pytest.approx(solution.primal, rel=1e-5)
    assert float(lines[1].split()[-1]) == pytest.approx(solution.dual, rel=1e-5)
    assert lines[2].startswith(f"duality gap         {solution.gap:.1e}: ")
    assert lines[2].endswith(f"by more than {100 * solution.gap:.2g} %")


def test_certificate_of_weights_that_were_not_optimized():
    X = np.linspace(-1.0, 1.0, 20)
    K = np.stack([np.outer(X, X), np.outer(X**2, X**2)])
    for learner in ("uniform", "alignment"):
        lines = certificate(learn(K, np.sign(X), C=10.0, learner=learner)).splitlines()
        assert lines[1].endswith("on these weights") and "no machine on them" in lines[2]


@pytest.mark.parametrize("report", [certificate, weights_by_kernel, weights_by_view])
def test_what_cannot_be_read(report):
    with pytest.raises(NotFittedError, match="This MKLClassifier instance is not fitted yet"):
        report(MKLClassifier())
    with pytest.raises(TypeError, match=r"found a Pipeline: pass its last step, pipeline\[-1\]"):
        report(make_pipeline(MKLClassifier()))


@pytest.mark.parametrize("report", [certificate, weights_by_kernel, weights_by_view])
@pytest.mark.parametrize(
    "foreign",
    [SVC(), SVC, MKLClassifier, None, 3.0, "model", {}, [MKLClassifier()], np.ones(3)],
    ids=str,
)
def test_foreign_models(report, foreign):
    with pytest.raises(TypeError, match=r"must be a fitted estimator.*found "):
        report(foreign)


@pytest.mark.parametrize("report", [certificate, weights_by_kernel, weights_by_view])
def test_searches(report):
    X = np.random.default_rng(0).normal(size=(20, 2))
    search = GridSearchCV(MKLClassifier(), {"C": [1.0]}, cv=2)
    with pytest.raises(TypeError, match="found a GridSearchCV: pass its best_estimator_"):
        report(search)
    with pytest.raises(TypeError, match="found a GridSearchCV: pass its best_estimator_"):
        report(search.fit(X, X[:, 0] > 0))
    assert report(search.best_estimator_)


@pytest.mark.parametrize("report", [weights_by_kernel, weights_by_view])
def test_a_solution_has_no_names(report):
    X = np.linspace(-1.0, 1.0, 20)
    with pytest.raises(TypeError, match=r"must be a fitted estimator.*found Solution"):
        report(learn(np.outer(X, X)[None], np.sign(X)))
