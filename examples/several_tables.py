"""
Several tables of the same patients
===================================

Clinical data, genes, proteins and lipids come in four tables, each in an order of its own. How much
does each contribute to the model?
"""

import matplotlib.pyplot as plt

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics
from kernelweave.report import weights_by_view

data = make_multiomics()
for name, table in data.tables.items():
    print(f"{name:10} {table.shape[0]} patients, {table.shape[1]} columns")

# %%
# ``join_views`` aligns the tables on their index and says which columns belong to which view.

joined = join_views(data.tables)
y = data.y[joined.X.index]
model = MKLClassifier(KernelBank(views=joined.views)).fit(joined.X, y)
print(weights_by_view(model))
print(f"duality gap {model.duality_gap_:.0e}")

# %%
# Which kernels? A bar per kernel with a weight. Proteins matter when they are unusual in either
# direction, which no linear kernel can see.

from kernelweave.plotting import plot_weights

plot_weights(model)
plt.show()
