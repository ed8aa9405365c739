"""How the choice falls among candidates: equal weights where learned ones are no better."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import KernelBank, Linear, MKLClassifierCV
from kernelweave.estimators._candidates import equal_if_as_good

PARAMS = [
    {"bank": bank, "weight_norm": norm, "C": C}
    for bank, norm, C in [
        ("a", 1, 1.0),
        ("a", "equal", 1.0),
        ("a", "equal", 10.0),
        ("b", "equal", 1.0),
    ]
]
FOLDS = np.array([0.6, 0.7, 0.8, 0.9, 1.0])  # as hard as folds can differ


@pytest.mark.parametrize(
    ("equal", "chosen"),
    [
        (FOLDS, 2),  # as good
        (FOLDS - [0.05, -0.04, 0.05, -0.04, 0.0], 2),  # less by chance
        (FOLDS - 0.01, 0),  # less in every fold, by less than folds differ
        (FOLDS - [0.03, 0.05, 0.04, 0.03, 0.05], 0),
        (FOLDS - np.nan, 0),  # it has no score
    ],
)
def test_equal_weights_where_they_are_as_good_on_the_same_folds(equal, chosen):
    scores = np.array([FOLDS, equal - 0.2, equal, FOLDS + 1.0])
    assert equal_if_as_good(0, PARAMS, scores) == chosen
    assert equal_if_as_good(3, PARAMS, scores) == 3  # those of its own bank are chosen already


def test_learned_weights_where_noise_would_drown_the_rest():
    """Ten views of noise beside one that tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 33))
    y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=120) > 0.0
    noisy = KernelBank([Linear()], {f"v{k}": slice(3 * k, 3 * k + 3) for k in range(11)})
    model = MKLClassifierCV(noisy, Cs=[1.0], weight_norms=[1, "equal"]).fit(X, y)
    assert model.best_params_["weight_norm"] == 1
    same = KernelBank([Linear(), Linear()], {"a": [0, 1, 2]})
    model = MKLClassifierCV(same, Cs=[1.0], weight_norms=[1, "equal"]).fit(X, y)
    assert model.best_params_["weight_norm"] == "equal"
