"""
Patients without one of the tables
==================================

A third of the patients have no proteins. Leave them out, or keep them?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics

data = make_multiomics(150, missing=1 / 3)
warnings.simplefilter("ignore", UserWarning)  # each step says which view lacks how many rows
X, views = join_views(data.tables)
y = data.y[X.index]
complete = X.notna().all(axis=1).to_numpy()
print(f"{complete.sum()} of {len(X)} patients have all tables")

# %%
# A row that lacks a view stands at the view's mean. ``missing="indicator"`` also compares who has
# the view, for views that are missing for a reason. Here they are missing at random.

new = make_multiomics(400, random_state=1)
X_new, _ = join_views(new.tables)
y_new = new.y[X_new.index]
scores = {}
for name, rows, how in (
    ("complete rows only", complete, "error"),
    ("all rows", np.full(len(X), True), "mean"),
    ("all rows, with indicator", np.full(len(X), True), "indicator"),
):
    model = MKLClassifier(KernelBank(views=views, missing=how)).fit(X[rows], y[rows])
    scores[name] = model.score(X_new, y_new)
    print(f"{scores[name]:.3f}  {name}")

figure, axes = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
axes.barh(list(scores), list(scores.values()))
axes.set(xlabel="accuracy on 400 new patients", xlim=(0.5, None))
axes.invert_yaxis()

# %%
# New rows may lack a view, too.

X_new.loc[X_new.index[:3], X_new.columns[views["proteins"]]] = np.nan
print("patients without proteins:", model.predict(X_new.iloc[:3]))
print("cross-validation works:", cross_val_score(model, X, y, cv=3).round(2))
plt.show()
