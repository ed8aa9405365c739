"""
Learners compared
=================

Six algorithms for one problem with 93 kernels. Each goes towards the same optimum; how long
does it take to prove that it is near?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, KernelBank, Polynomial, learn
from kernelweave.plotting import plot_convergence

X, labels = load_breast_cancer(return_X_y=True)
X, y = X[::2], 2.0 * labels[::2] - 1.0
kernels = [*(Gaussian(w, relative=True) for w in (0.5, 2)), Polynomial(2)]
stack = KernelBank(kernels, views="all+each").fit(X).stack
print(f"{stack.n} rows, {stack.m} kernels")

# %%
# Whoever ends short of the gap asked for says so by a warning, and the gap told is still true.

warnings.simplefilter("ignore")
solutions = {
    learner: learn(stack, y, C=10.0, learner=learner, tol=1e-4, max_iter=150)
    for learner in ("newton", "simple", "silp", "skm", "hessian", "alternate")
}
for learner, solution in solutions.items():
    print(f"{learner:10} objective {solution.primal:.4f}, gap {solution.gap:.0e}", end=", ")
    print(f"{solution.n_svm_solves} SVMs, {np.sum(solution.weights > 0)} kernels")

axes = plt.subplots(figsize=(7, 4), layout="constrained")[1]
plot_convergence(solutions, ax=axes, x="seconds")
plt.show()
