"""Exact multiple kernel learning on one GPU: products, fits, searches, rivals.

    python -m benchmarks.gpu --part NAME [--data FOLDER] [--log FILE]

Each part takes less than nine minutes and appends to one log, a line of JSON each. Times are wall
clock after one fit on 2,000 rows, which compiles what Numba and Triton compile; that is told apart.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import time
import warnings

import numpy as np

import kernelweave as kw

LOG = pathlib.Path(__file__).parent / "results" / "gpu.jsonl"
GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0)
TEST = 20_000


def covertype(folder):
    """Standardized numbers and indicators, class 2 against the rest, in one fixed order."""
    Z = np.load(pathlib.Path(folder) / "covertype.npz")
    numbers = Z["numeric"].astype(np.float32)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    indicators = np.eye(4)[Z["wilderness"]], np.eye(40)[Z["soil"]]
    X = np.hstack([numbers, *indicators]).astype(float)
    order = np.random.RandomState(0).permutation(len(X))
    return X[order], np.where(Z["y"] == 2, 1, -1)[order]


def gaussians():
    """The five kernels of the benchmark."""
    return [kw.Gaussian(width=(2.0 * gamma) ** -0.5) for gamma in GAMMAS]


def bank(device="cuda", dtype=None):
    """Their bank on a device, or on the processor."""
    storage = "auto" if device == "cpu" else kw.TorchStorage(device, dtype)
    return kw.KernelBank(gaussians(), scale=None, normalize=None, storage=storage)


def fitted(model, X, y, X_new=None, y_new=None):
    """A fit, and what is to be told of it."""
    import torch

    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.perf_counter() - began
    history = model.history_
    found = {
        "rows": len(X),
        "seconds": round(seconds, 2),
        "gap": float(model.duality_gap_),
        "weights": np.round(model.weights_, 4).tolist(),
        "machines": int(model.n_svm_solves_),
        "support": len(model.support_),
        "device GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "steps": [
            f"{by} {gap:.1e} {second:.1f}s"
            for by, gap, second in zip(
                history["by"], history["gap"], history["seconds"], strict=True
            )
        ],
    }
    if X_new is not None:
        began = time.perf_counter()
        found["score"] = float(np.mean(model.predict(X_new) == y_new))
        found["predict seconds"] = round(time.perf_counter() - began, 2)
    return found


def compiled(data):
    """The first fit, and the first again: what compilation takes."""
    X, y = covertype(data)
    seconds = []
    for _ in range(2):
        seconds.append(fitted(kw.MKLClassifier(bank(), tol=1e-2), X[:2000], y[:2000])["seconds"])
    seconds.append(fitted(kw.MKLClassifier(bank(), tol=1e-2), X[:6000], y[:6000])["seconds"])
    return {"first, again, on 6,000 rows": seconds}


def products(data):
    """Products with K(d), two vectors: by precision, from rows and from a matrix on the device."""
    import torch

    X, _ = covertype(data)
    found = {}
    for n in (20_000, 100_000):
        V = np.random.default_rng(0).normal(size=(n, 2))
        for dtype in ("float64", "float32"):
            made = bank("cuda", dtype).fit(X[:n]).stack
            for room in (0.6, 0.0):
                if dtype == "float64" and n > 20_000:
                    continue
                stack = made.select(np.arange(5))
                stack.room = room
                K = stack.combined(np.full(5, 0.2))
                calls = {"@": lambda K=K, V=V: K @ V}
                if dtype == "float32" and not room:
                    calls["quick"] = lambda K=K, V=V: K.quick_product(V, 0.1)
                    calls["each"] = lambda s=stack, V=V: s.matvecs(V[:, 0])
                for name, call in calls.items():
                    began = time.perf_counter()
                    call()
                    first = time.perf_counter() - began
                    times = []
                    for _ in range(5):
                        began = time.perf_counter()
                        call()
                        times.append(time.perf_counter() - began)
                    kept = "matrix" if stack.keeps else "rows"
                    key = f"{n} {dtype} {kept} {name}"
                    found[key] = [round(first, 3), round(float(np.median(times)), 4)]
                    print(key, found[key], flush=True)
                del K, stack
                torch.cuda.empty_cache()
    return found


def rows_20(data):
    """20,000 rows."""
    return covertype_fit(data, 20_000)


def rows_100(data):
    """100,000 rows."""
    return covertype_fit(data, 100_000)


def rows_500(data):
    """500,000 rows."""
    return covertype_fit(data, 500_000)


def covertype_fit(data, n, device="cuda"):
    """Exact kernels, C = 1, tol = 1e-2; warmed up on 2,000 rows and more."""
    X, y = covertype(data)
    for size in (2000, 6000):
        fitted(kw.MKLClassifier(bank(device), tol=1e-2), X[:size], y[:size])
    model = kw.MKLClassifier(bank(device), C=1.0, tol=1e-2, verbose=int(n > 200_000))
    return fitted(model, X[:n], y[:n], X[-TEST:], y[-TEST:])


def processor_20(data):
    """The default fit of 20,000 rows on the processor."""
    return covertype_fit(data, 20_000, device="cpu")


PARTS = {
    "compiled": compiled,
    "products": products,
    "rows_20": rows_20,
    "rows_100": rows_100,
    "rows_500": rows_500,
    "processor_20": processor_20,
}


def machine():
    """What it ran on."""
    import torch
    import triton

    there = torch.cuda.is_available()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if there else "none",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, nargs="+", required=True)
    parser.add_argument("--data", default=os.environ.get("KERNELWEAVE_DATA", "data"))
    parser.add_argument("--log", default=LOG, type=pathlib.Path)
    options = parser.parse_args()
    for name in options.part:
        found = {"part": name, **PARTS[name](options.data), **machine()}
        line = json.dumps(found)
        print(line, flush=True)
        with options.log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


if __name__ == "__main__":
    main()
