"""What kernel stacks promise, as checks that take a factory and a tolerance.

``PROTOCOL`` is what solvers ask of every stack (``kernelweave.stacks.protocol``); ``CHECKS`` are
these and what ``KernelStack`` promises besides. ``make(K)`` hands back the stack under test, the
(m, n, n) array that it stands for (K, or K and what the stack adds to it, or other kernels of that
shape), and how large the numbers are that each entry is computed from: ``np.abs`` of that array
where entries are kept as they are. ``rtol`` bounds the error against NumPy on that array, relative
to the largest entry of the expected result or to these sizes. Run them with

    @pytest.mark.parametrize("check", PROTOCOL, ids=lambda check: check.__name__)
    def test_contract(check):
        check(make, rtol)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.protocol import OPTIONAL, REQUIRED, NotDense

Make = Callable[[np.ndarray], tuple[Any, np.ndarray, np.ndarray]]

# One kernel and several, fewer and more than four, one point, odd sizes, more than one block.
SHAPES = [(1, 1), (1, 9), (3, 2), (4, 5), (6, 23), (9, 40), (1, 530), (5, 300)]


def grams(m: int, n: int, seed: int = 0) -> np.ndarray:
    """m Gram matrices of rank 1 to n with scales 0.01 to 100, exactly symmetric."""
    rng = np.random.default_rng(seed)
    K = np.empty((m, n, n))
    for k in range(m):
        X = rng.standard_normal((n, min(n, 1 + 3 * k)))
        K[k] = X @ X.T * 10.0 ** (k % 5 - 2)
        K[k] = (K[k] + K[k].T) / 2
    return K


def vectors(n: int) -> list[np.ndarray]:
    """Dense, half zeros, one tenth non-zeros, one non-zero and none."""
    rng = np.random.default_rng(n)
    result = []
    for share in (1.0, 0.5, 0.1):
        v = rng.standard_normal(n)
        v[rng.permutation(n)[round(share * n) :]] = 0.0
        result.append(v)
    return [*result, np.eye(n)[n // 2], np.zeros(n)]


def some_weights(m: int) -> list[np.ndarray]:
    """All kernels, signed, every other one, one with weight 1, one with another, none."""
    rng = np.random.default_rng(m)
    dense = rng.random(m) + 0.1
    one = np.eye(m)[m // 2]
    return [dense, dense - 0.6, dense * (np.arange(m) % 2), one, 0.3 * one, np.zeros(m)]


def some_rows(n: int) -> list[np.ndarray]:
    """One, the ends and the middle, one twice, all, none."""
    chosen = ([0], [n - 1, 0, n // 2], [0, 0], range(n), [])
    return [np.array(rows, np.intp) for rows in chosen]


def within(found: Any, expected: np.ndarray, rtol: float, scale: Any = None) -> None:
    """|found − expected| ≤ rtol · scale; the scale is the largest expected entry by default."""
    assert found.dtype == np.float64 and found.flags.c_contiguous
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0.0) if scale is None else scale
    excess = np.abs(found - expected) - rtol * scale
    assert np.all(excess <= 0), f"off by {excess.max()} more than {rtol} · {scale}"


def largest(weights: np.ndarray, sizes: np.ndarray) -> float:
    """What the largest entry of Σ_k w_k K_k may be computed from."""
    return float(np.tensordot(abs(weights), sizes, 1).max())


def made(make: Make, K: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """The stack as solvers see it: completed, where it keeps part of the protocol."""
    stack, K, sizes = make(K)
    return as_stack(stack), K, sizes


def cases(make: Make) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Stacks of all shapes, each with the matrices it stands for and their sizes."""
    for m, n in SHAPES:
        yield made(make, grams(m, n))


def sums(make: Make) -> Iterator[tuple[Any, np.ndarray, float]]:
    """Combined kernels of all shapes and weights, each with the matrix it stands for."""
    for stack, K, sizes in cases(make):
        for weights in some_weights(len(K)):
            yield stack.combined(weights), np.tensordot(weights, K, 1), largest(weights, sizes)


def checks() -> list[Callable[[Make, float], None]]:
    """All checks so far."""
    return [value for name, value in globals().items() if name.startswith("check_")]


# --- of every stack ---------------------------------------------------------------------------


def check_size(make: Make, rtol: float) -> None:
    for stack, K, _ in cases(make):
        assert (stack.m, stack.n) == K.shape[:2]
        assert type(stack.m) is int and type(stack.n) is int
        assert stack.precision in (np.float32, np.float64)
        assert all(hasattr(stack, name) for name in (*REQUIRED, *OPTIONAL))


def check_block(make: Make, rtol: float) -> None:
    for stack, K, sizes in cases(make):
        for rows in some_rows(K.shape[1]):
            for columns in some_rows(K.shape[1]):
                for kernel in {0, len(K) // 2, len(K) - 1}:
                    chosen = np.ix_(rows, columns)
                    found = stack.block(kernel, rows, columns)
                    within(found, K[kernel][chosen], rtol, sizes[kernel][chosen])


def check_diagonals_and_traces(make: Make, rtol: float) -> None:
    for stack, K, sizes in cases(make):
        diagonals, scale = np.einsum("kii->ki", K), np.einsum("kii->ki", sizes)
        within(stack.diagonals(), diagonals, rtol, scale=scale)
        within(stack.traces(), diagonals.sum(axis=1), rtol, scale=scale.sum(axis=1))


def check_combined(make: Make, rtol: float) -> None:
    """As an array where there is one, refused where there is none: never in between."""
    for stack, K, sizes in cases(make):
        kinds = set()
        for weights in some_weights(len(K)):
            combined, expected = stack.combined(weights), np.tensordot(weights, K, 1)
            assert combined.n == K.shape[1] and type(combined.n) is int
            kinds.add(combined.is_dense)
            if not combined.is_dense:
                with pytest.raises(NotDense):
                    combined.dense()
                continue
            found = combined.dense()
            assert type(found) is np.ndarray and found.dtype in (np.float32, np.float64)
            assert found.flags.c_contiguous and not found.flags.writeable
            size = max(abs(expected).max(), largest(weights, sizes))
            within(found.astype(float), expected, rtol, size)
        assert len(kinds) == 1 and kinds <= {True, False}


def check_combined_of_one_kernel(make: Make, rtol: float) -> None:
    stack, K, sizes = made(make, grams(6, 23))
    every = np.arange(23)
    for matrix, size, one in zip(K, sizes, np.eye(len(K)), strict=True):
        within(stack.combined(one).block(every, every), matrix, rtol, scale=size.max())
        twice = stack.combined(-2 * one).block(every, every)
        within(twice, -2 * matrix, rtol, scale=2 * size.max())


def check_combined_rows(make: Make, rtol: float) -> None:
    for combined, expected, size in sums(make):
        for places in some_rows(combined.n):
            within(combined.rows(places), expected[places], rtol, scale=size)


def check_combined_blocks(make: Make, rtol: float) -> None:
    for combined, expected, size in sums(make):
        for rows in some_rows(combined.n):
            for columns in some_rows(combined.n):
                found = combined.block(rows, columns)
                within(found, expected[np.ix_(rows, columns)], rtol, scale=size)


def check_combined_diagonal(make: Make, rtol: float) -> None:
    for combined, expected, size in sums(make):
        within(combined.diagonal(), np.diagonal(expected), rtol, scale=size)


def check_combined_products(make: Make, rtol: float) -> None:
    for combined, expected, size in sums(make):
        for v in vectors(combined.n):
            within(combined @ v, expected @ v, rtol, scale=size * abs(v).sum())


def check_combined_quick_products(make: Make, rtol: float) -> None:
    """As exact as they are asked to be; some rows of a product are those of the whole one."""
    for combined, expected, size in sums(make):
        V = np.column_stack(vectors(combined.n)[:2])
        for accuracy in (1e-1, 1e-4):
            found = combined.quick_product(V, accuracy)
            within(found, expected @ V, 1.0, rtol * size * abs(V).sum() + accuracy * size)
        for rows in some_rows(combined.n):
            found = combined.products_at(rows, V[:, 0])
            within(found, (expected @ V[:, 0])[rows], rtol, size * abs(V[:, 0]).sum())


def check_combined_parts(make: Make, rtol: float) -> None:
    """Some points of a combined kernel; a ridge of its own makes points differ that come twice."""
    for combined, expected, size in sums(make):
        every = np.arange(combined.n)
        for rows in (every[::-2].copy(), every[: combined.n // 2 + 1]):
            part, matrix = combined.restrict(rows), expected[np.ix_(rows, rows)]
            v, places = vectors(rows.size)[0], np.arange(rows.size)
            assert part.n == rows.size and part.is_dense == combined.is_dense
            within(part.block(places, places), matrix, rtol, size)
            within(part.diagonal(), np.diagonal(matrix), rtol, size)
            within(part @ v, matrix @ v, rtol, size * abs(v).sum())
            if part.is_dense:
                within(part.dense().astype(float), matrix, rtol, size)
            if (found := part.factor()) is not None:
                F = found[0].array()
                within(F @ F.T + found[1] * np.eye(rows.size), matrix, rtol, size)


def check_combined_landmarks(make: Make, rtol: float) -> None:
    """FFᵀ has all of the diagonal but for what is told, and what it leaves is semidefinite."""
    stack, K, sizes = made(make, grams(6, 23))
    w = some_weights(stack.m)[0]
    combined, expected = stack.combined(w), np.tensordot(w, K, 1)
    for rank in (5, 23):
        F, rest = combined.landmark_factor(rank, 0)
        array = F.array()
        assert F.shape == array.shape and len(array) == 23
        assert F.shape[1] == rank or not rest.any()
        whole = np.einsum("ir,ir->i", array, array) + rest
        size = largest(w, sizes)
        within(whole, np.diagonal(expected), 1.0, max(rtol, 1e-8) * size)
        assert np.linalg.eigvalsh(expected - array @ array.T)[0] >= -1e-5 * size


def check_combined_factor(make: Make, rtol: float) -> None:
    """FFᵀ + τI is K(d), wherever there is such a factor, and its methods are those of FFᵀ."""
    for combined, expected, size in sums(make):
        found = combined.factor()
        if found is not None:
            F, tau = found[0].array(), found[1]
            assert F.shape == found[0].shape and len(F) == combined.n and isinstance(tau, float)
            within(F @ F.T + tau * np.eye(combined.n), expected, rtol, scale=size)
            _check_factor(found[0], F, rtol)


def _check_factor(factor: Any, F: np.ndarray, rtol: float) -> None:
    (n, R), rng, top = F.shape, np.random.default_rng(0), np.abs(F).max(initial=0.0)
    rows, V, weights = np.arange(n)[::-2], rng.standard_normal((n, 2)), rng.random(n)
    Z = rng.standard_normal((R, 2))
    within(factor.array(rows), F[rows], rtol, top)
    within(factor.take(rows).array(), F[rows], rtol, top)
    within(factor.sizes(), (F**2).sum(axis=1), rtol, R * top**2)
    within(factor.gram(weights), (F.T * weights) @ F, rtol, n * top**2)
    inverse = np.linalg.inv(np.eye(R) + (F.T * weights) @ F)
    found = factor.inverse(weights)
    within(np.ascontiguousarray(found(Z)), inverse @ Z, 100 * rtol, (1 + n * top**2) * abs(Z).sum())
    for v, z in ((V, Z), (V[:, 0], Z[:, 0])):
        within(factor.onto(v), F.T @ v, rtol, top * abs(V).sum())
        within(factor.times(z), F @ z, rtol, top * abs(Z).sum())


def check_combined_solver(make: Make, rtol: float) -> None:
    """Wherever a kernel solves systems of its own, A⁻¹ is that of its blocks; MᵀM = A⁻¹."""
    for combined, _, size in sums(make):
        if combined.n < 3:
            continue
        rows = np.arange(combined.n)[::-2]
        ridge = np.linspace(1.0, 2.0, rows.size) * max(size, 1.0)
        found = combined.solver(rows, ridge)
        if found is None:
            continue
        A = combined.block(rows, rows) + np.diag(ridge)
        inverse = np.linalg.inv(A)
        for B in (np.ones(rows.size), np.eye(rows.size)):
            scale = abs(inverse) @ abs(A) @ abs(inverse) @ abs(B)
            within(np.ascontiguousarray(found.solve(B)), inverse @ B, 100 * rtol, scale)
            half, other = found.half(B), found.half(np.eye(rows.size))
            within(np.ascontiguousarray(other.T @ half), inverse @ B, 100 * rtol, scale)


def check_combined_blocks_are_new(make: Make, rtol: float) -> None:
    """Solvers write into them."""
    stack, K, _ = made(make, grams(6, 23))
    places = np.arange(23)
    for weights in some_weights(len(K)):
        combined = stack.combined(weights)
        first = combined.block(places, places)
        kept = first.copy()
        first[:] = np.nan
        np.testing.assert_array_equal(combined.block(places, places), kept)


def check_quad_forms(make: Make, rtol: float) -> None:
    for stack, K, sizes in cases(make):
        m, n = K.shape[:2]
        for v in vectors(n):
            expected, scale = K @ v @ v, sizes @ abs(v) @ abs(v)
            within(stack.quad_forms(v), expected, rtol, scale)
            for kernels in ([m - 1], [0], np.arange(m)[::-1], np.arange(0, m, 2), []):
                places = np.array(kernels, np.intp)
                within(stack.quad_forms(v, places), expected[places], rtol, scale[places])


def check_quad_forms_are_gradients(make: Make, rtol: float) -> None:
    """Σ_k w_k vᵀK_k v = vᵀ(Σ_k w_k K_k)v."""
    stack, K, sizes = made(make, grams(6, 23))
    for v in vectors(23):
        for weights in some_weights(len(K)):
            scale = abs(v) @ np.tensordot(abs(weights), sizes, 1) @ abs(v)
            together = v @ (stack.combined(weights) @ v)
            assert abs(weights @ stack.quad_forms(v) - together) <= 4 * rtol * scale


def check_matvecs(make: Make, rtol: float) -> None:
    for stack, K, sizes in cases(make):
        m, n = K.shape[:2]
        every, everywhere = np.arange(m), np.arange(n)
        for v in vectors(n):
            expected, scale = K @ v, sizes @ abs(v)
            for rows in (None, everywhere[-1:], everywhere[::-2], everywhere[:3], everywhere[:0]):
                for kernels in (None, every[[-1, 0]], every, every[:0]):
                    found = stack.matvecs(v, rows, kernels)
                    chosen = np.ix_(
                        every if kernels is None else kernels, everywhere if rows is None else rows
                    )
                    within(found, expected[chosen], rtol, scale[chosen])


def check_matvecs_and_quad_forms_agree(make: Make, rtol: float) -> None:
    stack, _, sizes = made(make, grams(6, 23))
    for v in vectors(23):
        within(stack.matvecs(v) @ v, stack.quad_forms(v), 2 * rtol, sizes @ abs(v) @ abs(v))


def check_every_kind_of_index(make: Make, rtol: float) -> None:
    """Lists, slices, masks and places from the end choose what integers do."""
    stack, K, _ = made(make, grams(6, 23))
    m = len(K)
    combined, v = stack.combined(some_weights(m)[0]), vectors(23)[0]
    for rows in ([22, 0, 11], slice(1, 23), slice(0, 0), [-1], [], np.arange(23) < 3):
        places = np.arange(23)[rows]
        np.testing.assert_array_equal(combined.rows(rows), combined.rows(places))
        np.testing.assert_array_equal(combined.block(rows, rows), combined.block(places, places))
        np.testing.assert_array_equal(stack.matvecs(v, rows), stack.matvecs(v, places))
    for kernels in ([m - 1, 0], slice(0, m), slice(2, 5), [-1], [], np.arange(m) % 2 == 0):
        places = np.arange(m)[kernels]
        np.testing.assert_array_equal(stack.quad_forms(v, kernels), stack.quad_forms(v, places))
        np.testing.assert_array_equal(
            stack.matvecs(v, kernels=kernels), stack.matvecs(v, kernels=places)
        )


def check_symmetric(make: Make, rtol: float) -> None:
    """Rows are summed in the place of columns: nobody else sees to it that they are alike."""
    for stack, _, _ in cases(make):
        every, units = np.arange(stack.n), stack.units
        few = (4 + stack.units.operations) * np.finfo(float).eps
        for k in range(stack.m):
            found = stack.block(k, every, every)
            s = np.sqrt(np.maximum(np.diagonal(found), 0.0))
            assert (abs(found - found.T) <= few * np.outer(s, s)).all()
            half = stack.block(k, every[::2], every[1::2])  # entries do not depend on the block
            other = stack.block(k, every[1::2], every[::2]).T
            assert (abs(half - other) <= few * np.outer(s[::2], s[1::2])).all()
        s = np.sqrt(np.maximum(stack.diagonals(), 0.0))
        for v, w in zip(vectors(stack.n), vectors(stack.n)[1:], strict=False):
            unit = units.of(2 * stack.n + stack.units.operations + 16)
            apart = stack.matvecs(v) @ w - stack.matvecs(w) @ v
            assert (abs(apart) <= 2 * unit * (s @ abs(v)) * (s @ abs(w))).all()


def check_precision_is_as_claimed(make: Make, rtol: float) -> None:
    """Passes are within (terms·sum_eps + entry_eps)·s_i Σ s_j|v_j| of what blocks say."""
    stack, _, _ = made(make, grams(6, 23))
    units, every, entries = stack.units, np.arange(23), stack.units.operations
    assert units.fine <= 1e4 * np.finfo(float).eps  # where centering takes much off
    K = np.stack([stack.block(k, every, every) for k in range(stack.m)]).astype(np.longdouble)
    s = np.sqrt(np.maximum(np.einsum("kii->ki", K), 0.0))
    for v in vectors(23):
        sizes = s * (s @ abs(v))[:, None]
        unit = units.of(np.count_nonzero(v) + entries + 16)
        assert (abs(stack.matvecs(v) - K @ v) <= unit * sizes).all()
        unit = units.of(2 * np.count_nonzero(v) + entries + 16)
        assert (abs(stack.quad_forms(v) - K @ v @ v) <= unit * (s @ abs(v)) ** 2).all()
        for k in range(stack.m):
            fine = stack.fine_product(k, every, every, v.astype(np.longdouble))
            share = 40 * units.fine + (1 + entries) * np.finfo(float).eps
            assert (abs(fine - K[k] @ v) <= share * sizes[k]).all()
    for d in some_weights(stack.m):
        unit = units.of(23 + np.count_nonzero(d) * (1 + entries) + 16)
        root = np.sqrt(abs(d) @ s**2)
        v = vectors(23)[0]
        error = abs(stack.combined(d) @ v - np.tensordot(d, K, 1) @ v)
        assert (error <= unit * root * (root @ abs(v))).all()


def check_restrict(make: Make, rtol: float) -> None:
    """Restricting and then combining is combining and then restricting."""
    stack, K, sizes = made(make, grams(6, 23))
    for rows in ([22, 0, 5], np.arange(23) > 9, slice(4, 17), slice(None), [-1]):
        _check_part(stack, K, sizes, rows, rtol)


def check_restrict_to_repeats(make: Make, rtol: float) -> None:
    stack, K, sizes = made(make, grams(6, 23))
    for rows in ([3, 3, 3], [7, 0, 7]):
        _check_part(stack, K, sizes, rows, rtol)


def _check_part(stack: Any, K: np.ndarray, sizes: np.ndarray, rows: Any, rtol: float) -> None:
    part, v = stack.restrict(rows), vectors(23)[0][rows]
    expected, scale = K[:, rows][:, :, rows], sizes[:, rows][:, :, rows]
    everywhere = np.arange(part.n)
    assert (part.m, part.n) == expected.shape[:2]
    assert part.precision == stack.precision
    for weights in some_weights(len(K)):
        found = part.combined(weights).block(everywhere, everywhere)
        size = largest(weights, sizes)
        within(found, np.tensordot(weights, expected, 1), rtol, scale=size)
        whole = stack.combined(weights).block(np.arange(23), np.arange(23))
        within(found, whole[rows][:, rows], rtol, scale=size)
    for kernel in range(len(K)):
        within(part.block(kernel, everywhere, everywhere), expected[kernel], rtol, scale[kernel])
    diagonals = np.einsum("kii->ki", expected)
    within(part.diagonals(), diagonals, rtol, np.einsum("kii->ki", scale))
    within(part.traces(), diagonals.sum(axis=1), rtol, np.einsum("kii->k", scale))
    within(part.matvecs(v), expected @ v, rtol, scale @ abs(v))
    within(part.quad_forms(v), expected @ v @ v, rtol, scale @ abs(v) @ abs(v))


def check_select(make: Make, rtol: float) -> None:
    stack, K, sizes = made(make, grams(6, 23))
    v, every = vectors(23)[1], np.arange(23)
    whole, odd = np.arange(len(K)), np.arange(len(K)) % 2 == 1
    for kernels in ([5, 0], slice(2, 5), odd, whole, slice(None), [0, -1], [-1], [1, 1]):
        part, expected, scale = stack.select(kernels), K[kernels], sizes[kernels]
        assert (part.m, part.n) == expected.shape[:2]
        assert part.precision == stack.precision
        ones = np.ones(part.m)
        found = part.combined(ones).block(every, every)
        within(found, expected.sum(axis=0), rtol, scale=largest(ones, scale))
        for kernel in range(part.m):
            within(part.block(kernel, every, every), expected[kernel], rtol, scale[kernel])
        diagonals = np.einsum("kii->ki", expected)
        within(part.diagonals(), diagonals, rtol, np.einsum("kii->ki", scale))
        within(part.traces(), diagonals.sum(axis=1), rtol, np.einsum("kii->k", scale))
        quads = scale @ abs(v) @ abs(v)
        within(part.quad_forms(v), stack.quad_forms(v, kernels), rtol, quads)
        within(part.matvecs(v), expected @ v, rtol, scale @ abs(v))


def check_views_of_views(make: Make, rtol: float) -> None:
    """Rows of rows and kernels of kernels, in either order."""
    stack, K, sizes = made(make, grams(6, 23))
    rows, fewer, kernels = np.arange(23)[::-2], np.array([4, 0, 9]), np.array([4, 0])
    at = np.ix_(kernels, rows[fewer], rows[fewer])
    everywhere, ones = np.arange(3), np.ones(2)
    for part in (
        stack.restrict(rows).restrict(fewer).select(kernels),
        stack.select(kernels).restrict(rows).restrict(fewer),
        stack.restrict(rows).select([4, 2, 0]).select([0, 2]).restrict(fewer),
    ):
        found = part.combined(ones).block(everywhere, everywhere)
        within(found, K[at].sum(axis=0), rtol, scale=largest(ones, sizes[at]))


def check_threaded(make: Make, rtol: float) -> None:
    """However many threads, the same bits."""
    stack, _, _ = made(make, grams(6, 23))
    expected = outputs(stack)
    for n_jobs in (None, 1, 2, -1):
        assert same(outputs(stack.threaded(n_jobs)), expected)


def check_arguments_are_left_alone(make: Make, rtol: float) -> None:
    """Lists, integers, read-only and strided vectors do; none is written to."""
    stack, K, sizes = made(make, grams(6, 23))
    v, everywhere = vectors(23)[0], np.arange(23)
    frozen = v.copy()
    frozen.flags.writeable = False
    strided = np.repeat(v, 2)[::2]
    for alike in (list(v), frozen, strided):
        within(stack.quad_forms(alike), stack.quad_forms(v), rtol, sizes @ abs(v) @ abs(v))
        within(stack.matvecs(alike), stack.matvecs(v), rtol, sizes @ abs(v))
    np.testing.assert_array_equal(strided, v)
    ones = [stack.combined(weights) for weights in ([1] * len(K), np.ones(len(K)))]
    found, expected = (combined.block(everywhere, everywhere) for combined in ones)
    np.testing.assert_array_equal(found, expected)


def check_results_do_not_share(make: Make, rtol: float) -> None:
    """A result handed out earlier stays as it was."""
    stack, _, _ = made(make, grams(6, 23))
    w, v, places = some_weights(stack.m), vectors(23), np.array([3, 4])
    calls: list[Callable[[int], Any]] = [
        lambda i: stack.combined(w[i]).rows(places),
        lambda i: stack.combined(w[i]).block(places, places),
        lambda i: stack.combined(w[i]).diagonal(),
        lambda i: stack.combined(w[i]) @ v[0],
        lambda i: stack.combined(w[0]) @ v[i],
        lambda i: stack.block(i, places, places),
        lambda i: stack.quad_forms(v[i]),
        lambda i: stack.matvecs(v[i]),
    ]
    if stack.combined(w[0]).is_dense:
        calls.append(lambda i: stack.combined(w[i]).dense())
    _stay_as_they_were(calls)


def _stay_as_they_were(calls: list[Callable[[int], Any]]) -> None:
    for call in calls:
        first = call(0)
        kept = first.copy()
        call(1)
        np.testing.assert_array_equal(first, kept)


def outputs(stack: Any) -> list[np.ndarray]:
    """One of everything a stack computes."""
    results = [stack.traces(), stack.diagonals()]
    ends = np.array([0, stack.n - 1])
    for weights in some_weights(stack.m):
        combined = stack.combined(weights)
        results += [combined.rows(ends), combined.block(ends, ends[::-1]), combined.diagonal()]
        results += [combined @ v for v in vectors(stack.n)]
        results += [combined.dense()] if combined.is_dense else []
    for v in vectors(stack.n):
        results += [stack.quad_forms(v), stack.quad_forms(v, ends[:1]), stack.matvecs(v)]
        results += [stack.matvecs(v, rows=ends)]
    return results + [stack.block(kernel, ends, ends) for kernel in range(stack.m)]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def check_repeatable(make: Make, rtol: float) -> None:
    """The same call gives the same bits, from one thread or from several at once."""
    stack, _, _ = made(make, grams(9, 40))
    expected = outputs(stack)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: outputs(stack), range(8)):
            assert same(found, expected)


PROTOCOL = checks()


# --- of KernelStack besides -------------------------------------------------------------------


def dense_outputs(stack: Any) -> list[np.ndarray]:
    """One of everything that a ``KernelStack`` computes."""
    return outputs(stack) + [stack.combine(weights) for weights in some_weights(stack.m)]


def check_combine(make: Make, rtol: float) -> None:
    for stack, K, _ in cases(make):
        for weights in some_weights(len(K)):
            combined = stack.combine(weights)
            within(combined, np.tensordot(weights, K, 1), rtol)
            assert not combined.flags.writeable
            np.testing.assert_array_equal(stack.combined(weights).dense(), combined)


def check_combine_of_one_kernel(make: Make, rtol: float) -> None:
    stack, K, _ = made(make, grams(6, 23))
    for matrix, one in zip(K, np.eye(len(K)), strict=True):
        within(stack.combine(one), matrix, rtol, scale=abs(matrix).max())
        within(stack.combine(-2 * one), -2 * matrix, rtol, scale=2 * abs(matrix).max())


def check_quad_forms_are_gradients_of_combine(make: Make, rtol: float) -> None:
    """Σ_k w_k vᵀK_k v = vᵀ(Σ_k w_k K_k)v."""
    stack, K, _ = made(make, grams(6, 23))
    for v in vectors(23):
        for weights in some_weights(len(K)):
            scale = abs(v) @ np.tensordot(abs(weights), abs(K), 1) @ abs(v)
            together = v @ stack.combine(weights) @ v
            assert abs(weights @ stack.quad_forms(v) - together) <= 4 * rtol * scale


def check_combine_does_not_share(make: Make, rtol: float) -> None:
    """A result handed out earlier stays as it was."""
    stack, _, _ = made(make, grams(6, 23))
    w = some_weights(stack.m)
    _stay_as_they_were([lambda i: stack.combine(w[i])])


def check_sizes_cannot_be_set(make: Make, rtol: float) -> None:
    stack, _, _ = made(make, grams(3, 4))
    for name in ("m", "n", "dtype", "n_jobs"):
        with pytest.raises(AttributeError):
            setattr(stack, name, 7)


def check_diagonals_and_traces_are_kept(make: Make, rtol: float) -> None:
    stack, _, _ = made(make, grams(6, 23))
    for array in (stack.diagonals(), stack.traces()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert stack.diagonals() is stack.diagonals()
    assert stack.traces() is stack.traces()


def check_all_kinds_of_index(make: Make, rtol: float) -> None:
    """``block`` takes lists, slices, masks and places from the end, too."""
    stack, _, _ = made(make, grams(6, 23))
    for rows in ([22, 0, 11], slice(1, 23), slice(0, 0), [-1], [], np.arange(23) < 3):
        places = np.arange(23)[rows]
        np.testing.assert_array_equal(stack.block(4, rows, rows), stack.block(4, places, places))


def check_restrict_and_combine(make: Make, rtol: float) -> None:
    """Restricting and then combining is combining and then restricting."""
    stack, K, _ = made(make, grams(6, 23))
    for rows in ([22, 0, 5], [3, 3, 3], np.arange(23) > 9, slice(4, 17), slice(None), [-1]):
        part, expected = stack.restrict(rows), K[:, rows][:, :, rows]
        for weights in some_weights(6):
            within(part.combine(weights), np.tensordot(weights, expected, 1), rtol)
            whole = stack.combine(weights)
            within(part.combine(weights), whole[rows][:, rows], rtol, scale=abs(whole).max())
        within(part.diagonals(), np.einsum("kii->ki", expected), rtol)


def check_select_and_combine(make: Make, rtol: float) -> None:
    stack, K, _ = made(make, grams(6, 23))
    for kernels in ([5, 0], slice(2, 5), np.arange(6) % 2 == 1, np.arange(6), [-1], [1, 1]):
        part = stack.select(kernels)
        within(part.combine(np.ones(part.m)), K[kernels].sum(axis=0), rtol)
        within(part.diagonals(), np.einsum("kii->ki", K[kernels]), rtol)


def check_bad_arguments(make: Make, rtol: float) -> None:
    stack, _, _ = made(make, grams(3, 4))
    v, w = np.ones(4), np.ones(3)
    wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, "weights", lambda: stack.combine(v)),
        (ValueError, "weights", lambda: stack.combine(np.ones((3, 1)))),
        (ValueError, "weights", lambda: stack.combined(v)),
        (ValueError, "v", lambda: stack.quad_forms(w)),
        (ValueError, "v", lambda: stack.matvecs(w)),
        (IndexError, "rows", lambda: stack.block(0, [0.5], [0])),
        (IndexError, "rows", lambda: stack.block(0, [True, False], [0])),
        (IndexError, "rows", lambda: stack.block(0, 2, [0])),
        (IndexError, "rows", lambda: stack.block(0, [4], [0])),
        (IndexError, "columns", lambda: stack.block(0, [0], [4])),
        (IndexError, "rows", lambda: stack.matvecs(v, rows=[-5])),
        (IndexError, "kernels", lambda: stack.matvecs(v, kernels=[3])),
        (IndexError, "kernels", lambda: stack.quad_forms(v, kernels=[3])),
        (IndexError, "rows", lambda: stack.restrict([4])),
        (IndexError, "kernels", lambda: stack.select([[0]])),
        (ValueError, "rows", lambda: stack.restrict([])),
        (ValueError, "kernels", lambda: stack.select([])),
    ]
    for error, word, call in wrong:
        with pytest.raises(error, match=rf"\b{word}\b"):
            call()


def check_same_bits_for_every_layout(make: Make, rtol: float) -> None:
    """Lists, integers, read-only and strided vectors give the bits that others give."""
    stack, _, _ = made(make, grams(6, 23))
    v = vectors(23)[0]
    frozen = v.copy()
    frozen.flags.writeable = False
    for alike in (list(v), frozen, np.repeat(v, 2)[::2]):
        np.testing.assert_array_equal(stack.quad_forms(alike), stack.quad_forms(v))
        np.testing.assert_array_equal(stack.matvecs(alike), stack.matvecs(v))
    np.testing.assert_array_equal(stack.combine([1] * 6), stack.combine(np.ones(6)))


def check_same_bits_for_every_n_jobs(make: Make, rtol: float) -> None:
    for m, n in [(1, 530), (5, 300), (9, 40)]:
        stack, _, _ = made(make, grams(m, n))
        expected = dense_outputs(stack)
        for n_jobs in (1, 2, 3, -1):
            threaded = stack.threaded(n_jobs)
            assert threaded.n_jobs == n_jobs
            assert same(dense_outputs(threaded), expected)


def check_dense_outputs_repeatable(make: Make, rtol: float) -> None:
    """``combine`` and ``rows``, too, give the same bits from several threads at once."""
    stack, _, _ = made(make, grams(9, 40))
    expected = dense_outputs(stack)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: dense_outputs(stack), range(8)):
            assert same(found, expected)


def check_pickle(make: Make, rtol: float) -> None:
    stack = made(make, grams(6, 23))[0].threaded(2)
    copy = pickle.loads(pickle.dumps(stack))
    assert (copy.m, copy.n, copy.n_jobs) == (6, 23, 2)
    assert same(dense_outputs(copy), dense_outputs(stack))
    assert not copy.combine(np.eye(6)[0]).flags.writeable


def check_repr(make: Make, rtol: float) -> None:
    text = repr(made(make, grams(6, 23))[0])
    assert "m=6" in text and "n=23" in text and len(text) < 100


CHECKS = checks()
