"""
Graphs and trees as rows
========================

Small molecules, made up: rings and chains of atoms, of which some carry a group N–O at a carbon of
a ring. Those are active. Neither the atoms nor how many there are tells them from others, which
have the same group at a chain: neighborhoods do. ``WeisfeilerLehman`` counts these, and the bank
learns how wide they should be.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelweave import KernelBank, MKLClassifier, SubsetTree, WeisfeilerLehman, structures
from kernelweave.plotting import plot_weights

rng = np.random.default_rng(0)


def molecule(active):
    """Atoms and bonds: a ring of six, a chain at one of them, N–O at the ring or at the chain."""
    bonds = [(i, (i + 1) % 6) for i in range(6)]
    chain = int(rng.integers(1, 5))
    bonds += [(0 if i == 6 else i - 1, i) for i in range(6, 6 + chain)]
    atoms = ["C"] * (6 + chain)
    if rng.random() < 0.5:  # an oxygen of no importance
        atoms[6] = "O"
    place = int(rng.integers(2, 6)) if active else 5 + chain
    bonds += [(place, len(atoms)), (len(atoms), len(atoms) + 1)]
    return (*atoms, "N", "O"), tuple(bonds)


y = np.where(rng.random(160) < 0.5, "active", "inactive")
X = structures([molecule(label == "active") for label in y])  # or graphs of networkx
train, test = slice(0, 80), slice(80, None)

bank = KernelBank([WeisfeilerLehman(h) for h in range(4)], normalize="sphere")
model = MKLClassifier(bank, C=10.0).fit(X[train], y[train])
atoms = MKLClassifier(KernelBank([WeisfeilerLehman(0)], normalize="sphere"), C=10.0)
atoms.fit(X[train], y[train])
print(f"atoms alone: accuracy {atoms.score(X[test], y[test]):.2f}")
print(f"neighborhoods: accuracy {model.score(X[test], y[test]):.2f}")
figure, axes = plt.subplots(figsize=(6, 2.5), layout="constrained")
plot_weights(model, axes)
plt.show()

# %%
# Trees are nested tuples: here sentences, parsed. Whether they ask is in their form, not in words.


def sentence(question):
    """A subject and a verb, the verb first in a question."""
    subject = ("NP", str(rng.choice(["she", "he", "Ann"])))
    verb = ("V", str(rng.choice(["sings", "reads", "swims"])))
    clause = (verb, subject) if question else (subject, verb)
    return ("S", *clause) if rng.random() < 0.5 else ("S", ("S", *clause), ("ADV", "today"))


asked = rng.random(60) < 0.5
trees = structures([sentence(one) for one in asked])
parsed = MKLClassifier(KernelBank([SubsetTree(0.4)], normalize="sphere"), C=10.0)
print(f"sentences: accuracy {parsed.fit(trees[:30], asked[:30]).score(trees[30:], asked[30:]):.2f}")
