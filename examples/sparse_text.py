"""
Sparse text features
====================

Text from ``TfidfVectorizer`` stays sparse: products and distances come from its stored entries, and
only the kernels are dense.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, Polynomial
from kernelweave.plotting import plot_weights

# %%
# Simulated reports: 5,000 words, most of them rare; some words are likelier in one class.

rng = np.random.default_rng(0)
words = np.array([f"word{k}" for k in range(5000)])
common = 1.0 / np.arange(1, 5001)
y = np.arange(500) % 2
tilt = np.exp(0.35 * rng.standard_normal(5000))
texts = []
for label in y:
    chances = common * np.where(label, tilt, 1.0 / tilt)
    texts.append(" ".join(rng.choice(words, 25, p=chances / chances.sum())))
X = TfidfVectorizer().fit_transform(texts)
print(
    f"{X.shape[0]} texts, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of the entries stored"
)

# %%
# The columns are not centered, which would fill in the zeros; the kernels are.

bank = KernelBank(
    [Linear(), Polynomial(2), Gaussian(relative=True)], normalize="center+trace", scale=None
)
model = MKLClassifier(bank).fit(X[:350], y[:350])
print(f"test accuracy {model.score(X[350:], y[350:]):.3f}")
print(f"duality gap   {model.duality_gap_:.0e}")
plot_weights(model)
plt.show()
