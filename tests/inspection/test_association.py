"""Views that have to do with the targets: levels kept, planted views found, exact by theory."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, MKLOneClass, MKLRegressor
from kernelweave.inspection import associated_views

rng = np.random.default_rng(12)
N, SETS = 80, 30
X = rng.normal(size=(N, 60))
Y = np.where(X[:, :4].sum(axis=1) + rng.normal(size=N) > 0, "a", "b")
VIEWS = {f"set{k}": [*range(2 * k, 2 * k + 4)] for k in range(SETS - 1)}


@pytest.mark.parametrize("kernels", [[Linear()], [Linear(), Gaussian(1.0, relative=True)]])
def test_planted_views_are_found(kernels):
    found = associated_views(MKLClassifier(KernelBank(kernels, views=VIEWS)), X, Y)
    table = found.frame()
    assert table["view"][0] == "set0" and table["informative"][0]
    assert set(table["view"][table["informative"]]) <= {"set0", "set1"}
    assert "set0" in repr(found)


def test_linear_kernel_of_one_column_is_its_correlation():
    bank = KernelBank([Linear()], views={f"{k}": [k] for k in range(5)})
    found = associated_views(MKLRegressor(bank), X[:, :5], X[:, 0], n_permutations=999)
    # of one column alone, the order of the shuffles is that of squared correlations
    squares = np.corrcoef(X[:, :5].T)[0] ** 2
    assert (np.argsort(-found.strength)[0], found.p_values[0]) == (0, 0.001)
    weak = squares < 0.02
    assert (found.p_values[weak] > 0.1).all()


def test_shuffled_targets_have_nothing():
    model = MKLClassifier(KernelBank([Linear()], views=VIEWS))
    called = 0
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(N)
        found = associated_views(model, X, Y[order], n_permutations=99, random_state=seed)
        called += found.informative.any()
    assert called <= 1


def test_classes_and_bad_input():
    three = np.digitize(X[:, :4].sum(axis=1), [-1.0, 1.0])
    model = MKLClassifier(KernelBank([Linear()], views=VIEWS))
    assert associated_views(model, X, three).frame()["view"][0] == "set0"
    with pytest.raises(ValueError, match="n_permutations must be 99 or more"):
        associated_views(model, X, Y, n_permutations=50)
    with pytest.raises(ValueError, match="MKLOneClass has none"):
        associated_views(MKLOneClass(), X, None)
    assert "none of 29 views" in repr(associated_views(model, X, rng.permutation(Y)))
