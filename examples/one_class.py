"""
Outliers without labels
=======================

``MKLOneClass`` learns what usual rows look like. Its kernels have equal weights unless you ask for
more: without labels, learning favors the kernel under which all rows look alike.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, MKLOneClass

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 200)
X = np.c_[np.cos(angle), np.sin(angle)] * rng.normal(2.0, 0.15, 200)[:, None]

kernels = [Gaussian(0.15, relative=True), Gaussian(0.3, relative=True)]
model = MKLOneClass(kernels, nu=0.05).fit(X)
print(f"at most 5 % outliers asked for, found {np.mean(model.predict(X) == -1):.1%}")
print("center of the ring:", model.predict([[0.0, 0.0]]), " on the ring:", model.predict([[2, 0]]))
for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
    print(f"{weight:.2f}  {name}")

# %%
# Where rows are usual (inside the line).

axis = np.linspace(-3.5, 3.5, 120)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
values = model.decision_function(grid).reshape(120, 120)
figure, axes = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
axes.contourf(axis, axis, values, levels=20, cmap="Blues")
axes.contour(axis, axis, values, levels=[0], colors="C1")
axes.plot(*X[model.predict(X) == 1].T, "k.", ms=3)
axes.plot(*X[model.predict(X) == -1].T, "rx")
axes.set_aspect("equal")
plt.show()
