"""Random fits on rough numbers of a device, each judged in float64 from the rows.

    python -m benchmarks.harness.fuzz_device --fits 200 --seed 0
    python -m benchmarks.harness.fuzz_device --seed 0 --only 17

PyTorch computes on the processor what a GPU would:

    float32     entries and sums in float32
    tf32        factors of every product rounded to ten bits, as where PyTorch was asked for that
    fused       products in three parts, which is nearly float32; those inside iterations rounded

Rows have scales from 1e-3 to 1e3, offsets, twins, and may lack a view; every loss, norm and
normalization; K(d) as a matrix or by products alone. A finding is

- a false gap: kernels made by NumPy from the rows, in float64, say that the gap is more than told
  by a thousandth of it and 1e-8;
- a status "optimal" with a gap above the tolerance, a number that is not finite, an exception.

The last line sums up, and the exit code is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

import kernelweave as kw
from benchmarks.harness.internals import device_modules

torch_combined, torch_stack, torch_tiles = device_modules()

MODES = ("float32", "tf32", "fused")
LOSSES = ("hinge", "squared_hinge", "squared", "epsilon_insensitive", "huber", "quantile")
RULES = ("trace", "sphere", "center+trace", "center+sphere", "unit_trace", None)
SECONDS = 3.0  # of a fit
_MORE, _NOTHING = 1e-3, 1e-8  # of a gap, beside what is told


class Watched(kw.TorchStorage):
    """Keeps kernels as a device does, and beside it each of them as NumPy makes it."""

    matrices: Any = None

    def build(self, kernels: list[Any]) -> Any:
        """The stack; all kernels of the rows, in its order."""
        every = np.arange(kernels[0].n)
        found = np.array([one.block(every, every) for one in kernels])
        object.__setattr__(self, "matrices", 0.5 * (found + found.transpose(0, 2, 1)))
        return super().build(kernels)


def short(x: torch.Tensor) -> torch.Tensor:
    """float32 rounded to the ten bits of a mantissa that TF32 has."""
    if x.dtype is not torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def product(A: torch.Tensor, B: torch.Tensor, parts: int) -> torch.Tensor:
    """AB as a tensor core has it: of numbers rounded once, or of these and what they leave."""
    a, b = short(A), short(B)
    out = a @ b
    return out if parts == 1 else out + a @ short(B - b) + short(A - a) @ b


@contextmanager
def rough(mode: str) -> Iterator[None]:
    """Products in float32 as that mode has them."""
    if mode == "float32":
        yield
        return
    base, multiply, times = (
        torch_tiles.RowsView.base,
        torch_tiles.multiply,
        torch_combined.TorchCombined.times,
    )
    quick = [mode == "tf32"]

    def parts() -> int:
        return 1 if quick[-1] else 3

    def of_rows(self: Any, kind: int, other: Any, i: Any, j: Any, dtype: torch.dtype) -> Any:
        if dtype is not torch.float32 or kind == torch_tiles.LAPLACIAN:
            return base(self, kind, other, i, j, dtype)
        if kind != torch_tiles.GAUSSIAN:
            return product(self.X[i].to(dtype), other.X[j].to(dtype).T, parts())
        (A, a), (B, b) = self.centered(dtype), other.centered(dtype)
        apart = a[i, None] + b[j] - 2.0 * product(A[i], B[j].T, parts())
        return apart.clamp_(min=0.0)

    def tiled(left: Any, right: Any, groups: Any, sides: Any, dtype: torch.dtype) -> Any:
        out = sides[0].new_zeros(len(groups), len(left), sides[0].shape[1])
        for i, j, of in torch_tiles.tiles(left, right, dtype):
            for k, (group, U) in enumerate(zip(groups, sides, strict=True)):
                out[k, i] += product(group.entries(of), U[j].to(dtype), parts())
        return out

    def passed(*args: Any, **more: Any) -> Any:
        quick.append(mode == "tf32" or more.get("quick", False))
        found = multiply(*args, **more)
        quick.pop()
        return found

    def combined(self: Any, V: torch.Tensor, fast: bool) -> torch.Tensor:
        if mode != "tf32" or not self.stack.keeps or not self.groups:
            return times(self, V, fast)
        K = self.stack.held.of(self)
        return product(K, V.to(K.dtype), 1).to(V.dtype)

    is_short = property(lambda self: mode == "tf32")
    with (
        mock.patch.object(torch_tiles.RowsView, "base", of_rows),
        mock.patch.object(torch_tiles, "tiled", tiled),
        mock.patch.object(torch_stack, "multiply", passed),
        mock.patch.object(torch_combined.TorchCombined, "times", combined),
        mock.patch.object(torch_stack.TorchStack, "is_short", is_short),
    ):
        yield


def drawn(seed: int, number: int) -> tuple[np.ndarray, np.ndarray, kw.KernelBank, dict[str, Any]]:
    """Rows, numbers to predict, a bank, and what is asked of them."""
    rng = np.random.default_rng([seed, number])
    n, columns = int(rng.integers(30, 120)), int(rng.integers(3, 9))
    X = rng.normal(size=(n, columns)) * 10.0 ** rng.uniform(-1.0, 1.0, columns)
    X = 10.0 ** rng.uniform(-3.0, 3.0) * (X + rng.choice([0.0, 3.0, 30.0]))
    if rng.random() < 0.3:
        X[: n // 5] = X[n // 5 : 2 * (n // 5)] * (1.0 + 1e-6 * rng.normal(size=(n // 5, 1)))
    score = X[:, 0] * X[:, 1] / (X[:, 0] * X[:, 1]).std() + X[:, 2] / X[:, 2].std()
    score += rng.uniform(0.0, 1.0) * rng.normal(size=n)
    score -= np.median(score)
    rule, loss = RULES[rng.integers(6)], LOSSES[rng.integers(6)]
    lacks = rule is not None and rng.random() < 0.3
    if lacks:
        X[:: int(rng.integers(3, 9)), :2] = np.nan
    widths = 10.0 ** rng.uniform(-1.0, 1.0, int(rng.integers(1, 4)))
    kernels: list[Any] = [kw.Gaussian(width, relative=True) for width in widths]
    kernels += [kw.Laplacian(3.0), kw.Linear(), kw.Polynomial(2)][: int(rng.integers(0, 4))]
    bank = kw.KernelBank(
        kernels,
        views={"a": [0, 1], "b": [*range(2, columns)]} if lacks else "all",
        normalize=rule,
        scale="standard" if rng.random() < 0.7 or rule in ("unit_trace", None) else None,
    )
    asked = {
        "C": 10.0 ** rng.uniform(-2.0, 3.0) * (n if rule == "unit_trace" else 1),
        "loss": loss,
        "weight_norm": [1, 1, 1.5, 2, 4][rng.integers(5)],
        "tol": 10.0 ** rng.uniform(-4.0, -1.5),
    }
    return X, np.sign(score) if "hinge" in loss else score, bank, asked


def judged(seed: int, number: int) -> tuple[str, list[str]]:
    """How a fit ended, and what is wrong with it."""
    X, y, bank, asked = drawn(seed, number)
    mode, keeps = MODES[number % 3], bool(number // 3 % 2)
    bank.storage = storage = Watched("cpu", "float32")
    told = f"{mode}, {'a matrix' if keeps else 'products'}, {asked}, {bank}"
    room = mock.patch.object(torch_stack.TorchStack, "room", 0.4 * keeps)
    most = mock.patch.object(torch_stack.TorchStack, "most_dense", 0)
    with rough(mode), room, most, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            stack = bank.fit(X).stack
            found = kw.learn(stack, y, **asked, max_time=SECONDS)
        except Exception as error:
            return "raised", [f"exception: {type(error).__name__}: {error} | {told}"]
        tol = asked.pop("tol")
        given = found.weights, found.coef, found.bias
        exact = kw.duality_gap(storage.matrices, y, *given, **asked, dual_alpha=found.dual_alpha)
    wrong = []
    if not np.isfinite([*found.weights, *found.coef, found.dual]).all():
        wrong.append(f"not finite | {told}")
    if exact.gap > found.gap * (1.0 + _MORE) + _NOTHING and found.gap <= 1.0:
        wrong.append(f"false gap: told {found.gap:.3e}, is {exact.gap:.3e} | {told}")
    if found.status == "optimal" and not found.gap <= tol:
        wrong.append(f"above tol: {found.gap:.3e} > {tol:.3e} | {told}")
    return found.status, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one fit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    counts, findings = Counter[str](), 0
    for number in range(args.fits) if args.only is None else [args.only]:
        status, wrong = judged(args.seed, number)
        counts[status] += 1
        findings += len(wrong)
        for one in wrong:
            print(f"--seed {args.seed} --only {number}: {one}", flush=True)
    ends = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print(f"seed {args.seed}: {sum(counts.values())} fits ({ends}): {findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
