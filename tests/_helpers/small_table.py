"""A small table that tests of banks share."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

rng = np.random.default_rng(11)
X = rng.normal(size=(15, 4))
NEW = rng.normal(size=(5, 4))
FRAME = pd.DataFrame(X, columns=["age", "weight", "height", "dose"])


def quiet(bank, X, **options):
    """Fit; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return bank.fit(X, **options)


def words(A, B):
    """A kernel function on strings: 1 if they are equal."""
    return np.array([[float(a == b) for b in B[:, 0]] for a in A[:, 0]])
