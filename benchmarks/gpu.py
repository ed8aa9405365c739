"""Exact multiple kernel learning on one GPU: products, fits, searches, rivals.

    python -m benchmarks.gpu --part NAME [--data FOLDER] [--log FILE]

Each part takes less than nine minutes and appends to one log, a line of JSON each. Times are wall
clock after one fit on 2,000 rows, which compiles what Numba and Triton compile; that is told apart.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import platform
import pydoc
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


WORK = {
    "products": "kernelweave.stacks.torch_combined.TorchCombined.times",
    "each kernel": "kernelweave.stacks.torch_stack.TorchStack.matvecs",
    "certificate": "kernelweave.stacks.torch_stack.TorchStack._fine_pass",
    "matrix": "kernelweave.stacks.torch_combined.TorchCombined.matrix",
    "landmarks": "kernelweave.stacks.torch_combined.TorchCombined._landmarks",
    "preconditioner": "kernelweave.stacks.torch_system.TorchShifted.__init__",
    "iterations beside products": "kernelweave.stacks.torch_system.TorchShifted.solve",
    "host: fold, judge, steps": "kernelweave._solvers.svm.interior_point.solve_by_products",
    "master problem": "kernelweave._solvers.bundle.master.solve_master",
}


@contextlib.contextmanager
def clocked():
    """Calls and seconds of each kind of work, less those of the kinds within it."""
    import torch

    found, within, before = {}, [], {}

    def timed(name, call):
        def timed_call(*given, **named):
            within.append(0.0)
            torch.cuda.synchronize()
            began = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                torch.cuda.synchronize()
                took = time.perf_counter() - began
                calls, seconds = found.get(name, (0, 0.0))
                found[name] = calls + 1, seconds + took - within.pop()
                if within:
                    within[-1] += took

        return timed_call

    for name, path in WORK.items():
        place, _, last = path.rpartition(".")
        owner = pydoc.locate(place)
        before[name] = owner, last, getattr(owner, last)
        setattr(owner, last, timed(name, getattr(owner, last)))
    try:
        yield found
    finally:
        for owner, last, call in before.values():
            setattr(owner, last, call)


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


def low_rank_500(data):
    """500,000 rows, Nyström of 1,000 landmarks per kernel; both gaps."""
    X, y = covertype(data)
    made = {"scale": None, "normalize": None, "device": "cuda"}
    for n in (6000, 500_000):
        low = kw.KernelBank(gaussians(), approximation=kw.Nystroem(min(1000, n // 10)), **made)
        model = kw.MKLClassifier(low, tol=1e-2)
        found = fitted(model, X[:n], y[:n], X[-TEST:], y[-TEST:])
    return {**found, "exact gap": model.exact_gap_}


def work_100(data):
    """What the time of 100,000 rows goes to; clocks make each wait for the device."""
    with clocked() as work:
        covertype_fit(data, 6000)
        work.clear()
        found = covertype_fit(data, 100_000, warm=())
    return {**found, "work": {name: [n, round(s, 3)] for name, (n, s) in work.items()}}


def work_500(data):
    """The same of 500,000 rows."""
    with clocked() as work:
        covertype_fit(data, 6000)
        work.clear()
        found = covertype_fit(data, 500_000, warm=())
    return {**found, "work": {name: [n, round(s, 3)] for name, (n, s) in work.items()}}


def covertype_fit(data, n, device="cuda", warm=(2000, 6000)):
    """Exact kernels, C = 1, tol = 1e-2; warmed up on 2,000 rows and more."""
    X, y = covertype(data)
    began = time.perf_counter()
    for size in warm:
        fitted(kw.MKLClassifier(bank(device), tol=1e-2), X[:size], y[:size])
    if warm and device != "cpu":
        warm_up(X[:6000], y[:6000])
    warmed = time.perf_counter() - began
    model = kw.MKLClassifier(bank(device), C=1.0, tol=1e-2, verbose=int(n > 200_000))
    found = fitted(model, X[:n], y[:n], X[-TEST:], y[-TEST:])
    return {**found, "warm-up seconds": round(warmed, 1)}


def warm_up(X, y):
    """Compile what large fits use: a fit in float32 that keeps no matrix."""
    stack = type(bank().fit(X[:100]).stack)
    room, stack.room = stack.room, 0.0
    try:
        fitted(kw.MKLClassifier(bank(dtype="float32"), tol=1e-2), X, y)
    finally:
        stack.room = room


def processor_20(data):
    """The default fit of 20,000 rows on the processor."""
    return covertype_fit(data, 20_000, device="cpu")


def search_20(data):
    """20,000 rows, 5 folds, 10 C: the search of a classifier."""
    X, y = covertype(data)
    made = [
        kw.MKLClassifierCV(
            bank(), weight_norms=[1], Cs=np.logspace(-1, 1, 10), cv=5, cv_tol=1e-2, tol=1e-2
        )
        for _ in range(2)
    ]
    made[0].set_params(Cs=[1.0], cv=2).fit(X[:6000], y[:6000])
    found = fitted(made[1], X[:20_000], y[:20_000], X[-TEST:], y[-TEST:])
    return {**found, "C": float(made[1].best_params_["C"])}


def ten_classes(data):
    """mfeat, ten classes, six views: the device beside the processor."""
    Z = np.load(pathlib.Path(data) / "mfeat.npz")
    names = [name for name in Z.files if Z[name].ndim == 2]
    X, y = np.hstack([Z[name] for name in names]).astype(float), Z["y"]
    edges = np.cumsum([0, *[Z[name].shape[1] for name in names]])
    views = {
        name: list(range(*pair))
        for name, pair in zip(names, itertools.pairwise(edges.tolist()), strict=True)
    }
    found = {}
    for device in ("cpu", "cuda", "cpu", "cuda"):
        model = kw.MKLClassifier(kw.KernelBank(views=views, device=device))
        found.setdefault(device, []).append(fitted(model, X, y)["seconds"])
    return {"rows": len(X), "seconds": found}


def heights(data, n):
    """Covertype's elevation from the other columns, in standard units."""
    X, _ = covertype(data)
    return X[:n, 1:], X[:n, 0], X[-TEST:, 1:], X[-TEST:, 0]


def ridge_50(data):
    """Squared loss, 50,000 rows, exact kernels."""
    for n in (6000, 50_000):
        X, y, X_new, y_new = heights(data, n)
        model = kw.MKLRegressor(bank(), loss="squared", C=1.0, tol=1e-3)
        found = fitted(model, X, y)
    return {**found, "R2": float(model.score(X_new, y_new))}


def ridge_rivals(data):
    """himalaya's MultipleKernelRidgeCV beside a search of ours, 10,000 rows, 5 folds."""
    import torch
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    X, y, X_new, y_new = heights(data, 10_000)
    backend = set_backend("torch_cuda")
    as_32 = [torch.tensor(x, dtype=torch.float32, device="cuda") for x in (X, X_new)]
    found = {}
    for n_iter in (1, 10):
        torch.cuda.synchronize()
        began = time.perf_counter()
        squares = [torch.cdist(x, as_32[0]) ** 2 for x in as_32]
        Ks, Ks_new = (torch.stack([torch.exp(-g * D) for g in GAMMAS]) for D in squares)
        theirs = MultipleKernelRidgeCV(
            kernels="precomputed",
            cv=5,
            solver="random_search",
            solver_params={
                "n_iter": n_iter,
                "alphas": np.logspace(-4, 2, 7),
                "progress_bar": False,
            },
            random_state=0,
        )
        theirs.fit(Ks, torch.tensor(y[:, None], dtype=torch.float32, device="cuda"))
        seconds = time.perf_counter() - began
        predicted = backend.to_numpy(theirs.predict(Ks_new))[:, 0]
        found[f"himalaya, n_iter={n_iter}"] = {
            "seconds": round(seconds, 2),
            "R2": float(1.0 - np.mean((predicted - y_new) ** 2) / np.var(y_new)),
        }
        del Ks, Ks_new, squares
    for _ in range(2):
        ours = kw.MKLRegressorCV(
            bank(), loss="squared", weight_norms=["equal", 1], Cs=np.logspace(0, 3, 7), cv=5
        )
        told = fitted(ours, X, y)
        told["R2"] = float(ours.score(X_new, y_new))
    return {**found, "kernelweave": told}


PARTS = {
    "compiled": compiled,
    "products": products,
    "rows_20": rows_20,
    "rows_100": rows_100,
    "rows_500": rows_500,
    "low_rank_500": low_rank_500,
    "work_100": work_100,
    "work_500": work_500,
    "processor_20": processor_20,
    "search_20": search_20,
    "ten_classes": ten_classes,
    "ridge_50": ridge_50,
    "ridge_rivals": ridge_rivals,
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
