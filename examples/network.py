"""
Nodes of a network
==================

Some people of a network have a label. ``Diffusion`` makes a kernel of the network, and measurements
of each person are a second source.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelweave import Diffusion, Gaussian, Graph, KernelBank, MKLClassifier
from kernelweave.plotting import plot_weights

# %%
# Two groups with more edges inside than between, and one measurement that helps a little.

rng = np.random.default_rng(0)
n = 400
y = np.arange(n) % 2
chance = np.where(y[:, None] == y, 0.03, 0.018)
edges = np.triu(rng.random((n, n)) < chance, 1)
people = [f"person {k}" for k in range(n)]
graph = Graph(edges + edges.T, nodes=people)
dose, age = rng.normal(size=n) + 1.2 * y, rng.normal(size=n)
X = pd.DataFrame({"person": people, "dose": dose, "age": age})

# %%
# ``beta`` is how far heat spreads; several values give one kernel each. Nodes to predict must be in
# the network, without a label.

bank = KernelBank(
    [
        ("network", Diffusion(graph, beta=[1.0, 4.0], normalized=True), "person"),
        ("measured", Gaussian(relative=True), ["dose", "age"]),
    ],
    normalize="center+trace",
)
train, test = np.split(rng.permutation(n), [200])
both = MKLClassifier(bank).fit(X.iloc[train], y[train])
print(f"both sources  {both.score(X.iloc[test], y[test]):.2f}")
for only in (0, 1):
    one = KernelBank([bank.kernels[only]], normalize="center+trace")
    score = MKLClassifier(one).fit(X.iloc[train], y[train]).score(X.iloc[test], y[test])
    print(f"{bank.kernels[only][0]:12}  {score:.2f}")
plot_weights(both)
plt.show()
