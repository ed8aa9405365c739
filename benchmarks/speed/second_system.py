"""Products with the kernel that one machine takes, by an interior point and conjugate gradients

Covertype, class 2 against the rest, 54 columns as benchmarks.gpu has them; the mean of five
Gaussians (γ = 0.01 … 1), C = 1, to a relative gap of 1e-3. K is an array in float32. A product of
one vector counts as one of two; SMO solves the same array to the same gap.
"""

import pathlib
import time

import numpy as np

from benchmarks.gpu import GAMMAS, covertype
from benchmarks.harness import common
from benchmarks.harness.internals import DenseCombined, hinge, interior_point, smo
from benchmarks.harness.skipped import Skipped

TOL, MOST = 1e-3, 120


class Counted(DenseCombined):
    """K, which counts its products."""

    products = 0

    def __matmul__(self, v):
        self.products += bool(v.any())
        return super().__matmul__(v.astype(np.float32)).astype(float)


def kernel(data, n):
    """K of n rows, and their labels."""
    if not (pathlib.Path(data or "") / "covertype.npz").exists():
        raise Skipped("covertype.npz is not in the data folder")
    X, y = covertype(data)
    X, y = X[:n].astype(np.float32), y[:n].astype(float)
    sizes, K = (X**2).sum(axis=1), np.empty((n, n), np.float32)
    for rows in np.array_split(np.arange(n), max(n // 1000, 1)):
        distances = np.maximum(sizes[rows, None] + sizes - 2.0 * X[rows] @ X.T, 0.0)
        K[rows] = sum(np.exp(-gamma * distances) for gamma in GAMMAS) / len(GAMMAS)
    np.fill_diagonal(K, 1.0)
    return K, y


def measure(data, n, rival):
    K, y = kernel(data, n)
    qp, counted, steps, began = hinge(y, 1.0), Counted(K), [], time.process_time()
    found, gap = interior_point.solve_by_products(
        counted, qp, TOL, lambda: steps.append(counted.products)
    )
    cell = {"seconds": time.process_time() - began, "gap": gap, "products": counted.products}
    cell |= {"by step": np.diff([*steps, counted.products]).tolist()}
    cell |= {"support vectors": int(np.count_nonzero(found.v)), "before": steps[0]}
    if rival:
        few = slice(None, 300)
        smo.solve(K[few, few].copy(), hinge(y[few], 1.0), None, TOL)  # compiled
        began = time.process_time()
        other = smo.solve(K, qp, None, TOL)
        cell |= {"smo": time.process_time() - began, "smo rows": int(np.count_nonzero(other.v))}
    return cell


def main():
    args = common.arguments(__doc__)
    sizes = [500] if args.quick else [1000, 5000, 20_000]
    results = common.Results("second_system", args)
    results.fill([((n,), measure, args.data, n, n <= 5000) for n in sizes])
    header = ["rows", "products", "before the first step", "in each step", "gap", "s", "SMO s"]
    header += ["support vectors", "of SMO"]
    names = (
        "products",
        "before",
        "by step",
        "gap",
        "seconds",
        "smo",
        "support vectors",
        "smo rows",
    )
    cells = {n: results.get(n) or {} for n in sizes}
    for cell in cells.values():
        cell["by step"] = " ".join(map(str, cell.get("by step", [])))
    common.table(header, [[n, *map(cells[n].get, names)] for n in sizes])
    for n in sizes:
        count, gap = cells[n].get("products"), cells[n].get("gap")
        met = None if count is None else count <= MOST and gap <= TOL
        results.bar(f"{n} rows: gap {TOL:g} in at most {MOST} products", count, met)


if __name__ == "__main__":
    main()
