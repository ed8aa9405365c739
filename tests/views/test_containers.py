"""AnnData and MuData as views, with a column of their annotations as the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from kernelweave import KernelBank, MKLClassifier, join_views

anndata = pytest.importorskip("anndata")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

rng = np.random.default_rng(6)
IDS = [f"cell{i}" for i in range(30)]
GENES = rng.normal(size=(30, 4))
KIND = pd.Series(np.where(GENES[:, 0] > 0, "T", "B"), IDS)


def annotated(values, ids=IDS, prefix="g", **obs):
    obs = pd.DataFrame(obs, index=ids)
    var = pd.DataFrame(index=[f"{prefix}{k}" for k in range(values.shape[1])])
    return anndata.AnnData(values, obs=obs, var=var)


def test_anndata_beside_a_frame():
    rna = annotated(GENES, kind=KIND.to_numpy())
    age = pd.DataFrame({"age": np.arange(30.0)}, IDS[::-1])
    X, views, y = join_views({"rna": rna, "clinical": age}, target="kind")
    assert list(X.columns) == ["rna__g0", "rna__g1", "rna__g2", "rna__g3", "clinical__age"]
    np.testing.assert_array_equal(X["rna__g2"], GENES[:, 2])
    np.testing.assert_array_equal(X["clinical__age"], np.arange(30.0)[::-1])
    assert (y == KIND).all() and list(y.index) == IDS
    assert len(join_views({"rna": rna})) == 2
    assert MKLClassifier(KernelBank(views=views)).fit(X, y).score(X, y) > 0.7


def test_sparse_counts_and_one_container():
    rna = annotated(csr_matrix(np.maximum(GENES, 0.0)), kind=KIND.to_numpy())
    X, views = join_views(rna)
    np.testing.assert_array_equal(X.to_numpy(), np.maximum(GENES, 0.0))
    assert views == {"view1": slice(0, 4)}


@pytest.mark.filterwarnings("ignore:join_views")
def test_mudata_has_a_view_for_each_modality():
    mudata = pytest.importorskip("mudata")
    rna = annotated(GENES)
    protein = annotated(GENES[:20, :2] ** 2, IDS[:20], "p")
    both = mudata.MuData({"rna": rna, "protein": protein})
    labels = KIND.copy()
    labels.iloc[:3] = None
    both.obs["kind"] = labels.reindex(both.obs_names).to_numpy()
    X, views, y = join_views(both, target="kind")
    assert list(views) == ["rna", "protein"] and len(X) == 27
    assert list(y.index) == list(X.index) and (y == KIND[X.index]).all()
    assert X.loc[IDS[25], "protein__p0":].isna().all()


def test_errors_name_what_there_is():
    rna = annotated(GENES, kind=KIND.to_numpy())
    with pytest.raises(ValueError, match="have a column 'sort'; they have 'kind'"):
        join_views({"rna": rna}, target="sort")
    with pytest.raises(ValueError, match="only AnnData and MuData have some"):
        join_views({"a": pd.DataFrame(GENES)}, target="sort")
    empty = anndata.AnnData(obs=pd.DataFrame(index=IDS), var=pd.DataFrame(index=["a"]))
    with pytest.raises(ValueError, match="is an AnnData without X"):
        join_views({"rna": empty})
