"""Data sets by name, from folders made for the test, scikit-learn and a stand-in for OpenML."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.datasets import load_breast_cancer
from sklearn.utils import Bunch

from kernelweave import Gaussian, KernelBank, MKLClassifier
from kernelweave.io import datasets
from kernelweave.io.datasets import load


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """No folder of the user's, and no network."""
    monkeypatch.delenv("KERNELWEAVE_DATA", raising=False)

    def unreachable(*args, **kwargs):
        raise OSError("no network here")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", unreachable)


@pytest.fixture
def known(monkeypatch):
    """Change what is known of a set, so that small files will do."""

    def change(name, shape, counts):
        facts = datasets._KNOWN[name]._replace(shape=shape, counts=counts)
        monkeypatch.setitem(datasets._KNOWN, name, facts)

    return change


def write(folder, name, text):
    with gzip.open(folder / name, "wt", encoding="utf-8") as out:
        out.write(text)


def test_a_table(tmp_path, known, monkeypatch):
    known("heart", (3, 2), {-1: 1, 1: 2})
    write(tmp_path, "heart.csv.gz", "age,dose,y\n60,1.5,1\n50,2,-1\n40,0.25,1\n")
    data = load("heart", tmp_path)
    assert np.array_equal(data.X, [[60, 1.5], [50, 2], [40, 0.25]])
    assert data.y.tolist() == [1, -1, 1]
    assert data.columns == ["age", "dose"] and data.views == {"all": [0, 1]}
    assert data.origin == "file heart.csv.gz" and data.train is None
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path))
    assert np.array_equal(load("heart").X, data.X)


def test_letters(tmp_path, known):
    known("splice_uci_letters", (2, 3), {"EI": 1, "N": 1})
    write(tmp_path, "splice_uci_letters.csv.gz", "f0,f1,f2,y\nA,C,G,EI\nT,N,A,N\n")
    data = load("splice_uci_letters", tmp_path)
    assert data.X.dtype == object
    assert ["".join(row) for row in data.X] == ["ACG", "TNA"]
    assert data.y.tolist() == ["EI", "N"]


def test_views_serve_a_bank(tmp_path, known):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    a, b = rng.normal(size=(30, 4)) + y[:, None], rng.normal(size=(30, 2))
    np.savez(tmp_path / "mfeat.npz", a=a, b=b, y=y)
    known("mfeat", (30, 6), {0: 15, 1: 15})
    data = load("mfeat", tmp_path)
    assert np.array_equal(data.view("a"), a) and np.array_equal(data.view("b"), b)
    bank = KernelBank([Gaussian(1.0, relative=True)], views=data.views)
    assert MKLClassifier(bank).fit(data.X, data.y).weights_.shape == (2,)


def test_a_view_that_test_rows_lack(tmp_path, known):
    parts = {f"{name}_train": np.ones((3, 2)) for name in ("mirna", "mrna", "protein")}
    parts |= {"mirna_test": np.zeros((1, 2)), "mrna_test": np.zeros((1, 2))}
    np.savez(tmp_path / "tcga_breast_mixomics.npz", **parts, y_train=["Her2"] * 3, y_test=["Basal"])
    known("tcga_breast_mixomics", (4, 6), {"Basal": 1, "Her2": 3})
    data = load("tcga_breast_mixomics", tmp_path)
    assert data.train.tolist() == [True, True, True, False]
    assert np.isnan(data.view("protein")[3]).all()
    assert np.isfinite(data.X[data.train]).all()


def test_sparse_ones(tmp_path, known):
    dense = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]])
    rows, columns = dense.nonzero()
    np.savez(
        tmp_path / "w8a.npz",
        indices=columns,
        indptr=np.searchsorted(rows, np.arange(4)),
        shape=dense.shape,
        y=np.array([-1, -1, 1], dtype=np.int8),
    )
    known("w8a", (3, 4), {-1: 2, 1: 1})
    assert np.array_equal(load("w8a", tmp_path).X, dense)


def test_texts_with_several_topics(tmp_path, known):
    documents = [
        {"id": 1, "split": "train", "topics": ["wheat", "grain"], "title": "A", "body": "b c"},
        {"id": 5, "split": "test", "topics": [], "title": "D", "body": ""},
        {"id": 6, "split": "train", "topics": ["grain"], "title": "É", "body": "f"},
    ]
    write(tmp_path, "reuters21578_modapte.jsonl.gz", "\n".join(map(json.dumps, documents)))
    known("reuters21578_modapte", (3, 2), {"grain": 2})
    data = load("reuters21578_modapte", tmp_path)
    assert data.labels == ["grain", "wheat"]
    assert data.y.tolist() == [[1, 1], [0, 0], [1, 0]]
    assert data.X.tolist() == [["A", "b c"], ["D", ""], ["É", "f"]]
    assert data.train.tolist() == [True, False, True] and data.rows.tolist() == ["1", "5", "6"]


def test_networks_over_their_common_genes(tmp_path, known):
    np.savez(
        tmp_path / "yeast_networks.npz",
        biogrid_genes=["g1", "g2", "g3"],
        biogrid_edges=np.array([[0, 1], [1, 2]], dtype=np.int16),
        string_genes=["g3", "g0", "g1"],
        string_edges=np.array([[0, 2]], dtype=np.int16),
        string_classes=["01", "02"],
        string_funcat=np.array([[1, 0], [0, 0], [1, 1]], dtype=np.int8),
    )
    known("yeast_networks", (2, 2), {"01": 2})
    data = load("yeast_networks", tmp_path)
    assert data.rows.tolist() == ["g1", "g3"]
    assert data.X.tolist() == [[0, 2], [2, 0]]
    assert data.y.tolist() == [[1, 1], [1, 0]]
    assert data.graphs["biogrid"].toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    for name, graph in data.graphs.items():
        assert data.nodes[name][data.X[:, data.columns.index(name)].astype(int)].tolist() == [
            *data.rows
        ]
        assert (graph != graph.T).nnz == 0


def test_sets_of_scikit_learn():
    data = load("wdbc")
    theirs = load_breast_cancer()
    assert data.origin == "scikit-learn"
    assert np.array_equal(data.X, theirs.data)
    assert ((data.y == 1) == (theirs.target_names[theirs.target] == "malignant")).all()
    for name, shape in (("digits", (1797, 64)), ("iris", (150, 4)), ("wine", (178, 13))):
        assert load(name).X.shape == shape


def test_a_file_comes_before_scikit_learn(tmp_path, known):
    known("wdbc", (1, 1), {1: 1})
    write(tmp_path, "wdbc.csv.gz", "f0,y\n7,1\n")
    assert load("wdbc", tmp_path).origin == "file wdbc.csv.gz"


def test_openml(monkeypatch, known):
    frame = pd.DataFrame({"A1": ["b", "a", "b", None], "A2": [1.5, 2.0, 3.0, 4.0]})
    target = pd.Series(["+", "-", "-", "+"], dtype="category")
    asked = []

    def fetch(name, **how):
        asked.append((name, how["version"]))
        return Bunch(data=frame, target=target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    known("credit_crx", (3, 2), {-1: 2, 1: 1})
    data = load("credit_crx")
    assert asked == [("credit-approval", 1)]
    assert data.X.tolist() == [[1, 1.5], [0, 2], [1, 3]], "letters by alphabet, gaps left out"
    assert data.y.tolist() == [1, -1, -1] and data.origin == "OpenML"


def test_digits_of_openml_in_order_only(monkeypatch):
    order = [np.repeat([str(k + 1) for k in range(10)], 200)]

    def fetch(name, **how):
        width = {"fourier": 76, "factors": 216, "karhunen": 64, "pixel": 240, "zernike": 47}
        columns = width.get(name.removeprefix("mfeat-"), 6)
        return Bunch(data=pd.DataFrame(np.zeros((2000, columns))), target=pd.Series(order[0]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    data = load("mfeat")
    assert [*data.views] == ["fou", "fac", "kar", "pix", "zer", "mor"]
    assert data.y[[0, 200, 1999]].tolist() == [0, 1, 9]
    order[0] = np.random.default_rng(0).permutation(order[0])
    with pytest.raises(ValueError, match="a different order"):
        load("mfeat")


def test_nothing_found_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as told:
        load("sonar")
    for part in ("KERNELWEAVE_DATA is not set", "no network here", "sonar.csv.gz", "folder=…"):
        assert part in str(told.value)
    with pytest.raises(FileNotFoundError, match=r"no file musk1.csv.gz in the folder; neither"):
        load("musk1", tmp_path)
    with pytest.raises(FileNotFoundError, match="folder: there is no folder"):
        load("sonar", tmp_path / "gone")


def test_a_folder_that_the_environment_names_and_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="KERNELWEAVE_DATA: there is no folder"):
        load("sonar")


def test_unknown_names():
    with pytest.raises(ValueError, match="no data set 'sonr'; did you mean 'sonar'"):
        load("sonr")
    with pytest.raises(ValueError, match="no data set 7; known: "):
        load(7)
    assert "sonar" in datasets.names()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,1\n2,-1\n", r"expected 3 rows and 1 columns, found \(2, 1\)"),
        ("a,y\n1,1\n2,1\n3,1\n", "expected 1 rows labeled -1, found 0 in file heart.csv.gz"),
        ("a,b\n1,1\n", "the last column must be 'y'; found 'b'"),
    ],
)
def test_damaged_copies_are_refused(tmp_path, known, text, message):
    known("heart", (3, 1), {-1: 1, 1: 2})
    write(tmp_path, "heart.csv.gz", text)
    with pytest.raises(ValueError, match=message):
        load("heart", tmp_path)


def content(text):
    return gzip.compress(text.encode(), mtime=0)


TABLE = content("a,y\n1,1\n2,-1\n3,1\n")


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (b"", "it is empty"),
        (content(""), "it is empty"),
        (content("a,y\n"), "it has a header, but no rows"),
        (TABLE[:-12], "Compressed file ended"),
        (b"a,y\n1,1\n", "[Nn]ot a gzipped file"),
        (TABLE[:15] + b"\xff\xff\xff" + TABLE[18:], "."),
        (content("a,y\n1,0.7\n2,-1\n3,1\n"), "whole numbers, found 0.7 in row 0"),
        (content("a,y\n1,1\n2,-1\n3,nan\n"), "whole numbers, found nan in row 2"),
        (content("a,y\n1,1\n2,x\n3,1\n"), "could not convert string 'x'"),
        (content("a,b,y\n1,1\n2,-1\n3,1\n"), "3 names in the header, but 2 columns"),
        (gzip.compress(b"a,y\n\xff\xfe,1\n", mtime=0), "utf-8"),
    ],
)
def test_damaged_tables_are_named(tmp_path, known, inside, message):
    known("heart", (3, 1), {-1: 1, 1: 2})
    (tmp_path / "heart.csv.gz").write_bytes(inside)
    with pytest.raises(ValueError, match=message) as told:
        load("heart", tmp_path)
    assert str(tmp_path / "heart.csv.gz") in str(told.value)
    assert "new copy" in str(told.value)


def test_damaged_archives_are_named(tmp_path, known):
    known("mfeat", (4, 6), {0: 2, 1: 2})
    path = tmp_path / "mfeat.npz"
    np.savez_compressed(path, a=np.arange(16.0).reshape(4, 4), b=np.ones((4, 2)), y=[0, 0, 1, 1])
    whole = path.read_bytes()
    assert load("mfeat", tmp_path).X.shape == (4, 6)
    half = len(whole) // 3
    for inside in (b"", whole[:half], b"PK", whole[:half] + b"\xff" * 9 + whole[half + 9 :]):
        path.write_bytes(inside)
        with pytest.raises(ValueError, match=r"mfeat\.npz cannot be read"):
            load("mfeat", tmp_path)
    np.savez(path, a=np.ones((4, 6)))
    with pytest.raises(ValueError, match=r"mfeat\.npz cannot be read: there is no 'y' in it"):
        load("mfeat", tmp_path)
    np.savez(path, a=np.ones((4, 6)), y=np.array([0, 0, 1, None]))
    with pytest.raises(ValueError, match=r"mfeat\.npz cannot be read: Object arrays"):
        load("mfeat", tmp_path)


def test_labels_of_archives_are_whole_numbers(tmp_path, known):
    known("w8a", (2, 2), {-1: 1, 1: 1})
    parts = {"indices": [0, 1], "indptr": [0, 1, 2], "shape": (2, 2)}
    np.savez(tmp_path / "w8a.npz", **parts, y=[0.5, 1.0])
    with pytest.raises(ValueError, match=r"whole numbers, found 0.5 in row 0"):
        load("w8a", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1, "split": "train"', "line 1 is not JSON"),
        ('{"id": 1, "split": "train", "topics": [], "title": "A"}', "there is no 'body' in it"),
        ("5", "line 1 is not a document"),
        ("", "it is empty"),
    ],
)
def test_damaged_texts_are_named(tmp_path, known, line, message):
    known("reuters21578_modapte", (1, 2), {})
    write(tmp_path, "reuters21578_modapte.jsonl.gz", line)
    with pytest.raises(ValueError, match=f"modapte.jsonl.gz cannot be read: {message}"):
        load("reuters21578_modapte", tmp_path)


def test_files_far_larger_than_the_set_are_not_unpacked(tmp_path):
    """Half a megabyte of gzip may hold half a gigabyte."""
    zeros = b"0" * 2**20
    with gzip.open(tmp_path / "heart.csv.gz", "wb") as out:
        out.write(b"a,y\n")
        for _ in range(100):
            out.write(zeros)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"heart.csv.gz cannot be read: .* more than"):
            load("heart", tmp_path)
        np.savez_compressed(tmp_path / "mfeat.npz", a=np.zeros(2**24), y=[0])
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        with pytest.raises(ValueError, match=r"mfeat.npz cannot be read: .* more than"):
            load("mfeat", tmp_path)
        assert tracemalloc.get_traced_memory()[1] - before < 2**23
    finally:
        tracemalloc.stop()


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    (tmp_path / "heart.csv.gz").write_bytes(TABLE)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(gzip, "open", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        load("heart", tmp_path)
