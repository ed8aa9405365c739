"""Reading the certificate: how far is a model from the best objective, whatever solver made it?"""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from kernelweave import KernelBank, duality_gap, learn
from kernelweave.inspection.report import certificate

X, labels = load_breast_cancer(return_X_y=True)
y = 2 * labels - 1
stack = KernelBank().fit(X).stack
C = 1.0

# 1. Every solution carries two bounds. The optimum lies between them.
solution = learn(stack, y, C=C, tol=1e-4)
print("learn(…, tol=1e-4)\n" + certificate(solution))

# 2. Stopped early: you get a warning, and a gap that is still a true bound.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    early = learn(stack, y, C=C, max_iter=2, tol=1e-4)
print(f"\nlearn(…, max_iter=2)\n{certificate(early)}\nwarning: {caught[0].message}")
assert early.dual <= solution.primal

# 3. A model from another solver: scikit-learn's SVC on the average of the kernels.
weights = np.full(stack.m, 1 / stack.m)
K = stack.combine(weights)
machine = SVC(kernel="precomputed", C=C).fit(K, y)
coef = np.zeros(len(y))
coef[machine.support_] = machine.dual_coef_[0]
judged = duality_gap(
    stack, y, weights, coef, machine.intercept_[0], C=C, dual_alpha=solution.dual_alpha
)
print(
    f"\nSVC with equal weights\n"
    f"objective {judged.primal:.6g}; better weights lower it by at most {100 * judged.gap:.0f} %"
)
