"""
A first fit
===========

You have a table and two classes. What does the model learn, and which kernels does it use?
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from kernelweave import MKLClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# No scaling is needed: the default kernels see every column at mean 0 and variance 1.

model = MKLClassifier().fit(X_train, y_train)

for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
    print(f"{weight:.3f}  {name}")
print(f"\ntest accuracy   {model.score(X_test, y_test):.3f}")
print(f"support rows    {len(model.support_)} of {len(X_train)}")
print(f"duality gap     {model.duality_gap_:.1e} (asked for: at most {model.tol:g})")
print(f"effort          {model.n_iter_} iterations, {model.n_svm_solves_} SVMs solved")

# %%
# The weights as a picture. Kernels that are not needed next to the others have none.

import matplotlib.pyplot as plt

from kernelweave.plotting import plot_weights

plot_weights(model)
plt.show()
