"""A problem as one file (.npz): the arguments of ``learn``, and what was found. No names, no code.

``Solution.dump`` writes it, to be sent to somebody who shall see the same; the fuzzer writes its
findings so, and ``python -m benchmarks.harness.fuzz --replay FILE`` runs either again.

Arrays are members of the archive, what was found under "found."; all else is text in "options".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelweave._core.atomic import written
from kernelweave._core.params import Params
from kernelweave.learners.base import CLASSES as LEARNERS
from kernelweave.problems.losses import CLASSES as LOSSES
from kernelweave.problems.losses import READ_BY, load
from kernelweave.problems.problem import Problem
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.resources import require_memory

_FOUND = "found."
_CLASSES = {**LEARNERS, **LOSSES, "GroupNorm": "problems.groups.GroupNorm"}


def arguments_of(problem: Problem) -> dict[str, Any]:
    """The arguments of ``learn`` that make this problem, kernels as arrays."""
    asked, task = problem.formulation, problem.formulation.task
    stack, learns = problem.whole, problem.learns_C
    require_memory(stack.m, stack.n, stack.precision)
    shape, dtype = (stack.n, *task.targets.shape[1:]), task.targets.dtype
    targets = np.full(shape, np.array(task.loss.blank, dtype))
    targets[problem.rows] = task.targets
    arguments = {
        "K": np.array([K.astype(stack.precision) for K in matrices(stack)][: stack.m - learns]),
        "y": targets,
        "C": asked.C,
        "loss": task.asked,
        "weight_norm": asked.weight_norm,
        "trace": asked.trace,
        "recenter": asked.recenter,
        "ridge": task.ridge,
        "sample_weight": asked.row_weights,
        "solver": problem.solver,
    }
    read = task.loss.get_params() if isinstance(task.asked, str) else {}
    words = {name: value for name, value in read.items() if name in READ_BY}
    return {**arguments, **words, **problem.asked}


def write_problem(
    path: str | os.PathLike[str], arguments: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    """Write the arguments of ``learn`` and what was found; the file appears when it is complete."""
    both = {**arguments, **{_FOUND + name: value for name, value in found.items()}}
    arrays: dict[str, Any] = {k: v for k, v in both.items() if isinstance(v, np.ndarray)}
    options = {name: _plain(value) for name, value in both.items() if name not in arrays}
    with written(path) as file:
        np.savez_compressed(file, options=np.array(json.dumps(options)), **arrays)


def read_problem(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of ``learn``, and what was found."""
    with np.load(path, allow_pickle=False) as file:
        both = {name: file[name] for name in file.files}
    both |= {name: _made(value) for name, value in json.loads(str(both.pop("options"))).items()}
    found = {name: value for name, value in both.items() if name.startswith(_FOUND)}
    arguments = {name: value for name, value in both.items() if name not in found}
    return arguments, {name.removeprefix(_FOUND): value for name, value in found.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it; learners, losses and norms of groups by name and parameters."""
    if isinstance(value, Params):
        params = value.get_params(deep=False)
        return {"class": type(value).__name__, **{k: _plain(v) for k, v in params.items()}}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _made(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    name = value.pop("class")
    if name not in _CLASSES:
        raise ValueError(f"the file names a class that is not of kernelweave: {name!r}")
    return load(_CLASSES[name])(**{key: _made(part) for key, part in value.items()})
