"""
Learn a width per column
========================

A Gaussian kernel with one width per column says which columns matter: a column that does not gets a
large width. The widths are learned together with the machine.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import GaussianWidths, MKLClassifier
from kernelweave.plotting import plot_widths

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 6))
y = X[:, 0] ** 2 + X[:, 1] > 0.8  # the other four columns are noise

model = MKLClassifier([GaussianWidths(per_feature=True)]).fit(X[:120], y[:120])
for column, width in enumerate(model.learnt_kernels_[0].width):
    print(f"column {column}: width {width:.2f}")

# %%
# Beside one width for all columns, learned as well.

single = MKLClassifier([GaussianWidths()]).fit(X[:120], y[:120])
print(f"test accuracy, one width per column {model.score(X[120:], y[120:]):.3f}")
print(f"test accuracy, one width for all    {single.score(X[120:], y[120:]):.3f}")
plot_widths(model)
plt.show()
