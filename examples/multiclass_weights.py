"""
Many classes, one set of weights
================================

Ten digits are ten machines. By default they share the kernel weights: one answer to "which view
matters?". With ``shared_weights=False`` each class has its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelweave import Gaussian, KernelBank, MKLClassifier

X, y = load_digits(return_X_y=True)
X_train, y_train, X_test, y_test = X[:500], y[:500], X[500:900], y[500:900]
pixels = np.arange(64).reshape(8, 8)
views = {
    "upper left": pixels[:4, :4].ravel(),
    "upper right": pixels[:4, 4:].ravel(),
    "lower left": pixels[4:, :4].ravel(),
    "lower right": pixels[4:, 4:].ravel(),
}
bank = KernelBank(Gaussian(relative=True), views=views)

# %%
# The certificate is for all ten machines together.

shared = MKLClassifier(bank).fit(X_train, y_train)
apart = MKLClassifier(bank, shared_weights=False).fit(X_train, y_train)
for name, model in (("shared", shared), ("one per class", apart)):
    print(f"{name:14} test accuracy {model.score(X_test, y_test):.3f}, weights", end=" ")
    print(model.weights_.shape)
print(f"gap of all machines together {shared.duality_gap_:.0e}")

# %%
# Weights per class, and the shared ones in the last row.

figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
image = axes.imshow(np.vstack([apart.weights_, shared.weights_]), aspect="auto", cmap="Blues")
axes.set_yticks(range(11), [*map(str, range(10)), "shared"])
axes.set_xticks(range(4), views)
axes.set_ylabel("digit")
figure.colorbar(image, label="weight")
plt.show()
