"""
Which gene sets matter?
=======================

Overlapping sets as views: their weights, how sure these are, and which sets are more than chance.
"""

from io import StringIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelweave import KernelBank, Linear, MKLClassifier, views_from_gmt
from kernelweave.inspection import associated_views, stability

# %%
# 150 patients, 600 genes, 60 sets, each of which shares ten genes with the next. The genes of one
# set differ a little between the classes.

rng = np.random.default_rng(3)
genes = [f"GENE{k}" for k in range(600)]
X = pd.DataFrame(rng.normal(size=(150, 600)), columns=genes)
y = np.repeat(["ill", "well"], 75)
X.iloc[:75, 100:120] += 0.35
lines = [f"SET{k}\tmade up\t" + "\t".join(genes[10 * k : 10 * k + 20]) for k in range(59)]
views = views_from_gmt(StringIO("\n".join(lines)), X.columns)

model = MKLClassifier(KernelBank([Linear()], views=views))
print(model.fit(X, y).weights_frame()[["view", "weight"]].head(3).round(2).to_string(index=False))

# %%
# SET10 is the one. Its neighbors share half of its genes, and have to do with the classes, too.

found = associated_views(model, X, y)
print(found)

draws = stability(model, X, y, n_resamples=30)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
draws.plot(ax=axes[0], top=8)
table = found.frame()
axes[1].plot(table["strength"], ".", color="#BBBBBB")
for place in range(3):
    axes[1].annotate(table["view"][place], (place, table["strength"][place]), xytext=(6, -3),
                     textcoords="offset points")  # fmt: skip
axes[1].set(xlabel="sets by strength", ylabel="deviations from shuffled classes")
plt.show()
