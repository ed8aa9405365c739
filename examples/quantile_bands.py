"""
A band that holds 80 % of the targets
=====================================

``loss="quantile"`` predicts a quantile in place of a mean. Two of them make a band that is wide
where the noise is.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, Linear, MKLRegressor

rng = np.random.default_rng(0)


def draw(n):
    x = rng.uniform(0, 6, n)
    return x[:, None], np.sin(x) + (0.1 + 0.15 * x) * rng.standard_normal(n)


X, y = draw(300)
X_new, y_new = draw(2000)
kernels = [Linear(), Gaussian(0.5), Gaussian(2.0)]
grid = np.linspace(0, 6, 200)[:, None]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(X, y, "k.", ms=3)
curves = {}
for quantile in (0.1, 0.5, 0.9):
    model = MKLRegressor(kernels, loss="quantile", quantile=quantile).fit(X, y)
    curves[quantile] = model.predict(grid)
    below = np.mean(y_new <= model.predict(X_new))
    print(f"quantile {quantile}: {below:.1%} of new targets lie below")
axes.fill_between(grid[:, 0], curves[0.1], curves[0.9], alpha=0.3, label="80 % band")
axes.plot(grid, curves[0.5], label="median")
axes.legend()
plt.show()
