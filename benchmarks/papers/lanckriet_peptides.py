"""Sequences as in lanckriet2004, §6.2.2: antimicrobial peptides told from parts of other proteins.

The paper classifies yeast proteins, by Smith-Waterman scores and the empirical kernel map among
others. Its sequences are not at hand. Here are 1,000 of the 5,200 peptides that the package modlamp
brings along (``pip install --no-deps modlamp``; AMPvsUniProt): half of them antimicrobial, half cut
from UniProt at random. Kernels at a diagonal of 1: words of 1, 2 and 3 letters, words of 3 with one
mismatch, and the empirical kernel map of Smith-Waterman scores. The area under the ROC curve by
five-fold cross-validation, three times, 1-norm soft margin at C = 1: each kernel alone, all with
equal weights, all with learned weights.
"""

import importlib.util
import pathlib
from functools import lru_cache

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import kernelweave as kw
from benchmarks.harness import common

SHOWS = "lanckriet2004, §6.2.2 (sequences)"
ROWS, FOLDS, REPEATS = 1000, 5, 3
C, TOL = 1.0, 1e-3
KERNELS = {
    "1 letter": kw.Spectrum(1),
    "2 letters": kw.Spectrum(2),
    "3 letters": kw.Spectrum(3),
    "3, one wrong": kw.Spectrum(3, mismatches=1),
    "Smith-Waterman": kw.EmpiricalKernelMap(kw.SmithWaterman()),
}
COLUMNS = {name: ([place], "uniform") for place, name in enumerate(KERNELS)}
COLUMNS |= {"equal": (range(len(KERNELS)), "uniform"), "learned": (range(len(KERNELS)), "newton")}


@lru_cache(maxsize=1)
def peptides(count):
    """Sequences as one column, and labels ±1; as many of either."""
    found = importlib.util.find_spec("modlamp")
    if found is None or found.origin is None:
        raise common.Skipped("the peptides come with modlamp: pip install --no-deps modlamp")
    lines = (pathlib.Path(found.origin).parent / "data" / "AMPvsUniProt.csv").read_text()
    rows = [line.split(",") for line in lines.splitlines()[1:]]
    y = np.array([1.0 if int(label) else -1.0 for _, label in rows])
    rng = np.random.default_rng(0)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(y == s))[: count // 2] for s in (-1, 1)]
    )
    return np.array([[rows[k][0]] for k in chosen], dtype=object), y[chosen]


def measure(count, repeat, fold):
    """Area under the ROC curve of every column on one fold, and the weights learned."""
    X, y = peptides(count)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat)
    train, test = list(folds.split(X, y))[fold]
    bank = kw.KernelBank(list(KERNELS.items()), normalize="sphere").fit(X[train])
    cross = bank.cross_stack(X[test])
    record = {}
    for name, (places, learner) in COLUMNS.items():
        places = list(places)
        found = kw.learn(bank.stack.select(places), y[train], C=C, tol=TOL, learner=learner)
        auc = roc_auc_score(y[test], found.decision_function(cross[places]))
        record[name] = {"auc": auc, "weights": found.weights, "gap": found.gap}
    return record


def main():
    args = common.arguments(__doc__)
    count, repeats, folds = (200, 1, 2) if args.quick else (ROWS, REPEATS, FOLDS)
    plan = [(repeat, fold) for repeat in range(repeats) for fold in range(folds)]
    results = common.Results("lanckriet_peptides", args)
    results.fill([(key, measure, count, *key) for key in plan])
    cells = [cell for key in plan if (cell := results.get(*key))]
    if not cells:
        return
    auc = {name: np.array([cell[name]["auc"] for cell in cells]) for name in COLUMNS}
    weights = np.mean([cell["learned"]["weights"] for cell in cells], axis=0)
    shown = dict(zip(KERNELS, weights, strict=True))
    rows = [
        [name, f"{v.mean():.3f} ± {common.standard_error(v):.3f}", shown.get(name)]
        for name, v in auc.items()
    ]
    print(
        f"{count} peptides: area under the ROC curve, mean ± standard error, and weights learned\n"
    )
    common.table(["kernel", "area", "weight"], rows)
    mean = {name: float(v.mean()) for name, v in auc.items()}
    best = max(KERNELS, key=mean.get)
    complete = len(cells) == REPEATS * FOLDS and not args.quick
    results.bar(
        "learned weights are at least as good as the best kernel alone",
        f"{mean['learned']:.4f} and {mean[best]:.4f} ({best}); equal weights {mean['equal']:.4f}",
        mean["learned"] >= mean[best] if complete else None,
    )


if __name__ == "__main__":
    main()
