"""Clinical tables as they are: empty cells in numbers and words, patients without genes."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import kernelweave
from kernelweave._core.settings import SETTINGS

rng = np.random.default_rng(6)
N = 60
ILL = rng.random(N) < 0.5
TABLES = "clinical.csv --target status --id patient --view genes=genes.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nine empty cells in bmi, nine in crp, two in sex; four patients have no genes."""
    folder = tmp_path_factory.mktemp("files")
    clinical = pd.DataFrame(
        {
            "patient": [f"P{i}" for i in range(N)],
            "age": rng.integers(30, 80, size=N),
            "bmi": rng.normal(25, 4, size=N) + 3 * ILL,
            "crp": np.exp(rng.normal(size=N) + ILL),
            "sex": rng.choice(["f", "m"], size=N).astype(object),
            "ward": rng.choice(["north", "south"], size=N),
            "status": np.where(ILL, "ill", "well"),
        }
    )
    for column, count in (("bmi", 9), ("crp", 9), ("sex", 2)):
        clinical.loc[rng.choice(N, count, replace=False), column] = np.nan
    genes = pd.DataFrame(rng.normal(size=(N, 3)) + ILL[:, None], columns=["g1", "g2", "g3"])
    genes.insert(0, "patient", clinical.patient)
    clinical.to_csv(folder / "clinical.csv", index=False)
    genes.iloc[4:][::-1].to_csv(folder / "genes.csv", index=False)
    return folder


def test_from_two_files_to_predictions(run, folder):
    code, _, told = run(f"fit {TABLES} -o m.kweave --cv 2")
    assert code == 0
    numbers = "empty cells: 9 in 'bmi', 9 in 'crp'; filled with the median of the training rows\n"
    assert numbers in told
    assert "empty cells: 2 in 'sex'; a level of their own\n" in told
    assert "'g1'" not in told  # who lacks the view has no cells to fill
    model = kernelweave.load(folder / "m.kweave")
    clinical = pd.read_csv(folder / "clinical.csv")
    filled = {
        name: value
        for member in model.bank_.members
        for name, value in zip(
            model.feature_names_in_[list(member.view.columns)], member.view.filling, strict=True
        )
    }
    assert filled["bmi"] == clinical.bmi.median()
    assert filled["age"] == clinical.age.median()
    code, out, _ = run("predict m.kweave clinical.csv --id patient --view genes=genes.csv")
    assert code == 0
    right = pd.read_csv(io.StringIO(out)).prediction == clinical.status
    assert right.mean() > 0.8
    code, out, _ = run(f"evaluate m.kweave {TABLES}")
    assert code == 0
    assert float(out.splitlines()[1].split()[-1]) == pytest.approx(right.mean(), abs=1e-3)


@pytest.mark.parametrize("command", ["path --Cs 1", "compare --repeats 1 --cv 2", "fit -C auto"])
def test_other_commands_fill_cells_too(run, command):
    name, *options = command.split()
    code, _, told = run(f"{name} {TABLES} {' '.join(options)} --impute mean")
    assert code == 0
    assert "9 in 'crp'; filled with the mean of the training rows" in told


@pytest.mark.parametrize(
    "command",
    [
        "predict m.kweave clinical.csv --id patient --view genes=genes.csv",
        f"evaluate m.kweave {TABLES}",
        f"report m.kweave {TABLES} --cv 2 -o r.html",
    ],
)
def test_cells_that_a_model_fills_are_told_beside_the_data(run, command, monkeypatch):
    monkeypatch.setattr(SETTINGS, "table_rows", 7)
    assert run(f"fit {TABLES} -o m.kweave")[0] == 0
    code, out, told = run(command)
    assert (code, "empty cells" in out) == (0, False)
    assert told.count("empty cells") == 2
    assert "empty cells: 9 in 'bmi', 9 in 'crp'; filled as in training\n" in told
    assert "empty cells: 2 in 'sex'; a level of their own\n" in told
    assert "some lack a view: 'genes' (4)" in told


def test_who_wants_no_filling_is_told_what_is_empty(run):
    code, out, told = run(f"fit {TABLES} --impute none")
    assert (code, out) == (2, "")
    assert "empty cells: 9 in 'bmi', 9 in 'crp', 2 in 'sex'; --impute none refuses them" in told


def test_true_and_false_with_empty_cells_are_numbers(run, folder):
    flags = np.where(np.arange(40) % 9 == 0, "", np.where(rng.random(40) < 0.5, "True", "False"))
    table = pd.DataFrame({"y": ["p", "q"] * 20, "a": rng.normal(size=40), "f": flags})
    table.to_csv(folder / "flags.csv", index=False)
    code, _, told = run("fit flags.csv --target y -o flags.kweave")
    assert code == 0
    assert "empty cells: 5 in 'f'; filled with the median of the training rows\n" in told
    assert "lack" not in told and "level" not in told
    (folder / "flags.csv").unlink()
    (folder / "flags.kweave").unlink()


def test_only_views_that_some_rows_lack_are_called_mixed(run):
    """clinical has numbers and words, and every row has both; four lack genes."""
    _, _, told = run(f"fit {TABLES} --impute none --view clinical=age,ward")
    assert "some lack a view: 'genes' (4)" in told
