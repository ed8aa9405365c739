"""Model files: the same predictions to the last bit, for every kernel; anything else is refused."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import StratifiedKFold

import kernelweave
from kernelweave import (
    BagOfWords,
    Cholesky,
    Diffusion,
    EmpiricalKernelMap,
    Gaussian,
    Graph,
    GroupNorm,
    KernelBank,
    Laplacian,
    LatentConcepts,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    ModelFileError,
    Nystroem,
    Polynomial,
    Precomputed,
    RandomFeatures,
    SmithWaterman,
    Spectrum,
    SubsetTree,
    Tanimoto,
    TransductiveMKLClassifier,
    WeisfeilerLehman,
    structures,
)
from kernelweave.banks.torch_storage import is_there
from kernelweave.io import _registry
from kernelweave.io._conform import _conforms
from kernelweave.kernels.categorical import Hamming
from kernelweave.kernels.eigen import EigenvectorKernels
from kernelweave.learners import Simple

rng = np.random.default_rng(5)
N = 24
X = rng.normal(size=(N, 3))
Y = np.where(X[:, 0] + 0.3 * rng.normal(size=N) > 0.0, "yes", "no")
NEW = rng.normal(size=(7, 3))
ROWS = np.arange(N).reshape(-1, 1)
A = np.exp(-np.square(X[:, None] - X).sum(axis=2))
TEXTS = np.array([["sour milk " * int(x > 0) + "sweet wine, bread " * int(x < 1)] for x in X[:, 0]])
STRINGS = np.array([["".join("ACGT"[int(v) % 4] for v in 9 + 3 * row)] for row in X], dtype=object)
LETTERS = np.array([["ab"[int(x > 0)], "cde"[int(x + 9) % 3]] for x in X[:, 0]], dtype=object)
EDGES = (A > 0.5) * 1.0 - np.eye(N) * (A > 0.5)
NAMES = [f"node {i}" for i in range(N)]

MOLECULES = structures(
    [
        (("C", "NO"[i % 2], "C", "O")[: 2 + i % 3], ((0, 1), (1, 2), (0, 3))[: 1 + i % 3])
        for i in range(N)
    ]
)
SENTENCES = structures([("S", ("A", "ab"[i % 2]), *(("B", "c"),) * (i % 3)) for i in range(N)])

BANKS = {
    "default": (None, X),
    "numeric": ([Gaussian(1.0), Laplacian(2.0), Polynomial(3, 0.5), Linear()], X),
    "standardized": (KernelBank([Gaussian(1.0, True)], "all+each", scale="standard"), X),
    "centered": (KernelBank([Gaussian(1.0), Linear()], normalize="center+trace"), X),
    "sphere": (KernelBank([Polynomial(2)], normalize="sphere"), X),
    "float32": (KernelBank([Gaussian(1.0)], dtype="float32"), X),
    "fingerprints": ([Tanimoto()], np.round(np.abs(X))),
    "landmarks": (KernelBank(None, approximation=Nystroem(9)), X),
    "cholesky": (KernelBank(None, approximation=Cholesky(rank=5)), X),
    "waves": (KernelBank([Gaussian(1.0)], approximation=RandomFeatures(8)), X),
    "categories": ([Hamming()], LETTERS),
    "texts": ([BagOfWords("counts"), BagOfWords(TfidfVectorizer(min_df=2))], TEXTS),
    "concepts": ([LatentConcepts(2)], TEXTS),
    "strings": ([Spectrum(2), Spectrum(2, mismatches=1, alphabet="ACGT")], STRINGS),
    "alignments": ([EmpiricalKernelMap(SmithWaterman(gap_open=2.0))], STRINGS),
    "map": ([EmpiricalKernelMap("sigmoid")], X),
    "eigenvectors": ([EigenvectorKernels(Gaussian(1.0), 3)], X),
    "precomputed": ([("a", Precomputed(A)), ("b", Precomputed(A @ A))], ROWS),
    "graph": ([Diffusion(EDGES, [0.5, 1.0])], ROWS),
    "names": ([Diffusion(Graph(EDGES, NAMES), normalized=True)], np.array(NAMES)[:, None]),
    "labeled graphs": (KernelBank([WeisfeilerLehman(2)], normalize="sphere"), MOLECULES),
    "trees": (KernelBank([SubsetTree(0.5)], normalize="sphere"), SENTENCES),
    "sklearn": (["rbf", RBF(0.7) + WhiteKernel(0.1)], X),
    "sparse": ([Gaussian(1.0), Linear()], csr_array(X * (X > 0))),
}


def reloaded(model, tmp_path):
    path = tmp_path / "model.kweave"
    model.save(path)
    return kernelweave.load(path)


def assert_same(model, X, tmp_path):
    """Equal to the last bit, on all rows and on single ones."""
    values = getattr(model, "decision_function", model.predict)
    back = reloaded(model, tmp_path)
    assert type(back) is type(model)
    again = getattr(back, "decision_function", back.predict)
    for rows in (X, X[:1]):
        assert np.array_equal(again(rows), values(rows))
        assert np.array_equal(back.predict(rows), model.predict(rows))
    return back


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", BANKS)
def test_every_kernel(name, tmp_path):
    kernels, rows = BANKS[name]
    model = MKLClassifier(kernels).fit(rows, Y)
    back = assert_same(model, rows, tmp_path)
    assert back.get_params().keys() == model.get_params().keys()
    assert vars(back).keys() == vars(model).keys() - {"_training_bank"}


def test_new_rows_of_numbers(tmp_path):
    assert_same(MKLClassifier().fit(X, Y), NEW, tmp_path)


def three(x):
    return np.digitize(x, [-0.5, 0.5])


def times():
    """Times to an event, and which were seen."""
    return np.stack([np.exp(X[:, 0] + 0.1 * X[:, 1]), np.arange(N) % 3 > 0], axis=1)


ESTIMATORS = {
    "classes": lambda: MKLClassifier().fit(X, three(X[:, 0])),
    "cv": lambda: MKLClassifierCV(Cs=[0.1, 1.0], weight_norms=[1, "equal"], cv=2).fit(X, Y),
    "transductive": lambda: TransductiveMKLClassifier([Gaussian(1.0), Linear()], unlabeled="?").fit(
        X, np.where(np.arange(N) % 3 == 0, "?", Y)
    ),
    "regressor": lambda: kernelweave.MKLRegressor(max_iter=50).fit(X, X[:, 0]),
    "regressor cv": lambda: kernelweave.MKLRegressorCV(Cs=[0.1, 1.0], cv=2).fit(X, X[:, 0]),
    "survival": lambda: kernelweave.MKLSurvival([Gaussian(1.0), Linear()]).fit(X, times()),
    "survival cv": lambda: kernelweave.MKLSurvivalCV(Cs=[0.1, 1.0], cv=2).fit(X, times()),
    "one class": lambda: kernelweave.MKLOneClass().fit(X),
    "options": lambda: MKLClassifier(
        KernelBank([Linear()], {"a": slice(0, 2), "b": np.array([2])}),
        C=2.0,
        learner=Simple(),
    ).fit(X, Y == "yes"),
    "groups": lambda: MKLClassifier(weight_norm=GroupNorm("views")).fit(X, Y),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator(name, tmp_path):
    model = ESTIMATORS[name]()
    back = assert_same(model, X, tmp_path)
    assert repr(back) == repr(model)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_missing_views_and_column_names(tmp_path):
    frame = pd.DataFrame(X, columns=["<script>", 'quote"', "=1+1"]).astype(object)
    frame["kind"] = LETTERS[:, 1]
    frame.loc[::5, "kind"] = None
    kernels = [("g", Gaussian(1.0), frame.columns[:3]), ("h", Hamming(), ["kind"])]
    model = MKLClassifier(KernelBank(kernels, missing="indicator")).fit(frame, Y)
    back = assert_same(model, frame, tmp_path)
    assert back.feature_names_in_.tolist() == [*frame.columns]
    with pytest.raises(ValueError, match="feature names"):
        back.predict(frame.rename(columns={"kind": "sort"}))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_mixed_columns_selected_in_every_way(tmp_path):
    frame = pd.DataFrame(X, columns=["x__a", "x__b", "c"])
    frame["kind"], frame["level"] = LETTERS[:, 1], pd.Categorical(LETTERS[:, 0])
    views = {"x": "x__*", "c": ["c"], "all": slice("x__a", "kind"), "floats": float, "o": ["level"]}
    assert_same(MKLClassifier(KernelBank(views=views)).fit(frame, Y), frame, tmp_path)


def test_only_support_rows_and_weighted_kernels(tmp_path):
    far = np.vstack([X + 50 * (Y == "yes")[:, None]] * 40)
    model = MKLClassifier(KernelBank([Gaussian(g) for g in (0.1, 1.0, 40.0)])).fit(
        far, np.tile(Y, 40)
    )
    path = tmp_path / "m.kweave"
    model.save(path)
    rows = len(model.support_)
    assert rows < 0.1 * len(far)
    back = kernelweave.load(path)
    assert back.bank_.table.numbers.shape == (rows, 3)
    active = [member.kernel is not None for member in back.bank_.members]
    assert active == [bool(weight) for weight in model.weights_]
    assert not hasattr(back, "_training_bank")


def test_equal_models_make_equal_files(tmp_path):
    model = MKLClassifier().fit(X, Y)
    for name in "ab":
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    kernelweave.load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()


def product(a, b):
    return a @ b.T


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (MKLClassifier([Linear(), product]), "never code.*Precomputed"),
        (MKLClassifier(BagOfWords(TfidfVectorizer(tokenizer=str.split))), "never code"),
        (MKLClassifier(random_state=np.random.RandomState(1)), "random_state.*set_params"),
        (MKLClassifierCV(Cs=[1.0], cv=StratifiedKFold(2)), r"\.cv.*best_estimator_"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_code_and_foreign_objects_are_refused(model, told, tmp_path):
    model.fit(TEXTS if "BagOfWords" in repr(model) else X, Y)
    with pytest.raises(TypeError, match=told):
        model.save(tmp_path / "m")
    assert [*tmp_path.iterdir()] == []


def test_models_without_a_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        MKLClassifier().save(tmp_path / "m")
    with pytest.raises(ValueError, match="refit=False"):
        MKLClassifierCV(Cs=[1.0], cv=2, refit=False).fit(X, Y).save(tmp_path / "m")


def test_an_error_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.kweave"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    model = MKLClassifier().fit(X, Y)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "m.kweave")


def test_every_class_of_a_fitted_model_is_registered():
    """A new kernel, learner or estimator must be added to the registry."""
    from kernelweave.estimators._base import MKLEstimator
    from kernelweave.estimators._search import CrossValidated
    from kernelweave.kernels.base import Kernel
    from kernelweave.learners.base import Learner

    for module in pkgutil.walk_packages(kernelweave.__path__, "kernelweave."):
        if ".kernels." in module.name or ".learners." in module.name or "estim" in module.name:
            importlib.import_module(module.name)
    bases = {
        "UnitDiagonal",
        "_Radial",
        "Widths",
        "Foreign",
        "GivenWeights",
        "RecalledClassifier",
        "RecalledRegressor",
    }
    code = {"FunctionKernel"}
    until_fitted = {"WidthOfRange"}  # the fitted model has a Gaussian in its place
    pickled_alone = {"Unlabeled", "ConsensusKernel", "MKLKernelKMeans"}  # they predict no targets
    absent = bases | code | until_fitted | pickled_alone

    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    for base in (Kernel, Learner, MKLEstimator, CrossValidated):
        for cls in below(base):
            if cls.__module__.startswith("kernelweave.") and cls.__name__ not in absent:
                assert _registry.name_of(cls) is not None, cls
    for name in _registry.CLASSES:
        assert _registry.name_of(_registry.class_of(name)) == name


def test_newer_and_foreign_files(tmp_path):
    path = tmp_path / "m.kweave"
    MKLClassifier().fit(X, Y).save(path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest |= {"version": 2, "writer": "kernelweave 9.1"}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    with pytest.raises(ModelFileError, match=r"format is 2.*kernelweave 9\.1.*upgrade"):
        kernelweave.load(path)
    for content in (b"", b"a,b\n1,2\n", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"m\.kweave cannot be loaded: it is .*model file"):
            kernelweave.load(path)
    with pytest.raises(FileNotFoundError):
        kernelweave.load(tmp_path / "none")


def test_large_files_need_permission(tmp_path):
    path = tmp_path / "m.kweave"
    MKLClassifier().fit(X, Y).save(path)
    with pytest.raises(ModelFileError, match="raise max_bytes"):
        kernelweave.load(path, max_bytes=100)
    assert kernelweave.load(path, max_bytes=10**6)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type statements")
def test_types_that_are_declared_by_type_statements():
    """numpy 2.5 declares NDArray so."""
    found: dict[str, Any] = {"np": np, "Any": Any}
    exec("type Whole = int\ntype Rows[T: np.generic] = np.ndarray[Any, np.dtype[T]]", found)
    rows = found["Rows"][np.float64]
    assert _conforms(np.zeros(2), rows) and not _conforms(np.zeros(2, dtype=int), rows)
    assert _conforms(2, found["Whole"]) and not _conforms("2", found["Whole"])
    assert _conforms(None, rows | None) and not _conforms(3, rows | None)


def test_words_take_no_more_room_than_a_thousand_letters_or_the_longest(tmp_path):
    labels = Y.astype("<U5000")
    model = MKLClassifier().fit(X, labels)
    back = reloaded(model, tmp_path)
    assert back.classes_.dtype == "<U1000" and (back.predict(X) == model.predict(X)).all()


def test_a_device_that_is_none_is_not_looked_for():
    assert not is_there("ovr") and not is_there("")


def test_what_stands_for_a_row_that_lacks_a_view_is_there(tmp_path):
    views = {"a": [0], "b": [1, 2]}
    model = MKLClassifier(KernelBank([Gaussian(1.0)], views=views)).fit(X, Y)
    lost = [replace(one, average=None) for one in model.bank_.members]
    model.bank_ = replace(model.bank_, members=tuple(lost))
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="averages do not fit the rest"):
        kernelweave.load(tmp_path / "m")
