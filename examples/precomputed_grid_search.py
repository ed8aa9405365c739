"""
Kernel matrices in a grid search
================================

X holds row numbers of the matrices, so that splits and searches just work.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from kernelweave import KernelBank, MKLClassifier, Precomputed

X, y = load_digits(return_X_y=True)
X, y = X[np.isin(y, (3, 8))], y[np.isin(y, (3, 8))]


def overlap(images):
    """How much ink two images share: the sum of the smaller of their values."""
    flat = images.reshape(len(images), -1)
    return np.minimum(flat[:, None], flat[None]).sum(axis=2)


# %%
# Matrices over all rows, training and test. A 3 and an 8 differ on the left.

images = X.reshape(-1, 8, 8)
matrices = {
    "left": overlap(images[:, :, :4]),
    "right": overlap(images[:, :, 4:]),
    "upper": overlap(images[:, :4]),
    "lower": overlap(images[:, 4:]),
}
bank = KernelBank([(name, Precomputed(K)) for name, K in matrices.items()])

# %%
# The only column of X holds row numbers of the matrices.

rows = np.arange(len(X)).reshape(-1, 1)
train, test = train_test_split(rows, stratify=y, random_state=0)
search = GridSearchCV(
    MKLClassifier(bank),
    {"C": [0.01, 0.1, 1.0, 10.0], "kernels__normalize": ["trace", "center+trace"]},
    cv=4,
)
search.fit(train, y[train[:, 0]])

print(f"best of {len(search.cv_results_['params'])} candidates: {search.best_params_}")
print(f"cross-validated accuracy {search.best_score_:.3f}")
print(f"test accuracy            {search.score(test, y[test[:, 0]]):.3f}")

# %%
# What the best model looks at.

best = search.best_estimator_
figure, axes = plt.subplots(1, 5, figsize=(8, 2), layout="constrained")
for ax, digit in zip(axes, (3, 8), strict=False):
    ax.imshow(images[y == digit].mean(axis=0), cmap="gray_r")
    ax.set_title(f"mean {digit}")
    ax.axis("off")
gs = axes[2].get_gridspec()
for ax in axes[2:]:
    ax.remove()
ax = figure.add_subplot(gs[2:])
ax.barh(best.kernel_names_, best.weights_)
ax.set(xlabel="weight", ylim=(3.6, -0.6))
plt.show()
