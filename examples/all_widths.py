"""
No list of widths
=================

Which widths should the Gaussians have? ``GaussianRange`` takes all of them between two: the best
combination is learned, and the certificate says that no other width would help.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from kernelweave import Gaussian, GaussianRange, MKLClassifier

X, y = make_moons(900, noise=0.3, random_state=0)
train, test = slice(0, 300), slice(300, None)

every = MKLClassifier([GaussianRange(0.05, 8.0)]).fit(X[train], y[train])
print(f"all widths: objective {every.objective_:.2f}, gap over all widths {every.exact_gap_:.0e}")

# %%
# A grid comes near to it with many widths, and proves nothing of those between.

counts, objectives = (2, 3, 5, 10, 20, 50), []
for count in counts:
    widths = np.geomspace(0.05, 8.0, count)
    grid = MKLClassifier([Gaussian(width, relative=True) for width in widths])
    objectives.append(grid.fit(X[train], y[train]).objective_)
print("grids:", " ".join(f"{value:.2f}" for value in objectives))

# %%
# Few widths have a weight.

widths = np.array([m.kernel.width for m in every.bank_.members if m.kernel is not None])
for width, weight in zip(widths, every.weights_[every.weights_ > 0.0], strict=True):
    if weight > 1e-3:
        print(f"width {width:.2g}: weight {weight:.2f}")
print(f"accuracy {every.score(X[test], y[test]):.3f}")

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(counts, objectives, "o-", label="a grid of so many widths")
axes.axhline(every.objective_, color="black", label="all widths")
axes.set(xscale="log", xlabel="widths", ylabel="objective")
axes.legend()
plt.show()
