"""
A rare class
============

One row in ten is sick. ``class_weight="balanced"`` makes errors on both classes cost the same in
total.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, confusion_matrix
from sklearn.model_selection import train_test_split

from kernelweave import MKLClassifier

X, y = make_classification(
    800, 10, n_informative=4, weights=[0.9], class_sep=0.8, flip_y=0.02, random_state=3
)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3), layout="constrained")
for ax, weight in zip(axes, (None, "balanced"), strict=True):
    model = MKLClassifier(class_weight=weight).fit(X_train, y_train)
    predicted = model.predict(X_test)
    table = confusion_matrix(y_test, predicted)
    accuracy, balanced = np.mean(predicted == y_test), balanced_accuracy_score(y_test, predicted)
    print(f"class_weight={weight!r}: accuracy {accuracy:.3f}, balanced {balanced:.3f}", end=", ")
    print(f"sick found {table[1, 1]} of {sum(y_test)}")
    ax.imshow(table, cmap="Blues")
    for i, j in np.ndindex(2, 2):
        ax.text(j, i, table[i, j], ha="center", va="center", color="C1", size="x-large")
    ax.set_xticks([0, 1], ["healthy", "sick"])
    ax.set_yticks([0, 1], ["healthy", "sick"])
    ax.set(xlabel="predicted", title=f"class_weight={weight!r}")
axes[0].set_ylabel("true")
print("weigh what each kind of error costs before you choose")
plt.show()
