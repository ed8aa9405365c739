"""
Strings: which word length matters?
===================================

Simulated DNA sequences; positives hold the motif GATTACA with one letter read wrong. Which word
length tells them apart, and do near words help?
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import KernelBank, MKLClassifier, Spectrum
from kernelweave.plotting import plot_weights

rng = np.random.default_rng(0)
LETTERS = list("ACGT")


def sequence(positive):
    letters = rng.choice(LETTERS, size=60)
    if positive:
        place = rng.integers(0, 54)
        letters[place : place + 7] = list("GATTACA")
        letters[place + rng.integers(0, 7)] = rng.choice(LETTERS)
    return "".join(letters)


y = rng.random(400) < 0.5
X = [[sequence(positive)] for positive in y]  # one column; in a data frame, name it

# %%
# Words of 1 to 6 letters, and words of 6 that may differ in one letter.

bank = KernelBank(
    [*(Spectrum(length) for length in range(1, 7)), Spectrum(6, mismatches=1)],
    normalize="sphere",
)
model = MKLClassifier(bank).fit(X[:300], y[:300])
for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
    print(f"{weight:.3f}  {name}")
print(f"test accuracy {model.score(X[300:], y[300:]):.2f}, certified gap {model.duality_gap_:.0e}")
plot_weights(model)

# %%
# Letters that were not in training (N) belong to no word; short strings have none.

print("new strings:", model.predict([["NNNNGATTACANNNN"], ["ACG"]]))
plt.show()
