"""Run times of lanckriet2004, footnote 3, at its sizes: 300 rows; one kernel, and five.

The paper does not say which data; ours are random rows of wdbc, half of them with a label, and a
polynomial of degree 2, a linear kernel and Gaussians of 0.5, 1 and 2 median distances, all
spherical. C = 1, 1-norm, certified gaps of 1e-4. Processor seconds, the median of so many draws,
kernels not included; beside them the paper's, by SeDuMi and Mosek on a machine of 2 GHz.
"""

import time
import warnings

import numpy as np

import kernelweave as kw
from benchmarks.harness import common

SHOWS = "lanckriet2004, §6.1 (footnote 3)"
ROWS, TOL, DRAWS = 300, 1e-4, 5
KERNELS = [kw.Polynomial(2), kw.Linear()]
KERNELS += [kw.Gaussian(width, relative=True) for width in (0.5, 1.0, 2.0)]
TIMES = {  # kernels, learner, what it is, the paper's seconds
    "one": (1, "uniform", "QP of one kernel (SVM)", 1.0),
    "qcqp": (5, "qcqp", "QCQP, weights ≥ 0, by a conic solver", 3.0),
    "newton": (5, "newton", "the same optimum by Newton's steps", None),
    "sdp": (5, "sdp", "SDP, weights of either sign", 600.0),
}


def measure(data, seed):
    """Seconds and gaps of all on one draw."""
    X, y = common.sample("wdbc", data, ROWS, seed)
    K = common.matrices(common.fit_bank(X, KERNELS, normalize="sphere").stack)
    known = np.where(np.random.default_rng(seed).permutation(ROWS) % 2, y, 0.0)
    record = {}
    for key, (count, learner, _, _) in TIMES.items():
        stack = kw.KernelStack(K[-count:], check=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kw.learn(stack, known, learner=learner, tol=0.1, trace=float(ROWS))  # compiled
            began = time.process_time()
            found = kw.learn(stack, known, learner=learner, tol=TOL, trace=float(ROWS))
            seconds = time.process_time() - began
        record[key] = {"cpu": seconds, "gap": found.gap, "objective": found.objective}
    return record


def main():
    args = common.arguments(__doc__)
    draws = 1 if args.quick else DRAWS
    results = common.Results("lanckriet_times", args)
    results.fill([((seed,), measure, args.data, seed) for seed in range(draws)])
    cells = [cell for seed in range(draws) if (cell := results.get(seed))]
    rows = []
    for key, (count, learner, what, paper) in TIMES.items():
        found = [cell[key] for cell in cells]
        if found:
            seconds = float(np.median([one["cpu"] for one in found]))
            gap = max(one["gap"] for one in found)
            ratio = paper / seconds if paper else None
            rows.append([what, learner, count, seconds, gap, paper, ratio])
    common.table(
        ["program", "learner", "kernels", "CPU-s", "largest gap", "paper s", "paper / ours"], rows
    )


if __name__ == "__main__":
    main()
