"""Spectrum kernels of 3,175 DNA sequences for k = 1 … 6, and mismatch kernels of six letters.

Processor seconds of a bank fitted on the sequences of length 60, from the strings to the normalized
matrices, in one thread: the splice junctions whose letters are all A, C, G or T. Beside it stands
the same number of sequences whose letters are drawn at random.
"""

import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import common

BANKS = {
    "spectrum, k = 1 … 6": [kw.Spectrum(k) for k in range(1, 7)],
    "mismatch, k = 6, m = 1": [kw.Spectrum(6, mismatches=1)],
    "mismatch, k = 6, m = 2": [kw.Spectrum(6, mismatches=2)],
}
BARS = {"spectrum, k = 1 … 6": 1.5, "mismatch, k = 6, m = 1": 10.0}
SETS = ("splice", "random")


def sequences(name, data, n):
    if name == "random":
        letters = np.random.default_rng(0).choice(list("ACGT"), (n, 60))
    else:
        letters = common.fetch("splice_uci_letters", data).X
        letters = letters[np.isin(letters, list("ACGT")).all(axis=1)][:n]
    return [["".join(row)] for row in letters]


def measure(data, name, kernels, n, repeats):
    X = sequences(name, data, n)
    bank = kw.KernelBank(BANKS[kernels])
    bank.fit(X[:100])
    times = []
    for _ in range(repeats):
        began = time.process_time()
        fitted = bank.fit(X)
        times.append(time.process_time() - began)
    return {"n": len(X), "m": fitted.stack.m, **common.spread(times)}


def main():
    args = common.arguments(__doc__)
    n, repeats = (200, 1) if args.quick else (3175, 7)
    results = common.Results("strings", args)
    cells = [(name, kernels) for kernels in BANKS for name in SETS]
    results.fill(
        [((name, kernels, n), measure, args.data, name, kernels, n, repeats)
         for name, kernels in cells]
    )  # fmt: skip
    rows = [
        [kernels, name, cell["n"], cell["m"], cell["median"], cell["min"]]
        for name, kernels in cells
        if (cell := results.get(name, kernels, n))
    ]
    common.table(["kernels", "sequences", "n", "m", "processor s, median", "least"], rows)
    for kernels, most in BARS.items():
        seconds = (results.get("splice", kernels, n) or {}).get("median")
        met = None if seconds is None else seconds <= most
        results.bar(f"{kernels} on splice in at most {most:g} s", seconds, met)


if __name__ == "__main__":
    main()
