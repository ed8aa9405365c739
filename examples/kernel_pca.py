"""
A map of the rows under the learned kernel
==========================================

``MKLKernelTransformer`` gives the learned kernel to whatever takes a precomputed one, such as
kernel PCA.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.pipeline import make_pipeline

from kernelweave import KernelBank, MKLClassifier, MKLKernelTransformer, join_views
from kernelweave.datasets import make_multiomics

data = make_multiomics(300)
X, views = join_views(data.tables)
y = data.y[X.index].to_numpy()
train, test = slice(0, 150), slice(150, 300)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for ax, learner in zip(axes, ("uniform", "auto"), strict=True):
    learned = MKLKernelTransformer(MKLClassifier(KernelBank(views=views), learner=learner))
    steps = make_pipeline(learned, KernelPCA(2, kernel="precomputed"))
    steps.fit(X.iloc[train], y[train])
    places = steps.transform(X.iloc[test])
    for label in ("relapse", "remission"):
        ax.plot(*places[y[test] == label].T, ".", label=label)
    apart = places[y[test] == "relapse"].mean(axis=0) - places[y[test] != "relapse"].mean(axis=0)
    distance = np.linalg.norm(apart / places.std(axis=0))
    print(f'learner="{learner}": distance of the class means {distance:.2f}')
    ax.set(title=f'learner="{learner}"', xticks=[], yticks=[])
axes[0].legend()
print("rows shown were not used to learn the weights")
plt.show()
