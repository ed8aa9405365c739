"""
Numbers and categories in one table
===================================

Strings and columns of dtype ``category`` get the Hamming kernel, the share of columns in which two
rows agree. Nothing has to be encoded.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelweave import Gaussian, Hamming, KernelBank, Linear, MKLClassifier
from kernelweave.plotting import plot_weights

rng = np.random.default_rng(0)
n = 300
X = pd.DataFrame(
    {
        "age": rng.normal(50, 12, n).round(),
        "pressure": rng.normal(130, 15, n).round(),
        "smoker": pd.Categorical(rng.choice(["no", "yes"], n, p=[0.7, 0.3])),
        "region": pd.Categorical(rng.choice(["north", "south", "west"], n)),
    }
)
risk = 0.08 * (X["age"] - 50) + 2.0 * (X["smoker"] == "yes") * (X["region"] == "south")
y = (risk + rng.normal(size=n) > 0.5).to_numpy()

# %%
# A view with both kinds is split by dtype. ``Hamming(2)`` compares pairs of columns: smokers in the
# south are at risk, smokers elsewhere are not.

model = MKLClassifier().fit(X[:200], y[:200])
print(f"default kernels: test accuracy {model.score(X[200:], y[200:]):.2f}")
bank = KernelBank([Linear(), Gaussian(relative=True), Hamming(), Hamming(2)])
model = MKLClassifier(bank).fit(X[:200], y[:200])
print(f"named kernels:   test accuracy {model.score(X[200:], y[200:]):.2f}")
print("the larger class:", round(max(y[200:].mean(), 1 - y[200:].mean()), 2))

# %%
# A level that no training row has agrees with none; a warning counts such rows.

warnings.simplefilter("ignore", UserWarning)
new = X.iloc[:1].assign(region=pd.Categorical(["east"]))
print("a patient from the east:", model.predict(new))
plot_weights(model)
plt.show()
