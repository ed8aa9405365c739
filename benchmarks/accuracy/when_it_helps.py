"""When do learned weights help? Against equal weights, one view, all columns as one, and boosting.

Settings in which views differ in worth, and some in which they do not. Each view has a linear
kernel and a Gaussian of the median distance. Simulated: two views of ten columns tell the classes,
k views of ten columns are noise; 150 rows to learn on, 1,000 to test, fresh in every draw. Real:
two views of digits as they are, and k copies of four others whose rows are shuffled (150 rows, even
against odd digits); TCGA breast tumors, three views and k shuffled copies (100 rows, luminal A
against the rest); thirty widths of one Gaussian on sonar, and kernels on each column alone, on
sonar and ionosphere. Gene sets: 40 sets that overlap, of 200 columns, of which one
tells the classes. Rows that lack views: as simulated, with two tellers and three views of noise, a
fifth of all (row, view) pairs missing.

All choose C among 0.1, 1, 10 by the same three folds of the training rows; the single view is
chosen by them, too. "chosen" is MKLClassifierCV between learned and equal weights. Columns of the
table: accuracy in per cent, mean over draws; then learned weights less the others, ± half of a 95 %
interval, with the variance of Nadeau and Bengio where splits share rows.
"""

import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

import kernelweave as kw
from benchmarks.harness import common

SPLITS = 20
COSTS = (0.1, 1.0, 10.0)
NOISE = (0, 1, 3, 10, 30)
WIDTHS = tuple(np.geomspace(0.05, 20.0, 30).tolist())
METHODS = ("learned", "equal", "best view", "one view", "boosting", "chosen")
SETTINGS = (
    *(f"simulated, {k} noise" for k in NOISE),
    *(f"digits, {k} noise" for k in NOISE),
    *(f"TCGA, {k} noise" for k in (0, 3, 10)),
    "sonar, 30 widths",
    "sonar, single columns",
    "ionosphere, single columns",
    "gene sets",
    "rows lacking views",
)


def kernels():
    return [kw.Linear(), kw.Gaussian(1.0, relative=True)]


def simulated(seed, noise, lacking=0.0):
    """Two views that tell the classes, each in its own way, and views of noise."""
    rng = np.random.default_rng([seed, noise])
    n = 1150
    u, v = rng.standard_normal((2, n))
    views = [0.7 * rng.standard_normal((n, 10)) + 0.7 * hidden[:, None] for hidden in (u, v)]
    views[1][:, 5:] = rng.standard_normal((n, 5))
    views[0][:, 5:] = rng.standard_normal((n, 5))
    X = np.hstack([*views, rng.standard_normal((n, 10 * noise))])
    y = 1 * (u + v + 0.7 * rng.standard_normal(n) > 0.0)
    named = {f"v{k}": list(range(10 * k, 10 * k + 10)) for k in range(2 + noise)}
    if lacking:
        gone = rng.uniform(size=(n, len(named))) < lacking
        gone[gone.all(axis=1), 0] = False
        X[np.repeat(gone, 10, axis=1)] = np.nan
    return (X[:150], y[:150]), (X[150:], y[150:]), {"views": named}, n


def gene_sets(seed):
    """Forty sets of 15 to 40 columns; those of the first follow what tells the classes."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(1150)
    X = rng.standard_normal((1150, 200))
    sets = [rng.choice(200, rng.integers(15, 41), replace=False) for _ in range(40)]
    X[:, sets[0][:10]] += 0.5 * u[:, None]
    y = 1 * (u + 0.5 * rng.standard_normal(1150) > 0.0)
    named = {f"set{k}": sorted(found.tolist()) for k, found in enumerate(sets)}
    return (X[:150], y[:150]), (X[150:], y[150:]), {"views": named}, 1150


def cut(X, y, size, seed):
    """Rows to learn on, and at most 600 of the others to test."""
    most = min(600, len(y) - size)
    split = StratifiedShuffleSplit(1, train_size=size, test_size=most, random_state=seed)
    ((train, test),) = split.split(X, y)
    return (X[train], y[train]), (X[test], y[test])


def shuffled_copies(found, names, kept, noise, rng):
    """The columns of some views, and of others with their rows shuffled."""
    parts = [found[name] for name in kept]
    for k in range(noise):
        part = found[names[k % len(names)]]
        parts.append(part[rng.permutation(len(part))])
    ends = np.cumsum([0, *(part.shape[1] for part in parts)])
    named = {f"v{k}": list(range(*ends[k : k + 2])) for k in range(len(parts))}
    return np.hstack(parts).astype(float), {"views": named}


def rows_of(data, setting, seed):
    """Training and test rows, and the bank's options."""
    what, _, noise = setting.partition(", ")
    rng, count = np.random.default_rng(seed), int(noise.split()[0]) if "noise" in noise else 0
    if what == "simulated":
        return simulated(seed, count)
    if what == "rows lacking views":
        return simulated(seed, 3, 0.2)
    if what == "gene sets":
        return gene_sets(seed)
    if what in ("digits", "TCGA"):
        raw = common.fetch({"digits": "mfeat", "TCGA": "tcga_breast_mixomics"}[what], data)
        found = {name: raw.X[:, columns] for name, columns in raw.views.items()}
        if what == "digits":
            y, kept, size = 1 * (raw.y % 2 == 1), ["fou", "zer"], 150
            others = ["fac", "kar", "pix", "mor"]
        else:
            whole = np.isfinite(raw.X).all(axis=1)  # the others lack proteins
            found = {name: part[whole] for name, part in found.items()}
            y, kept, size = 1 * (raw.y[whole] == "LumA"), list(found), 100
            others = kept
        X, options = shuffled_copies(found, others, kept, count, rng)
        return *cut(X, y, size, seed), options, len(y)
    X, y = common.load(what, data)
    options = {"views": "each"} if "columns" in noise else {}
    size = 150 if what == "ionosphere" else 120
    return *cut(X, 1 * (y > 0), size, seed), options, len(y)


def banks(setting, options):
    """The bank of all views, that of each, and that of all columns at once."""
    given = [kw.Gaussian(w, relative=True) for w in WIDTHS] if "widths" in setting else kernels()
    impute = {"impute": "median"} if "lacking" in setting else {}
    joint = kw.KernelBank(kernels(), scale="standard", **impute)
    views = options.get("views")
    if views == "each" or views is None:
        return kw.KernelBank(given, scale="standard", **options), None, joint
    if impute:  # no view is there for all rows
        return kw.KernelBank(given, views, scale="standard"), None, joint
    single = {
        name: kw.KernelBank(given, {name: c}, scale="standard", **impute)
        for name, c in views.items()
    }
    return kw.KernelBank(given, views, scale="standard"), single, joint


def measure(data, setting, seed):
    (X, y), (Z, truth), options, count = rows_of(data, setting, seed)
    every, single, joint = banks(setting, options)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    asked = {
        "learned": (every, [1]),
        "equal": (every, ["equal"]),
        "best view": (single, ["equal"]),
        "one view": (joint, ["equal"]),
        "chosen": (every, [1, "equal"]),
    }
    found = {"train": len(y), "test": len(truth), "rows": count}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (bank, norms) in asked.items():
            if bank is None:
                continue
            model = kw.MKLClassifierCV(bank, Cs=COSTS, weight_norms=norms, cv=folds).fit(X, y)
            found[name] = 100.0 * float(model.score(Z, truth))
            if name == "chosen":
                found["norm"] = str(model.best_params_["weight_norm"])
        boosted = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
        found["boosting"] = 100.0 * float(boosted.score(Z, truth))
    return found


def main():
    choice = {"nargs": "+", "choices": SETTINGS, "help": "some of the settings"}
    count = {"type": int, "default": SPLITS, "help": "how many"}
    args = common.arguments(__doc__, sets=choice, splits=count)
    settings = args.sets or (SETTINGS[:2] if args.quick else SETTINGS)
    splits = 2 if args.quick else args.splits
    results = common.Results("when_it_helps", args)
    results.fill([((s, k), measure, args.data, s, k) for k in range(splits) for s in settings])
    rows, excluded = [], {}
    for setting in settings:
        cells = [c for k in range(splits) if (c := results.get(setting, k))]
        if len(cells) < 2:
            continue
        fresh = setting.startswith(("simulated", "gene", "rows"))
        shared = 0.0 if fresh else cells[0]["test"] / cells[0]["rows"]
        row = [setting, len(cells)]
        row += [np.mean([c[m] for c in cells]) if m in cells[0] else None for m in METHODS]
        row.append(sum(c["norm"] == "equal" for c in cells))
        for other in METHODS[1:]:
            if other not in cells[0]:
                row.append(None)
                continue
            less = [c["learned"] - c[other] for c in cells]
            mean, half, _ = common.corrected_t_test(less, shared)
            row.append(f"{mean:+.1f} ± {half:.1f}")
            excluded[setting, other] = mean - half
        rows.append(row)
    header = ["accuracy, %", "draws", *METHODS, "chose equal"]
    common.table([*header, *(f"learned − {m}" for m in METHODS[1:])], rows)
    if args.quick:
        return
    wanted = {"simulated": ["simulated, 10 noise"], "real": ["digits, 10 noise", "TCGA, 10 noise"]}
    for what, names in wanted.items():
        found = [excluded[name, "equal"] for name in names if (name, "equal") in excluded]
        if not found:
            continue
        low = max(found)
        text = f"{what}: with 10 views of noise, learned weights beat equal ones, 95 % interval"
        results.bar(text, f"lower end {low:+.1f} points", low > 0.0)


if __name__ == "__main__":
    main()
