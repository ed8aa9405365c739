"""
Which group of columns matters?
===============================

A view is a named group of columns. Every kernel is applied to every view, and the weights of a
view's kernels add up to what the view contributes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier
from kernelweave.plotting import plot_weights
from kernelweave.report import weights_by_kernel, weights_by_view

data = load_breast_cancer()

# %%
# Each cell property has three columns: its mean, its standard error and its worst value.

views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
model = MKLClassifier(KernelBank(views=views)).fit(data.data, data.target)
print("Three groups of columns, five default kernels on each:")
print(weights_by_view(model))

# %%
# A kernel on every column: most weights become zero.

single = MKLClassifier(KernelBank(Gaussian(relative=True), views="each"), C=10.0)
single.fit(data.data, data.target)
print(f"{(single.weights_ > 0).sum()} of {single.weights_.size} columns are used")
plot_weights(single, names=list(data.feature_names), top=10)

# %%
# A kernel on its own columns, next to kernels on every view.

bank = KernelBank(
    [Linear(), ("worst area and texture", Gaussian(relative=True), [23, 21])], views=views
)
print(weights_by_kernel(MKLClassifier(bank).fit(data.data, data.target)))
plt.show()
