"""Simulated patients: the same from the same seed, and the answer is as promised."""

from __future__ import annotations

import pytest
from sklearn.model_selection import cross_val_score

from kernelweave import Gaussian, Hamming, KernelBank, Linear, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics


def test_the_same_seed_gives_the_same_patients():
    first, again, other = (make_multiomics(random_state=seed) for seed in (3, 3, 4))
    assert first.y.equals(again.y) and not first.y.equals(other.y)
    for name, table in first.tables.items():
        assert table.equals(again.tables[name]) and not table.equals(other.tables[name])


def test_tables_name_the_same_patients_in_different_orders():
    data = make_multiomics(60, missing=0.25)
    sizes = {name: table.shape for name, table in data.tables.items()}
    assert sizes == {
        "clinical": (60, 4),
        "genes": (60, 80),
        "proteins": (45, 30),
        "lipids": (60, 20),
    }
    for table in data.tables.values():
        assert set(table.index) <= set(data.y.index) and list(table.index) != list(data.y.index)
    assert set(data.y) == {"relapse", "remission"}


def held_out(table, y, kernel):
    """Area under the ROC curve; 0.5 is chance."""
    model = MKLClassifier(KernelBank([kernel]))
    return cross_val_score(model, table, y.loc[table.index], cv=5, scoring="roc_auc").mean()


def test_useful_views_tell_something_and_the_other_one_nothing():
    data = make_multiomics(300)
    genes, proteins, lipids = (data.tables[name] for name in ("genes", "proteins", "lipids"))
    assert data.useful == ("clinical", "genes", "proteins")
    assert held_out(genes, data.y, Linear()) > 0.65
    assert held_out(data.tables["clinical"], data.y, Hamming()) > 0.6
    assert held_out(proteins, data.y, Gaussian(relative=True)) > 0.62
    assert held_out(proteins, data.y, Linear()) < 0.6, "both low and high values mean a relapse"
    assert held_out(lipids, data.y, Gaussian(relative=True)) < 0.6


def test_no_effect_leaves_no_view_useful():
    data = make_multiomics(300, effect=0.0)
    assert data.useful == ()
    assert held_out(data.tables["genes"], data.y, Linear()) < 0.6


def test_rows_without_proteins_are_read_by_a_bank():
    data = make_multiomics(60, missing=0.2)
    with pytest.warns(UserWarning, match="'proteins' lacks 12"):
        joined = join_views(data.tables)
    with pytest.warns(UserWarning, match="proteins"):
        model = MKLClassifier(KernelBank(views=joined.views)).fit(joined.X, data.y[joined.X.index])
    assert model.duality_gap_ <= model.tol


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"n": 5}, "n must be"), ({"n": 9.5}, "n must"), ({"missing": 0.9}, "share")],
)
def test_wrong_arguments(wrong, told):
    with pytest.raises(ValueError, match=told):
        make_multiomics(**wrong)
