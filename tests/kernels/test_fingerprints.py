"""The Tanimoto kernel: shares of bits, empty rows, sparse rows, columns as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances

from kernelweave import Gaussian, KernelBank, MKLClassifier, Tanimoto

rng = np.random.default_rng(2)
BITS = (rng.random((30, 40)) < 0.2).astype(float)
BITS[[3, 7]] = 0.0
NEW = (rng.random((6, 40)) < 0.2).astype(float)


def bank(X, **options):
    return KernelBank([Tanimoto()], normalize=None, **options).fit(X)


@pytest.mark.parametrize("scale", ["auto", "standard", None])
def test_bits_are_jaccards_similarity(scale):
    fitted = bank(BITS, scale=scale)
    expected = 1.0 - pairwise_distances(BITS.astype(bool), metric="jaccard")
    K = fitted.stack.combine([1.0])
    np.testing.assert_allclose(K, expected, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 and (np.diagonal(K) == 1.0).all()
    cross = 1.0 - pairwise_distances(NEW.astype(bool), BITS.astype(bool), metric="jaccard")
    np.testing.assert_allclose(fitted.cross(NEW, [1.0]), cross, atol=1e-12)


def test_sparse_rows_are_dense_rows():
    sparse = bank(csr_array(BITS))
    np.testing.assert_array_equal(sparse.stack.combine([1.0]), bank(BITS).stack.combine([1.0]))
    np.testing.assert_allclose(
        sparse.cross(csr_array(NEW), [1.0]), bank(BITS).cross(NEW, [1.0]), atol=1e-15
    )


def test_real_rows_of_any_sign_are_semidefinite():
    X = rng.normal(size=(60, 3)) * 10.0 ** rng.integers(-3, 3, (60, 1))
    values = np.linalg.eigvalsh(bank(X).stack.combine([1.0]))
    assert values[0] > -1e-12 * values.sum()


def test_beside_scaled_kernels_and_in_files(tmp_path):
    y = BITS[:, :8].sum(axis=1) > 1
    model = MKLClassifier([Tanimoto(), Gaussian(1.0, relative=True)]).fit(BITS, y)
    model.save(tmp_path / "m.kweave")
    import kernelweave

    again = kernelweave.load(tmp_path / "m.kweave")
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))


def test_words_are_refused():
    frame = pd.DataFrame({"a": ["u", "v", "w"], "b": [1.0, 0.0, 1.0]})
    with pytest.raises(ValueError, match="'a' of X does not hold numbers"):
        bank(frame)
    gaps = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="NaN"):
        bank(gaps)
