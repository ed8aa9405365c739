"""Parameters of the kernels of a fitted bank, learned together with the weights.

    min_t F(t),    F(t) = min_{d ∈ D} J(Σ_m d_m K̃_m(t_m))     or, for ``radius``, J of K/R²

K̃_m is normalized as the bank does it; kernels without parameters take part in the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelweave._core.checks import some
from kernelweave._core.types import Places
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.banks.normalize import ASKED
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.learners.base import Learner
from kernelweave.parameters.criterion import Others, ParameterProblem
from kernelweave.parameters.descent import DescentResult, descend
from kernelweave.parameters.normalized import LearnableKernel
from kernelweave.problems.problem import Formulation
from kernelweave.views.rows import Rows

_STEPS = 50


def refuse_parameters(bank: KernelBank, who: str) -> None:
    """Raise ValueError if kernels of the bank have parameters to learn, which ``who`` cannot."""
    found = bank.learnable()
    if found:
        raise ValueError(
            f"{who} takes kernels as they are, and does not learn parameters of {some(found)}. Use "
            "MKLClassifier or MKLRegressor, for which GridSearchCV of scikit-learn chooses C; or "
            "kernels of fixed widths, such as Gaussian."
        )


def check_learnable(
    bank: KernelBank, learner: Learner, formulations: Sequence[Formulation]
) -> None:
    """Raise ValueError, before any kernel is computed, if parameters cannot be learned here."""
    found = bank.learnable()
    if not found:
        return
    if any(one.loss.target == "nothing" or not one.labeled.all() for one in formulations):
        raise ValueError(
            f"Parameters of {some(found)} are learned from the targets of all rows; without them "
            "give kernels of fixed widths, such as Gaussian"
        )
    if learner.signed or learner.objective not in ("margin", "radius"):
        raise ValueError(
            f"{learner!r} does not say how good kernels are, so that parameters of {some(found)} "
            "cannot be learned with it: use learner='newton' or 'radius'"
        )
    if bank.approximation is not None:
        raise ValueError(
            f"approximation={bank.approximation!r} puts other kernels in the place of "
            f"{some(found)}, whose parameters are to be learned: leave approximation=None"
        )


def learn_bank(
    bank: FittedBank,
    normalize: str | None,
    formulations: Sequence[Formulation],
    learner: Learner,
    tol: float,
    until: float = np.inf,
) -> FittedBank:
    """The bank with learned parameters, and its stack; the bank itself where there are none."""
    numbers = [
        number
        for number in bank.kept
        if isinstance(bank.members[number].kernel, DifferentiableKernel)
    ]
    if not numbers:
        return bank
    places = np.flatnonzero(np.isin(bank.kept, numbers))
    rest = np.setdiff1d(np.arange(len(bank.kept)), places)
    parts = [_part(bank, bank.members[number], normalize) for number in numbers]

    def task(kept: Places, others: Others | None) -> ParameterProblem:
        asked = [one.on_bank(bank.views, kept) for one in formulations]
        return ParameterProblem(parts, asked, learner, tol, others)

    alone = task(bank.kept[places], None)
    t = np.concatenate(alone.first)
    options = None, tol, _STEPS, until
    found = descend(alone, t, *options)
    if rest.size:
        # Beside others a kernel may start without a weight, and then nothing tells it where to go:
        # it first learns by itself.
        together = task(bank.kept, Others(bank.stack.select(rest), rest))
        starts = [together.evaluate(start, None) for start in (found.state.t, t)]
        best = min(starts, key=lambda state: state.value)
        found = descend(together, best.t, *options)
    found.warn()
    told = {
        "method": found.method,
        "status": found.status,
        "stationarity": found.stationarity,
        "n_iter": len(found.history) - 1,
    }
    members = _learned(bank, numbers, found)
    return replace(bank, members=members, _stack=found.state.stack, parameter_search=told)


def _part(bank: FittedBank, member: Member, normalize: str | None) -> LearnableKernel:
    if member.view.rows_of(bank.table) is not None:
        raise ValueError(
            f"Kernel {member.name!r}: rows lack its view, and its parameters cannot be learned "
            "from the others alone. Leave these rows out, or give a kernel of fixed widths."
        )
    kernel = member.kernel
    assert isinstance(kernel, DifferentiableKernel)
    X = Rows(bank.table, member.view).values
    return LearnableKernel(member.name, kernel, X, ASKED[normalize], bank.weights)


def _learned(bank: FittedBank, numbers: list[int], found: DescentResult) -> tuple[Member, ...]:
    """The members of the bank, these with the parameters and the normalization found."""
    members = list(bank.members)
    for number, (part, t) in zip(numbers, found.state.task.at(found.state.t), strict=True):
        kernel = part.kernel.with_parameters(t)
        assert isinstance(kernel, Kernel)
        changed = replace(members[number], kernel=kernel, alone=False)
        members[number] = changed.fitted(part.normalizer(t))
    return tuple(members)
