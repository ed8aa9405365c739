"""
How far from the optimum is a model?
====================================

Every result has two numbers. The best possible objective lies between them, whatever solver made
the model.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from kernelweave import KernelBank, duality_gap, learn
from kernelweave.report import certificate

X, labels = load_breast_cancer(return_X_y=True)
y = 2 * labels - 1
stack = KernelBank().fit(X).stack
C = 1.0

# %%
# Every solution carries two bounds.

solution = learn(stack, y, C=C, tol=1e-4)
print("learn(…, tol=1e-4)\n" + certificate(solution))

# %%
# Stopped early: you get a warning, and a gap that is still a true bound.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    early = learn(stack, y, C=C, max_iter=2, tol=1e-4)
print(f"learn(…, max_iter=2)\n{certificate(early)}\nwarning: {caught[0].message}")
assert early.dual <= solution.primal

# %%
# A model from another program: scikit-learn's SVC on the average of the kernels.

weights = np.full(stack.m, 1 / stack.m)
machine = SVC(kernel="precomputed", C=C).fit(stack.combine(weights), y)
coef = np.zeros(len(y))
coef[machine.support_] = machine.dual_coef_[0]
judged = duality_gap(
    stack, y, weights, coef, machine.intercept_[0], C=C, dual_alpha=solution.dual_alpha
)
print(f"SVC with equal weights: objective {judged.primal:.6g};")
print(f"better weights lower it by at most {100 * judged.gap:.0f} %")

# %%
# The three models, each with the interval in which the optimum is known to lie.

models = {"learned": solution, "two iterations": early, "SVC, equal weights": judged}
figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
for place, found in enumerate(models.values()):
    axes.plot([found.dual, found.primal], [place, place], lw=6, solid_capstyle="butt")
    axes.plot(found.primal, place, "k|", ms=16)
axes.axvline(solution.primal, color="gray", lw=0.8)
axes.set_yticks(range(3), models)
axes.set(xlabel="objective (│ is that of the model)", ylim=(2.6, -0.6))
plt.show()
