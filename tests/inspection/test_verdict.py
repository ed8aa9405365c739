"""The sentences that a report opens with: they say what was found, and what was not asked."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from inspection.several_views import VIEWS, bank, rows

from kernelweave import KernelBank, Linear, MKLClassifier, MKLRegressor
from kernelweave.inspection.held_out import HeldOut
from kernelweave.inspection.html.facts import Asked, Facts, gather
from kernelweave.inspection.html.page import _environment, _render
from kernelweave.inspection.html.sections import Reader, certificate_in_words
from kernelweave.inspection.selection import Selection

X, Y = rows(40)


def read(y, scoring=None, model=MKLClassifier, views=None):
    bank_ = bank() if views is None else KernelBank([Linear()], views)
    asked = Asked(cv=2, scoring=scoring, n_resamples=1)
    fitted = model(bank_).fit(X, y)
    return Reader(fitted, gather(fitted, X, y, asked))


@pytest.mark.parametrize(
    ("y", "scoring", "model", "told"),
    [
        (
            np.tile(["u", "v"], 20),
            None,
            MKLClassifier,
            r"always saying the commoner class gives 0\.50",
        ),
        (np.tile(["u", "v"], 20), "roc_auc", MKLClassifier, r"one constant answer gives 0\.50"),
        (
            np.tile([0, 1, 2, 0], 10),
            None,
            MKLClassifier,
            r"always saying the commonest class gives",
        ),
        (np.tile([0.0, 1.0], 20), None, MKLRegressor, r"always saying the mean gives −?0\.\d\d"),
    ],
)
def test_the_verdict_starts_with_whether_the_model_predicts(y, scoring, model, told, monkeypatch):
    monkeypatch.setattr("kernelweave.inspection.html.facts.select_views", lambda *a, **b: None)
    first = read(y, scoring, model).verdict()[0]
    assert re.match(rf"The model is not shown to predict: held-out .* \[.*\]; {told}", first)


@pytest.mark.parametrize("count", [7, 10, 11, 12])
def test_many_views_are_tested_or_it_is_told_that_they_are_not(count, monkeypatch):
    """10 views are tested with enough shuffles; of more, the report says that they are not."""
    asked = []
    monkeypatch.setattr(
        "kernelweave.inspection.html.facts.select_views",
        lambda model, *rows, **options: asked.append(options),
    )
    reader = read(Y, views={f"v{k}": [k] for k in range(count)})
    told = (
        "Not tested: which views help beyond chance. There are more than 10 views; select_views "
        "does it."
    )
    assert (told in reader.verdict()) == (count > 10) == (not asked)
    assert all("n_permutations" not in options for options in asked)
    text = _render(_environment(), reader, None)
    assert text.count("There are more than 10 views") == (3 if count > 10 else 0)


def test_a_view_that_no_prediction_misses_is_told():
    scores = np.array([[0.9, 0.6, 0.9], [0.8, 0.6, 0.801], [0.9, 0.5, 0.9]])
    names = ("all views", "a shuffled", "b shuffled")
    found = HeldOut(names, scores, "accuracy", 0.25, most=1.0)
    selection = Selection(("a", "b"), np.array([0.9, 0.1]), np.ones(2), np.full(2, 0.01), 0.1)
    model = MKLClassifier(bank(a=VIEWS["a"], b=VIEWS["b"])).fit(X, Y)
    told = Reader(model, Facts(selection=selection, importance=found)).verdict()[0]
    assert told == "Both views help beyond chance. But b adds nothing measurable to predictions."
    unknown = replace(found, most=np.inf)  # a score of any scale: what is little is not known
    told = Reader(model, Facts(selection=selection, importance=unknown)).verdict()[0]
    assert told == "Both views help beyond chance."


def test_the_certificate_says_what_is_proved():
    model = MKLClassifier(bank()).fit(X, Y)
    model.duality_gap_ = 4.2e-4
    told = "Certificate: the solver found the best weights for this objective, proved to within"
    assert certificate_in_words(model) == f"{told} 0.042 %."
    model.solution_ = replace(model.solution_, criterion="given")
    assert "the best model with these weights, proved" in certificate_in_words(model)
    model.solution_ = replace(model.solution_, status="max_iter")
    told = "Certificate: the fit ended early (max_iter), proved to be within 0.042 % of the best"
    assert certificate_in_words(model) == f"{told} model with these weights."
