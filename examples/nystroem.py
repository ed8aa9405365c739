"""
Many rows: approximate kernels
==============================

``Nystroem`` puts kernels of few features in the place of matrices of n² numbers. How many landmarks
are enough, and what does the certificate say about the exact kernels?
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, KernelBank, MKLClassifier, Nystroem

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(4000, 4))
y = (np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(4000)) > 0
X_train, y_train, X_test, y_test = X[:1500], y[:1500], X[1500:], y[1500:]
kernels = [Gaussian(0.5, relative=True), Gaussian(1.0, relative=True), Gaussian(2.0, relative=True)]

landmarks = (10, 30, 100, 300)
accuracy, exact = [], []
print("landmarks  accuracy  gap      gap for the exact kernels  seconds")
for count in landmarks:
    started = time.process_time()
    model = MKLClassifier(KernelBank(kernels, approximation=Nystroem(count))).fit(X_train, y_train)
    taken = time.process_time() - started
    accuracy.append(model.score(X_test, y_test))
    exact.append(model.exact_gap_)
    print(f"{count:9}  {accuracy[-1]:.3f}     {model.duality_gap_:.0e}    {exact[-1]:.3f}", end="")
    print(f"{taken:26.2f}")
whole = MKLClassifier(KernelBank(kernels)).fit(X_train, y_train)
print(f"all 1500   {whole.score(X_test, y_test):.3f}     {whole.duality_gap_:.0e}")

# %%
# The accuracy is there long before the exact problem is solved.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].semilogx(landmarks, accuracy, "o-")
axes[0].axhline(whole.score(X_test, y_test), color="gray", lw=0.8)
axes[0].set(xlabel="landmarks", ylabel="test accuracy (line: exact)")
axes[1].semilogx(landmarks, exact, "o-")
axes[1].set(xlabel="landmarks", ylabel="gap for the exact kernels")
plt.show()
