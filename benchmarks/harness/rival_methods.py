"""Ways from m kernels to a classifier: ours, one kernel, equal weights, MKLpy's and himalaya's.

A method is given kernels (m, n, n), labels and a list of settings, and returns a decision function
of kernels (m, n_new, n) for each setting. The settings are its hyperparameters, C among them, for
``choose`` to pick from by cross-validation. Methods that learn weights first and a machine after
have ``SVC`` for their machine.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.judging import accuracy
from benchmarks.harness.rival_svc import svc
from benchmarks.harness.skipped import need
from benchmarks.harness.timing import TimeUp, time_limit
from kernelweave.learners import NAMES

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
TOL = 1e-3  # certified gap of ours
RATE = (
    1.0  # MKLpy's learning rate, halved when things get worse; its own 0.01 gets less far in time
)
WARM = ("uniform", "newton", "simple", "radius")  # these start from their neighbor in C
BROKEN = (ArithmeticError, AssertionError, RuntimeError, ValueError)

Decision = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Method:
    """``fit(K, y, settings, inner, late)``, and the settings that there are for m kernels.

    ``inner`` are the folds, for a method that searches by itself; ``late`` collects fits that were
    cut short. ``normalize`` names the only normalization for which the method is right.
    """

    fit: Callable[..., list[Decision]]
    settings: Callable[[int], list[Any]] = lambda m: list(COSTS)
    normalize: str | None = None


def choose(
    method: Method, K: np.ndarray, y: np.ndarray, inner: list[Any]
) -> tuple[Decision, dict[str, Any]]:
    """The method at the setting of best accuracy over the inner folds, the first of equals.

    A fit that fails stands for the larger class. Seconds are the processor's: of the last fit
    alone, and of all.
    """
    late: list[float] = []
    reasons: list[str] = []

    def attempt(K, y, settings, inner):
        try:
            return method.fit(K, y, settings, inner, late)
        except (*BROKEN, TimeUp) as reason:
            reasons.append(f"{type(reason).__name__} {reason}"[:100].strip())
            larger = 1.0 if y.sum() > 0 else -1.0
            return [lambda cross: np.full(cross.shape[1], larger)] * len(settings)

    settings = method.settings(len(K))
    began = time.process_time()
    scores = np.zeros(len(settings))
    if len(settings) > 1:
        for part, rest in inner:
            models = attempt(K[:, part[:, None], part], y[part], settings, None)
            cross = K[:, rest[:, None], part]
            scores += [accuracy(model(cross), y[rest]) for model in models]
    best = settings[int(np.argmax(scores))]
    chosen = time.process_time()
    (model,) = attempt(K, y, [best], inner)
    ended = time.process_time()
    return model, {
        "setting": str(best),
        "fit_seconds": ended - chosen,
        "seconds": ended - began,
        "late": len(late),
        "failed": reasons,
    }


def weighted(weights: Callable[..., np.ndarray], pairs: list[tuple[Any, float]]) -> Method:
    """Weights from ``weights(K, y, setting, late)``, then SVC at C, for pairs (setting, C)."""

    def fit(K, y, pairs, inner, late):
        found, models = {}, []
        for setting, C in pairs:
            if setting not in found:
                d = np.asarray(weights(K, y, setting, late), dtype=float)
                found[setting] = d, np.tensordot(d, K, 1)
            d, combined = found[setting]
            models.append(partial(_combined, svc(combined, y, C), d))
        return models

    return Method(fit, lambda m: pairs)


def _combined(machine, weights, cross):
    return machine.decision_function(np.tensordot(weights, cross, 1))


# ---- ours, and the least that one can do -------------------------------------------------------


def ours(learner: str) -> Method:
    def fit(K, y, settings, inner, late):
        stack, found, start = kw.KernelStack(K, check=False), {}, None
        for C in sorted(settings, reverse=True):
            found[C] = kw.learn(stack, y, C=C, learner=learner, tol=TOL, start=start, max_iter=1000)
            start = found[C] if learner in WARM else None
        return [found[C].decision_function for C in settings]

    return Method(fit)


def one_kernel() -> Method:
    def fit(K, y, settings, inner, late):
        models = []
        for k, C in settings:
            machine = svc(K[k], y, C)
            models.append(lambda cross, k=k, machine=machine: machine.decision_function(cross[k]))
        return models

    return Method(fit, lambda m: list(product(range(m), COSTS)))


# ---- MKLpy -------------------------------------------------------------------------------------


def mklpy(
    algorithm: str, limit: float, pairs: list[tuple[Any, float]], parameter: str | None = None
) -> Method:
    """Weights of an algorithm of MKLpy; ``parameter`` is what its own settings mean."""
    stepwise = algorithm in ("GRAM", "MEMO", "RMKL")

    def weights(K, y, setting, late):
        for package in ("MKLpy", "torch", "cvxopt"):
            need(package)
        import torch
        from MKLpy import algorithms
        from MKLpy.callbacks import Callback
        from MKLpy.scheduler import ReduceOnWorsening
        from sklearn.svm import SVC

        class Deadline(Callback):
            """Keep what there is after ``limit`` seconds."""

            def on_train_begin(self):
                self.end = time.process_time() + limit

            def on_step_begin(self, step):
                if time.process_time() > self.end:
                    self.model.convergence = True
                    late.append(limit)

        torch.set_num_threads(1)
        options = {parameter: setting} if parameter else {}
        options["learner"] = SVC(C=setting if algorithm == "PWMK" else 1.0)
        if stepwise:
            options |= {"learning_rate": RATE, "scheduler": ReduceOnWorsening()}
            options["callbacks"] = [Deadline()]
        model = getattr(algorithms, algorithm)(**options)
        kernels = [torch.from_numpy(kernel) for kernel in K]
        quiet = contextlib.redirect_stdout(io.StringIO())  # MEMO prints
        with quiet, time_limit(None if stepwise else limit, cpu=True):
            return model.combine_kernels(kernels, torch.from_numpy(y)).weights.tolist()

    method = weighted(weights, pairs)
    return Method(method.fit, method.settings, "sphere" if algorithm == "GRAM" else None)


# ---- himalaya ----------------------------------------------------------------------------------


def himalaya(combinations: int) -> Method:
    """Ridge regression on ±1; kernel weights and ridge by its own search over the inner folds."""

    def fit(K, y, settings, inner, late):
        need("himalaya")
        from himalaya.kernel_ridge import MultipleKernelRidgeCV

        search = {"n_iter": combinations, "alphas": np.logspace(-4, 4, 9), "progress_bar": False}
        model = MultipleKernelRidgeCV(
            kernels="precomputed",
            solver_params=search,
            fit_intercept=True,
            cv=inner,
            random_state=0,
        ).fit(K, y)
        return [model.predict]

    return Method(fit, lambda m: [None])


# ---- all of them -------------------------------------------------------------------------------


def methods(limit: float) -> dict[str, Method]:
    """By name; ``limit`` seconds for a fit of MKLpy's.

    Of our learners with one objective ``newton`` and ``simple`` stand for all.
    """
    ours_too = ("newton", "simple", "radius", "alignment")
    found = {name: ours(name) for name in ours_too if name in NAMES}
    found |= {"equal weights": ours("uniform"), "one kernel": one_kernel()}
    plain = [(None, C) for C in COSTS]
    same = [(C, C) for C in COSTS]
    found |= {
        "EasyMKL": mklpy("EasyMKL", limit, list(product((0.1, 0.5, 0.9), COSTS)), "lam"),
        "GRAM": mklpy("GRAM", limit, plain),
        "CKA": mklpy("CKA", limit, plain),
        "MEMO": mklpy("MEMO", limit, plain),
        "R-MKL": mklpy("RMKL", limit, same[2:], "C"),
        "FHeuristic": mklpy("FHeuristic", limit, plain),
        "PWMK": mklpy("PWMK", limit, same),
        "himalaya": himalaya(50),
    }
    return found


def warm_up(method: Method) -> None:
    """Compile and import what a method needs, on thirty rows."""
    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0], 15)
    X = rng.standard_normal((3, 30, 4)) + 0.5 * y[:, None]
    K = np.exp(-((X[:, :, None] - X[:, None]) ** 2).mean(axis=3))
    rows = np.arange(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choose(method, K, y, [(rows[k::2], rows[1 - k :: 2]) for k in range(2)])
