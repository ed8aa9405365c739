"""
The learned kernel in a Gaussian process
========================================

``MKLKernel`` hands the learned kernel to scikit-learn's Gaussian processes, which say how sure they
are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from kernelweave import Gaussian, Linear, MKLKernel, MKLRegressor

rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(-4, -1, 40), rng.uniform(1.5, 4, 30)])[:, None]
y = np.sin(2 * X[:, 0]) + 0.4 * X[:, 0] + 0.15 * rng.standard_normal(70)

# %%
# The regression learns the weights, the process the noise.

model = MKLRegressor([Linear(), Gaussian(0.2), Gaussian(0.5)], loss="squared", C=10.0).fit(X, y)
process = GaussianProcessRegressor(MKLKernel(model) + WhiteKernel(0.1), normalize_y=True)
process.fit(X, y)
for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
    print(f"{weight:.2f}  {name}")

grid = np.linspace(-5, 5, 300)[:, None]
mean, spread = process.predict(grid, return_std=True)
inside = spread[np.abs(grid[:, 0] + 2.5) < 1].mean()
outside = spread[np.abs(grid[:, 0]) < 0.5].mean()
print(f"spread where there are rows {inside:.2f}, where there are none {outside:.2f}")

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.plot(X, y, "k.")
axes.plot(grid, mean)
axes.fill_between(grid[:, 0], mean - 2 * spread, mean + 2 * spread, alpha=0.3)
axes.set_title("mean and two standard deviations")
plt.show()
