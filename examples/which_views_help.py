"""
Which views help beyond chance?
===============================

Three questions that are not the same: does shuffling a view hurt, what can it do alone, and what is
lost without it?
"""

import matplotlib.pyplot as plt

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics
from kernelweave.inspection import drop_view, select_views, single_view

data = make_multiomics()
X, views = join_views(data.tables)
y = data.y[X.index]
model = MKLClassifier(KernelBank(views=views))

# %%
# ``select_views`` shuffles the rows of one view at a time and refits. At most one in ten of the
# views that it selects is false, on average.

found = select_views(model, X, y, n_permutations=50)
print(found.verdict.replace(". ", ".\n"))
print(found.frame().round(3).to_string())
print("in truth:", ", ".join(data.useful))

# %%
# Held-out accuracy that is lost with one view only, and without one view.

alone = single_view(model, X, y, n_repeats=1)
without = drop_view(model, X, y, n_repeats=1)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
alone.plot(ax=axes[0])
without.plot(ax=axes[1])
plt.show()
