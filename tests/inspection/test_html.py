"""The report: one safe file that begins with the verdict."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pandas as pd
import pytest
from inspection.several_views import HOSTILE, VIEWS, bank, rows
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
)
from kernelweave.inspection import compare
from kernelweave.inspection._refits import Refits
from kernelweave.inspection.draws import WeightDraws
from kernelweave.inspection.html import charts
from kernelweave.inspection.html.code import as_code
from kernelweave.inspection.html.facts import Facts, Predicted
from kernelweave.inspection.html.page import _environment, _render
from kernelweave.inspection.html.sections import Reader
from kernelweave.inspection.report import weights_by_kernel
from kernelweave.learners import Simple

X, Y = rows(40)


class Reading(HTMLParser):
    """Tags with their attributes, headings, and what stands in scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.script, self.headings, self._in = [], "", [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in == "script":
            self.script += data
        if self._in in ("h1", "h2"):
            self.headings.append(data)


def every(page, tag):
    return [attrs for name, attrs in page.tags if name == tag]


def test_hostile_names_are_text(written):
    text = written.read_text(encoding="utf-8")
    page = Reading(text)
    assert len(every(page, "script")) == 1 and "alert" not in page.script
    assert "&lt;script&gt;alert(&#39;$x$&#39;)" in text
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_nothing_is_loaded_and_only_the_one_script_runs(written):
    page = Reading(written.read_text(encoding="utf-8"))
    (policy,) = [a["content"] for a in every(page, "meta") if "http-equiv" in a]
    digest = base64.b64encode(hashlib.sha256(page.script.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    images = every(page, "img")
    assert len(images) >= 7
    assert all(
        image["src"].startswith("data:image/png;base64,") and image["alt"] for image in images
    )
    assert not every(page, "link") and not every(page, "iframe") and not every(page, "a")
    assert not any("src" in attrs for attrs in every(page, "script"))


def test_the_verdict_comes_first(written):
    text = written.read_text(encoding="utf-8")
    place, folded = text.index('class="verdict"'), text.index("<details>")
    told = " ".join(re.sub("<[^>]*>", "", text[place:folded]).split())
    assert re.search(r"\d\d % ?of rows it had not seen are predicted right \(95 % interval", told)
    assert re.search(r"50 % ?by always saying “(no|yes)”", told)
    assert "The model predicts the target." in told and "Learned from 40 rows." in told
    assert "equal weights" in told and "the model is" in told
    assert "Gaussian" not in told and "Linear" not in told  # no names of kernels
    everybody = ["Predictions of rows held out", "Which columns", "Hardest rows"]
    assert Reading(text[:folded]).headings[1:] == everybody
    columns = text[text.index("Which columns</h2>") : text.index("Hardest rows</h2>")]
    assert "With 40 rows, trust the test first" in columns and "p of the test" in columns
    assert Reading(text[folded:]).headings == [
        "Weights",
        "Scores against simpler ways",
        "What each view is worth",
        "How alike kernels are",
        "The learned kernel",
        "Weights over C",
        "Certificate and convergence",
        "Settings",
    ]


def test_without_data_only_what_the_model_knows(tmp_path):
    model = MKLClassifier(bank()).fit(X, Y)
    model.report(tmp_path / "r.html")
    page = Reading((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.headings[1:] == ["Weights", "Certificate and convergence", "Settings"]


def test_row_names_are_told_only_if_asked(tmp_path):
    names = [f"patient-{k}" for k in range(40)]
    y = X[:, 0] + X[:, 5]
    model = MKLRegressor(bank()).fit(X, y)
    facts = Facts(predicted=Predicted(y, y + 0.1, None, np.abs(X[:, 1]), np.arange(40)), n_rows=40)
    shy, open_ = (_render(_environment(), Reader(model, facts, ids)) for ids in (None, names))
    assert "patient-" not in shy and "Row names are left out" in shy
    assert "patient-" in open_
    with pytest.raises(ValueError, match="row_ids must name 40 rows"):
        model.report(tmp_path / "r.html", X, y, cv=2, n_resamples=1, row_ids=["a"])
    assert not (tmp_path / "r.html").exists()


def test_one_class_has_no_scores(tmp_path):
    model = MKLOneClass(bank()).fit(X)
    model.report(tmp_path / "r.html", X, n_resamples=2)
    assert "Brackets" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "has no targets to score" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_large_report_is_small():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(30, 100))
    model = MKLClassifier(KernelBank(views="each"), tol=0.1).fit(columns, columns[:, 0] > 0)
    m, n = model.bank_.m_all, 10_000
    assert m >= 500
    weights = np.asarray(model.weights_)
    draws = WeightDraws(
        model.bank_.names, model.bank_.views, weights, rng.dirichlet(np.ones(m), 20), "resamples"
    )
    truth, scores = rng.integers(0, 2, n) == 1, rng.normal(size=n)
    facts = Facts(
        draws=draws,
        predicted=Predicted(truth, scores > 0, scores, scores, np.arange(n)),
        alignment=([f"kernel {k}" for k in range(31)], rng.uniform(size=(31, 31))),
        points=(rng.normal(size=(1000, 2)), truth[:1000]),
        n_rows=n,
    )
    text = _render(_environment(), Reader(model, facts, [str(k) for k in range(n)]))
    assert len(text.encode()) <= 1_500_000


def test_charts_do_not_take_the_style_of_a_session():
    def drawn():
        return charts.chart("words", lambda ax: ax.set_xlabel("x"))

    with matplotlib.rc_context({"text.color": "white", "axes.labelcolor": "white"}):
        inside = drawn()
        assert matplotlib.rcParams["text.color"] == "white"
    assert inside == drawn()


@pytest.mark.parametrize(
    ("x", "told"),
    [(3, "3"), (0.0, "0.000"), (0.0099, "0.010"), (2e-9, "2e-09"), (12345.6, "1.23e+04")],
)
def test_numbers_are_as_people_write_them(x, told):
    assert _environment().filters["figure"](x) == told


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    model = MKLClassifier(bank()).fit(X, Y)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="'report': pip install jinja2 matplotlib"):
        model.report(tmp_path / "r.html")
    with pytest.raises(NotFittedError):
        MKLClassifier().report(tmp_path / "r.html")


def test_notebooks_show_weights_and_escape_names():
    model = MKLClassifier(bank(**{HOSTILE: VIEWS["a"], "b": VIEWS["b"]}))
    assert "Kernel weights" not in model._repr_html_()
    model.fit(X, Y)
    shown = [
        model._repr_html_(),
        model._repr_mimebundle_()["text/html"],
        model.bank_._repr_html_(),
        model.kernels._repr_html_(),
        model.kernels.plan(X)._repr_html_(),
        model.solution_._repr_html_(),
    ]
    assert "Kernel weights" in shown[0] and "Kernel weights" in shown[1]
    for text in shown:
        assert "alert('$x$')</script>" not in text
        assert "<table>" in text
    chosen = MKLClassifierCV(bank(), Cs=[1.0], weight_norms=[1], cv=2).fit(X, Y)
    assert "Kernel weights" in chosen._repr_html_()
    assert chosen.weights_frame()["weight"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("model", [MKLClassifier(7), MKLRegressor("no"), MKLOneClass(learner=3)])
def test_no_attribute_raises_before_fit(model):
    """Notebooks read every attribute, also of estimators with parameters that fit will refuse."""
    assert "<" in model._repr_html_()


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"y": Y}, ValueError, "y is given without X"),
        ({"X": X, "y": Y, "cv": 1}, ValueError, "cv must lie between 2 and 20"),
        ({"X": X, "y": Y, "row_ids": 5}, TypeError, "not iterable"),
        ({"X": X, "y": Y, "path": "/no/where.html"}, FileNotFoundError, "No such directory"),
    ],
)
def test_what_cannot_be_is_told_before_any_work(asked, error, told, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelweave.inspection.html.facts.stability", None)
    model = MKLClassifier(bank()).fit(X, Y)
    with pytest.raises(error, match=told):
        model.report(**{"path": tmp_path / "r.html", **asked})


def test_rows_that_lack_a_view_are_told_once(tmp_path):
    """By the fit, not by the refits of a report; the report has a sentence, and no raw error."""
    gaps = X.copy()
    gaps[:6, :4] = np.nan
    with pytest.warns(UserWarning, match="Rows lack a view") as told:
        model = MKLClassifier(bank()).fit(gaps, Y)
        model.report(tmp_path / "r.html", gaps, Y, cv=2, n_resamples=1)
    assert sum("Rows lack a view" in str(one.message) for one in told) == 1
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Learned from 40 rows. 6 lack a: " in text and "Rows that lack what matters" in text
    assert "Not compared with all views as one: 6 rows lack a view." in text
    assert "contains NaN" not in text
    with pytest.warns(UserWarning, match="Rows lack a view") as told:
        compare(MKLClassifier(bank()), gaps, Y, cv=2, n_repeats=1)
    assert sum("Rows lack a view" in str(one.message) for one in told) == 1


def test_a_view_in_part_lacking_bears_the_name_of_the_user():
    frame = pd.DataFrame({"n": X[:, 0], "w": ["u", "v"] * 20, "z": X[:, 1]})
    frame.loc[:2, "w"] = None
    model = MKLClassifier(KernelBank(views={"mine": ["n", "w"], "z": ["z"]}))
    with pytest.warns(UserWarning, match="Rows lack a view"):
        found = Refits.of(model, frame, Y).lacking
    assert {view: rows.sum() for view, rows in found.items()} == {"mine": 3}


def test_the_settings_can_be_pasted():
    names = [f"genes__g{i}" for i in range(12)]
    frame = pd.DataFrame(X, columns=names).assign(age=X[:, 0], sex=X[:, 1])
    views = {"genes": names, "other": ["age", "sex"]}
    kernels = [Linear(), Gaussian(np.float64(2.0))]
    model = MKLClassifier(
        KernelBank(kernels, views=views), learner=Simple(drop=True), C=np.float64(3), tol=0.01
    ).fit(frame, Y)
    code = as_code(model)
    assert (
        code
        == """\
from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier
from kernelweave.learners import Simple
model = MKLClassifier(
    C=3.0,
    kernels=KernelBank(kernels=[Linear(), Gaussian(width=2.0)], \
views={'genes': 'genes__*', 'other': ['age', 'sex']}),
    learner=Simple(drop=True),
    tol=0.01,
)"""
    )
    made = dict[str, object]()
    exec(code, made)
    assert made["model"].fit(frame, Y).objective_ == pytest.approx(model.objective_, rel=1e-9)
    comment = "# Import or put in"
    assert as_code(MKLClassifier(lambda A, B: A @ B.T)).splitlines()[1].startswith(comment)
    folds = as_code(MKLClassifierCV(cv=StratifiedKFold(5)))
    assert folds.splitlines()[1].startswith(comment)
    exec(as_code(MKLClassifier(weight_norm=np.inf)), made)
    assert made["model"].weight_norm == np.inf


def test_two_ways_to_judge_a_view_are_told_apart(written):
    text = written.read_text(encoding="utf-8")
    assert "The first table asks whether a view tells anything of the targets" in text


def test_kernels_with_a_weight_are_counted_as_they_are_shown():
    model = MKLClassifier(bank()).fit(X, Y)
    model.weights_ = np.array([0.6, 0.3993, 0.0004, 0.0003, 0.0, 0.0])
    assert "2 of 6 kernels have a weight of 0.001 or more" in _render(
        _environment(), Reader(model, Facts())
    )
    assert weights_by_kernel(model).endswith("4 other kernels")


def test_labels_tell_kernels_apart():
    ends = ("numbers", "categories")
    names = [f"Gaussian(width=0.5×median) on clinical_{end}" for end in ends]
    assert charts.labels(names) == [
        "Gaussian(width=0.5×m…on clinical_numbers",
        "Gaussian(width=0.5×m…clinical_categories",
    ]
    middles = [f"{'x' * 30}{k}{'y' * 30}" for k in range(3)]
    found = charts.labels(middles)
    assert len(set(found)) == 3 and max(map(len, found)) <= 44
    assert charts.labels(["a", "a$"]) == ["a", r"a\$"]


def test_rows_that_the_model_cannot_know_are_refused_before_any_fit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] > 0, "ill", "well")
    model = MKLClassifier([Linear()]).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but MKLClassifier is expecting 3"):
        model.report(tmp_path / "r.html", X[:, :2], y)
    with pytest.raises(ValueError, match=r"y holds 'sick', but the model knows.*'ill', 'well'"):
        model.report(tmp_path / "r.html", X, np.where(y == "ill", "sick", y))
    assert not list(tmp_path.iterdir())


def test_no_number_of_a_setting_is_cut():
    code = as_code(MKLClassifier(class_weight={0: 1.0}, C=np.linspace(1.0, 2.0, 1500)))
    assert "..." not in code and code.count("1.") > 1400
