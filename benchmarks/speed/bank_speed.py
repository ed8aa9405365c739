"""The bank of rakoto2007 on ionosphere (M = 442, n = 351) against its exponentials alone.

The rival is np.exp on the 340 scaled distance matrices of the Gaussians, computed beforehand:
into new memory, as np.exp(array) gives it, and into memory that is there already.
"""

import warnings

import numpy as np

import kernelweave as kw
from benchmarks.harness import common


def exponents(X):
    """−|x − z|²/(2 width²) for all features and for each, and every width."""
    views = [X, *(X[:, [j]] for j in range(X.shape[1]))]
    out = np.empty((len(views) * len(common.WIDTHS), len(X), len(X)))
    for k, view in enumerate(views):
        squares = (view**2).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * view @ view.T, 0.0)
        for j, width in enumerate(common.WIDTHS):
            np.multiply(distances, -0.5 / width**2, out=out[k * len(common.WIDTHS) + j])
    return out


def measure(data, normalize, n, quick):
    X, _ = common.sample("ionosphere", data, n)
    bank = kw.KernelBank(common.rakoto_kernels(), "all+each", normalize, scale=None)
    given = exponents(X)
    ready = np.ones_like(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = bank.fit(X)
        times = common.race(
            {
                "bank": lambda: bank.fit(X, n_jobs=None),
                "bank, all cores": lambda: bank.fit(X, n_jobs=-1),
                "exp": lambda: np.exp(given),
                "exp in place": lambda: np.exp(given, out=ready),
            },
            seconds=0.0 if quick else 20.0,
            least=1 if quick else 7,
        )
    return {
        "n": n,
        "m": fitted.stack.m,
        "dropped": len(fitted.dropped),
        "exponentials": len(given),
        **times,
        "ratio": times["bank"]["median"] / times["exp"]["median"],
        "ratio to exp in place": times["bank"]["median"] / times["exp in place"]["median"],
    }


def main():
    args = common.arguments(__doc__)
    n = 60 if args.quick else 351
    rules = ["trace", "unit_trace", "center+unit_trace", None]
    results = common.Results("bank_speed", args)
    results.fill([((rule, n), measure, args.data, rule, n, args.quick) for rule in rules])
    timed = ["bank", "bank, all cores", "exp", "exp in place"]
    rows = [
        [
            *(str(rule), cell["m"], cell["dropped"]),
            *(common.ms(cell[name]) for name in timed),
            *(cell["ratio"], cell["ratio to exp in place"]),
        ]
        for rule in rules
        if (cell := results.get(rule, n))
    ]
    header = ["normalize", "M", "dropped", *(f"{name} ms" for name in timed)]
    common.table([*header, "bank / exp", "bank / exp in place"], rows)
    ratio = (results.get("trace", n) or {}).get("ratio")
    met = ratio <= 1.5 if ratio is not None else None
    results.bar("the bank in one thread takes at most 1.5 times its exponentials", ratio, met)


if __name__ == "__main__":
    main()
