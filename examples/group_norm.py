"""
Views compete, their kernels share
==================================

With many similar kernels per view, ``weight_norm=1`` picks one of them almost at random. A
``GroupNorm`` chooses among views and spreads the weight within each.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, GroupNorm, KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics

data = make_multiomics()
tables = {name: data.tables[name] for name in ("genes", "proteins", "lipids")}
X, views = join_views(tables)
y = data.y[X.index]
bank = KernelBank([Gaussian(w, relative=True) for w in (0.5, 1, 2, 4)], views=views)

norms = {"weight_norm=1": 1, "weight_norm=2": 2, 'GroupNorm("views")': GroupNorm("views")}
figure, axes = plt.subplots(3, 1, figsize=(7, 5), sharex=True, layout="constrained")
for ax, (name, norm) in zip(axes, norms.items(), strict=True):
    model = MKLClassifier(bank, weight_norm=norm).fit(X, y)
    weights = model.weights_ / model.weights_.sum()
    ax.bar(range(12), weights, color=np.repeat(["C0", "C1", "C2"], 4))
    ax.set(title=name, ylabel="share")
    print(f"{name:20}", weights.round(2), f"gap {model.duality_gap_:.0e}")
axes[-1].set_xticks([1.5, 5.5, 9.5], views)
plt.show()
