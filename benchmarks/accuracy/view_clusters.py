"""Clusters of rows with five views, two of which know them: MKLKernelKMeans against equal weights

Three clusters of 50 rows, five views of 10 columns, standard normal. In the first two views the
means of the clusters are normal, too, with deviation s in each column. One linear kernel on each
view, centered. Adjusted Rand index against the truth; equal weights are the same estimator with one
kernel, the sum of all.
"""

import numpy as np
from sklearn.metrics import adjusted_rand_score

import kernelweave as kw
from benchmarks.harness import common

SPREADS = {0.6: True, 0.8: True, 1.0: False}  # whether equal weights are far from perfect
VIEWS = {f"view {v}": slice(10 * v, 10 * v + 10) for v in range(5)}


def measure(spread, seed):
    rng = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], 50)
    X = rng.standard_normal((150, 50))
    for view in (0, 1):
        X[:, 10 * view : 10 * view + 10] += spread * rng.standard_normal((3, 10))[truth]
    learned = kw.MKLKernelKMeans(3, kw.KernelBank(views=VIEWS), random_state=seed).fit(X)
    kernels = learned.bank_.m_all
    bank = kw.KernelBank([kw.Linear()], views=VIEWS, normalize="center+trace").fit(X)
    K = bank.cross(X, np.full(kernels, 1.0 / kernels))
    equal = kw.MKLKernelKMeans(3, "precomputed", random_state=seed).fit([0.5 * (K + K.T)])
    consensus = kw.ConsensusKernel(kw.KernelBank([kw.Linear()], views=VIEWS)).fit(X)
    rises = np.diff(learned.history_) > 1e-12 * learned.history_[0]
    return {
        "learned": float(adjusted_rand_score(truth, learned.labels_)),
        "equal": float(adjusted_rand_score(truth, equal.labels_)),
        "shares": float(learned.shares_[:2].sum()),
        "consensus": float(consensus.weights_[:2].sum()),
        "rises": int(rises.sum()),
    }


def main():
    draws = {"type": int, "default": 10, "help": "draws of each setting (10)"}
    args = common.arguments(__doc__, draws=draws)
    count = 2 if args.quick else args.draws
    results = common.Results("view_clusters", args)
    plan = [(spread, seed) for spread in SPREADS for seed in range(count)]
    results.fill([((f"{spread}", seed), measure, spread, seed) for spread, seed in plan])
    table = []
    for spread, bar in SPREADS.items():
        found = [cell for seed in range(count) if (cell := results.get(f"{spread}", seed))]
        if not found:
            continue
        means = [np.mean([cell[name] for cell in found]) for name in ("learned", "equal")]
        shares = [np.mean([cell[name] for cell in found]) for name in ("shares", "consensus")]
        above = sum(cell["learned"] > cell["equal"] for cell in found)
        below = sum(cell["learned"] < cell["equal"] for cell in found)
        table.append([spread, len(found), *means, above, below, *shares])
        full = len(found) >= 10
        if bar:
            text = f"s = {spread}: above equal weights in at least 8 of 10 draws"
            results.bar(text, str(above), above >= 8 if full else None)
        rises = sum(cell["rises"] for cell in found)
        results.bar(f"s = {spread}: the objective never rises", f"{rises} times", rises == 0)
    print()
    header = ["s", "draws", "learned", "equal", "draws above", "draws below"]
    header += ["share of the two views", "their consensus weight"]
    common.table(header, table)


if __name__ == "__main__":
    main()
