"""--class-weight: rare classes cost as much as common ones, and are judged so, in every command."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import kernelweave

RARE = np.arange(120) < 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with one row in ten of the class "ill", which overlaps with the other."""
    folder = tmp_path_factory.mktemp("rare")
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(120, 2)) + RARE[:, None], columns=["a", "b"])
    table["status"] = np.where(RARE, "ill", "well")
    table["days"] = rng.normal(size=120)
    table.to_csv(folder / "table.csv", index=False)
    return folder


@pytest.mark.parametrize("C", ["1", "auto"])
def test_fit_weighs_classes_and_scores_them_alike(run, folder, C):
    line = f"fit table.csv --target status --view ab=a,b -C {C} --cv 3 --json -o m.kweave"
    code, out, err = run(f"{line} --class-weight balanced")
    assert code == 0, err
    found = json.loads(out)["held_out"]
    assert found["metric"] == "balanced accuracy"
    model = kernelweave.load(folder / "m.kweave")
    assert model.class_weight == "balanced"
    predicted = model.predict(pd.read_csv(folder / "table.csv")[["a", "b"]])
    assert np.mean(predicted[RARE] == "ill") > 0.6
    code, out, _ = run(line)
    assert json.loads(out)["held_out"]["metric"] == "accuracy"
    assert kernelweave.load(folder / "m.kweave").class_weight is None


def test_reports_and_comparisons_judge_classes_alike(run, folder):
    words = "table.csv --target status --view ab=a,b --class-weight balanced --cv 3"
    code, out, err = run(f"fit {words} -o m.kweave --report m.html")
    assert code == 0, err
    assert "balanced accuracy" in (folder / "m.html").read_text(encoding="utf-8")
    code, out, err = run("report m.kweave table.csv --target status --cv 3 -o again.html")
    assert code == 0, err
    assert "balanced accuracy" in (folder / "again.html").read_text(encoding="utf-8")
    code, out, err = run(f"compare {words} --repeats 1")
    assert code == 0, err
    assert "balanced accuracy" in out


def test_the_path_is_that_of_the_weighed_classes(run, folder):
    line = "path table.csv --target status --view a=a --view b=b --Cs 0.1,10 --json"
    found = json.loads(run(f"{line} --class-weight balanced")[1])
    table = pd.read_csv(folder / "table.csv")
    bank = kernelweave.KernelBank(views={"a": ["a"], "b": ["b"]})
    for place, C in enumerate(found["C"]):
        model = kernelweave.MKLClassifier(bank, C=C, class_weight="balanced")
        model.fit(table[["a", "b"]], table["status"])
        views = np.array(model.bank_.views)
        shares = [model.weights_[views == name].sum() for name in ("a", "b")]
        assert np.abs(np.array([found["views"][n][place] for n in "ab"]) - shares).max() < 0.1
    assert found["views"] != json.loads(run(line)[1])["views"]


def test_no_interval_of_balanced_accuracy_goes_beyond_1(run, folder):
    table = pd.read_csv(folder / "table.csv")
    table["a"] += 3.0 * RARE
    table.to_csv(folder / "clear.csv", index=False)
    words = "clear.csv --target status --view ab=a,b --class-weight balanced --cv 3"
    code, out, err = run(f"compare {words} --repeats 2 --json")
    assert code == 0, err
    assert max(row["high"] for row in json.loads(out)["scores"]) <= 1.0


def test_numbers_have_no_classes_to_weigh(run):
    code, out, err = run("fit table.csv --target days --view a=a --class-weight balanced")
    assert (code, out) == (2, "")
    assert "--class-weight needs classes, and 'days' is a number" in err


@pytest.mark.parametrize("words", ["--cv 3", "--report r.html", "-C auto", "-C auto --cv 2"])
def test_a_class_of_one_row_is_named_where_rows_are_held_out(run, folder, words):
    table = pd.read_csv(folder / "table.csv")[11:]
    table.to_csv(folder / "one.csv", index=False)
    code, out, err = run(f"fit one.csv --target status --view a=a {words}")
    assert (code, out) == (2, "")
    assert "2 or more of each class; found 1 row of class 'ill'" in err
    assert not (folder / "r.html").exists()
    assert run("fit one.csv --target status --view a=a --class-weight balanced")[0] == 0
