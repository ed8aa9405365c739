"""
Rows on a Dask cluster
======================

The same estimator on an array that lies on workers: here two within this process, elsewhere as many
machines as there are. Rows stay where they are; what comes back is an ordinary model.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from kernelweave import Gaussian, KernelBank, MKLClassifier, Nystroem

local = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(local)

# %%
# Fifteen hundred rows in partitions of unequal size. Two of the three views say something of y.

rng = np.random.default_rng(0)
rows = rng.normal(size=(1500, 6))
signal = rows[:, 0] ** 2 - rows[:, 1] + 0.8 * np.sin(2 * rows[:, 2])
labels = np.where(signal + 0.3 * rng.normal(size=1500) > 0.8, "yes", "no")
X = da.from_array(rows, chunks=((600, 150, 750), 6))
y = da.from_array(labels, chunks=((600, 150, 750),))

# %%
# Each kernel is approximated by 20 landmarks; ``plan`` tells what the workers will hold.

views = {"first": [0, 1], "second": [2, 3], "noise": [4, 5]}
bank = KernelBank([Gaussian(1.0, relative=True)], views=views, approximation=Nystroem(20))
print(bank.plan(X))
model = MKLClassifier(bank, C=0.3, loss="squared_hinge", tol=2e-2).fit(X, y)
print(f"gap {model.duality_gap_:.1e}")

# %%
# Predictions are lazy, in the same partitions.

predicted = model.predict(X)
print(predicted)
print("accuracy", float((predicted == y).mean().compute()))

fig, ax = plt.subplots(figsize=(5, 2.5))
ax.barh(list(views), model.weights_)
ax.set_xlabel("kernel weight")
fig.tight_layout()

client.close()
local.close()
