"""``learn``: kernels and labels in, certified solution out. The front door of the numeric core."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from kernelweave._core.checks import check_verbose
from kernelweave.families.family import Family, is_family, learn_over_hull
from kernelweave.learners import check_options
from kernelweave.learners.base import Learner
from kernelweave.learners.trail import Trail
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss
from kernelweave.problems.problem import make_formulation, target_of
from kernelweave.solution import Solution
from kernelweave.solving import Progress, solve
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.resources import advised, blas_limit, blas_threads

_ASKED = ("weight_norm", "trace", "recenter", "ridge", "sample_weight", "epsilon", "quantile")


@advised
def learn(
    K: ArrayLike | Stack | Family,
    y: ArrayLike | None,
    C: ArrayLike | str = 1.0,
    learner: str | Learner = "auto",
    loss: str | Loss = "hinge",
    weight_norm: float | GroupNorm | None = 1,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    epsilon: float = 0.1,
    quantile: float = 0.5,
    trace: float | None = None,
    recenter: bool = False,
    ridge: float = 0.0,
    max_iter: int = 1000,
    max_time: float | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    solver: str = "auto",
) -> Solution:
    """Learn kernel weights and the machine that uses them, or several that share the weights.

        min_{d ∈ D}  Σ_c J_c(d),      J_c(d) = min_{f, b}  ½‖f‖² + Σ_i C_i ℓ(y_ic, f(x_i) + b)

    f is from the space of K(d) = Σ_m d_m K_m; there is one machine c per column of y.

    Parameters
    ----------
    K : array (m, n, n), KernelStack or another stack
        Kernel matrices, symmetric and positive semidefinite. An array is validated on every
        call, a stack was validated when it was built. Any object that keeps the protocol of
        ``kernelweave.stacks.protocol`` will do. So will a family of kernels, such as
        ``WidthRange(X, low, high)`` (``kernelweave.families``): the best kernel of its convex hull
        is found, and the certificate holds for all of it.
    y : array (n,) or (n, k)
        Labels -1 and +1; 0 for rows without a label. The machine is over the labeled rows, trace
        and semidefiniteness over all; ``coef`` is 0 for the others, and K @ coef + bias is the
        transduction [lanckriet2004, eq. 17]. Numbers with a loss for regression; not read with
        "one_class", where it may be None. With k columns, k machines share the weights; a row
        with label 0 in a column takes no part in that machine. With "interval" the columns are two,
        the ends of what is known of one target; -inf and inf leave an end open.
    C : float, array (n,) or "learn"
        Cost of a slack, one for all or one per row; ``inf`` is the hard margin of the hinges.
        "learn", with the squared hinge: 1/C is learned as the weight of the identity, under a
        trace constraint that counts it in; ``Solution.C`` is what was learned, infinite where no
        ridge helps.
    learner : str or learner object
        "auto" (Newton), "newton", "simple", "skm", "silp", "alternate", "qcqp", "uniform", "sdp",
        "alignment", "alignf", "easy", "grouped", "radius", "radius_bound",
        "margin_and_radius", the baselines as published "hessian" and "skm_published", or an object
        with knobs of its own, such as ``Radius("gradient")`` after
        ``from kernelweave.learners import Radius``. "sdp" learns weights of either sign under a
        trace constraint (see ``trace``).
    loss : str
        For labels "hinge", C Σξ, or "squared_hinge", (C/2) Σξ². For numbers, with h = y − f − b,
        "squared", (C/2) Σh²; "epsilon_insensitive", C Σ(|h| − ε)₊; "quantile",
        C Σ max(qh, (q − 1)h). For targets between l and u, which may be infinite, "interval",
        C Σ max(0, l − f − b − ε, f + b − u − ε). Without a target "one_class", C Σ(−f − b)₊ + b,
        where C = 1/(νn) leaves at most a share ν of the rows outside [rakoto2007, §2.3]; with
        linear kernels alone its optimum is often 0, of which no relative gap can be told.
    weight_norm : float, GroupNorm or None
        p ≥ 1 (``inf`` too): weights in the unit ℓp ball; 1 is the simplex, and sparse. A
        ``GroupNorm`` of labels, one per kernel, lets groups compete and their kernels share.
        None, with ``radius`` only: no constraint but d ≥ 0; weights are then those of a ball of
        radius 1.
    tol : float
        Relative duality gap to reach.
    start : Solution or array (m,), optional
        Where to continue from: an earlier solution (other C allowed) or kernel weights.
    sample_weight : array (n,), optional
        Multiplies C per row, and what the row counts for in traces. A row of weight 0 is as good
        as absent, one of weight 2 as good as two.
    epsilon : float
        How far a prediction may be off at no cost, with "epsilon_insensitive" and "interval".
    quantile : float
        The share of targets that shall lie below the prediction, with "quantile".
    trace : float, optional
        Replaces Σd = 1 by Σ d_m tr K_m = trace. Signed weights always have this constraint; the
        mean trace is its default.
    recenter : bool
        Replaces Σd = 1 by Σ d_m T(K_m) = trace, T(K) = tr K − 1ᵀK1/n the trace that K has once
        centered [chapelle2008, eq. 1]; without ``trace``, the mean of the T(K_m).
    ridge : float
        Added to the diagonal of the combined kernel; makes J(d) differentiable
        [rakoto2007, §1.2.1]. Predictions use the kernel without it.
    max_iter : int
        Iterations of the learner.
    max_time : float, optional
        Seconds after which the best solution so far is returned, with its certificate and the
        status "max_time".
    n_jobs : int, optional
        Threads for passes over the kernels; -1 is one per core. Results do not depend on it.
    verbose : int
        1 prints a line per iteration to standard error.
    solver : {"auto", "smo", "interior_point", "chunks"}
        How machines are solved. "auto" takes what is quickest for the kernels as they are kept: SMO
        on an array, an interior point method on factors of low rank, SMO on chunks of rows where
        there is neither.

    Returns
    -------
    Solution
        With a certificate computed from the data. A ``ConvergenceWarning`` says when ``tol`` was
        not reached.
    """
    return solved(locals())


def solved(told: Mapping[str, Any], trail: Trail | None = None) -> Solution:
    """What ``learn`` does with its arguments, by name; a ``trail`` gets the cuts of the fit."""
    began = time.perf_counter()
    K, y, C, loss = told["K"], told["y"], told["C"], told["loss"]
    tol, verbose = told["tol"], told["verbose"]
    max_time, solver = told["max_time"], told["solver"]
    check_verbose(verbose)
    made = check_options(
        told["learner"], C, told["weight_norm"], tol, told["max_iter"], max_time, loss=loss,
        sample_weight=told["sample_weight"], solver=solver,
    )  # fmt: skip
    asked = {name: told[name] for name in _ASKED} | {"signed": made.signed}
    formulation = make_formulation(target_of(y, loss, K), C, loss, **asked)
    if is_family(K):
        clock = verbose, began, max_time
        limits = tol, told["max_iter"], told["start"]
        return learn_over_hull(formulation, K, made, *limits, clock, solver)
    stack = as_stack(K)
    stack = stack if told["n_jobs"] is None else stack.threaded(told["n_jobs"])
    problem = formulation.on(stack, solver, learner=told["learner"], tol=tol)
    progress = Progress(problem, verbose, began, max_time)
    limits = tol, told["start"], told["max_iter"]
    with blas_threads(blas_limit(problem.stack.n, told["n_jobs"])):
        return solve(problem, made, *limits, progress, trail=trail)
