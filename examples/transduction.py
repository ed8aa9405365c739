"""
Rows that you already have
==========================

If the rows to predict are known beforehand, they can take part in learning. Here one row in ten has
a label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from kernelweave import MKLClassifier, TransductiveMKLClassifier

X, y = load_breast_cancer(return_X_y=True)
X, y = X[::3], y[::3]
rng = np.random.default_rng(0)
scores = {"labeled rows only": [], "weights ≥ 0": [], 'signed weights, learner="sdp"': []}
for _ in range(4):
    known = np.zeros(len(y), bool)
    for label in (0, 1):
        known[rng.choice(np.flatnonzero(y == label), 10, replace=False)] = True
    partly = np.where(known, y, -1)  # -1 marks rows without a label
    plain = MKLClassifier().fit(X[known], y[known])
    found = [plain.predict(X)]
    for learner in ("auto", "sdp"):
        model = TransductiveMKLClassifier(learner=learner).fit(X, partly)
        found.append(model.transduction_)
    for name, labels in zip(scores, found, strict=True):
        scores[name].append(np.mean(labels[~known] == y[~known]))

for name, values in scores.items():
    print(f"{np.mean(values):.3f}  {name}")

# %%
# Four random choices of the labeled rows. Kernels are normalized over all rows; ``sdp`` may give
# kernels negative weights, as long as the combination is a kernel on the rows at hand.

figure, axes = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
for place, values in enumerate(scores.values()):
    axes.plot(values, [place] * len(values), "o")
axes.set_yticks(range(3), scores)
axes.set(xlabel="share of the other labels that are right", ylim=(2.5, -0.5))
plt.show()
