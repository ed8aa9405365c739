"""Many methods on many data sets: average ranks, and which differences could be chance.

Friedman's test asks whether the methods differ at all, Nemenyi's critical difference how far
average ranks must be apart, Wilcoxon's signed ranks, with Holm's correction, which methods differ
from one of them [demsar2006].
"""

from __future__ import annotations

import numpy as np
from scipy import stats


def average_ranks(scores: np.ndarray) -> np.ndarray:
    """Rank of each column by rows, 1 the largest, ties shared; the mean over the rows."""
    return stats.rankdata(-np.asarray(scores), axis=1).mean(axis=0)


def friedman(scores: np.ndarray) -> float:
    """How likely ranks so far apart are where all methods are alike."""
    return float(stats.friedmanchisquare(*np.asarray(scores).T).pvalue)


def critical_difference(methods: int, sets: int, level: float = 0.05) -> float:
    """By how much average ranks must differ [demsar2006, §3.2.2]."""
    q = stats.studentized_range.ppf(1.0 - level, methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(methods * (methods + 1) / (6.0 * sets)))


def wilcoxon(ours: np.ndarray, theirs: np.ndarray) -> float:
    """p of paired differences; 1 where there are none."""
    difference = np.round(np.asarray(ours) - np.asarray(theirs), 9)
    if not difference.any():
        return 1.0
    return float(stats.wilcoxon(difference, zero_method="pratt").pvalue)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values of several tests, each corrected for the others."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    corrected = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    out = np.empty_like(corrected)
    out[order] = corrected
    return out


def standing(ours: np.ndarray, theirs: np.ndarray) -> str:
    """On how many sets we are better, equal and worse."""
    difference = np.round(np.asarray(ours) - np.asarray(theirs), 9)
    return f"{(difference > 0).sum()} – {(difference == 0).sum()} – {(difference < 0).sum()}"
