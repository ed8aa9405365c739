"""Warnings name the line of whoever called the package, not one within it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from _helpers.references import gram, labels
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelBank, Linear, MKLClassifier, TransductiveMKLClassifier, learn
from kernelweave.papers.lanckriet2004.completion import complete_kernel
from kernelweave.papers.lanckriet2004.max_determinant import max_determinant

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
X[:, 3] = 1.0  # a constant column
Y = labels(RNG, 30)
K = np.stack([gram(X[:, [k]]) for k in range(3)])
EACH = KernelBank([Linear()], views="each")
FLAT = np.stack([np.ones((30, 30)), K[0]])
HOLED = np.where(np.abs(np.subtract.outer(range(5), range(5))) == 3, np.nan, 6.0 * np.eye(5) + 1.0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: learn(K, Y, tol=1e-9, max_iter=1), ConvergenceWarning, "duality gap"),
        (
            lambda: MKLClassifier(EACH, tol=1e-300).fit(X[:, :3], Y),
            ConvergenceWarning,
            "duality gap|rounding",
        ),
        (lambda: EACH.fit(X), UserWarning, "left out"),
        (lambda: MKLClassifier(EACH).fit(X, Y), UserWarning, "left out"),
        (
            lambda: TransductiveMKLClassifier(EACH, unlabeled=0).fit(X, Y.astype(int)),
            UserWarning,
            "left out",
        ),
        (lambda: complete_kernel(HOLED, np.eye(5), tol=1e-300), ConvergenceWarning, "completion"),
        (lambda: max_determinant(FLAT, Y, noise=1e-12, tol=1e-300), ConvergenceWarning, "gap"),
    ],
)
def test_the_line_is_the_users(
    call: Callable[[], object], kind: type[Warning], message: str
) -> None:
    with pytest.warns(kind, match=message) as caught:
        call()
    assert {told.filename for told in caught} == {__file__}
