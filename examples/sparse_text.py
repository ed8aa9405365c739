"""
Sparse text features
====================

Text from ``TfidfVectorizer`` stays sparse: products and distances come from its stored entries, and
only the kernels are dense. Here, reports have a title and a body: which one tells more?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier
from kernelweave.plotting import plot_weights

# %%
# Simulated reports: 5,000 words, most of them rare; some are likelier in one class.

rng = np.random.default_rng(0)
words = np.array([f"word{k}" for k in range(5000)])
common = 1.0 / np.arange(1, 5001)
tilt = np.exp(0.35 * rng.standard_normal(5000))
y = np.arange(500) % 2
chances = [common / tilt, common * tilt]


def write(label, length):
    """Words at random, as likely as they are in that class."""
    return " ".join(rng.choice(words, length, p=chances[label] / chances[label].sum()))


parts = {"title": [write(label, 6) for label in y], "body": [write(label, 30) for label in y]}
blocks = [TfidfVectorizer().fit_transform(texts) for texts in parts.values()]
X = sparse.hstack(blocks).tocsr()
stored = X.nnz / np.prod(X.shape)
print(f"{X.shape[0]} texts, {X.shape[1]} words, {stored:.1%} of the entries stored")

# %%
# The columns are not centered, which would fill in the zeros; the kernels are.

edge = blocks[0].shape[1]
views = {"title": slice(0, edge), "body": slice(edge, None)}
bank = KernelBank([Linear(), Gaussian(relative=True)], views=views, normalize="center+trace")
model = MKLClassifier(bank).fit(X[:350], y[:350])
print(f"test accuracy {model.score(X[350:], y[350:]):.3f}")
print(f"duality gap   {model.duality_gap_:.0e}")
plot_weights(model)
plt.show()
