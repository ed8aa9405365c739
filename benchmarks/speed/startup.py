"""How long a user waits: import, the first fit ever, the first fit in a new process, one fit.

Times of whole processes, interpreter included, on a warm disk cache. "First fit ever" has an empty
folder of compiled code, "new process" the folder that the first fit left.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.harness import common

CORE = "from kernelweave import KernelBank, Gaussian, KernelStack, learn, duality_gap"
IMPORTS = {
    "nothing": "pass",
    "numba": "import numba",
    "sklearn.svm, numba": "import sklearn.svm, numba",
    "kernelweave": "import kernelweave",
    "kernelweave's core": CORE,
    "all of kernelweave": "from kernelweave import *",
}
ARRAYS = f"""
import numpy as np
{CORE}
rng = np.random.default_rng(0)
y = np.repeat([-1.0, 1.0], 50)
X = rng.standard_normal((100, 4)) + 0.5 * y[:, None]
"""
FITS = {
    "learn, auto": f"{ARRAYS}\nlearn(X.T[:, :, None] * X.T[:, None, :], y)",
    "learn, simple": f"{ARRAYS}\nlearn(X.T[:, :, None] * X.T[:, None, :], y, learner='simple')",
    "learn, silp": f"{ARRAYS}\nlearn(X.T[:, :, None] * X.T[:, None, :], y, learner='silp')",
    "learn, newton": f"{ARRAYS}\nlearn(X.T[:, :, None] * X.T[:, None, :], y, learner='newton')",
    "bank and learn, newton": (
        f"{ARRAYS}\nbank = KernelBank([Gaussian(1.0), Gaussian(3.0)], 'all+each').fit(X)\n"
        "learn(bank.stack, y, learner='newton')"
    ),
    "MKLClassifier": (
        "from sklearn.datasets import load_breast_cancer\n"
        "from kernelweave import MKLClassifier\n"
        "MKLClassifier().fit(*load_breast_cancer(return_X_y=True))"
    ),
}


def process(code, cache=None):
    """Seconds of a Python process that runs ``code``; None where it fails."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
    )
    seconds = time.perf_counter() - began
    return (seconds, None) if done.returncode == 0 else (None, done.stderr.strip()[-300:])


def importing(code, repeats):
    process(code)
    times, errors = zip(*(process(code) for _ in range(repeats)), strict=True)
    if None in times:
        return {"error": next(e for e in errors if e)}
    return common.spread(times)


def first_fits(code, repeats):
    ever, later = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for times in (ever, later, later):
                seconds, error = process(code, cache)
                if error:
                    return {"error": error}
                times.append(seconds)
    return {"ever": float(np.median(ever)), "later": float(np.median(later)), "repeats": repeats}


def one_fit(data, learner, splits):
    cells = []
    for seed in range(splits):
        split = common.half("ionosphere", data, seed)
        stack = common.rakoto_bank(split.X).stack
        cells.append(common.fit(stack, split.y, C=100.0, tol=1e-2, learner=learner)[1])
    seconds = [cell["seconds"] for cell in cells]
    return {"seconds": seconds, "worst": max(seconds), "median": float(np.median(seconds))}


def main():
    args = common.arguments(__doc__)
    repeats, fits, splits = (1, 1, 1) if args.quick else (9, 3, 10)
    learners = ("simple", "silp", "newton")
    chosen = ["learn, auto", "MKLClassifier"] if args.quick else list(FITS)
    plan = [(("import", name), importing, code, repeats) for name, code in IMPORTS.items()]
    plan += [(("first fit", name), first_fits, FITS[name], fits) for name in chosen]
    plan += [(("ionosphere", name), one_fit, args.data, name, splits) for name in learners]
    results = common.Results("startup", args)
    results.fill(plan)

    def value(*key):
        cell = results.get(*key[:-1])
        return cell.get(key[-1]) if cell else None

    def shortfall(cell):
        return (cell or {}).get("error", "").splitlines()[-1:] or [""]

    rows = [
        [name, value("import", name, "median"), *shortfall(results.get("import", name))]
        for name in IMPORTS
    ]
    common.table(["process that imports", "seconds", "error"], rows)
    rows = [
        [
            *(name, value("first fit", name, "ever"), value("first fit", name, "later")),
            *shortfall(results.get("first fit", name)),
        ]
        for name in chosen
    ]
    common.table(["process that fits", "first ever s", "new process s", "error"], rows)
    rows = [
        [name, value("ionosphere", name, "median"), value("ionosphere", name, "worst")]
        for name in learners
    ]
    common.table(["ionosphere, C = 100, gap 1e-2", "median s", "worst s"], rows)

    def judge(text, measured, most):
        known = measured is not None and most is not None
        results.bar(f"{text} {common.short(most)} s", measured, measured <= most if known else None)

    numba = value("import", "numba", "median")
    both = value("import", "sklearn.svm, numba", "median")
    for name in ("kernelweave", "kernelweave's core"):
        text = f"import {name}: at most numba + 0.3 s ="
        judge(text, value("import", name, "median"), numba and numba + 0.3)
    for name in chosen:
        judge(f"{name}: first fit ever under", value("first fit", name, "ever"), 15.0)
        text = f"{name}: in a new process at most sklearn.svm, numba + 1 s ="
        judge(text, value("first fit", name, "later"), both and both + 1.0)
    judge("simple on ionosphere to gap 1e-2 under", value("ionosphere", "simple", "worst"), 2.0)


if __name__ == "__main__":
    main()
