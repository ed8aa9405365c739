"""
Your own kernel
===============

Any function f(A, B) of two arrays of rows is a kernel, if its matrices have no negative
eigenvalues. Here it counts what two strings share.
"""

from collections import Counter
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import Gaussian, KernelBank, MKLClassifier
from kernelweave.plotting import plot_weights


def spectrum(A, B, length):
    """Number of substrings of this length that two sequences share, counting repeats."""

    def counts(rows):
        return [Counter(s[i : i + length] for i in range(len(s) - length + 1)) for s in rows[:, 0]]

    a, b = counts(A), counts(B)
    return np.array([[sum(p[s] * q[s] for s in p) for q in b] for p in a], dtype=float)


# %%
# Simulated sequences: positives have a motif of four letters; the dose helps a little.

rng = np.random.default_rng(0)
y = rng.random(160) < 0.5
sequences = []
for positive in y:
    letters = rng.choice(list("ACGT"), size=30)
    if positive:
        place = rng.integers(0, 27)
        letters[place : place + 4] = list("GATC")
    sequences.append("".join(letters))
dose = rng.normal(size=160) + 0.7 * y
table = list(zip(sequences, dose, strict=True))  # a data frame works as well

# %%
# A kernel on its own columns is ``(name, kernel, columns)``. A function gets these unchanged.

bank = KernelBank(
    [
        *(
            (f"substrings of {length}", partial(spectrum, length=length), 0)
            for length in (1, 2, 3, 4, 5)
        ),
        ("dose", Gaussian(width=1.0), 1),
    ],
    normalize="center+trace",
)
model = MKLClassifier(bank).fit(table[:110], y[:110])
for name, weight in zip(model.kernel_names_, model.weights_, strict=True):
    print(f"{weight:.3f}  {name}")
guess = max(y[110:].mean(), 1 - y[110:].mean())
print(f"test accuracy {model.score(table[110:], y[110:]):.2f}, the larger class {guess:.2f}")

plot_weights(model)
plt.show()
