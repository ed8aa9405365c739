"""What people reach for on a table, each tuned by its usual grid over five stratified folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def _search(model: Any, grid: dict[str, Any], seed: int) -> GridSearchCV:
    return GridSearchCV(model, grid, cv=StratifiedKFold(5, shuffle=True, random_state=seed))


def _svc(seed: int, columns: int) -> GridSearchCV:
    """Gaussian: C in 0.1 … 1000, γ around one over the number of columns."""
    gammas = np.array([0.05, 0.2, 0.5, 1.0, 4.0]) / columns
    grid = {"svc__C": np.logspace(-1, 3, 5), "svc__gamma": gammas}
    return _search(make_pipeline(StandardScaler(), SVC()), grid, seed)


def _forest(seed: int, columns: int) -> GridSearchCV:
    """200 trees; columns tried in a node, rows in a leaf."""
    grid = {"max_features": ["sqrt", 0.33], "min_samples_leaf": [1, 5]}
    return _search(RandomForestClassifier(200, random_state=seed), grid, seed)


def _boosting(seed: int, columns: int) -> GridSearchCV:
    """100 trees; shrinkage and leaves."""
    grid = {"learning_rate": [0.05, 0.2], "max_leaf_nodes": [5, 31]}
    return _search(HistGradientBoostingClassifier(random_state=seed), grid, seed)


def _logistic(seed: int, columns: int) -> GridSearchCV:
    """C in 1e-3 … 100."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return _search(model, {"logisticregression__C": np.logspace(-3, 2, 6)}, seed)


RIVALS: dict[str, Callable[[int, int], GridSearchCV]] = {
    "SVC": _svc,
    "forest": _forest,
    "boosting": _boosting,
    "logistic": _logistic,
}
