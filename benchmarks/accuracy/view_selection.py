"""Does ``select_views`` find the views that matter, and no others? Simulated views, 100 draws each

Two classes of 75 rows, four views of 20 columns. In a useful view five columns differ between the
classes by twice the effect δ, in units of their standard deviation; all else is noise. Where noise
is shared, five other columns of every view also follow one factor that has nothing to do with the
classes. Three kernels on each view. "Often positive" is the plain rule that keeps a view if it has
a weight in 90 % of resamples.
"""

import numpy as np
from scipy.stats import norm

import kernelweave as kw
from benchmarks.harness import common
from kernelweave.inspection import select_views, stability

N, VIEWS, COLUMNS, INFORMATIVE = 150, 4, 20, 5
# name: effect, useful views, whether views share a factor of no use, whether power is a bar
SETTINGS = {
    "medium": (0.35, 2, False, True),
    "nothing useful": (0.0, 0, False, False),
    "medium, shared noise": (0.35, 2, True, True),
    "weak": (0.25, 2, False, False),
}
FALSE, POWER = 0.10, 0.80


def rows(setting, seed):
    """X, labels and views; the useful views are the first."""
    effect, useful, shared, _ = SETTINGS[setting]
    rng = np.random.default_rng(seed)
    y = np.repeat([-1.0, 1.0], N // 2)
    X = rng.standard_normal((N, VIEWS, COLUMNS))
    X[:, :useful, :INFORMATIVE] += effect * y[:, None, None]
    if shared:
        X[:, :, INFORMATIVE : 2 * INFORMATIVE] += rng.standard_normal(N)[:, None, None]
    views = {f"view {v}": slice(v * COLUMNS, (v + 1) * COLUMNS) for v in range(VIEWS)}
    return X.reshape(N, -1), y, views


def measure(setting, seed):
    X, y, views = rows(setting, seed)
    kernels = [kw.Linear(), kw.Gaussian(0.5, relative=True), kw.Gaussian(1.0, relative=True)]
    model = kw.MKLClassifier(kw.KernelBank(kernels, views=views, scale="standard"))
    found = select_views(model, X, y, random_state=seed)
    draws = stability(model, X, y, n_resamples=30, random_state=seed)
    often = draws.by_view()["selected"] >= 0.9
    return {"rule": found.selected.tolist(), "often": often.tolist()}


def shares(cells, rule, useful):
    """Shares of useful and of false views selected, and of false ones among those selected."""
    chosen = np.array([cell[rule] for cell in cells], dtype=float)
    false = chosen[:, useful:].sum(axis=1)
    wrong = float((false / np.maximum(chosen.sum(axis=1), 1.0)).mean())
    power = float(chosen[:, :useful].mean()) if useful else None
    return power, float(chosen[:, useful:].mean()), wrong


def main():
    args = common.arguments(
        __doc__,
        draws={"type": int, "default": 100, "help": "draws of each setting (100)"},
        processes={"type": int, "default": 1, "help": "processes (1)"},
    )
    draws = 2 if args.quick else args.draws
    results = common.Results("view_selection", args)
    plan = [(setting, seed) for setting in SETTINGS for seed in range(draws)]
    results.fill([(key, measure, *key) for key in plan], processes=args.processes)
    table = []
    for setting, (effect, useful, _, bar) in SETTINGS.items():
        cells = [c for seed in range(draws) if (c := results.get(setting, seed))]
        if not cells:
            continue
        full = len(cells) >= 100
        bayes = float(norm.cdf(effect * np.sqrt(INFORMATIVE)))
        for rule, told in (("rule", "select_views"), ("often", "often positive")):
            power, false, wrong = shares(cells, rule, useful)
            shown = [None if x is None else 100 * x for x in (power, false, wrong)]
            table.append([setting, effect, bayes, told, len(cells), *shown])
        power, false, _ = shares(cells, "rule", useful)
        text = f"{setting}: at most {100 * FALSE:.0f} % of the false views selected"
        results.bar(text, f"{100 * false:.1f} %", false <= FALSE if full else None)
        if bar:
            text = f"{setting}: at least {100 * POWER:.0f} % of the useful views selected"
            results.bar(text, f"{100 * power:.1f} %", power >= POWER if full else None)
    print()
    header = ["setting", "effect δ", "best accuracy of one view", "rule", "draws"]
    header += ["% useful selected", "% false selected", "% false among selected"]
    common.table(header, table)


if __name__ == "__main__":
    main()
