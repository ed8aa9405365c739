"""
Which source tells how long patients live?
==========================================

Times to an event, of which many are censored: such a patient was last seen alive.
``MKLSurvival`` weighs the sources, orders new patients by risk, and draws their curves.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import KernelBank, MKLSurvival
from kernelweave.inspection import stability

rng = np.random.default_rng(0)
n = 240
clinical, genes, images = (rng.normal(size=(n, columns)) for columns in (3, 20, 8))
time = 24 * np.exp(clinical[:, 0] - genes[:, :3].mean(axis=1) + 0.4 * rng.normal(size=n))
left = rng.exponential(60, n)  # months until a patient leaves the study
y = np.column_stack([np.minimum(time, left), time <= left])
X = np.hstack([clinical, genes, images])
views = {"clinical": range(3), "genes": range(3, 23), "images": range(23, 31)}

train, new = np.arange(n) < 160, np.arange(n) >= 160
model = MKLSurvival(KernelBank(views=views)).fit(X[train], y[train])
print(f"{y[:, 1].mean():.0%} of the events were seen; gap {model.duality_gap_:.0e}")
print(f"C-index of new patients: {model.score(X[new], y[new]):.2f}")
draws = stability(model, X[train], y[train], n_resamples=30)
print(draws.by_view())

months = np.arange(0, 97, 3)
curves = model.predict_survival_function(X[new], months)
figure, (left_axes, right_axes) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
draws.plot(ax=left_axes)
order = np.argsort(model.predict(X[new]))
for share, name in ((0.1, "low risk"), (0.5, "middle"), (0.9, "high risk")):
    patient = order[int(share * order.size)]
    right_axes.step(months, curves[patient], where="post", label=name)
right_axes.set(xlabel="months", ylabel="share alive", ylim=(0, 1.02))
right_axes.legend()
plt.show()
