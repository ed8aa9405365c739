"""All that most experiments need, under one name: ``from benchmarks.harness import common``."""
# ruff: noqa: F401

from benchmarks.harness.folders import output_folder
from benchmarks.harness.judging import accuracy, certify, fit, judge, rival_gap, sparsity
from benchmarks.harness.markdown_tables import mean, ms, short, standard_error, table
from benchmarks.harness.paired_methods import Comparison, corrected_t_test
from benchmarks.harness.paper_data import (
    WIDTHS,
    Split,
    breast_cancer,
    fetch,
    fit_bank,
    gai_kernels,
    half,
    load,
    matrices,
    rakoto_bank,
    rakoto_kernels,
    random_stack,
    sample,
    standardize,
)
from benchmarks.harness.rival_cones import FORMS, LADDER, certified_cone, factors, solve_cone
from benchmarks.harness.rival_svc import certified_loop, cutting_planes, svc, svc_coef
from benchmarks.harness.runner import Results, arguments, warm_up
from benchmarks.harness.skipped import Skipped, need
from benchmarks.harness.timing import TimeUp, exponent, overhead, race, spread, time_limit
