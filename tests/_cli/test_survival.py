"""--time and --event: times to an event in every command."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import kernelweave


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Patients whose time depends on column a; a third were last seen without the event."""
    folder = tmp_path_factory.mktemp("survival")
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    times = 100.0 * np.exp(table["a"] + 0.3 * rng.normal(size=80))
    seen = rng.exponential(300.0, 80)
    table["days"], table["dead"] = np.minimum(times, seen), (times <= seen).astype(int)
    table.insert(0, "id", [f"p{k}" for k in range(80)])
    table.to_csv(folder / "t.csv", index=False)
    table.drop(columns=["days", "dead"])[:9].to_csv(folder / "new.csv", index=False)
    table.loc[3, "dead"], table.loc[4, "days"] = np.nan, np.nan
    table.to_csv(folder / "gaps.csv", index=False)
    return folder


TIMES = "--time days --event dead --id id"
VIEWS = "--view one=a --view two=b,c"


def test_from_a_table_to_risks(run, folder):
    code, out, err = run(f"fit t.csv {TIMES} {VIEWS} --cv 3 -o m.kweave --json")
    assert code == 0 and "'days' is a time to 'dead', seen in 50 of 80 rows: survival" in err
    found = json.loads(out)
    assert found["task"] == "survival" and found["estimator"] == "MKLSurvival"
    assert found["held_out"]["metric"] == "C-index" and found["held_out"]["mean"] > 0.75
    assert found["views"]["one"] > 0.8 * sum(found["views"].values())
    model = kernelweave.load(folder / "m.kweave")
    assert model.C == 0.1  # the default of MKLSurvival
    code, out, err = run("predict m.kweave new.csv --id id -o risks.csv")
    assert code == 0, err
    risks = pd.read_csv(folder / "risks.csv")
    new = pd.read_csv(folder / "new.csv")[["a", "b", "c"]]
    assert risks["id"].tolist() == [f"p{k}" for k in range(9)]
    np.testing.assert_allclose(risks["risk"], model.predict(new), rtol=1e-9)
    np.testing.assert_allclose(risks["time"], model.predict_time(new), rtol=1e-9)
    code, out, err = run(f"evaluate m.kweave t.csv {TIMES} --json")
    table = pd.read_csv(folder / "t.csv")
    score = model.score(table[["a", "b", "c"]], table[["days", "dead"]])
    assert json.loads(out) == {"C-index": pytest.approx(score)}


def test_reports_and_comparisons(run, folder):
    run(f"fit t.csv {TIMES} {VIEWS} --norm 2 -o m.kweave")
    code, out, err = run(f"report m.kweave t.csv {TIMES} --cv 2 -o r.html")
    assert code == 0, err
    assert (
        "predicts time to dead: C-index 0.9" in out
        and "the same risk for all rows gives 0.50" in out
    )
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "Predicting time to dead from one, two" in page and "Kaplan–Meier" in page
    code, out, err = run(f"compare t.csv {TIMES} {VIEWS} --cv 2 --repeats 1")
    assert code == 0 and "C-index" in out, err
    code, out, err = run(f"path t.csv {TIMES} {VIEWS} --Cs 0.1,1 --json")
    found = json.loads(out)
    assert code == 0 and found["views"]["one"][0] > 0.8 and max(found["gap"]) <= 1e-3


def test_choosing_and_leaving_out(run, folder):
    line = f"fit gaps.csv {TIMES} --drop-unlabeled -C auto --json"
    code, out, err = run(line)
    assert code == 0 and "2 rows without 'days' or 'dead' are left out" in err
    assert json.loads(out)["estimator"] == "MKLSurvivalCV"


WRONG = {
    "one of two": ("fit t.csv --time days", "--time and --event go together"),
    "both": ("fit t.csv --time days --event dead --target a", "--target goes without --time"),
    "none": ("fit t.csv", "Missing option '--target'"),
    "task": (f"fit t.csv {TIMES} --task regression", "--task regression goes without --time"),
    "weights": (f"fit t.csv {TIMES} --class-weight balanced", "--class-weight needs classes"),
    "turned": ("fit t.csv --time dead --event days --id id", "events must be 1 (seen) or 0"),
    "gaps": (f"fit gaps.csv {TIMES}", "1 row has no 'days', it is id p4"),
    "no column": ("fit t.csv --time day --event dead", "no column 'day'"),
    "in a view": (f"fit t.csv {TIMES} --view v=days", "'days' is the target"),
    "folds": (f"fit t.csv {TIMES} --cv 60", "must lie between 2 and 50"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(run, name):
    line, message = WRONG[name]
    code, out, err = run(line)
    assert code == 2 and not out and message in err, err


def test_models_of_other_tasks_say_so(run, folder):
    run(f"fit t.csv {TIMES} -o m.kweave")
    run("fit t.csv --target a --id id --drop days --drop dead -o a.kweave")
    code, _, err = run("evaluate m.kweave t.csv --target a --id id")
    assert code == 2 and "a model for survival: name its targets with --time and --event" in err
    code, _, err = run(f"evaluate a.kweave t.csv {TIMES}")
    assert code == 2 and "a model for regression: name its targets with --target" in err
