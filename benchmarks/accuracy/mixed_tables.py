"""The default bank on mixed tables, beside a bank made by hand; and on pixels, beside raw columns.

Five tables of numbers, categories and booleans; in the last one rows lack a view. Default: the
table as it is, ``MKLClassifier()``, or its views. By hand: numbers standardized, gaps filled with
column means, categories as indicators, and the default kernels on numbers, on indicators and on all
of them together. Pixels: the default bank beside the same kernels on raw columns,
``KernelBank(scale=None)``.

Five stratified folds, four times; C = 1, nothing is tuned. ± is the standard error of the
difference over the folds.
"""

import os
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import kernelweave as kw
from benchmarks.harness import common

CODES = {  # columns of numbers that stand for categories
    "credit_crx": ("f0", "f3", "f4", "f5", "f6", "f8", "f9", "f11", "f12"),
    "heart": ("f1", "f2", "f5", "f6", "f8", "f10", "f12"),
}
MIXED = ("credit", "heart", "covertype", "splice", "generated")
PIXELS = ("digits 0–4", "digits 3, 8", "mfeat pix 0–4")
ROWS = 1000
KERNELS = [
    kw.Linear(),
    kw.Polynomial(2),
    *(kw.Gaussian(width, relative=True) for width in (0.5, 1.0, 2.0)),
]


# ---- data --------------------------------------------------------------------------------------


def path_of(data, name):
    path = os.path.join(data or "", name)
    if not os.path.exists(path):
        raise common.Skipped(f"{name} is not in the data folder")
    return path


def coded(data, name):
    """A table of the folder, with its codes as categories."""
    frame = pd.read_csv(path_of(data, f"{name}.csv.gz"))
    codes = {column: "category" for column in CODES[name]}
    return frame.drop(columns="y").astype(codes), frame["y"].to_numpy() > 0, "all"


def covertype(data):
    file = np.load(path_of(data, "covertype.npz"))
    rows = np.random.default_rng(0).choice(len(file["y"]), ROWS, replace=False)
    frame = pd.DataFrame(file["numeric"][rows].astype(float)).add_prefix("x")
    for name in ("wilderness", "soil"):
        frame[name] = pd.Categorical(file[name][rows])
    return frame, file["y"][rows] == 2, "all"


def splice(data):
    frame = pd.read_csv(path_of(data, "splice_uci_letters.csv.gz")).sample(ROWS, random_state=0)
    return frame.drop(columns="y"), frame["y"].to_numpy() != "N", "all"


def generated(data):
    """Two tables of numbers, of which rows lack one, strings and booleans; each says something."""
    rng = np.random.default_rng(0)
    y = rng.random(600) < 0.5
    numbers = rng.normal(size=(600, 8)) * np.geomspace(1, 1e3, 8)
    numbers += 0.8 * y[:, None] * numbers.std(axis=0) * (np.arange(8) % 2 == 0)
    for columns in (slice(0, 4), slice(4, 8)):
        numbers[rng.random(600) < 0.2, columns] = np.nan
    frame = pd.DataFrame(numbers).add_prefix("x")
    frame["city"] = np.where(
        rng.random(600) < 0.3, np.where(y, "a", "b"), rng.choice([*"cdef"], 600)
    )
    frame["smoker"] = rng.random(600) < 0.3 + 0.3 * y
    views = {"first": slice(0, 4), "second": slice(4, 8), "person": ["city", "smoker"]}
    return frame, y, views


def load(name, data):
    if name in ("credit", "heart"):
        return coded(data, {"credit": "credit_crx"}.get(name, name))
    if name in ("covertype", "splice", "generated"):
        return {"covertype": covertype, "splice": splice, "generated": generated}[name](data)
    if name == "mfeat pix 0–4":
        file = np.load(path_of(data, "mfeat.npz"))
        return file["pix"][::2].astype(float), file["y"][::2] < 5, "all"
    X, digit = load_digits(return_X_y=True)
    rows = slice(None, None, 2) if name == "digits 0–4" else (digit == 3) | (digit == 8)
    return X[rows], digit[rows] < 5, "all"


# ---- models ------------------------------------------------------------------------------------


class ByHand:
    """Numbers standardized and filled, categories as indicators, kernels on each and on both."""

    def fit(self, X, y):
        words = make_column_selector(dtype_exclude="number")
        flags = X.select_dtypes("bool").columns.tolist()
        X = X.astype(dict.fromkeys(flags, float))
        self.encode = make_column_transformer(
            (
                make_pipeline(SimpleImputer(), StandardScaler()),
                make_column_selector(dtype_include="number"),
            ),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
        ).fit(X)
        Z = self.encode.transform(X)
        split = len(make_column_selector(dtype_include="number")(X))
        views = {"numbers": slice(0, split), "indicators": slice(split, None), "both": slice(None)}
        views = {name: columns for name, columns in views.items() if Z[:, columns].shape[1]}
        self.flags = flags
        self.model = kw.MKLClassifier(kw.KernelBank(KERNELS, views, scale=None)).fit(Z, y)
        return self

    def score(self, X, y):
        Z = self.encode.transform(X.astype(dict.fromkeys(self.flags, float)))
        return self.model.score(Z, y)


def measure(data, name, seed):
    X, y, views = load(name, data)
    rival = ByHand if name in MIXED else lambda: kw.MKLClassifier(kw.KernelBank(scale=None))
    record = {"default": [], "rival": [], "gap": 0.0, "rows": len(y), "kernels": 0}
    take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = kw.MKLClassifier(kw.KernelBank(views=views)).fit(take(train), y[train])
            other = rival().fit(take(train), y[train])
            record["default"].append(100.0 * ours.score(take(test), y[test]))
            record["rival"].append(100.0 * other.score(take(test), y[test]))
        record["gap"] = max(record["gap"], float(ours.duality_gap_))
        record["kernels"] = ours.bank_.m_all
    return record


def report(results, names, seeds, rival):
    rows, found = [], []
    for name in names:
        cells = [c for seed in seeds if (c := results.get(name, seed))]
        if not cells:
            continue
        ours, other = (np.concatenate([c[key] for c in cells]) for key in ("default", "rival"))
        difference, error = float((ours - other).mean()), common.standard_error(ours - other)
        found.append((difference, error))
        gap = max(c["gap"] for c in cells)
        rows.append(
            [
                name,
                cells[0]["rows"],
                cells[0]["kernels"],
                float(ours.mean()),
                float(other.mean()),
                difference,
                error,
                gap,
            ]
        )
    header = ["table", "rows", "kernels", "default", rival, "difference", "±", "worst gap"]
    common.table(header, rows)
    return found


def main():
    args = common.arguments(__doc__)
    mixed, pixels = (MIXED[1::3], PIXELS[1:2]) if args.quick else (MIXED, PIXELS)
    seeds = range(1 if args.quick else 4)
    results = common.Results("mixed_tables", args)
    results.fill(
        [
            ((name, seed), measure, args.data, name, seed)
            for seed in seeds
            for name in mixed + pixels
        ]
    )
    found = report(results, mixed, seeds, "by hand")
    within = sum(difference + error >= 0.0 for difference, error in found)
    text = "within one standard error of a bank made by hand, or above, on all mixed tables"
    results.bar(text, f"{within} of {len(found)}", within == len(found))
    found = report(results, pixels, seeds, "raw columns")
    if found:
        lowest = min(difference for difference, _ in found)
        text = "pixels: not below raw columns by more than 0.3 points"
        results.bar(text, f"{lowest:+.2f} points at worst", lowest >= -0.3)


if __name__ == "__main__":
    main()
