"""
Regression when some targets are wrong
======================================

``MKLRegressor`` has three losses. The squared loss chases outliers, the ε-insensitive one charges
them by their size only.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, MKLRegressor

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-3, 3, 120))[:, None]
truth = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]
y = truth + 0.15 * rng.standard_normal(120)
wrong = rng.choice(120, 12, replace=False)
y[wrong] += rng.choice([-3, 3], 12)

# %%
# Three widths; their weights are learned with the regression.

widths = [Gaussian(width) for width in (0.1, 0.3, 1.0)]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(X, y, "k.", ms=4)
axes.plot(X, truth, "k--", lw=1, label="truth")
for loss in ("squared", "epsilon_insensitive"):
    model = MKLRegressor(widths, loss=loss, C=1.0).fit(X, y)
    error = np.mean(np.abs(model.predict(X) - truth))
    print(f"{loss:20} mean error {error:.3f}, weights {model.weights_.round(2)}")
    axes.plot(X, model.predict(X), label=f'loss="{loss}"')
axes.legend()
print("kernels:", ", ".join(model.kernel_names_))
plt.show()
