"""Weights under other rows, without signal and at other C; which views help."""

from __future__ import annotations

import numpy as np
import pytest
from inspection.several_views import VIEWS, bank, rows
from scipy.stats import false_discovery_control

from kernelweave import KernelBank, Linear, MKLClassifier, MKLOneClass, MKLRegressor
from kernelweave.inspection import (
    compare,
    drop_view,
    null,
    over_C,
    permutation_importance,
    select_views,
    stability,
    weights_frame,
)
from kernelweave.inspection.selection import Selection, adjust, fewest

X, Y = rows()
MODEL = MKLClassifier(bank())


def test_stability_by_view_and_kernel():
    draws = stability(MODEL, X, Y, n_resamples=12, random_state=3)
    views, kernels = draws.by_view(), draws.by_kernel()
    assert views["view"].tolist() == list(VIEWS)
    assert len(kernels) == 6 and kernels["weight"].sum() == pytest.approx(1.0)
    for table in (views, kernels):
        assert (table["low"] <= table["mean"]).all() and (table["mean"] <= table["high"]).all()
        assert table["selected"].between(0.0, 1.0).all()
    assert views["weight"].sum() == pytest.approx(1.0)
    assert views.set_index("view")["high"]["noise"] < views.set_index("view")["mean"]["a"]
    tidy = draws.tidy()
    assert len(tidy) == 12 * 6
    means = tidy.groupby("kernel", sort=False)["weight"].mean()
    np.testing.assert_allclose(means, kernels["mean"])
    assert "12 resamples" in repr(draws)


def test_draws_follow_the_seed_and_not_the_threads():
    first, again, other = (
        stability(MODEL, X, Y, n_resamples=4, random_state=seed, n_jobs=jobs).draws
        for seed, jobs in ((1, None), (1, 2), (2, None))
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (MKLClassifier(bank(), shared_weights=False), np.repeat([0, 1, 2], 20)),
        (MKLRegressor(bank()), X[:, 0] + X[:, 5]),
        (MKLOneClass(bank()), None),
    ],
)
def test_every_kind_of_target(model, y):
    assert stability(model, X, y, n_resamples=3).draws.shape == (3, 6)


def test_permuted_labels_leave_no_favorite():
    found = null(MODEL, X, Y, n_permutations=25)
    views = found.by_view().set_index("view")
    assert views["mean"].max() < views["weight"].max()
    assert found.what == "permutations"
    with pytest.raises(ValueError, match="has none"):
        null(MKLOneClass(bank()), X, None)


def test_weights_over_C():
    path = over_C(MODEL, X, Y, Cs=[1.0, 0.01, 100.0])
    assert path.by_kernel()["C"].tolist() == np.repeat([1.0, 0.01, 100.0], 6).tolist()
    np.testing.assert_allclose(path.by_view().groupby("C")["weight"].sum(), 1.0)
    assert over_C(MODEL, X, Y).Cs[4] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="Cs must be"):
        over_C(MODEL, X, Y, Cs=[-1.0])
    with pytest.raises(TypeError, match="with a C"):
        over_C(MKLOneClass(bank()), X, None)


def test_useful_views_are_selected_and_noise_is_not():
    found = select_views(MODEL, X, Y, n_permutations=39)
    assert found.selected.tolist() == [True, True, False]
    assert found.verdict.startswith("2 of 3 views help beyond chance: a, b.")
    table = found.frame()
    assert table["p_value"].tolist()[:2] == [1 / 40, 1 / 40]
    assert (table["loss"][:2] > 0.0).all()
    shuffled = np.random.default_rng(0).permutation(Y)
    assert "No view helps" in select_views(MODEL, X, shuffled, n_permutations=29).verdict


@pytest.mark.parametrize(("views", "level", "needed"), [(2, 0.1, 19), (12, 0.1, 119), (3, 0.3, 10)])
def test_too_few_shuffles_to_find_one_view_are_refused(views, level, needed, monkeypatch):
    model = MKLClassifier(KernelBank([Linear()], {f"v{k}": [k] for k in range(views)}))
    monkeypatch.setattr("kernelweave.inspection._refits.Refits.fit", None)
    told = f"n_permutations must be {needed} or more for {views} views at level {level}, found 5"
    with pytest.raises(ValueError, match=told):
        select_views(model, X, Y, level=level, n_permutations=5)


@pytest.mark.parametrize("level", [0.1, 0.05, 0.3])
def test_one_view_can_be_found_by_as_many_shuffles_as_are_asked_for(level):
    for views in range(1, 200):
        p = np.ones(views)
        p[0] = 1.0 / (1.0 + fewest(views, level))
        assert adjust(p)[0] <= level
        p[0] = 1.0 / (fewest(views, level) - 1e-9)
        assert adjust(p)[0] > level


def test_a_view_without_weight_is_never_found_to_help():
    """J with its rows shuffled is at most J without it; solvers that stop early must not matter."""
    for seed in range(3):
        rng = np.random.default_rng(2 * seed)
        y = rng.integers(0, 2, 120)
        big = rng.normal(size=(120, 60))
        columns = np.hstack([rng.normal(size=(120, 1)), big])
        columns[:, 1:6] += 0.8 * (2 * y - 1)[:, None]
        model = MKLClassifier(KernelBank([Linear()], {"small": [0], "big": slice(1, 61)}))
        found = select_views(model, columns, y, n_permutations=19)
        assert found.p_values[0] == 1.0 or found.weights[0] > 0.0


def test_a_view_that_helps_and_adds_nothing_is_told():
    p = np.array([0.01, 0.01, 0.01, 1.0])
    weights = np.array([0.7, 0.0002, 0.2998, 0.0])
    found = Selection(("a", "b", "c", "noise"), weights, np.ones(4), p, 0.1)
    assert found.verdict.endswith("for noise. But b adds nothing measurable to predictions.")
    assert "But" not in Selection(("a",), np.ones(1), np.ones(1), p[:1], 0.1).verdict


def test_p_values_are_adjusted_as_scipy_does():
    p = np.random.default_rng(0).uniform(size=17) ** 2
    np.testing.assert_allclose(adjust(p), false_discovery_control(p))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="level must be"):
        stability(MODEL, X, Y, n_resamples=1, level=1.5)
    with pytest.raises(TypeError, match="n_resamples"):
        stability(MODEL, X, Y, n_resamples=1.5)
    for ask in (select_views, null, compare, drop_view, permutation_importance):
        with pytest.raises(ValueError, match="level must be between 0 and 1, found 0"):
            ask(MODEL, X, Y, level=0.0)


def test_progress_goes_to_standard_error(capsys):
    stability(MODEL, X, Y, n_resamples=2, verbose=1)
    assert "[kernelweave] stability: 2 of 2" in capsys.readouterr().err


def test_weights_as_a_frame():
    table = weights_frame(MKLClassifier(bank()).fit(X, Y))
    assert table.columns.tolist() == ["kernel", "view", "weight", "raw_weight", "dropped"]
    assert table["weight"].is_monotonic_decreasing and len(table) == 6
    three = MKLClassifier(bank(), shared_weights=False).fit(X, np.repeat([0, 1, 2], 20))
    assert weights_frame(three)["machine"].tolist() == np.repeat([0, 1, 2], 6).tolist()
