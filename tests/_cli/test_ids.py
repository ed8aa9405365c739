"""Ids on the command line: none is empty, and spellings that differ by zeros alone are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kernelweave._cli.main import main
from kernelweave._core.settings import SETTINGS

rng = np.random.default_rng(4)
N = 24
TOLD = "1 row has no 'patient', it is row 4 below the header; give it one, or delete it"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Patients 1 to 24 with ages and genes; tables with an empty id; ids with leading zeros."""
    folder = tmp_path_factory.mktemp("files")
    genes = pd.DataFrame(rng.normal(size=(N, 2)), columns=["g1", "g2"])
    genes.insert(0, "patient", [str(i + 1) for i in range(N)])
    table = genes[["patient"]].assign(age=rng.normal(size=N), y=np.where(genes.g1 > 0, "u", "v"))
    tables = {"table": table, "genes": genes}
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        gap = frame.assign(patient=frame.patient.where(frame.index != 3))
        gap.to_csv(folder / f"{name}_gap.csv", index=False)
    table.assign(patient=table.patient.where(table.index > 1, "")).to_parquet(
        folder / "blank.parquet"
    )
    for digits in (2, 3):
        zeros = genes.assign(patient=genes.patient.str.zfill(digits))
        zeros.to_csv(folder / f"zeros{digits}.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = "fit table.csv --target y --id patient"
        assert main([*words.split(), "-o", "age.kweave"]) == 0
        assert main([*words.split(), *"--view genes=genes.csv -o m.kweave".split()]) == 0
    return folder


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("fit table_gap.csv --target y", "table_gap.csv"),
        ("path table_gap.csv --target y", "table_gap.csv"),
        ("compare table_gap.csv --target y", "table_gap.csv"),
        ("predict age.kweave table_gap.csv", "table_gap.csv"),
        ("evaluate age.kweave table_gap.csv --target y", "table_gap.csv"),
        ("report age.kweave table_gap.csv --target y -o r.html", "table_gap.csv"),
        ("fit table.csv --target y --view genes=genes_gap.csv -o n.kweave", "genes_gap.csv"),
        ("predict m.kweave table.csv --view genes=genes_gap.csv -o p.csv", "genes_gap.csv"),
    ],
)
def test_an_empty_id_is_refused(run, folder, line, path):
    files = sorted(folder.iterdir())
    assert run(f"{line} --id patient") == (2, "", f"kernelweave: {path}: {TOLD}\n")
    assert sorted(folder.iterdir()) == files


def test_blank_ids_are_empty(run):
    code, _, told = run("fit blank.parquet --target y --id patient")
    assert (
        code,
        "2 rows have no 'patient', the first is row 1 below the header; give" in told,
    ) == (2, True)


def test_an_empty_id_is_found_in_later_pieces(run, monkeypatch):
    monkeypatch.setattr(SETTINGS, "table_rows", 2)
    assert TOLD in run("predict age.kweave table_gap.csv --id patient -o p.csv")[2]


def test_ids_that_differ_by_leading_zeros_are_refused(run):
    """95 and 095: one person or two? Whoever says that ids are text says two."""
    words = "fit table.csv --target y --id patient --view genes="
    for digits, count in ((2, 9), (3, 24)):
        code, out, told = run(f"{words}zeros{digits}.csv")
        first = "1".zfill(digits)
        assert (code, out) == (2, "")
        assert f"{count} ids differ only by leading zeros, as {first} in zeros{digits}.csv" in told
        assert "and 1 in table.csv do: write ids alike, or, if they are others, say" in told
        assert "--text-ids" in told
    code, _, told = run(f"{words}zeros2.csv --text-ids")
    assert code == 0
    assert "zeros2.csv: 9 rows whose ids table.csv lacks are left out: 01, 02," in told
    code, _, told = run(f"{words}zeros3.csv --text-ids")
    assert code == 2 and "has none of the ids of table.csv, such as 1\n" in told


def test_new_rows_are_asked_the_same(run):
    line = "predict m.kweave table.csv --id patient --view genes=zeros2.csv"
    assert "9 ids differ only by leading zeros" in run(line)[2]
    assert run(f"{line} --text-ids")[0] == 0


def test_other_ids_that_are_not_found_are_not_blamed_on_zeros(run, folder):
    (folder / "more.csv").write_text("patient,g\n1,2\n2,3\nX,1\n")
    code, _, told = run("fit table.csv --target y --id patient --view g=more.csv")
    (folder / "more.csv").unlink()
    assert code == 0
    assert "more.csv: 1 row whose id table.csv lacks is left out: X\n" in told
