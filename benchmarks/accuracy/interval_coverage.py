"""How often do 95 % intervals of held-out scores hold the truth? Simulated, cut as ``compare`` does

Five folds, four times or once. "A given rule" is right in each row with the same probability, and
nothing is learned: the hardest case for intervals that count splits alone, since splits of a rule
that is nearly always right agree. "Learned" draws rows of two normal classes (20 columns, one of
which tells the classes apart), learns the line between the class means in each split, and beside it
the same from half of the columns; the truth is the mean over 4,000 training sets of the size of a
split's. For numbers a ridge regression on ten columns stands in, beside one on half of them; the
truth is their R² over all rows. Folds of four rows (20 rows in all) say little about that.
"""

import numpy as np
from scipy.stats import norm

from benchmarks.harness import common
from kernelweave.inspection import HeldOut
from kernelweave.inspection.held_rows import Held, HeldRows, Score

LEAST = 0.92
NS = (20, 50, 150, 500)
ACCURACIES = (0.5, 0.7, 0.9, 0.95, 0.97, 0.99, 1.0)
EFFECTS = (0.0, 0.5, 1.0, 1.5, 2.5)  # half the distance of the class means
NOISES = (3.0, 1.0, 0.3, 0.05)  # beside a signal of size 1
FOLDS, COLUMNS, MOST = 5, 20, 4000


def cuts(y, repeats, rng):
    """Folds by class, as scikit-learn's, several times."""
    for _ in range(repeats):
        place = np.empty(len(y), dtype=int)
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            place[rows] = np.arange(len(rows)) % FOLDS
        yield from (np.flatnonzero(place == fold) for fold in range(FOLDS))


def held_out(folds, scores, classes, parts):
    """The scores of two models on each fold, as ``compare`` keeps them."""
    lines = HeldRows.of([Held.of(fold, parts[fold]) for fold in folds], scores, classes)
    values = np.array([[score.value for score in one.values()] for one in scores])
    return HeldOut(("a", "b"), values, "score", 1.0 / (FOLDS - 1), rows=lines)


def tally(found, truth):
    """Whether the interval of the first score, and that of the difference, hold the truth."""
    ends = found.score("a")[1:], found.difference("b")[1:]
    truths = truth[0], truth[0] - truth[1]
    hits = [low - 1e-9 <= x <= high + 1e-9 for (low, high), x in zip(ends, truths, strict=True)]
    splits = found.interval(found.scores[:, 0])[1:]  # by splits alone
    return [*hits, splits[0] <= truth[0] <= splits[1], ends[0][1] - ends[0][0]]


def given_rule(n, accuracy, repeats, draws):
    """The second rule errs where the first does, and in 3 % of the other rows."""
    rng = np.random.default_rng([n, round(1000 * accuracy), repeats])
    truth, rows = (accuracy, 0.97 * accuracy), []
    for _ in range(draws):
        first = rng.random(n) < accuracy
        right = np.column_stack([first, first & (rng.random(n) < 0.97)]).astype(float)
        folds = [*cuts(np.zeros(n), repeats, rng)]
        scores = [
            {k: Score(float(right[f, j].mean()), right[f, j]) for j, k in enumerate("ab")}
            for f in folds
        ]
        rows.append(tally(held_out(folds, scores, True, np.zeros(n, dtype=int)), truth))
    return summary(rows)


def lines_between(X, y):
    """Two lines: between the means of the classes, in all columns and in half of them."""
    one, other = X[y == 1].mean(axis=0), X[y == 0].mean(axis=0)
    half = np.where(np.arange(COLUMNS) < COLUMNS // 2, 1.0, 0.0)
    return [(w, -w @ (one + other) / 2.0) for w in (one - other, (one - other) * half)]


def two_classes(n, effect, rng):
    y = np.arange(n) % 2
    X = rng.standard_normal((n, COLUMNS))
    X[:, 0] += effect * (2 * y - 1)
    return X, y


def true_of(line, effect):
    """Accuracy and area under the ROC curve of a line, over all rows."""
    w, b = line
    mean, size = effect * w[0], np.linalg.norm(w)
    accuracy = (norm.cdf((mean + b) / size) + norm.cdf((mean - b) / size)) / 2.0
    return accuracy, norm.cdf(2.0 * mean / size / np.sqrt(2.0))


def truths_of(draws):
    """Training sets whose mean is the truth; fewer in small runs."""
    return min(MOST, 10 * draws)


def area(values, y):
    ahead = values[y == 1][:, None] - values[y == 0]
    return float(((ahead > 0.0) + 0.5 * (ahead == 0.0)).mean())


def learned(n, effect, repeats, draws, by_row):
    """Accuracy, whose rows are counted, or the area under the ROC curve, whose rows are not."""
    rng = np.random.default_rng([n, round(10 * effect), repeats, by_row])
    size, known = n - n // FOLDS, 0 if by_row else 1
    truths = [
        [true_of(line, effect)[known] for line in lines_between(*two_classes(size, effect, rng))]
        for _ in range(truths_of(draws))
    ]
    truth, rows = np.mean(truths, axis=0), []
    for _ in range(draws):
        X, y = two_classes(n, effect, rng)
        folds, scores = [*cuts(y, repeats, rng)], []
        for fold in folds:
            rest = np.setdiff1d(np.arange(n), fold)
            values = [X[fold] @ w + b for w, b in lines_between(X[rest], y[rest])]
            rights = [((v > 0.0) == y[fold]).astype(float) for v in values]
            areas = [(area(v, y[fold]), area(rng.permutation(v), y[fold])) for v in values]
            made = (
                [Score(float(right.mean()), right) for right in rights]
                if by_row
                else [Score(value, None, chance) for value, chance in areas]
            )
            scores.append(dict(zip("ab", made, strict=True)))
        parts = np.zeros_like(y) if by_row else y
        rows.append(tally(held_out(folds, scores, True, parts), truth))
    return summary(rows)


def ridges(X, y):
    """A ridge regression on all columns, and one on half of them."""
    found = []
    for columns in (slice(None), slice(2, None, 2)):
        Z, center = X[:, columns] - X[:, columns].mean(axis=0), X[:, columns].mean(axis=0)
        w = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ (y - y.mean()))
        found.append((columns, w, y.mean() - w @ center))
    return found


def numbers(n, noise, repeats, draws):
    """R² of a regression on ten columns, of which three matter."""
    rng = np.random.default_rng([n, round(100 * noise), repeats, 7])
    width = COLUMNS // 2
    signal = np.where(np.arange(width) < 3, 3**-0.5, 0.0)

    def drawn(count):
        X = rng.standard_normal((count, width))
        return X, X @ signal + noise * rng.standard_normal(count)

    def true_r2(columns, w, b):
        off = signal.copy()
        off[columns] -= w
        return 1.0 - (noise**2 + off @ off + b * b) / (1.0 + noise**2)

    truths = [
        [true_r2(*one) for one in ridges(*drawn(n - n // FOLDS))] for _ in range(truths_of(draws))
    ]
    truth, rows = np.mean(truths, axis=0), []
    for _ in range(draws):
        X, y = drawn(n)
        folds, scores = [*cuts(np.zeros(n), repeats, rng)], []
        for fold in folds:
            rest, own = np.setdiff1d(np.arange(n), fold), np.square(y[fold] - y[fold].mean()).sum()
            said = [X[fold][:, columns] @ w + b for columns, w, b in ridges(X[rest], y[rest])]
            r2 = [
                [1.0 - float(np.square(y[fold] - f).sum()) / own for f in (s, rng.permutation(s))]
                for s in said
            ]
            scores.append({k: Score(v, None, c) for k, (v, c) in zip("ab", r2, strict=True)})
        rows.append(tally(held_out(folds, scores, False, np.zeros(n, dtype=int)), truth))
    return summary(rows)


def summary(rows):
    score, difference, splits, width = np.mean(rows, axis=0)
    return {"score": score, "difference": difference, "splits": splits, "width": width}


KINDS = {
    "a given rule, accuracy": (given_rule, ACCURACIES, ()),
    "learned, accuracy": (learned, EFFECTS, (True,)),
    "learned, area under ROC": (learned, EFFECTS, (False,)),
    "learned, R²": (numbers, NOISES, ()),
}


def main():
    args = common.arguments(
        __doc__,
        draws={"type": int, "default": 1000, "help": "simulated data sets per cell (1000)"},
        processes={"type": int, "default": 1, "help": "processes (1)"},
    )
    draws = 20 if args.quick else args.draws
    results = common.Results("interval_coverage", args)
    plan = [
        ((kind, n, level, repeats), measure, n, level, repeats, draws, *more)
        for kind, (measure, levels, more) in KINDS.items()
        for n in NS
        for level in levels
        for repeats in (4, 1)
    ]
    results.fill(plan, processes=args.processes)
    table = []
    for kind, (_, levels, _) in KINDS.items():
        for n in NS:
            for repeats in (4, 1):
                cells = [c for level in levels if (c := results.get(kind, n, level, repeats))]
                if cells:
                    least = [100.0 * min(c[k] for c in cells) for k in ("score", "difference")]
                    plain = 100.0 * min(c["splits"] for c in cells)
                    table.append([kind, n, repeats, *least, plain])
        rows = [row for row in table if row[0] == kind]
        for place, what in ((3, "score"), (4, "difference")):
            found = min((row[place] for row in rows), default=0.0)
            met = None if args.quick or not rows else found >= 100.0 * LEAST
            results.bar(f"{kind}: the {what} is held in 92 % or more", f"{found:.1f} %", met)
    print()
    header = ["scores", "rows", "repeats", "% score held, least", "% difference held, least"]
    common.table([*header, "% score held, splits alone, least"], table)


if __name__ == "__main__":
    main()
