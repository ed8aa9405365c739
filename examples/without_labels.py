"""
What do views have in common, without labels?
=============================================

The consensus of kernels for a map of all rows, and clusters whose weights are learned with them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from kernelweave import (
    ConsensusKernel,
    KernelBank,
    Linear,
    MKLKernelKMeans,
    MKLKernelTransformer,
)

# %%
# Three groups, known to the first two of five views; the others are noise.

rng = np.random.default_rng(1)
group = np.repeat([0, 1, 2], 50)
X = rng.normal(size=(150, 50))
for view in (0, 1):
    X[:, 10 * view : 10 * view + 10] += 0.8 * rng.normal(size=(3, 10))[group]
views = {f"view {v}": slice(10 * v, 10 * v + 10) for v in range(5)}
bank = KernelBank([Linear()], views=views, normalize="center+trace")

consensus = MKLKernelTransformer(ConsensusKernel(bank))
plane = make_pipeline(consensus, KernelPCA(2, kernel="precomputed")).fit_transform(X)
weights = ConsensusKernel(bank).fit(X).weights_
clusters = MKLKernelKMeans(3, bank, random_state=0).fit(X)
print("consensus:", weights.round(2))
print("k-means:  ", clusters.shares_.round(2))
print(f"adjusted Rand index {adjusted_rand_score(group, clusters.labels_):.2f}")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].scatter(*plane.T, c=group, cmap="viridis", s=18)
axes[0].set(title="kernel PCA of the consensus; colors: truth", xticks=[], yticks=[])
axes[1].plot(clusters.history_, "o-", color="#0072B2")
axes[1].set(title="k-means: the objective never rises", xlabel="step")
plt.show()
