"""
Learn a width per column
========================

Rows inside and outside a ring in two of twelve columns; the other ten are noise. A Gaussian of one
width measures distances in all columns alike, and drowns in the noise. ``GaussianWidths`` has its
widths learned together with the machine: a column that does not matter gets a large one.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, GaussianWidths, KernelBank, MKLClassifier
from kernelweave.plotting import plot_widths

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 12))
y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4, "outside", "inside")
train, test = slice(0, 200), slice(200, None)

fixed = MKLClassifier([Gaussian(w, relative=True) for w in (0.25, 0.5, 1.0, 2.0)], C=10.0)
learned = MKLClassifier([GaussianWidths(per_feature=True)], C=10.0)
for name, model in (("four widths, weighted", fixed), ("a width per column", learned)):
    model.fit(X[train], y[train])
    print(f"{name}: accuracy {model.score(X[test], y[test]):.2f}")

# %%
# The fitted kernel is an ordinary one, with the widths learned.

(kernel,) = learned.learned_kernels_.values()
print("widths:", " ".join(f"{width:.2g}" for width in kernel.width))
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
plot_widths(learned, axes)
plt.show()

# %%
# The trace of the centered kernel as the yardstick [chapelle2008, §2], in place of the kernel's
# own scale, and C learned as well [chapelle2008, §5].

bank = KernelBank([GaussianWidths(per_feature=True)], normalize="center+trace")
both = MKLClassifier(bank, C="learn", loss="squared_hinge").fit(X[train], y[train])
print(f"C = {both.C_:.2g}, learned: accuracy {both.score(X[test], y[test]):.2f}")
