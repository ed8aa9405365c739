"""Memory of a fit on sparse text: tf-idf of 7,770 Reuters stories, with one kernel and with five.

The stories of the ModApte training split that have one of the 90 topics with a training and a test
story, as CSR from TfidfVectorizer(); the label is the topic "earn". Each fit runs in a process of
its own. Its peak is the most memory that was ever resident, interpreter, libraries and X included;
the bar compares it with the kernel matrices, m · n² numbers of 8 bytes. Linux only.
"""

import gc
import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process
from benchmarks.harness.resident_memory import MIB, resident

BANKS = {
    "Linear": [kw.Linear()],
    "Polynomial, degree 3": [kw.Polynomial(3)],
    "Gaussian": [kw.Gaussian(1.0)],
    "default bank": None,
}


def stories(data, n):
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = common.fetch("reuters21578_modapte", data)
    topics = found.y[found.train].any(axis=0) & found.y[~found.train].any(axis=0)
    rows = np.flatnonzero(found.train & found.y[:, topics].any(axis=1))[:n]
    texts = [f"{title}\n{body}" for title, body in found.X[rows]]
    return TfidfVectorizer().fit_transform(texts), found.y[rows, found.labels.index("earn")]


def fit(data, name, n):
    X, y = stories(data, n)
    kw.MKLClassifier(BANKS[name]).fit(X[:200], y[:200])  # compiles
    gc.collect()
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")  # the peak begins here: reading and vectorizing do not count
    began = time.process_time()
    model = kw.MKLClassifier(BANKS[name]).fit(X, y)
    seconds, peak = time.process_time() - began, resident("VmHWM")
    model.predict(X)
    matrices = len(model.weights_) * len(y) ** 2 * 8 / MIB
    return {
        "n": len(y),
        "m": len(model.weights_),
        "columns": X.shape[1],
        "stored": X.nnz,
        "dense X MiB": X.shape[0] * X.shape[1] * 8 / MIB,
        "matrices MiB": matrices,
        "before MiB": before,
        "peak MiB": peak,
        "predict peak MiB": resident("VmHWM"),
        "ratio": max(peak, resident("VmHWM")) / matrices,
        "seconds": seconds,
        "gap": model.duality_gap_,
    }


def measure(data, name, n):
    return in_process(fit, data, name, n)


def main():
    args = common.arguments(__doc__)
    n = 400 if args.quick else 7770
    results = common.Results("sparse_memory", args)
    results.fill([((name, n), measure, args.data, name, n) for name in BANKS])
    shown = ["n", "columns", "m", "matrices MiB", "dense X MiB", "before MiB", "peak MiB"]
    shown += ["predict peak MiB", "ratio", "seconds", "gap"]
    rows = [
        [name, *(cell.get(column) for column in shown)]
        for name in BANKS
        if (cell := results.get(name, n))
    ]
    header = ["kernels", *shown[:-3], "peak / matrices", "processor s", "gap"]
    common.table(header, rows)
    for m, names in ((1, [*BANKS][:3]), (5, ["default bank"])):
        ratios = [(results.get(name, n) or {}).get("ratio") for name in names]
        known = None not in ratios
        results.bar(
            f"the peak with m = {m} is below twice the kernel matrices",
            max(ratios) if known else None,
            max(ratios) < 2.0 if known else None,
        )


if __name__ == "__main__":
    main()
