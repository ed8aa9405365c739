"""
Have C, kernels and norm chosen
===============================

``MKLClassifierCV`` tries banks of kernels, norms of the weights (equal weights, too) and values of
C, in one fit. Without ``banks`` it has some of its own. How close was the decision?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from kernelweave import KernelBank, MKLClassifierCV
from kernelweave.plotting import plot_cv_scores

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=250, random_state=0)
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}

banks = {"all columns": KernelBank(), "three views": KernelBank(views=views)}
model = MKLClassifierCV(banks, weight_norms=[1, 2, "equal"], cv=3)
model.fit(X_train, y_train)
print("chosen:", model.best_params_)
print(f"cross-validated accuracy {model.best_score_:.3f}")
print(f"test accuracy            {model.score(X_test, y_test):.3f}")

# %%
# Mean scores over C, by bank and norm; the ring is the choice. Curves this close mean that most
# candidates would do.

plot_cv_scores(model)
plt.show()
