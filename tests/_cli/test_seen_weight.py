"""Predictions of rows that lack what the model rests on: a column and a line say so."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from kernelweave._cli.main import main

rng = np.random.default_rng(5)
N = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen")
    ill = np.repeat([0, 1], N // 2)
    frame = pd.DataFrame({"id": [f"P{i}" for i in range(N)], "status": ill})
    frame["age"] = rng.normal(size=N)
    genes = pd.DataFrame(rng.normal(size=(N, 3)) + 4.0 * ill[:, None], columns=["g1", "g2", "g3"])
    genes.insert(0, "id", frame["id"])
    frame.to_csv(folder / "clinical.csv", index=False)
    genes.to_csv(folder / "genes.csv", index=False)
    genes[:0].to_csv(folder / "none.csv", index=False)
    genes[5:].to_csv(folder / "some.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = "fit clinical.csv --target status --id id --view genes=genes.csv --view c=age"
        assert main([*words.split(), "-o", "m.kweave"]) == 0
        words = "fit clinical.csv --target status --id id --view c=age -o one.kweave"
        assert main(words.split()) == 0
    return folder


def table(text):
    return pd.read_csv(io.StringIO(text))


def test_a_model_that_sees_nothing_says_so(run):
    line = "predict m.kweave clinical.csv --id id --view genes=none.csv"
    code, out, err = run(line)
    found = table(out)
    assert code == 0 and found.columns.tolist() == ["id", "prediction", "weight_seen"]
    assert found["prediction"].nunique() == 1 and found["weight_seen"].max() < 0.05
    assert f"of {N} rows, {N} have no view, or views with less than 5 % of the weight" in err
    assert "they get about the value of an average row" in err
    assert "predicted from what they have" not in err
    assert err.count("less than 5 %") == 1  # the warning is not told beside


def test_the_share_is_1_for_rows_with_all_views(run):
    line = "predict m.kweave clinical.csv --id id --view genes=some.csv --decision"
    code, out, err = run(line)
    found = table(out)
    assert code == 0 and [*found][-1] == "weight_seen"
    assert (found["weight_seen"][5:] == 1.0).all() and found["weight_seen"][:5].max() < 0.05
    assert "'genes' (5); they stand at its mean; weight_seen says" in err


def test_a_model_whose_rows_must_have_its_view_has_no_such_column(run):
    code, out, _ = run("predict one.kweave clinical.csv --id id")
    assert code == 0 and table(out).columns.tolist() == ["id", "prediction"]


def test_scores_and_reports_tell_it_too(run, folder):
    line = "evaluate m.kweave clinical.csv --target status --id id --view genes=some.csv"
    assert "of 40 rows, 5 have no view, or views with less than 5 %" in run(line)[2]
    path = folder / "r.html"
    line = f"report m.kweave clinical.csv --target status --id id --view genes=some.csv -o {path}"
    code, _, err = run(line, "--cv", "2")
    assert code == 0 and "of 40 rows, 5 have no view" in err
    text = path.read_text("utf-8")
    told = "5 rows have no view, or views with less than 5 % of the weight: of these"
    assert told in " ".join(text.split())
