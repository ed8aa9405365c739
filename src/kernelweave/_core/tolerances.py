"""Numbers that stand for rounding and for "as good as zero", each with its meaning.

Tolerances of optimization are arguments (``tol``); those here say what double precision leaves.
All are relative unless they say otherwise.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)
"""The distance from 1 to the next number."""

TINY = 1e-300
"""Stands for zero where something is divided by it. Absolute."""

ROUNDING = 1e-15
"""Steps and gains below this share are rounding."""

FLAT = 1e-13
"""Curvature below this share of the diagonal counts as none."""

SOFT = 1e-10
"""Ridge, as a share of the mean diagonal, that keeps nearly singular systems solvable."""

SOFT_EXACT = 1e-14
"""The same where a direction has to be exact, not only an ascent."""

CONSTANT = 1e-12
"""A kernel whose centered trace is below this share of its trace is constant."""

TIGHTEST = 1e-14
"""No machine is asked for a smaller relative gap."""

LEAST_PROXIMAL = 1e-9
"""The least proximal weight of the master problem, as a share of the largest slope."""

STIFF = 1e-12
"""Curvature of the regularized machine below this share of the largest is left to the rest."""

SQUARED_TOL = 1e-13
"""Where a bound errs by the root of a gap, no gap below this is asked for."""

TRACE_ROUNDING = 1e-14
"""How exactly a sum of signed weights is known, as a share of their sizes."""

MASTER_PATH, MASTER_RESIDUAL = 1e-13, 1e-11
"""Where the interior point method of the master problem ends: products, and residuals."""

LOST_PIVOT = 1e-15
"""A pivot below this share of its diagonal is lost to rounding."""

ENTER = 1e-10
"""Kernels enter the master problem if that lowers it by this share, and leave below it."""
