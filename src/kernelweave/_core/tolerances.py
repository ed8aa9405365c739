"""Numbers that stand for rounding and for "as good as zero", each with its meaning.

What a user asks for is an argument (``tol``). The numbers here say what double precision leaves of
that, and at which size something counts as nothing. They are shares of the size of what is
compared, unless they say otherwise. Compiled functions take them as arguments: code in the disk
cache would keep an old value.
"""

from __future__ import annotations

import numpy as np

# --- of numbers ---------------------------------------------------------------------------------

EPS = float(np.finfo(np.float64).eps)
"""The distance from 1 to the next number in double precision."""

TINY = 1e-300
"""Stands for zero where something is divided by it. Absolute."""

ROUNDING = 1e-15
"""Steps, gains and differences below this share are rounding."""

SUM_ROUNDING = 1e-14
"""The same for sums of many terms, and for signed ones as a share of their sizes."""

NOTHING = 1e-13
"""Below this share of the whole, a part of a kernel is rounding: norms, traces, curvature."""

COINCIDE = 1e-12
"""Below this share of the largest, a distance, a step or a difference counts as zero."""

# --- of kernels ---------------------------------------------------------------------------------

ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
"""How far K[i, j] and K[j, i] may differ, as a share of the largest entry."""

NEGATIVITY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-5}
"""How negative eigenvalues may be: of one kernel as a share of its largest eigenvalue, of a
combination as a share of its trace."""

DUPLICATE = {np.dtype(np.float64): COINCIDE, np.dtype(np.float32): 1e-6}
"""How far two kernels may differ, up to scale, and be taken for one."""

RANK_CUTS = (1e-10, 1e-12, 1e-14)
"""Shares of its largest eigenvalue below which a combined kernel counts as zero, tried in turn."""

JITTER = 1e-9
"""Share of its mean diagonal that a kernel at landmarks gets: it may have no inverse."""

HALF_DIGITS = 1e-8
"""What is left of a sum of which all but this share cancels, or an eigenvector whose eigenvalue is
below this share of the largest, has half of its digits at most."""

VARIES = 1e-6
"""A derivative that is below this share of its terms says that nothing changes."""

# --- of machines --------------------------------------------------------------------------------

TIGHTEST = 1e-14
"""No machine is asked for a smaller relative gap."""

SQUARED_TOL = 1e-13
"""Where a bound errs by the root of a gap, no gap below this is asked for."""

SOFT = 1e-10
"""Ridge, as a share of the mean diagonal, that keeps nearly singular systems solvable."""

SOFT_EXACT = 1e-14
"""The same where a direction has to be exact, not only an ascent."""

FREE = 1e-10
"""A variable this near to a bound, as a share of the largest variable, is at the bound."""

SLACK = 1e-11
"""In a hard margin, a slack below this share of the largest decision value is none."""

TIE = 1e-12
"""Sums of bounds this near to each other are equal."""

SHOWS = 1e-6
"""Share of a primal value from which on it is worth to make up for rounding in f."""

LARGEST_ENTRY = 1e4
"""No diagonal entry of a kernel is this large in standard units, unless rows differ wildly."""

# --- of weights and scores ----------------------------------------------------------------------

IN_SET = 1e-8
"""How far outside of their set weights may be that a user gives."""

INSIDE = 1e-9
"""Below this share an interior point method leaves what is zero."""

SAME_SCORE = 1e-9
"""Scores, and shares of rows, that differ by this share or less are the same."""

# --- of certificates ----------------------------------------------------------------------------

LAST = 64.0 * EPS
"""What the last few sums and products of a bound may have lost, as a share of their sizes."""

LITTLE = 1e-9
"""Share of the primal that a charge for rounding may take without a second look."""

FINER = 1e-2
"""How much smaller errors are in extended precision, at least."""

NOTICED = 1e-2
"""Share of the tolerance from which on rounding is worth extended precision."""

# --- of interior point methods and programs -----------------------------------------------------

MASTER_PATH, MASTER_RESIDUAL = 1e-13, 1e-11
"""Where the interior point method of the master problem ends: products, and residuals."""

LOST_PIVOT = 1e-15
"""A pivot below this share of its diagonal is lost to rounding."""

ENTER = 1e-12
"""Kernels enter the master problem if that lowers it by this share, and leave below it."""

LEAST_PROXIMAL = 1e-9
"""The least proximal weight of the master problem, as a share of the largest slope."""

LP_FEASIBILITY = 1e-10
"""Feasibility asked of linear programs."""

LP_SMALLEST = 1e-12
"""The smallest entry that a linear program may have; ten times that is what it gets. Absolute."""

CONE_ACCURACY = (1e-10, 1e-6)
"""The least and the greatest accuracy asked of a conic solver, and of machines inside a path."""

CONE_ACCURACY_FINE = (1e-12, 1e-6)
"""The same where weights are read off its multipliers."""
