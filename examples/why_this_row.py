"""
Why does this patient get this value?
=====================================

Parts of views and columns that add up to the decision value, also for a patient without proteins.
"""

import warnings

import matplotlib.pyplot as plt

from kernelweave import KernelBank, MKLClassifier, join_views
from kernelweave.datasets import make_multiomics
from kernelweave.inspection import explain

warnings.simplefilter("ignore", UserWarning)  # each step says how many rows lack a view
data = make_multiomics(300, effect=2.0, missing=0.1)
X, views = join_views(data.tables)
y = data.y[X.index]
bank = KernelBank(views=views, normalize="center+trace")
model = MKLClassifier(bank).fit(X[:250], y[:250])

# %%
# A patient that the model has not seen, and one without proteins: that view adds nothing.

lacks = X[250:].index[X[250:].filter(like="proteins__").isna().all(axis=1)][0]
patients = X.loc[[X.index[260], lacks]]
why = explain(model, patients)
print(why.in_words(0, top=3))

parts = why.by_view().groupby("row")["part"].sum()
print("parts of both patients:", parts.round(6).tolist())
print("decision values:       ", model.decision_function(patients).round(6).tolist())

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for row, ax in enumerate(axes):
    why.plot(row, ax=ax, top=12)
    ax.set_title(f"{patients.index[row]}, truth: {y[patients.index[row]]}", loc="left")
plt.show()
