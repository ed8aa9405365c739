"""The words that a report opens with: they say what was found, and what was not asked."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inspection.several_views import HOSTILE, VIEWS, bank, rows

from kernelweave import KernelBank, Linear, MKLClassifier, MKLRegressor
from kernelweave.inspection.held_out import HeldOut
from kernelweave.inspection.html.facts import Asked, Facts, gather
from kernelweave.inspection.html.findings import Findings
from kernelweave.inspection.html.page import _environment, _render
from kernelweave.inspection.html.plain import as_markdown
from kernelweave.inspection.html.sections import Reader, certificate_in_words
from kernelweave.inspection.selection import Selection

X, Y = rows(40)
DOCS = Path(__file__).parents[2] / "docs"


def read(y, scoring=None, model=MKLClassifier, views=None, **options):
    bank_ = bank() if views is None else KernelBank([Linear()], views)
    asked = Asked(cv=2, scoring=scoring, n_resamples=1)
    fitted = model(bank_, **options).fit(X, y)
    return Reader(fitted, gather(fitted, X, y, asked))


@pytest.mark.parametrize(
    ("y", "scoring", "model", "told"),
    [
        (np.tile(["u", "v"], 20), None, MKLClassifier, "always saying “u” gives 50 %"),
        (np.tile(["u", "v"], 20), "roc_auc", MKLClassifier, r"one constant answer gives 0\.50"),
        (np.tile([0, 1, 2, 0], 10), None, MKLClassifier, "always saying “0” gives 50 %"),
        (np.tile(list("abcde"), 8), None, MKLClassifier, "always saying “a” gives 20 %"),
        (np.tile([0, 1, 2, 0], 10), "balanced_accuracy", MKLClassifier, "“0” gives 33 %"),
        (np.tile([0.0, 1.0], 20), None, MKLRegressor, r"always saying the mean gives 0\.00"),
    ],
)
def test_the_verdict_starts_with_whether_the_model_predicts(y, scoring, model, told, monkeypatch):
    """The baseline is the share in the data, whatever folds make of it."""
    for unasked in ("select_views", "permutation_importance"):
        monkeypatch.setattr(f"kernelweave.inspection.html.facts.{unasked}", lambda *a, **b: None)
    first = read(y, scoring, model).findings.sentences()[0]
    pattern = rf"The model is not shown to predict the target: .* \(95 % interval .*\); .*{told}"
    assert re.match(pattern, first), first


@pytest.mark.parametrize("count", [10, 11])
def test_many_views_are_tested_or_it_is_told_that_they_are_not(count, monkeypatch):
    """10 views are tested with enough shuffles; of more, the report says that they are not."""
    asked = []
    for unasked in ("compare", "permutation_importance"):
        monkeypatch.setattr(f"kernelweave.inspection.html.facts.{unasked}", lambda *a, **b: None)
    monkeypatch.setattr(
        "kernelweave.inspection.html.facts.select_views",
        lambda model, *rows, **options: asked.append(options),
    )
    reader = read(Y, views={f"v{k}": [k] for k in range(count)})
    assert (reader.findings.untested != "") == (count > 10) == (not asked)
    assert all("n_permutations" not in options for options in asked)
    text = _render(_environment(), reader)
    assert ("There are more than 10 views; select_views does it." in text) == (count > 10)


@pytest.mark.parametrize(
    ("weight", "selected", "lost", "most", "verdict"),
    [
        (0.9, True, [0.3, 0.28, 0.32], 1.0, "needed"),
        (0.9, True, [0.001, 0.0, 0.0], 1.0, "informative, but not needed"),
        (0.9, True, [0.2, -0.1, 0.0], 1.0, "informative, not shown to be needed"),
        (0.9, True, [0.001, 0.0, 0.0], np.inf, "informative, not shown to be needed"),
        (0.0, True, [0.2, -0.1, 0.0], 1.0, "informative, but not needed"),
        (0.9, False, [0.3, 0.28, 0.32], 1.0, "not shown to help"),
        (0.9, None, [0.3, 0.28, 0.32], 1.0, "needed"),
        (0.9, None, None, 1.0, "not tested"),
    ],
)
def test_one_verdict_on_each_view(weight, selected, lost, most, verdict):
    """Never "helps" in one place and "not needed" in another."""
    model = MKLClassifier(bank(a=VIEWS["a"], b=VIEWS["b"])).fit(X, Y)
    model.weights_ = np.where(np.array(model.bank_.views) == "a", weight / 2, (1 - weight) / 2)
    facts = Facts()
    if lost is not None:
        scores = np.column_stack([[0.9] * 3, 0.9 - np.array(lost)])
        held = HeldOut(("all views", "a shuffled"), scores, "accuracy", 0.25, most=most)
        facts = replace(facts, importance=held)
    if selected is not None:
        p = np.array([0.01 if selected else 0.9, 0.9])
        chosen = Selection(("a", "b"), np.array([weight, 1 - weight]), np.ones(2), p, 0.1)
        facts = replace(facts, selection=chosen)
    found = Reader(model, facts).findings.views[0]
    assert (found.name, found.verdict) == ("a", verdict)


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


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A report with probabilities and rows that lack a view, as JSON, Markdown and HTML."""
    folder = tmp_path_factory.mktemp("told")
    gaps = X.copy()
    gaps[:8, :4] = np.nan
    y = pd.Series(Y, name="status")
    with pytest.warns(UserWarning, match="Rows lack a view"):
        model = MKLClassifier(bank(), calibration="sigmoid").fit(gaps, y)
    for name in ("r.json", "r.md", "r.html"):
        verdict = model.report(folder / name, gaps, y, cv=2, n_resamples=2)
    return folder, verdict


def test_json_has_what_the_guide_says(told):
    folder, verdict = told
    found = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    guide = (DOCS / "guides" / "report.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(\w+)` \|", guide, re.M)
    assert set(found) == set(names) == {one.name for one in fields(Findings)} | {"sentences"}
    assert found["schema"] == "kernelweave report 1" and found["target"] == "status"
    assert found["sentences"] == verdict.splitlines()
    assert found["title"] == "Predicting status from a, b, noise"
    assert found["lacking"][0]["rows"] == 8 and found["views"][0]["rows"] == 32
    assert sum(one["rows"] for one in found["classes"]) == 40
    shares = found["probabilities"]
    assert 0.0 < shares["brier"] < shares["constant"] == 0.25
    assert sum(shares["counts"]) == 40


def test_markdown_and_page_say_the_same(told):
    folder, _ = told
    text = (folder / "r.md").read_text(encoding="utf-8")
    assert text.startswith("# Predicting status from a, b, noise\n\n- The model predicts status: ")
    assert text.count("\n| ") >= 5
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "<h2" in page and "Probabilities</h2>" in page and "Brier score" in page
    model = MKLClassifier(bank(**{HOSTILE: VIEWS["a"], "b": VIEWS["b"]})).fit(X, Y)
    hostile = as_markdown(Reader(model, Facts()).findings)
    assert "<script" not in hostile.replace("\\<", "")


def test_probabilities_of_several_classes_are_those_of_the_likeliest():
    y = np.tile([0, 1, 2, 0], 10)
    found = read(y, calibration="sigmoid").findings.probabilities
    assert found.what == "the likeliest class" and len(found.said) == 2
    assert found.constant == pytest.approx(1 - 0.5**2 - 2 * 0.25**2)
