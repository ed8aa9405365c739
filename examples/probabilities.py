"""
Probabilities
=============

How often do probabilities come true? A machine on two views, with ``calibration="sigmoid"``, and
its decision values, pressed between 0 and 1, which are no probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from kernelweave import MKLClassifier

X, y = make_classification(2000, 12, n_informative=6, flip_y=0.2, shuffle=False, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=600, random_state=0)
views = {"tells": slice(0, 6), "does not": slice(6, 12)}
model = MKLClassifier(views=views, C=10.0, calibration="sigmoid").fit(X_train, y_train)

values = model.decision_function(X_test)
shares = {
    "calibrated": model.predict_proba(X_test)[:, 1],
    "decision values from 0 to 1": (values - values.min()) / np.ptp(values),
}
figure, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.plot([0, 1], [0, 1], ":", color="0.6")
for name, share in shares.items():
    print(f"{name}: Brier score {brier_score_loss(y_test, share):.3f}")
    found, said = calibration_curve(y_test, share, n_bins=8, strategy="quantile")
    ax.plot(said, found, "o-", label=name)
disagree = np.mean((shares["calibrated"] > 0.5) != (values > 0.0))
print(f"rows whose likeliest class is not the one predicted: {100 * disagree:.1f} %")
ax.set(xlabel="probability", ylabel="share that came true")
ax.legend(frameon=False)
plt.show()
