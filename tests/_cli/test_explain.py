"""``kernelweave explain``: rows by id or number, words, JSON, a picture, errors."""

import json

import numpy as np
import pandas as pd
import pytest

import kernelweave
from kernelweave._cli.main import main

rng = np.random.default_rng(8)
N = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    genes = rng.normal(size=(N, 3))
    clinical = pd.DataFrame(
        {
            "patient": [f"P{i}" for i in range(N)],
            "age": rng.normal(50, 9, size=N),
            "sex": rng.choice(["f", "m"], size=N),
            "status": np.where(genes[:, 0] > 0, "ill", "well"),
        }
    )
    table = pd.DataFrame(genes, columns=["g1", "g2", "g3"])
    table.insert(0, "patient", clinical["patient"])
    clinical.to_csv(folder / "clinical.csv", index=False)
    table[4:].to_csv(folder / "genes.csv", index=False)
    words = "fit clinical.csv --target status --id patient --view genes=genes.csv -o m.kweave"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(words.split()) == 0
    return folder


ASK = "explain m.kweave clinical.csv --id patient --view genes=genes.csv"


def test_words_and_picture(run, folder):
    code, out, _ = run(f"{ASK} --row P7 --row P0 -o row.png")
    assert code == 0
    first, second = out.split("\n\n")[:2]
    assert first.startswith("patient P7\nwell: ") and "genes__g1" in first
    assert "nearest training rows: " in first and "100 % of the weight" in first
    assert second.startswith("patient P0") and "+0.000  genes" in second
    assert (folder / "row.png").read_bytes()[:4] == b"\x89PNG"


def test_json_adds_up(run, folder):
    code, out, _ = run(f"{ASK} --row P7 --json")
    assert code == 0
    found = json.loads(out)[0]
    value = found["value"]["well"]
    assert sum(part["part"] for part in found["views"]) == pytest.approx(value, abs=1e-9)
    model = kernelweave.load(folder / "m.kweave")
    assert {part["view"] for part in found["views"]} == {"baseline", *model.bank_.views}
    assert len(found["nearest"]) == 5 and found["seen"] == pytest.approx(1.0)


def test_rows_by_number(run):
    run("fit clinical.csv --target status --view a=age -o plain.kweave")
    code, out, _ = run("explain plain.kweave clinical.csv --row 3")
    assert code == 0 and out.startswith("row 3\nwell: ")


def test_unknown_rows_are_named(run):
    code, _, err = run(f"{ASK} --row Q1")
    assert code == 2 and "clinical.csv has no patient Q1; it has P0, P1, P2" in err
    code, _, err = run(ASK)
    assert code == 2 and "--row" in err
