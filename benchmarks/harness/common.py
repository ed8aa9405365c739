"""All that an experiment needs, under one name; import it before numpy.

It fixes the number of threads at one, for BLAS and for ours, and gathers the parts: ``datasets``,
``objective`` (what an answer is worth), ``solvers`` and ``conic`` (ours and rivals), ``runner``
(timing and results) and ``report`` (tables, comparison with papers).
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

from conic import FORMS, LADDER, certified_cone, factors, solve_cone
from datasets import (
    WIDTHS,
    Skipped,
    Split,
    fetch,
    fit_bank,
    gai_kernels,
    half,
    load,
    matrices,
    rakoto_bank,
    rakoto_kernels,
    sample,
    standardise,
)
from objective import accuracy, certify, judge, rival_gap, sparsity
from report import Comparison, corrected_t_test, mean, ms, short, standard_error, table
from runner import HERE, Results, arguments, environment, race, spread, warm_up
from solvers import (
    TimeUp,
    certified_loop,
    cutting_planes,
    fit,
    need,
    svc,
    svc_coef,
    time_limit,
)
