"""The commands on files: from tables to a model, predictions and scores; bad input is one line."""

from __future__ import annotations

import json
import re
from io import StringIO

import numpy as np
import pandas as pd
import pytest

import kernelweave
from kernelweave._cli.main import main
from kernelweave._cli.tables import read_table
from kernelweave._core.settings import SETTINGS

rng = np.random.default_rng(2)
N = 40
AGE = rng.normal(50, 9, size=N)
GENES = rng.normal(size=(N, 3))
STATUS = np.where(AGE - 50 + 9 * GENES[:, 0] > 0, "ill", "well")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A clinical table with the target, a table of genes in another order, and kernels."""
    folder = tmp_path_factory.mktemp("files")
    clinical = pd.DataFrame(
        {
            "patient": [f"P{i}" for i in range(N)],
            "age": AGE,
            "chol_a": rng.normal(size=N),
            "chol_b": rng.normal(size=N),
            "sex": rng.choice(["f", "m"], size=N),
            "status": STATUS,
            "days": AGE * 2 + GENES[:, 0],
            "stage": np.digitize(AGE, [45, 55]),
        }
    )
    genes = pd.DataFrame(GENES, columns=["g1", "g2", "g3"])
    genes.insert(0, "patient", clinical["patient"])
    clinical.to_csv(folder / "clinical.csv", index=False)
    clinical.to_csv(folder / "semicolon.csv", index=False, sep=";")
    clinical.to_parquet(folder / "clinical.parquet")
    genes.sample(frac=1, random_state=1).to_csv(folder / "genes.csv", index=False)
    genes[5:].to_csv(folder / "some_genes.csv", index=False)
    np.savez(folder / "all.npz", genes=GENES, age=AGE, status=STATUS)
    np.save(folder / "K.npy", GENES @ GENES.T)
    np.save(folder / "small.npy", np.eye(3))
    np.save(folder / "words.npy", np.array([["a"]]))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    path = str(folder / "model.kweave")
    words = "fit clinical.csv --target status --id patient --view genes=genes.csv"
    words += " --view clinical=age,chol* -o"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*words.split(), path]) == 0
    return path


def test_two_tables_to_a_model_to_predictions(run, model, folder):
    code, out, err = run(f"predict {model} clinical.csv --id patient --view genes=genes.csv")
    assert (code, err) == (0, "")
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0] == ["patient", "prediction", "weight_seen"]
    assert [line[0] for line in lines[1:]] == [f"P{i}" for i in range(N)]
    assert np.mean([line[1] == truth for line, truth in zip(lines[1:], STATUS, strict=True)]) > 0.9
    loaded = kernelweave.load(model)
    assert set(loaded.bank_.views) == {"clinical", "genes"}
    assert [*loaded.feature_names_in_] == [
        "age", "chol_a", "chol_b", "genes__g1", "genes__g2", "genes__g3",
    ]  # fmt: skip


def test_what_was_found_is_told(run):
    code, out, err = run("fit clinical.csv --target status --id patient --view a=age,sex --cv 3")
    assert code == 0
    assert "'status' has 2 classes (ill, well): classification" in err
    assert "left out: chol_a, chol_b, days" in err
    assert "Weight by view" in out
    assert "Held-out accuracy, mean of 3 folds: 0." in out


@pytest.mark.parametrize(("target", "task"), [("days", "regression"), ("stage", "classification")])
def test_tasks_and_json(run, target, task, tmp_path):
    path = str(tmp_path / "m.kweave")
    code, out, _ = run(
        f"fit clinical.parquet --target {target} --view a=age --json --cv 2 -o", path
    )
    found = json.loads(out)
    assert (code, found["task"], found["rows"]) == (0, task, N)
    assert found["views"].keys() == {"a"}
    assert sum(kernel["weight"] for kernel in found["kernels"]) == pytest.approx(1.0)
    assert len(found["held_out"]["scores"]) == 2
    assert found["duality_gap"] <= 1e-3
    code, out, _ = run(f"evaluate {path} clinical.csv --target {target} --json")
    assert code == 0
    assert json.loads(out)["R²" if task == "regression" else "accuracy"] > 0.8


def test_the_cost_can_be_chosen(run, tmp_path):
    path = str(tmp_path / "m")
    code, out, _ = run("fit clinical.csv --target status --view a=age -C auto -o", path)
    assert (code, "Chosen by cross-validation: C = " in out) == (0, True)
    assert json.loads(run(f"info {path} --json")[1])["chosen"]["C"] > 0.0
    code, out, _ = run("fit clinical.csv --target days --view a=age -C auto --json")
    assert (code, json.loads(out)["estimator"]) == (0, "MKLRegressorCV")


def test_evaluate_and_info(run, model):
    code, out, _ = run(
        f"evaluate {model} clinical.csv --target status --id patient --view genes=genes.csv"
    )
    assert code == 0
    measures = dict(line.rsplit(None, 1) for line in out.splitlines()[1:])
    assert float(measures["accuracy"]) > 0.9
    assert float(measures["area under ROC"]) > 0.9
    code, out, _ = run(f"info {model}")
    assert code == 0
    assert "6 columns: age, chol_a" in out
    assert "no solution below" in out
    assert json.loads(run(f"info {model} --json")[1])["classes"] == ["ill", "well"]


def test_path(run):
    words = "path clinical.csv --target status --id patient --view genes=genes.csv --Cs 0.1,1"
    code, out, _ = run(words + " --view a=age --json")
    found = json.loads(out)
    assert (code, found["C"]) == (0, [0.1, 1.0])
    assert np.sum([*found["views"].values()], axis=0) == pytest.approx(1.0)
    assert max(found["gap"]) <= 1e-3
    code, out, _ = run("path clinical.csv --target stage --view a=age --Cs 1")
    assert (code, out.split()[:4]) == (0, ["C", "a", "duality", "gap"])
    assert run("path clinical.csv --target days --view a=age --Cs 1")[0] == 0


def test_compare(run):
    words = "compare clinical.csv --target status --id patient --view genes=genes.csv"
    words += " --view a=age --cv 3 --repeats 1"
    code, out, _ = run(words)
    assert code == 0
    assert out.startswith("Learned weights are ")
    assert "equal weights" in out
    code, out, _ = run(words + " --json")
    found = json.loads(out)
    assert (code, found["verdict"].startswith("Learned weights are")) == (0, True)
    assert len(found["scores"]) == 4
    assert run("compare clinical.csv --target days --view a=age --cv 2 --repeats 1")[0] == 0


def test_two_tables_to_a_report_in_one_command(run, tmp_path):
    """The words of ``kernelweave --help``, and no others."""
    shown = " ".join(run("--help")[1].split())
    line = re.search(r"kernelweave (fit clinical.csv .*?) -o model.kweave --report", shown)[1]
    path, saved = tmp_path / "report.html", tmp_path / "m.kweave"
    words = [*line.replace(" \\", "").split(), "-o", str(saved), "--report", str(path)]
    code, out, err = run("", *words)
    assert code == 0
    assert err.endswith(f"kernelweave: report written to {path}\n")
    assert "Weight by view" in out
    text = path.read_text(encoding="utf-8")
    assert "Predicting status from" in text and "simpler way" in text
    assert "genes" in text and not re.search(r"<td>P\d+</td>", text)
    assert sorted(tmp_path.iterdir()) == [saved, path]


def test_reports_of_saved_models(run, model, tmp_path):
    path = tmp_path / "r.html"
    assert run(f"report {model} -o", str(path))[0] == 0
    assert "Without data there are no intervals" in path.read_text(encoding="utf-8")
    words = f"report {model} clinical.csv --target status --id patient --view genes=genes.csv"
    assert run(words + " --cv 2 --name-rows -o", str(path))[0] == 0
    text = path.read_text(encoding="utf-8")
    assert "The model predicts status." in text or "is not shown to predict status" in text
    assert re.search(r"<td>P\d+</td>", text)


@pytest.mark.parametrize(
    "words",
    ["--view k=K.npy", "--view a=age -C auto", "--target days --view a=age --view b=chol*"],
)
def test_reports_of_matrices_of_chosen_costs_and_of_numbers(run, tmp_path, words):
    path = tmp_path / "r.html"
    line = f"fit clinical.csv --target status {words} --cv 2 --json --report"
    code, out, _ = run(line, str(path))
    assert (code, json.loads(out)["report"]) == (0, str(path))
    assert "simpler way" in path.read_text(encoding="utf-8")


def test_rows_that_a_table_lacks(run, tmp_path):
    path = str(tmp_path / "m")
    words = "clinical.csv --id patient --view genes=some_genes.csv"
    code, _, err = run(f"fit {words} --target status --view a=age --cv 2 -o", path)
    assert code == 0
    assert err.count("lack a view") == 1
    assert "of 40 rows, some lack a view: 'genes' (5)" in err and "KernelBank" not in err
    code, out, err = run(f"predict {path} {words} --decision")
    told = "of 40 rows, some lack a view: 'genes' (5); they stand at its mean; weight_seen says how"
    assert err.startswith(f"kernelweave: {told}") and "are predicted from" not in err
    assert (code, len(out.splitlines())) == (0, N + 1)
    assert out.startswith("patient,prediction,decision,weight_seen\n")


def test_a_view_that_no_new_row_has(run, tmp_path):
    """A header alone says so; leaving the view out is taken for an oversight."""
    path, none, some = str(tmp_path / "m"), tmp_path / "none.csv", tmp_path / "some.csv"
    words = "clinical.csv --id patient --view genes="
    assert run(f"fit {words}some_genes.csv --target status --view a=age,sex -o", path)[0] == 0
    none.write_text("patient,g1,g2,g3\n")
    code, out, err = run(f"predict {path} {words}{none} --decision")
    assert (code, len(out.splitlines())) == (0, N + 1)
    assert "some lack a view: 'genes' (40);" in err
    some.write_text(none.read_text() + "P39,0.1,0.2,0.3\n")
    assert (
        run(f"predict {path} {words}{some} --decision")[1].splitlines()[:-1]
        == (out.splitlines()[:-1])
    )


def test_help_names_the_learners(run):
    shown = " ".join(run("fit --help")[1].split())
    assert "How weights are learned: auto, uniform, simple, silp," in shown


def test_archives_and_kernel_matrices(run, tmp_path):
    path = str(tmp_path / "m")
    assert run("fit all.npz --target status --view g=genes__* --view a=age -o", path)[0] == 0
    code, out, _ = run(f"predict {path} all.npz")
    assert (code, len(out.splitlines())) == (0, N + 1)
    assert run("fit clinical.csv --target status --view k=K.npy --cv 2 -o", path)[0] == 0
    code, out, _ = run(f"predict {path} clinical.csv --view k=K.npy --id patient")
    assert (code, out.splitlines()[0]) == (0, "patient,prediction")


def test_predictions_in_pieces_are_those_of_the_whole(run, model, monkeypatch, tmp_path):
    words = "fit clinical.csv --target stage --view a=age,sex -o"
    path, out = str(tmp_path / "m"), tmp_path / "out.csv"
    assert run(words, path)[0] == 0
    monkeypatch.setattr(SETTINGS, "table_rows", 7)
    assert run(f"predict {path} clinical.csv --decision -o", str(out))[:2] == (0, "")
    found, loaded = pd.read_csv(out), kernelweave.load(path)
    rows = pd.read_csv("clinical.csv")[["age", "sex"]]
    assert np.array_equal(found["prediction"], loaded.predict(rows))
    names = ["prediction", "decision 0", "decision 1", "decision 2", "weight_seen"]
    assert found.columns.tolist() == names
    assert np.allclose(found.iloc[:, 1:-1], loaded.decision_function(rows), rtol=1e-9)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "m", out]


def test_probabilities(run, tmp_path):
    path, view = str(tmp_path / "m"), "--view a=age,sex"
    for target, classes in (("status", 2), ("stage", 3)):
        assert run(f"fit clinical.csv --target {target} {view} --proba -o", path)[0] == 0
        code, out, _ = run(f"predict {path} clinical.csv --proba")
        found = pd.read_csv(StringIO(out))
        model = kernelweave.load(path)
        names = [f"probability {name}" for name in model.classes_]
        assert code == 0 and found.columns[1 : classes + 1].tolist() == names
        assert np.allclose(found[names].sum(axis=1), 1.0)
    assert run(f"fit clinical.csv --target status {view} -o", path)[0] == 0
    code, _, err = run(f"predict {path} clinical.csv --proba")
    assert code == 2 and "the model has no probabilities; learn them with kernelweave fit" in err
    code, _, err = run(f"fit clinical.csv --target days {view} --proba")
    assert code == 2 and "--proba needs classes, and 'days' is a number" in err


def test_ids_and_labels_are_read_as_they_are_written(run, tmp_path):
    ids = [f"{i:03}" for i in range(12)]
    y = np.where(np.arange(12) < 6, "no", "yes")
    (tmp_path / "a.csv").write_text(
        "id,x,y\n" + "".join(f"{i},{j},{t}\n" for j, (i, t) in enumerate(zip(ids, y, strict=True)))
    )
    (tmp_path / "b.csv").write_text("id,z\n" + "".join(f"{i},{int(i) % 5}\n" for i in ids[::-1]))
    words = ["--id", "id", "--view", f"b={tmp_path / 'b.csv'}"]
    path, table = str(tmp_path / "m"), str(tmp_path / "a.csv")
    assert run("fit --target y -o", path, table, *words)[0] == 0
    found = run("predict", path, table, *words)[1].splitlines()
    assert [line.split(",")[0] for line in found[1:]] == ids
    text = (tmp_path / "a.csv").read_text().replace("yes", "yesterday")
    (tmp_path / "a.csv").write_text(text)
    code, _, err = run("evaluate --target y", path, table, *words)
    assert (code, "does not know class 'yesterday'" in err) == (2, True)


GERMAN = """\ufeffNr;"Größe";"Wohn""ort";krank
007;1,5;"Köln, Süd";True
008;1;Graz;False
010;,;Graz;True
011;2,25E-1;"Graz";False
"""


def test_tables_as_a_german_spreadsheet_writes_them(tmp_path):
    (tmp_path / "t.csv").write_text(GERMAN.replace(";,;", ";;"), encoding="utf-8")
    table = read_table(str(tmp_path / "t.csv"), texts=("Nr",))
    assert table.columns.tolist() == ["Nr", "Größe", 'Wohn"ort', "krank"]
    assert table["Nr"].tolist() == ["007", "008", "010", "011"]
    assert np.array_equal(table["Größe"], [1.5, 1.0, np.nan, 0.225], equal_nan=True)
    assert table['Wohn"ort'].tolist() == ["Köln, Süd", "Graz", "Graz", "Graz"]
    assert table["krank"].dtype == bool
    (tmp_path / "t.csv").write_text(GERMAN, encoding="utf-8")
    assert read_table(str(tmp_path / "t.csv"))["Größe"].tolist()[2] == ","


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("a|b|c,d\n1|2|3\n", ["a", "b", "c,d"]),
        ("a;b,c\n1,2\n", ["a;b", "c"]),  # where both could be, the comma
        ('"a;b;c",d\n1,2\n', ["a;b;c", "d"]),
        ("alone\n1\n", ["alone"]),
    ],
)
def test_what_separates_columns_is_found(text, names, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(str(tmp_path / "t.csv")).columns.tolist() == names


def test_notes_are_told_once_and_rows_of_no_use_are_counted(run, folder):
    words = "fit some_genes.csv --target g1 --id patient --view c=clinical.csv --cv 2"
    code, _, err = run(words)
    assert code == 0
    assert "clinical.csv: 5 rows whose ids some_genes.csv lacks are left out: P0, P1" in err
    assert len(err.splitlines()) == len(set(err.splitlines()))


def test_words_stay_words_in_tables_that_hold_only_digits(run, tmp_path):
    frame = pd.DataFrame({"id": range(12), "w": ["1", "2", "x"] * 4, "y": ["a", "b", "c"] * 4})
    frame[["id", "y"]].assign(n=0.5 * frame["id"]).to_csv(tmp_path / "a.csv", index=False)
    frame[["id", "w"]].to_csv(tmp_path / "b.csv", index=False)
    table, path = str(tmp_path / "a.csv"), str(tmp_path / "m")
    words = [table, "--id", "id", "--view", f"b={tmp_path / 'b.csv'}"]
    assert run("fit --target y -o", path, *words)[0] == 0
    whole = run("predict", path, *words)[1].splitlines()
    digits = frame[frame["w"] != "x"]
    digits[["id", "w"]].to_csv(tmp_path / "b.csv", index=False)
    pd.read_csv(table).loc[digits.index].to_csv(table, index=False)
    some = run("predict", path, *words)[1].splitlines()
    assert some == [whole[0], *(whole[i + 1] for i in digits.index)]


def test_hostile_names_and_cells(run, tmp_path):
    names = ['<script>alert("x")</script>', "=1+1", "a'b,c", "späße 🚀", "-o", "x\ny"]
    frame = pd.DataFrame(rng.normal(size=(20, 6)), columns=names)
    frame["y"] = np.where(frame.iloc[:, 0] > 0, "=cmd|' /C calc'!A0", "<b>")
    frame["id"] = [f'"<i>{i}' for i in range(20)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = str(tmp_path / "m")
    assert run("fit --target y --id id", str(tmp_path / "t.csv"), "-o", path)[0] == 0
    code, out, _ = run("predict --id id --raw-text", path, str(tmp_path / "t.csv"))
    (tmp_path / "out.csv").write_text(out)
    found = pd.read_csv(tmp_path / "out.csv")
    assert (code, found["id"].tolist()) == (0, frame["id"].tolist())
    assert set(found["prediction"]) <= set(frame["y"])
    code, out, _ = run(f"info {path} --json")
    assert (code, json.loads(out)["columns"]) == (0, names)
    page = tmp_path / "r.html"
    words = "report --target y --id id --name-rows --cv 2"
    assert run(words, path, str(tmp_path / "t.csv"), "-o", str(page))[0] == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == 1
    assert "&#34;&lt;i&gt;" in text and "<i>" not in text
    assert "&lt;b&gt;" in text and "<b>" not in text


FIT = "fit clinical.csv --target status "
BAD = {
    "no command": ("dance", "No such command 'dance'"),
    "no option": (FIT + "--sed 1", "No such option"),
    "no table": ("fit --target status", "Missing argument 'TABLE'"),
    "no target": ("fit clinical.csv", "Missing option '--target'"),
    "missing file": ("fit nothing.csv --target y", "nothing.csv: No such file"),
    "a folder": ("fit . --target y", "a table is one of .csv"),
    "missing column": ("fit clinical.csv --target statsu", "did you mean 'status'"),
    "missing id": (FIT + "--id patients", "did you mean 'patient'"),
    "missing view column": (FIT + "--view a=weight", "has no column 'weight'"),
    "empty view": (FIT + "--view a=", "must be name=columns or name=file"),
    "view without name": (FIT + "--view age", "must be name=columns or name=file"),
    "same view twice": (FIT + "--view a=age --view a=sex", "'a' is named twice"),
    "join without id": (FIT + "--view g=genes.csv", "name them with --id"),
    "no common id": (FIT + "--id patient --view g=other.csv", "none of the ids"),
    "duplicate ids": ("fit twice.csv --target y --id id", "id 1 occurs twice"),
    "one class": ("fit one.csv --target y", "'y' is u in every row: rows of two classes or more"),
    "one class of paths": ("path one.csv --target y", "'y' is u in every row"),
    "missing targets": (
        "fit gaps.csv --target y",
        "2 rows have no 'y', the first is row 2 below the header; leave them out",
    ),
    "a missing target by id": (
        "fit known.csv --target y --id who",
        "1 row has no 'y', it is who B2; leave it out",
    ),
    "columns of a report": ("evaluate age.kweave gaps.csv --target y", "lacks a column"),
    "targets of a report": (
        "evaluate age.kweave untold.csv --target y",
        "1 row has no 'y', it is row 2 below the header",
    ),
    "infinity": (
        "fit endless.csv --target y",
        "column 'b' holds infinity, first in row 2 below the header: empty the cell",
    ),
    "an empty row": ("fit lost.csv --target y", "no view has a value in row 3 below the header"),
    "a word among numbers": (
        "fit typed.csv --target y",
        "typed.csv: column 'a' holds numbers, but also 'old', first in row 19 below the header",
    ),
    "a new word": ("predict age.kweave aged.csv", "but holds 'old' in row 3 below the header"),
    "Parquet without rows": ("fit header.parquet --target y", "header.parquet has no rows"),
    "nothing to predict": ("predict age.kweave header.parquet", "header.parquet has no rows"),
    "empty column": ("fit hollow.csv --target y", "column 'b' is empty"),
    "NaN": (
        "fit holes.csv --target y --impute none",
        "--impute none refuses them. Without that option",
    ),
    "two delimiters": ("fit semicolon.csv --target status --delimiter ;;", "must be one character"),
    "wrong delimiter": ("fit semicolon.csv --target status --delimiter |", "--delimiter ';'"),
    "not UTF-8": ("fit latin.csv --target y", "latin.csv cannot be read: save it as UTF-8"),
    "squeezed file that is none": ("fit fake.csv.gz --target y", "fake.csv.gz cannot be read"),
    "ragged": ("fit ragged.csv --target y", "ragged.csv cannot be read"),
    "empty file": ("fit empty.csv --target y", "empty.csv cannot be read"),
    "no rows": ("fit header.csv --target y", "header.csv has no rows"),
    "bytes": ("fit bytes.csv --target y", "bytes.csv cannot be read"),
    "parquet that is none": ("fit fake.parquet --target y", "fake.parquet cannot be read"),
    "archive that is none": ("fit fake.npz --target y", "fake.npz cannot be read"),
    "learner": (FIT + "--learner magic", "known: 'auto', 'uniform', 'simple'"),
    "nearly a learner": (FIT + "--learner simplmkl", "did you mean 'simple'?"),
    "view of no rows": (FIT + "--id patient --view g=none.csv", "none.csv has no value for any"),
    "a view named as the table": (
        FIT + "--id patient --view clinical=genes.csv",
        "clinical.csv is itself a view 'clinical'; name this another",
    ),
    "views that begin alike": (
        FIT + "--id patient --view g=genes.csv --view g__h=genes.csv",
        "--view g=genes.csv: columns of --view g__h would read as its own",
    ),
    "predictions of no rows": ("predict age.kweave header.csv", "header.csv has no rows"),
    "C": (FIT + "-C 0", "Invalid value for '-C'"),
    "C is no number": (FIT + "-C x", "Invalid value for '-C'"),
    "C of matrices": (FIT + "--view k=K.npy -C auto", "-C auto needs columns"),
    "norm": (FIT + "--norm 0.5", "Invalid value for '--norm'"),
    "folds of compare": ("compare clinical.csv --target status --cv 1", "Invalid value for '--cv'"),
    "folds": (FIT + "--view a=age --cv 1000", "--cv must lie between 2 and"),
    "regression of words": (FIT + "--task regression", "regression needs numbers"),
    "unwritable output": (FIT + "-o nowhere/m.kweave", "nowhere: No such directory"),
    "output is a folder": (FIT + "--view a=age -o .", "Is a directory"),
    "output is read": (FIT + "-o clinical.csv", "-o clinical.csv: this file is read"),
    "predictions over the model": ("predict age.kweave clinical.csv -o age.kweave", "is read"),
    "report is no page": (
        FIT + "--report out.csv",
        "--report must name an .html, .md or .json file",
    ),
    "one file for two": (FIT + "--report r.html -o r.html", "name the same file, r.html"),
    "report nowhere": (FIT + "--report nowhere/r.html", "nowhere: No such directory"),
    "report is a folder": (FIT + "--report folder.html", "folder.html: Is a directory"),
    "report of too few rows": ("fit few.csv --target y --report r.html", "cv must"),
    "names without a report": (FIT + "--name-rows", "ask for one with --report"),
    "names without ids": (FIT + "--report r.html --name-rows", "--name-rows needs ids"),
    "report without output": ("report age.kweave", "Missing option '-o'"),
    "report without target": ("report age.kweave clinical.csv -o r.html", "with --target"),
    "report of other columns": ("report age.kweave few.csv --target y -o r.html", "lacks a column"),
    "report of another target": (
        "report age.kweave clinical.csv --target sex -o r.html",
        "does not know class",
    ),
    "report of no model": ("report clinical.csv -o r.html", "no model file"),
    "small matrix": (FIT + "--view k=small.npy", "must be 40 × 40"),
    "matrix of words": (FIT + "--view k=words.npy", "must hold a matrix of numbers"),
    "mixed matrix": (FIT + "--view k=K.npy --view a=age", "cannot be mixed"),
    "corrupt model": ("predict corrupt.kweave clinical.csv", "corrupt.kweave cannot be loaded"),
    "foreign model": ("info all.npz", "no model file"),
    "no model": ("info none.kweave", "none.kweave: No such file"),
    "lacks columns": (
        "predict model.kweave clinical.csv",
        "lacks columns of the model: 'genes__g1', 'genes__g2', 'genes__g3'; "
        "add --id ID --view genes=FILE.",
    ),
    "lacks columns of a report": (
        "report model.kweave clinical.csv --target status --id patient -o r.html",
        "add --view genes=FILE.",
    ),
    "Cs": ("path clinical.csv --target status --Cs a,b", "--Cs must be numbers"),
    "unknown class": ("evaluate age.kweave clinical.csv --target sex", "does not know class"),
}


@pytest.fixture(scope="module")
def bad_files(folder, model):
    files = {
        "other.csv": "patient,g\nX1,1\nX2,2\n",
        "twice.csv": "id,a,y\n1,1,u\n1,2,v\n",
        "one.csv": "a,y\n1,u\n2,u\n3,u\n",
        "gaps.csv": "a,y\n1,u\n2,\n3,v\n4,\n",
        "known.csv": "who,a,y\nB1,1,u\nB2,2,\nB3,3,v\n",
        "none.csv": "patient,g1\n",
        "hollow.csv": "a,b,y\n1,,u\n2,,v\n",
        "holes.csv": "a,b,y\n1,2,u\n,3,v\n4,5,u\n",
        "ragged.csv": "a,y\n1,u\n2,v,3,4\n",
        "empty.csv": "",
        "header.csv": "a,y\n",
        "fake.parquet": "no",
        "fake.npz": "PK no",
        "few.csv": "a,y\n1,u\n2,v\n3,u\n5,v\n",
        "untold.csv": "age,y\n1,u\n2,\n",
        "endless.csv": "a,b,y\n1,2,u\n2,inf,v\n",
        "lost.csv": "a,b,y\n1,2,u\n2,3,v\n,,u\n",
        "typed.csv": "a,y\n" + "".join(f"{i}.5,u\n{i}.25,v\n" for i in range(9)) + "old,u\n",
        "aged.csv": "age\n0.5\n1.5\nold\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "folder.html").mkdir()
    pd.DataFrame({"age": [], "y": []}).to_parquet(folder / "header.parquet")
    (folder / "latin.csv").write_bytes("größe,y\n1,u\n2,v\n".encode("latin-1"))
    (folder / "fake.csv.gz").write_text("a,y\n1,u\n")
    (folder / "bytes.csv").write_bytes(b"a,y\n\xff\xfe\x00,1\n")
    content = bytearray((folder / "model.kweave").read_bytes())
    content[len(content) // 2] ^= 255
    (folder / "corrupt.kweave").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main("fit clinical.csv --target status --view a=age -o age.kweave".split()) == 0
    return sorted(folder.iterdir())


@pytest.mark.parametrize("name", BAD)
def test_bad_command_lines_are_one_line(name, run, folder, bad_files):
    line, told = BAD[name]
    code, out, err = run(line)
    *notes, last = err.splitlines()
    assert (code, out) == (2, ""), err
    assert last.startswith("kernelweave: ")
    assert told in last
    assert all(note.startswith("kernelweave: ") for note in notes)
    assert not any("Traceback" in note for note in notes)
    assert sorted(folder.iterdir()) == bad_files


def test_a_full_disk_leaves_no_file(run, model, folder, monkeypatch, tmp_path):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    out = tmp_path / "out.csv"
    words = f"predict {model} clinical.csv --id patient --view genes=genes.csv -o"
    assert run(words, str(out)) == (2, "", f"kernelweave: {out}: No space left on device\n")
    assert [*tmp_path.iterdir()] == []
