"""
The scaling problem, and the radius
===================================

A larger kernel has a larger margin, useful or not. MKL bounds the weights, but then the units of a
kernel decide whether it is chosen [gai2010, §2.1]. The learner ``radius`` measures the margin
against the smallest ball that holds the data, so that units cancel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, KernelBank, KernelStack, learn

X, labels = load_breast_cancer(return_X_y=True)
y = 2.0 * labels - 1.0
narrow, wide = (KernelBank([Gaussian(w)]).fit(X).stack.combine([1.0]) for w in (1.0, 5.0))


def weight_of_wide(learner, factor):
    """Share of the wide kernel in the learned one, after multiplying it by ``factor``."""
    stack = KernelStack(np.stack([narrow, factor * wide]), check=False)
    d = learn(stack, y, C=1.0, learner=learner, tol=1e-4).weights * [1.0, factor]
    return d[1] / d.sum()


# %%
# The same two kernels, the second in other units: meters, centimeters, …

factors = (1e-3, 1e-1, 1.0, 1e1, 1e3)
shares = {
    learner: [weight_of_wide(learner, factor) for factor in factors]
    for learner in ("newton", "radius")
}
print("share of the wide kernel in the learned kernel\n")
print("its factor     newton    radius")
for row in zip(factors, *shares.values(), strict=True):
    print("{:<11g}{:9.3f}{:10.3f}".format(*row))

assert np.ptp(shares["newton"]) > 0.9, "margin-based MKL picks another kernel when one is rescaled"
assert np.ptp(shares["radius"]) < 1e-3, "the radius-based choice stays"

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for learner, values in shares.items():
    axes.semilogx(factors, values, "o-", label=f'learner="{learner}"')
axes.set(xlabel="factor on the wide kernel", ylabel="its share in the learned kernel")
axes.legend()

# %%
# The norm that bounds the weights does not matter either: the kernel is the same up to scale.

stack = KernelStack(np.stack([narrow, wide]), check=False)
for norm in (1, 2, None):
    solution = learn(stack, y, C=1.0, learner="radius", weight_norm=norm, tol=1e-6)
    share = solution.weights[1] / solution.weights.sum()
    print(f"weight_norm={norm}: share {share:.4f}, radius {solution.extras['radius']:.4f}")
plt.show()
