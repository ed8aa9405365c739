"""The numbers of figure 2 of bach2004, and how its seconds grow with n beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.markdown_tables import short
from benchmarks.harness.timing import exponent

# m, n: seconds of the paper's SMO and of Mosek, None where that ran out of memory
PAPER = {
    "ionosphere": {
        (6, 351): (2, 4),
        (12, 351): (3, 8),
        (24, 351): (54, 20),
        (48, 351): (56, 51),
        (96, 351): (88, 162),
        (192, 351): (166, 548),
    },
    "breast cancer": {
        (3, 683): (11, 11),
        (6, 683): (20, 17),
        (12, 683): (54, 45),
        (24, 683): (141, 120),
        (48, 683): (149, 492),
        (96, 683): (267, 764),
    },
    "adult, many m": {
        (3, 1605): (20, 92),
        (6, 1605): (23, 205),
        (12, 1605): (36, 1313),
        (24, 1605): (119, None),
        (48, 1605): (618, None),
        (96, 1605): (957, None),
    },
    "adult, many n": {
        (4, 450): (17, 4),
        (4, 750): (29, 17),
        (4, 1100): (44, 52),
        (4, 1605): (72, 114),
        (4, 2265): (121, 5455),
        (4, 3185): (202, 8625),
        (4, 4781): (410, None),
        (4, 6212): (670, None),
    },
}


def growth_in_n(points: Sequence[tuple[int, float, int]]) -> str:
    """Why exponents in n differ; points are n, seconds as published, and support kernels."""
    paper = {n: seconds for (_, n), (seconds, _) in PAPER["adult, many n"].items()}
    early, late = [n for n in paper if n <= 1605], [n for n in paper if n >= 1605]
    below, above = (exponent(ns, [paper[n] for n in ns], 0.0)[0] for ns in (early, late))
    words = (
        f"Growth in n: the paper's own times grow as n^{short(below)} up to n = 1,605 and as "
        f"n^{short(above)} from there; its 1.4 is the average. A pair step works on rows of about "
        "n numbers, so that time grows as n times the number of steps."
    )
    one = [p for p in points if p[2] == 1]
    more = [p for p in points if p[2] > 1 and p[0] >= 1605]
    every = [p for p in points if p[2] > 1]
    groups = (one, more, every)
    slopes = [exponent([p[0] for p in ps], [p[1] for p in ps], 0.02)[0] for ps in groups]
    if None in slopes:
        return words
    told = [", ".join(f"{p[0]:,}" for p in ps) for ps in groups]
    return words + (
        " Our exponent over all n mixes two kinds of problems, seen after the fact: where one "
        f"kernel is left at the optimum (n = {told[0]}), published grows as n^{short(slopes[0])}; "
        f"where more are, from n = 1,605 up ({told[1]}), as n^{short(slopes[1])}; with all such n "
        f"({told[2]}), as n^{short(slopes[2])}."
    )
