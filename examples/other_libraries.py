"""
A kernel of another library
===========================

As a function and as a matrix; here the χ² kernel of scikit-learn. A function f(A, B) is called for
training and for new rows. A matrix is computed beforehand for all rows, and X is then the number of
each row. Use the matrix where a library wants all objects at once, or objects that fit in no table:
for graphs, GraKeL (which needs Python below 3.13) gives ::

    K = grakel.WeisfeilerLehman(normalize=True).fit_transform(graphs)   # then Precomputed(K)
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import chi2_kernel

from kernelweave import KernelBank, MKLClassifier, Precomputed

X, digit = load_digits(return_X_y=True)
X, y = X[:600], digit[:600] % 2  # odd or even
train, test = np.arange(400), np.arange(400, 600)

# %%
# As functions: any f(A, B) that returns a (len(A), len(B)) array; partial sets its options.

narrow, wide = partial(chi2_kernel, gamma=0.03), partial(chi2_kernel, gamma=0.003)
bank = KernelBank([("narrow", narrow), ("wide", wide)])
by_function = MKLClassifier(bank, tol=1e-5).fit(X[train], y[train])

# %%
# As matrices: over all rows, those to predict included; X is the column of row numbers.

bank = KernelBank([("narrow", Precomputed(narrow(X, X))), ("wide", Precomputed(wide(X, X)))])
by_matrix = MKLClassifier(bank, tol=1e-5).fit(train[:, None], y[train])

for how, model, rows in (
    ("functions", by_function, X[test]),
    ("matrices", by_matrix, test[:, None]),
):
    print(f"{how}: test accuracy {model.score(rows, y[test]):.3f}")
    for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
        print(f"  {weight:.3f}  {name}")

# %%
# Both ways give the same model.

figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
values = by_function.decision_function(X[test]), by_matrix.decision_function(test[:, None])
axes.plot(*values, ".")
axes.set(xlabel="decision value, from functions", ylabel="from matrices")
plt.show()
