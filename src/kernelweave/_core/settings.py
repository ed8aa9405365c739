"""How much is done at a time, and from which size on another way is faster: ``SETTINGS``.

The numbers suit usual machines: caches of some megabytes, cores that share their memory. None
changes a result by more than rounding, but for the number of draws. A process may set them:

    >>> from kernelweave._core.settings import SETTINGS
    >>> SETTINGS.computed = 2**19

Numbers that stand for rounding are in ``tolerances.py``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """Sizes of the work; attributes may be set at any time."""

    # at a time
    computed: int = 2**21  # entries of kernels that are computed: 16 MB
    block: int = 2**20  # numbers of an array that are widened or weighted
    tile_columns: int = 2**14  # of a tile of kernels on a device
    rows: int = 256  # rows of a kernel that are looked at together
    table_rows: int = 20_000  # rows of a file that are read

    tiny: int = 2**25  # bytes for which there is always memory: nobody asks the system

    # from where on another way is faster
    worth_threads: int = 2**22  # numbers read, below which threads cost more than they save
    lapack_rows: int = 1000  # up to here LAPACK, whose threads wait for each other, gains little
    blas_rows: int = 10_000  # up to here BLAS has one thread unless n_jobs asks for more
    dense_share: float = 1 / 6  # of numbers that are not zero: above it dense products are faster
    wide: int = 100  # kernels from which on a system of the order of the cuts pays
    exact_pass: int = 2**28  # entries of exact kernels that are computed to judge approximations

    # where matrices are large
    one_matrix: int = 2**28  # bytes of matrices from which on kernels are generated
    most_matrices: int = 2**31  # bytes of matrices that are kept if generating them takes longer
    wide_matrix: int = 2**27  # bytes up to which the array of generated kernels is float64
    device_rows: int = 5000  # from which on device="auto" takes a GPU
    factored_rows: int = 2000  # free variables whose block is factored for a Hessian
    copied: int = 2**30  # bytes of rows in play that are copied apart, or a quarter of the array
    sample_least: int = 1000  # rows of a sample of an array: below this nothing is saved

    # where no matrix of all rows fits: known to solvers, and to the forecast of what they take
    chunk_rows: int = 2000  # of a chunk, whose block takes 32 MB; more where more rows are free
    chunk_most: int = 10_000  # whose block takes 800 MB, if memory is left for it
    free_rows: int = 4000  # free variables whose block is fetched for a Hessian: 128 MB
    sample_rows: int = 4000  # of a first fit on a sample
    sample_rows_of_factors: int = 20_000
    sample_times: int = 4  # times as many rows there must be for a sample to be worth it

    # what users see
    pictures: float = 0.1  # seconds between two pictures of a bar
    permutations: int = 100  # shuffles of each view that select_views makes, or more if need be


SETTINGS = Settings()
