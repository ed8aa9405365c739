"""Parzen windows with a kernel aligned with the labels [lanckriet2004, §6.1].

    f(x) = (1/n) Σ_i y_i k(x_i, x)

over the n rows with labels; a row is of the class of its sign. No machine is trained: the kernel is
all there is to learn. Over the rows with labels

    (1/n) Σ_i y_i f(x_i) = yᵀKy/n² = A(K, yyᵀ)·‖K‖/n,    A the alignment [eq. 7],

so that of kernels of the same size the one that is aligned best has the largest mean margin. The
experiments that the paper points to take kernels of single eigenvectors, for which the alignment is
a quadratic program (54); ``learn(learner="alignment")`` finds the weights of any.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_nonnegative
from kernelweave._core.types import Array
from kernelweave.problems.losses import check_labels
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.protocol import Stack


def parzen_windows(K: ArrayLike | Stack, y: ArrayLike, weights: ArrayLike) -> Array:
    """f of all rows, those without a label (y = 0) included, under Σ_m weights_m K_m.

    Parameters
    ----------
    K : array (m, n, n) or stack
        Kernels on all rows.
    y : array (n,)
        Labels -1 and +1, and 0 for rows without one.
    weights : array (m,)
        Such as those of ``learn(K, y, learner="alignment")``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import learn
    >>> from kernelweave.papers.lanckriet2004.parzen import parzen_windows
    >>> x = np.linspace(-1.0, 1.0, 9)
    >>> K = np.stack([np.outer(x, x), np.ones((9, 9))])
    >>> y = np.sign(x) * (np.abs(x) > 0.4)  # the three in the middle have no label
    >>> weights = learn(K, y, learner="alignment").weights
    >>> np.sign(parzen_windows(K, y, weights)[3:6]).tolist()
    [-1.0, 0.0, 1.0]
    """
    stack = as_stack(K)
    labels = check_labels(y, stack.n, partly=True)
    d = check_nonnegative("weights", weights, stack.m)
    f: Array = stack.combined(d) @ labels
    return f / np.count_nonzero(labels)
