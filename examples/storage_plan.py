"""
Will it fit into memory?
========================

``KernelBank.plan`` tells before any kernel is computed how each will be kept and what a fit will
take. Kernels on few columns have a low rank and are kept as factors.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, KernelBank, Linear, Nystroem

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 8))
kernels = [Linear(), Gaussian(0.5, relative=True), Gaussian(2.0, relative=True)]
print(KernelBank(kernels, views="all+each").plan(X))

# %%
# Bytes of the same bank, kept in different ways, as the number of rows grows.

ways = {
    'storage="dense"': {"storage": "dense"},
    'storage="auto"': {},
    'storage="lazy"': {"storage": "lazy"},
    "Nystroem(300)": {"approximation": Nystroem(300)},
}
sizes = np.array([1000, 4000, 16000, 64000])
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, options in ways.items():
    bank = KernelBank(kernels, views="all+each", **options)
    peaks = [bank.plan(rng.normal(size=(n, 8))).peak / 1e6 for n in sizes]
    axes.loglog(sizes, peaks, "o-", label=name)
    print(f"{peaks[-1]:8.0f} MB for {sizes[-1]} rows with {name}")
axes.set(xlabel="rows", ylabel="peak of a fit, MB")
axes.legend()
plt.show()
