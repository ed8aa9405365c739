"""Gene sets from GMT files as views, and what a bank makes of them."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from kernelweave import KernelBank, Linear, MKLClassifier, join_views, views_from_gmt

GMT = (
    "REPAIR\thttp://sets/repair\tATM\tTP53\tBRCA1\tATM\n"
    "GROWTH\t\tMYC,1.0\tTP53,0.5\tEGFR\n"
    "\n"
    "TINY\tna\tMYC\tNOWHERE\n"
)
COLUMNS = ["TP53", "ATM", "BRCA1", "MYC", "EGFR", "OTHER"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "sets.gmt"
    path.write_text(GMT)
    return path


def test_positions_of_members_and_one_warning(path):
    with pytest.warns(UserWarning) as told:
        views = views_from_gmt(path, COLUMNS, min_size=2)
    assert views == {"REPAIR": [0, 1, 2], "GROWTH": [0, 3, 4]}
    assert len(told) == 1
    text = str(told[0].message)
    assert "1 of 6 names are no columns: NOWHERE" in text
    assert "1 set of fewer than 2 columns left out: TINY" in text


@pytest.mark.filterwarnings("ignore:.*sets.gmt")
def test_frames_packed_files_and_sizes(path, tmp_path):
    frame = pd.DataFrame(np.zeros((2, 6)), columns=COLUMNS)
    packed = tmp_path / "sets.gmt.gz"
    packed.write_bytes(gzip.compress(GMT.encode()))
    assert views_from_gmt(packed, frame, 3) == views_from_gmt(path, frame, 3)
    assert views_from_gmt(path, frame, 1, 1) == {"TINY": [3]}


@pytest.mark.filterwarnings("ignore:.*sets.gmt")
def test_joined_tables_keep_the_names_of_genes(path):
    index = [f"p{i}" for i in range(4)]
    genes = pd.DataFrame(np.eye(4, 6), index, COLUMNS)
    other = pd.DataFrame({"age": [1.0, 2, 3, 4], "MYC": 1.0}, index)
    X, _ = join_views({"clinical": other, "genes": genes})
    views = views_from_gmt(path, X, min_size=2)
    assert [X.columns[c] for c in views["REPAIR"]] == ["genes__TP53", "genes__ATM", "genes__BRCA1"]
    # MYC is in both tables, and not known
    assert [X.columns[c] for c in views["GROWTH"]] == ["genes__TP53", "genes__EGFR"]


@pytest.mark.filterwarnings("ignore:.*sets.gmt")
def test_the_bank_takes_them(path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 6)), columns=COLUMNS)
    y = X["ATM"] + X["BRCA1"] > 0
    views = views_from_gmt(path, X, min_size=2)
    model = MKLClassifier(KernelBank([Linear()], views=views)).fit(X, y)
    assert model.weights_frame()["view"][0] == "REPAIR"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A\tb", "line 1 is no gene set"),
        ("A b c d", "line 1 is no gene set"),
        ("A\tx\tTP53\nA\tx\tATM", "line 2: the set 'A' occurs twice"),
        ("", "holds no gene set"),
        ("A\tx\ttp53\tatm", "none of 1 sets has 5 to 500 columns of X"),
    ],
)
def test_bad_files(tmp_path, text, told):
    path = tmp_path / "bad.gmt"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        views_from_gmt(path, COLUMNS)


def test_bad_arguments(path):
    with pytest.raises(ValueError, match="occurs twice"):
        views_from_gmt(path, ["TP53", "TP53"])
    with pytest.raises(ValueError, match="min_size must not exceed"):
        views_from_gmt(path, COLUMNS, 9, 3)
    with pytest.raises(ValueError, match="min_size"):
        views_from_gmt(path, COLUMNS, 0)
