"""
Do the weights depend on C?
===========================

C is the cost of errors in training. Weights that turn over when C changes are not a property of the
data alone.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics
from kernelweave.inspection import over_C

data = make_multiomics()
X, views = join_views(data.tables)
y = data.y[X.index]

path = over_C(MKLClassifier(KernelBank(views=views)), X, y, Cs=np.logspace(-2, 2, 15))
print(path.by_view().pivot(index="C", columns="view", values="weight").round(2).to_string())

# %%
# One line per view. All solutions are computed from the largest C down, each started from the last.

path.plot()
plt.show()
