"""Texts that spreadsheets take for formulas, files behind links, ids, rows without a target."""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import pandas as pd
import pytest

from kernelweave._cli.main import main

rng = np.random.default_rng(6)
N = 24
LABELS = np.where(np.arange(N) % 2 == 0, "=1+1", "well")
IDS = ["=HYPERLINK(1)", "+49 170", "-5", "-5e3", "@home", "+1.5", "-x", "\tx"]
IDS += [f"P{i}" for i in range(N - len(IDS))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    frame = pd.DataFrame({"=id": IDS, "age": np.arange(N) % 2 + 0.1 * rng.normal(size=N)})
    frame["status"] = LABELS
    frame.to_csv(folder / "t.csv", index=False)
    gaps = frame.assign(status=frame["status"].where(np.arange(N) % 8 > 0))
    gaps.to_csv(folder / "gaps.csv", index=False)
    np.save(folder / "K.npy", np.equal.outer(LABELS, LABELS) + np.eye(N))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main("fit t.csv --target status --id =id -o m.kweave".split()) == 0
    return folder


def table(text):
    return pd.read_csv(io.StringIO(text), dtype=str)


def test_text_that_reads_as_a_formula_gets_an_apostrophe(run):
    code, out, err = run("predict m.kweave t.csv --id =id")
    found = table(out)
    assert code == 0 and found.columns.tolist() == ["'=id", "prediction"]
    assert set(found["prediction"]) == {"'=1+1", "well"}
    assert found["'=id"].tolist()[:6] == [
        "'=HYPERLINK(1)", "'+49 170", "-5", "-5e3", "'@home", "+1.5",
    ]  # fmt: skip
    assert found["'=id"].tolist()[6:8] == ["'-x", "'\tx"]
    assert err.count("apostrophe") == 1
    told = "18 texts that begin as formulas do have a leading apostrophe; --raw-text leaves it out"
    assert told in err


def test_raw_text_is_written_as_it_is(run):
    code, out, err = run("predict m.kweave t.csv --id =id --raw-text")
    found = table(out)
    assert code == 0 and found.columns.tolist() == ["=id", "prediction"]
    assert found["=id"].tolist() == IDS and "=1+1" in set(found["prediction"])
    assert "apostrophe" not in err


def test_numbers_are_never_touched(run, folder):
    frame = pd.read_csv(folder / "t.csv").assign(y=np.arange(N) * -1.0)
    frame.to_csv(folder / "numbers.csv", index=False)
    assert run("fit numbers.csv --target y --task regression --view a=age -o n.kweave")[0] == 0
    _, out, err = run("predict n.kweave numbers.csv")
    assert "apostrophe" not in err and "'" not in out and "-" in out


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_a_link_is_written_through(run, folder):
    """The file that it leads to is written, and the link stays."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    goal, link = folder / "elsewhere" / "out.csv", folder / "link.csv"
    goal.write_text("old")
    link.symlink_to(goal)
    assert run("predict m.kweave t.csv --id =id -o link.csv")[0] == 0
    assert link.is_symlink() and goal.read_text().startswith("'=id,prediction")
    assert os.listdir(folder / "elsewhere") == ["out.csv"]
    dangling = folder / "new.csv"
    dangling.symlink_to(folder / "elsewhere" / "new.csv")
    assert run("predict m.kweave t.csv --id =id -o new.csv")[0] == 0
    assert dangling.is_symlink() and (folder / "elsewhere" / "new.csv").exists()


def test_ids_with_a_NUL_are_refused(run, folder):
    frame = pd.read_csv(folder / "t.csv").astype({"=id": str})
    frame.loc[3, "=id"] = "P\0x"
    frame.to_parquet(folder / "nul.parquet")
    code, _, err = run("predict m.kweave nul.parquet --id =id")
    assert code == 2
    assert "nul.parquet: the id in row 4 below the header holds a NUL character" in err


def test_rows_without_a_target_are_left_out_on_request(run, folder):
    fit = "fit gaps.csv --target status --view a=age"
    code, _, err = run(fit)
    assert code == 2 and "3 rows have no 'status'" in err and "--drop-unlabeled" in err
    for line in (
        f"{fit} -o g.kweave --drop-unlabeled",
        "compare gaps.csv --target status --view a=age --drop-unlabeled --repeats 1",
        "path gaps.csv --target status --view a=age --drop-unlabeled",
        "fit gaps.csv --target status --id =id --view K=K.npy -o k.kweave --drop-unlabeled",
        "evaluate g.kweave gaps.csv --target status --drop-unlabeled",
        "evaluate k.kweave gaps.csv --target status --view K=K21.npy --drop-unlabeled",
        "report g.kweave gaps.csv --target status --drop-unlabeled --cv 2 -o r.html",
    ):
        if "K21" in line:
            kept = np.arange(N) % 8 > 0
            np.save(folder / "K21.npy", np.load(folder / "K.npy")[:, kept])
        code, _, err = run(line)
        assert code == 0, err
        assert "gaps.csv: 3 rows without 'status' are left out" in err
    line = "fit t.csv --target status --view a=age --drop-unlabeled"
    assert "without 'status'" not in run(line)[2]


def test_a_file_without_a_header_is_told(run, folder):
    values = pd.DataFrame(rng.normal(size=(N, 3)).round(3))
    values.insert(0, "id", IDS)
    values.to_csv(folder / "bare.csv", index=False, header=False)
    line = "fit t.csv --target status --id =id --view g=bare.csv"
    code, _, err = run(line)
    assert code == 2 and "bare.csv seems to lack a header: its columns would be named" in err
    spectra = pd.DataFrame(rng.normal(size=(N, 3)), columns=["1100.5", "1101.0", "1101.5"])
    spectra.insert(0, "=id", IDS)
    spectra.to_csv(folder / "spectra.csv", index=False)
    code, _, err = run(line.replace("bare", "spectra"))
    assert code == 0 and "header" not in err


def test_values_too_large_name_their_column(run, folder):
    frame = pd.read_csv(folder / "t.csv").assign(dose=1e300 * np.arange(N), fine=1.0)
    frame.to_csv(folder / "large.csv", index=False)
    code, _, err = run("fit large.csv --target status --view a=age,dose,fine")
    assert code == 2 and "column 'dose'" in err and "too large" in err and "'age'" not in err
