"""
Rows that count more
====================

``sample_weight`` multiplies the cost of a row. Weight 0 is as good as absent, weight 2 as good as
twice the row, in widths, means and traces too.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, Linear, MKLClassifier

rng = np.random.default_rng(1)
X = rng.normal(size=(160, 2))
recent = X[:, 1] > 0  # the rule has changed since the rows in the lower half were taken
y = X[:, 0] + 0.3 * rng.normal(size=160) > np.where(recent, 0.6, -0.6)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
axis = np.linspace(-3.5, 3.5, 100)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
for ax, weight in zip(axes, (np.ones(160), np.where(recent, 5.0, 0.1)), strict=True):
    model = MKLClassifier(Linear()).fit(X, y, sample_weight=weight)
    ax.contour(axis, axis, model.decision_function(grid).reshape(100, 100), levels=[0])
    ax.scatter(*X.T, c=y, s=8 + 6 * weight, cmap="coolwarm")
    right = model.predict(X) == y
    upper, lower = right[recent].mean(), right[~recent].mean()
    print(f"right in the upper half {upper:.2f}, in the lower {lower:.2f}")
axes[0].set_title("all rows alike")
axes[1].set_title("upper rows count 50 times as much")

# %%
# Whole weights are repeated rows.

weight = rng.integers(0, 3, 160)
weighted = MKLClassifier(Gaussian(1.0)).fit(X, y, sample_weight=weight)
repeated = MKLClassifier(Gaussian(1.0)).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
print(f"objective {weighted.objective_:.4f}, of repeated rows {repeated.objective_:.4f}")
plt.show()
