"""
Why SMO needs a smooth objective
================================

Plain SMO gets stuck at kinks of the objective, and regularization prevents it.

The dual of multiple kernel learning is a maximum of quadratic functions, one per kernel. It has a
kink where several kernels attain the maximum, and coordinate descent may get stuck there: every
pair of variables lowers one kernel's function but raises another's [bach2004, §1]. The learner
``skm`` instead minimizes a sequence of functions without kinks that approach the maximum.

Below, SMO on the maximum itself, with an exact search along each pair, stops a few percent short of
the optimum, although it tries all 1,560 pairs before it gives up.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import KernelStack, learn
from kernelweave.papers.bach2004 import _smo as skm_smo
from kernelweave.papers.bach2004._pairs import Target
from kernelweave.problems.losses import hinge

# %%
# Three Gaussian kernels, one per feature; two of the features are related to y.

rng = np.random.default_rng(1)
y = np.where(np.arange(40) % 2, 1.0, -1.0)
X = rng.standard_normal((40, 3)) + np.outer(y, [0.7, 0.5, 0.0])
K = np.stack([np.exp(-0.5 * (x[:, None] - x) ** 2) for x in X.T])
qp = hinge(y, 1.0)
optimum = learn(K, y, C=1.0, tol=1e-12).dual


def value(v):
    """The objective that SMO maximizes: cᵀv − ½ max_j vᵀK_j v."""
    return y @ v - 0.5 * np.einsum("i,kij,j->k", v, K, v).max()


def step(v, i, k):
    """The gain of the best step x, which raises v_i and lowers v_k by x; and this x.

    Along the pair the objective is the minimum of three parabolas. Its maximum is at the top of
    one, where two meet, or at a bound.
    """
    products = K @ v
    q, slopes = products @ v, products[:, i] - products[:, k]
    bends = K[:, i, i] + K[:, k, k] - 2.0 * K[:, i, k]
    moves = [0.0, *((y[i] - y[k] - slopes) / bends)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        roots = np.roots([bends[a] - bends[b], 2.0 * (slopes[a] - slopes[b]), q[a] - q[b]])
        moves += list(roots[np.isreal(roots)].real)
    moves = np.clip(moves, 0.0, min(qp.upper[i] - v[i], v[k] - qp.lower[k]))
    heights = moves * (y[i] - y[k])
    heights -= 0.5 * (q + moves[:, None] * (2.0 * slopes + moves[:, None] * bends)).max(axis=1)
    best = int(np.argmax(heights))
    return heights[best] - heights[0], moves[best]


# %%
# Plain SMO: take the pair that most violates the optimality conditions of the SVM on the largest
# kernel; if it gains nothing, the best of all pairs.

v, plain = np.zeros(40), []
while True:
    plain.append(1.0 - value(v) / optimum)
    gradient = y - K[int(np.argmax(K @ v @ v))] @ v
    i = int(np.argmax(np.where(v < qp.upper, gradient, -np.inf)))
    k = int(np.argmin(np.where(v > qp.lower, gradient, np.inf)))
    gain, x = step(v, i, k)
    if gain <= 1e-12:
        pairs = [(i, k) for i in range(40) for k in range(40) if i != k]
        (gain, x), (i, k) = max((step(v, *pair), pair) for pair in pairs)
        if gain <= 1e-12:
            break
    v[i], v[k] = v[i] + x, v[k] - x
sizes = np.einsum("i,kij,j->k", v, K, v)
print(f"plain SMO: stuck after {len(plain) - 1} steps, {plain[-1]:.1%} short of the optimum;")
print("vᵀK_j v of the three kernels there: " + ", ".join(f"{q:.6f}" for q in sizes))
assert plain[-1] > 0.01, "no pair helps, and yet this is not the optimum"

# %%
# The same pair steps, and nothing else, on functions without kinks, each started from the previous
# solution.

rows, kernels = skm_smo.KernelRows(KernelStack(K)), np.arange(3)
w, steps, smooth = np.zeros(40), 0, [(0, 1.0)]
for kappa in 0.5 ** np.arange(1, 9):
    a, d = np.full(3, kappa / (1.0 - kappa)), np.ones(3)
    target = Target(kernels, a, d)
    machine = skm_smo.solve(rows, target, qp, w, gap_tol=0.01 * kappa**2, newton=False)
    w, steps = machine.v, steps + machine.steps
    smooth.append((steps, 1.0 - value(w) / optimum))
print(f"regularized, κ down to {kappa:.1g}: {steps} steps, {smooth[-1][1]:.0e} short")
assert smooth[-1][1] < 1e-5

# %%
# Both, step by step.

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.semilogy(plain, label="on the maximum of three functions")
axes.semilogy([len(plain) - 1, steps], [plain[-1]] * 2, ":", color="C0", label="no pair helps")
axes.set_xscale("symlog")
axes.semilogy(*np.array(smooth).T, "o-", color="C1", label="regularized, κ = 1/2, 1/4, …")
axes.set(xlabel="pair steps", ylabel="short of the optimum", title="SMO with and without kinks")
axes.legend(loc="lower left")
plt.show()
