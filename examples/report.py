"""
A report for a colleague
========================

One HTML file that opens with the verdict and the certificate in words. It needs no network, runs
one small script and shows no row names unless asked.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, alignment, join_views
from kernelweave.datasets import make_multiomics

data = make_multiomics(60)
X, views = join_views(data.tables)
y = data.y[X.index]
tables = {name: views[name] for name in ("genes", "proteins", "lipids")}
bank = KernelBank([Linear(), Gaussian(relative=True)], views=tables)
model = MKLClassifier(bank).fit(X, y)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "report.html")
    model.report(path, X, y, cv=3, n_resamples=10, title="Relapse from three tables")
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")
    print("begins with", path.read_text(encoding="utf-8")[:15])
print("model.report(path) without data tells what the model alone knows.")

# %%
# One of its questions, answered by hand: how alike is each kernel to the outcome? Centered
# alignment is a cosine; 1 would be a kernel that is the outcome itself.

stack = bank.fit(X).stack
likeness = alignment(stack, (y == "relapse").to_numpy(float), centered=True)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.barh(model.kernel_names_[model.bank_.kept], likeness)
axes.invert_yaxis()
axes.set(xlabel="centered alignment with the outcome")
plt.show()
