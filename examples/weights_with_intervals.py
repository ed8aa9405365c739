"""
Can I believe the weights?
==========================

Weights depend on the rows that you happen to have. How far do they move when rows are drawn again,
and what do they look like when there is nothing to learn?
"""

import matplotlib.pyplot as plt

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics
from kernelweave.inspection import null, stability

data = make_multiomics()
X, views = join_views(data.tables)
y = data.y[X.index]
model = MKLClassifier(KernelBank(views=views))

# %%
# Fifty times as many rows as there are, drawn with replacement: an interval per view.

drawn = stability(model, X, y, n_resamples=50)
print(drawn.by_view().round(2).to_string())

# %%
# Fifty times the same with the outcomes permuted. Weights sum to 1, so that some view gets weight
# even where none means anything: a weight by itself is no evidence.

shuffled = null(model, X, y, n_permutations=50)
print(shuffled.by_view().round(2).to_string())

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), sharex=True, layout="constrained")
drawn.plot(ax=axes[0])
shuffled.plot(ax=axes[1])
axes[0].set_title("rows resampled")
axes[1].set_title("outcomes permuted")
plt.show()
