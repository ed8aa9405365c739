"""What the command line says of columns and views: in the user's names, with what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kernelweave._cli.main import main

rng = np.random.default_rng(5)
N = 30
FIT = "fit t.csv --target y --id who "
PREDICT = "predict m.kweave t.csv --id who --view genes=genes.csv "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a target, genes, a kernel, and variants of them that something is wrong with."""
    folder = tmp_path_factory.mktemp("files")
    genes = pd.DataFrame(rng.normal(size=(N, 3)), columns=["g1", "g2", "g3"])
    who = [f"P{i}" for i in range(N)]
    table = pd.DataFrame({"who": who, "age": rng.normal(size=N), "bmi": rng.normal(size=N)})
    table["y"] = np.where(genes.g1 + table.age > 0, "u", "v")
    K = genes.to_numpy() @ genes.to_numpy().T
    genes.insert(0, "who", who)
    kernel = pd.DataFrame(K, columns=who)
    kernel.insert(0, "who", who)
    files = {
        "t": table,
        "genes": genes,
        "kernel": kernel,
        "two_genes": genes.drop(columns="g3"),
        "hollow_gene": genes.assign(g3=np.nan),
        "typed": genes.assign(g2=genes.g2.astype(object).where(genes.index != 7, "high")),
        "noted": table.assign(note=[f"as told by {i}" for i in who]),
        "typed_t": table.assign(age=table.age.astype(object).where(table.index != 4, "old")),
        "endless": table.assign(age=table.age.where(table.index != 4, np.inf)),
        "lost": table.assign(age=table.age.where(table.index != 4)).assign(
            bmi=table.bmi.where(table.index != 4)
        ),
        "gap": table.assign(age=table.age.where(table.index != 4)),
        "no_age": table.drop(columns="age"),
        "one": table[:1],
    }
    for name, frame in files.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    table.assign(day=pd.Timestamp("2020-02-02")).to_parquet(folder / "dated.parquet")
    table.assign(code=[str(i) for i in range(N)]).to_parquet(folder / "digits.parquet")
    np.save(folder / "K.npy", K)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in (
            FIT + "--view genes=genes.csv -o m.kweave",
            FIT + "--view genes=genes.csv --impute none -o strict.kweave",
            FIT + "--view K=K.npy -o K.kweave",
            FIT + "-o t.kweave",
        ):
            assert main(line.split()) == 0
    return folder


REFUSED = {
    "empty column of a view file": (
        FIT + "--view genes=hollow_gene.csv",
        "hollow_gene.csv: column 'g3' is empty: delete it, or leave it out with --drop g3",
    ),
    "word in a view file": (
        FIT + "--view genes=typed.csv",
        "typed.csv: column 'g2' holds numbers, but also 'high', first in who P7: correct it, or "
        "--drop g2",
    ),
    "texts": (
        "fit noted.csv --target y --id who",
        "noted.csv: column 'note' has 30 different entries in 30 rows, as names and texts have, "
        "and no kernel here compares those: delete it, or --drop note",
    ),
    "dates": (
        "fit dated.parquet --target y --id who",
        "dated.parquet: column 'day' holds neither numbers nor words, such as 2020-02-02 00:00:00: "
        "save it as one of them, or --drop day",
    ),
    "numbers as text": (
        "fit digits.parquet --target y --id who",
        "digits.parquet: column 'code' holds numbers as text, such as '0': save them as numbers, "
        "or --drop code",
    ),
    "nearly a column": (
        FIT + "--view a=agee,bmi",
        "--view a: t.csv has no column 'agee'; did you mean 'age'?",
    ),
    "ids in a view": (
        FIT + "--view a=age,who",
        "--view a: 'who' is the column of ids, which is in no view; do not name it here",
    ),
    "target in a view": (
        FIT + "--view a=y",
        "--view a: 'y' is the target, which is in no view; do not name it here",
    ),
    "folds": (FIT + "--cv 1", "Invalid value for '--cv': 1 is not in the range x>=2."),
    "folds of a report": (
        "report m.kweave -o r.html --cv 1",
        "Invalid value for '--cv': 1 is not in the range x>=2.",
    ),
    "too many folds": (FIT + "--cv 99", None),
    "too many folds to compare": ("compare t.csv --target y --id who --cv 99", None),
    "nearly a view": (
        "predict m.kweave t.csv --id who --view gene=genes.csv",
        "the model has no view 'gene'; it has 't', 'genes'",
    ),
    "column that a view file lacks": (
        "predict m.kweave t.csv --id who --view genes=two_genes.csv",
        "two_genes.csv lacks a column of the model: 'g3'; add it, cells may be empty",
    ),
    "column that the table lacks": (
        PREDICT.replace("t.csv", "no_age.csv"),
        "no_age.csv lacks a column of the model: 'age'; add it, cells may be empty",
    ),
    "column that a model without filling needs": (
        PREDICT.replace("t.csv", "no_age.csv").replace("m.kweave", "strict.kweave"),
        "no_age.csv lacks a column of the model: 'age'; add it",
    ),
    "new word": (
        PREDICT.replace("t.csv", "typed_t.csv"),
        "typed_t.csv: column 'age' held numbers in training, but holds 'old' in who P4: correct "
        "it, or empty the cell",
    ),
    "new infinity": (
        PREDICT.replace("t.csv", "endless.csv"),
        "endless.csv: column 'age' holds infinity, first in who P4: empty the cell",
    ),
    "gap for a model without filling": (
        PREDICT.replace("t.csv", "gap.csv").replace("m.kweave", "strict.kweave"),
        "gap.csv: column 'age' is empty in who P4: fill it in; the model fills no cells, as "
        "--impute none asks",
    ),
    "row without a value": (
        "predict t.kweave lost.csv",
        "lost.csv: no view has a value in row 5 below the header; leave it out",
    ),
    "no matrix": (
        "predict K.kweave t.csv",
        "the model reads kernel matrices, new rows by rows of training; add --view K=FILE.npy",
    ),
    "other matrix": (
        "predict K.kweave t.csv --view L=K.npy",
        "the model has no view 'L'; it has 'K'",
    ),
    "matrix for columns": (
        "predict m.kweave t.csv --view genes=K.npy",
        "--view genes=K.npy: the model reads columns, no kernel matrices",
    ),
    "matrix of other rows": (
        "evaluate K.kweave one.csv --target y --view K=K.npy",
        "--view K: the matrix must have 1 row, one for each row of one.csv; found 30",
    ),
    "nearly a column to drop": (
        FIT + "--drop agee",
        "--drop: no file has a column 'agee'; did you mean 'age'?",
    ),
    "target to drop": (
        FIT + "--drop y",
        "--drop: 'y' is the target, which is in no view; do not name it here",
    ),
    "dropped and named": (
        FIT + "--drop age --view a=age",
        "--view a: 'age' is left out by --drop; do not name it here",
    ),
    "all dropped": (
        FIT + "--view genes=genes.csv --drop genes__*",
        "genes.csv has no columns beside 'who' and those of --drop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_columns_and_views_are_one_line_alone(run, folder, name):
    """No informative line stands before it."""
    files = sorted(folder.iterdir())
    line, told = REFUSED[name]
    code, out, err = run(line)
    assert (code, out) == (2, "")
    if told is None:
        assert err.startswith("kernelweave: --cv must lie between 2 and ")
        assert err.count("\n") == 1
    else:
        assert err == f"kernelweave: {told}\n"
    assert sorted(folder.iterdir()) == files


def test_a_column_that_is_added_empty_is_filled(run):
    """What the advice on missing columns promises."""
    code, out, err = run("predict m.kweave t.csv --id who --view genes=hollow_gene.csv")
    assert (code, len(out.splitlines())) == (0, N + 1)
    assert err == "kernelweave: empty cells: 30 in 'genes__g3'; filled as in training\n"


def test_new_rows_that_lack_every_view_are_told_in_words(run, folder):
    (folder / "few_genes.csv").write_text("who,g1,g2,g3\nP0,1,2,3\nP1,1,2,3\n")
    code, _, err = run("predict m.kweave lost.csv --id who --view genes=few_genes.csv")
    (folder / "few_genes.csv").unlink()
    assert (code, "of X" in err) == (0, False)
    assert "of 30 rows, 1 without a value in any view: nothing is known of them\n" in err


def test_columns_beside_kernel_matrices_are_told(run):
    assert "columns in no view are left out: age, bmi\n" in run(FIT + "--view K=K.npy")[2]


def test_a_kernel_matrix_as_csv_is_told(run):
    code, _, err = run(FIT + "--view K=kernel.csv")
    assert code == 0
    assert "kernel.csv: columns are named as rows are, as in a kernel matrix, but taken as f" in err
    assert "save it as .npy" in err
    assert "kernel matrix" not in run(FIT + "--view genes=genes.csv")[2]


def test_columns_are_dropped_by_their_names_in_files_or_models(run):
    words = "fit noted.csv --target y --id who --view genes=hollow_gene.csv --drop note --drop "
    for name in ("g3", "genes__g3", "*3"):
        code, _, err = run(f"{words}{name} -o dropped.kweave")
        assert (code, "left out" in err) == (0, False)
        assert "4 columns: age, bmi, genes__g1, genes__g2" in run("info dropped.kweave")[1]
    code, _, err = run("predict dropped.kweave noted.csv --id who --view genes=genes.csv")
    assert (code, err) == (0, "")


def test_weights_along_a_path_are_rounded_as_elsewhere(run):
    code, out, _ = run("path t.csv --target y --id who --view genes=genes.csv --Cs 0.01,1")
    assert code == 0
    for line in out.splitlines()[1:]:
        weights = line.split()[1:3]
        assert all(len(weight) == len("0.123") for weight in weights)
        assert sum(map(float, weights)) == pytest.approx(1.0, abs=0.0011)


def test_one_column_is_not_columns(run):
    assert run(FIT + "--view a=age -o age.kweave")[0] == 0
    assert "\n1 column: age\n" in run("info age.kweave")[1]
