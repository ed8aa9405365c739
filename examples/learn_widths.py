"""
Learn a width per column
========================

``learn_parameters`` learns widths by descent. A column that does not matter gets a large width.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import GaussianWidths, learn_parameters

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 6))
y = np.where(X[:, 0] ** 2 + X[:, 1] > 0.8, 1.0, -1.0)  # the other four columns are noise

found = learn_parameters(X, y, GaussianWidths(2.0, per_feature=True), C=1.0)
widths = np.ravel(found.kernels[0].width)
for column, width in enumerate(widths):
    print(f"column {column}: width {width:.2f}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.bar(range(6), 1.0 / widths, color=["C0", "C0", *["lightgray"] * 4])
axes.set(xlabel="column (the first two matter)", ylabel="1 / width")
plt.show()
