"""
A fit on a GPU
==============

One word moves a fit to a GPU, and the certificate is the same: exact kernels, in float64. This page
runs without one, and without PyTorch, and says which.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, KernelBank, MKLClassifier, Nystroem

try:
    import torch
except ImportError:
    torch, device = None, "cpu"
    print("PyTorch is not there: the processor, by the ordinary path")
else:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"PyTorch {torch.__version__}: the fit takes place on {device!r}")

# %%
# Two thousand rows. On a GPU that pays from some thousands of rows on, and half a million will do.

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(2000, 2))
y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.normal(size=2000) > 0
kernels = [Gaussian(width) for width in (0.2, 0.5, 1.0, 2.0)]
print(KernelBank(kernels, device=device).plan(X))
model = MKLClassifier(kernels, device=device, tol=1e-2).fit(X, y)
print(f"gap {model.duality_gap_:.1e}, weights {model.weights_.round(2)}")

# %%
# Kernels made of few features are on the device, too. Two gaps are told: that of the fit, and that
# of its weights and machine for the exact kernels.

bank = KernelBank(kernels, approximation=Nystroem(100), device=device)
few = MKLClassifier(bank, tol=1e-2).fit(X, y)
print(f"100 landmarks: gap {few.duality_gap_:.1e}, for the exact kernels {few.exact_gap_:.2f}")

# %%
# New rows may be arrays or tensors. Tensors are answered by tensors on their device.

line = np.linspace(-2, 2, 60)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
if torch is not None:
    values = model.decision_function(torch.as_tensor(grid, device=device))
    print(f"{type(values).__name__} on {values.device}")
    values = values.cpu().numpy()
else:
    values = model.decision_function(grid)

plt.figure(figsize=(5, 4), layout="constrained")
plt.contourf(line, line, values.reshape(60, 60), levels=12, cmap="coolwarm")
plt.scatter(*X[:300].T, c=y[:300], cmap="coolwarm", edgecolor="white", s=15)
plt.title("Decision values, and some of the rows")
plt.show()
