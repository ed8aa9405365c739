"""What kernel stacks promise, as checks that take a factory and a tolerance.

``PROTOCOL`` is what solvers ask of every stack (``kernelweave.machines.oracle.Stack``); ``CHECKS``
are these and what ``KernelStack`` promises besides. ``make(K)`` hands back the stack under test and
the (m, n, n) array that it stands for: K, or K and what the stack adds to it. ``rtol`` bounds its
error against NumPy on that array, relative to the largest entry of the expected result. Run them
with

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

Make = Callable[[np.ndarray], tuple[Any, np.ndarray]]

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


def within(found: Any, expected: np.ndarray, rtol: float, scale: Any = None) -> None:
    """|found − expected| ≤ rtol · scale; the scale is the largest expected entry by default."""
    assert found.dtype == np.float64 and found.flags.c_contiguous
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0.0) if scale is None else scale
    excess = np.abs(found - expected) - rtol * scale
    assert np.all(excess <= 0), f"off by {excess.max()} more than {rtol} · {scale}"


def cases(make: Make) -> Iterator[tuple[Any, np.ndarray]]:
    """Stacks of all shapes, each with the matrices it stands for."""
    for m, n in SHAPES:
        yield make(grams(m, n))


def checks() -> list[Callable[[Make, float], None]]:
    """All checks so far."""
    return [value for name, value in globals().items() if name.startswith("check_")]


# --- of every stack ---------------------------------------------------------------------------


def check_size(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        assert (stack.m, stack.n) == K.shape[:2]
        assert type(stack.m) is int and type(stack.n) is int
        assert stack.precision in (np.float32, np.float64)


def check_diagonals_and_traces(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        diagonals = np.einsum("kii->ki", K)
        within(stack.diagonals(), diagonals, rtol, scale=diagonals)
        within(stack.traces(), diagonals.sum(axis=1), rtol, scale=diagonals.sum(axis=1))


def check_combine(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        for weights in some_weights(len(K)):
            combined = stack.combine(weights)
            within(combined, np.tensordot(weights, K, 1), rtol)
            assert not combined.flags.writeable


def check_combine_of_one_kernel(make: Make, rtol: float) -> None:
    stack, K = make(grams(6, 23))
    for matrix, one in zip(K, np.eye(len(K)), strict=True):
        within(stack.combine(one), matrix, rtol, scale=abs(matrix).max())
        within(stack.combine(-2 * one), -2 * matrix, rtol, scale=2 * abs(matrix).max())


def check_rows(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        n = K.shape[1]
        for weights in some_weights(len(K)):
            expected = np.tensordot(weights, K, 1)
            for index in ([0], [n - 1, 0, n // 2], [0, 0], np.arange(n), []):
                places = np.array(index, np.intp)
                found = stack.rows(weights, places)
                within(found, expected[places], rtol, scale=abs(expected).max())


def check_quad_forms(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        m, n = K.shape[:2]
        for v in vectors(n):
            expected, scale = K @ v @ v, abs(K) @ abs(v) @ abs(v)
            within(stack.quad_forms(v), expected, rtol, scale)
            for kernels in ([m - 1], [0], np.arange(m)[::-1], np.arange(0, m, 2), []):
                places = np.array(kernels, np.intp)
                within(stack.quad_forms(v, places), expected[places], rtol, scale[places])


def check_quad_forms_are_gradients(make: Make, rtol: float) -> None:
    """Σ_k w_k vᵀK_k v = vᵀ(Σ_k w_k K_k)v."""
    stack, K = make(grams(6, 23))
    for v in vectors(23):
        for weights in some_weights(len(K)):
            scale = abs(v) @ np.tensordot(abs(weights), abs(K), 1) @ abs(v)
            together = v @ stack.combine(weights) @ v
            assert abs(weights @ stack.quad_forms(v) - together) <= 4 * rtol * scale


def check_matvecs(make: Make, rtol: float) -> None:
    for stack, K in cases(make):
        m, n = K.shape[:2]
        every, everywhere = np.arange(m), np.arange(n)
        for v in vectors(n):
            expected, scale = K @ v, abs(K) @ abs(v)
            for rows in (None, everywhere[-1:], everywhere[::-2], everywhere[:3], everywhere[:0]):
                for kernels in (None, every[[-1, 0]], every, every[:0]):
                    found = stack.matvecs(v, rows, kernels)
                    chosen = np.ix_(
                        every if kernels is None else kernels, everywhere if rows is None else rows
                    )
                    within(found, expected[chosen], rtol, scale[chosen])


def check_matvecs_and_quad_forms_agree(make: Make, rtol: float) -> None:
    stack, K = make(grams(6, 23))
    for v in vectors(23):
        within(stack.matvecs(v) @ v, stack.quad_forms(v), 2 * rtol, abs(K) @ abs(v) @ abs(v))


def check_results_do_not_share(make: Make, rtol: float) -> None:
    """A result handed out earlier stays as it was."""
    stack, _ = make(grams(6, 23))
    w, v, places = some_weights(stack.m), vectors(23), np.array([3, 4])
    calls: list[Callable[[int], Any]] = [
        lambda i: stack.combine(w[i]),
        lambda i: stack.rows(w[i], places),
        lambda i: stack.quad_forms(v[i]),
        lambda i: stack.matvecs(v[i]),
    ]
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
        results += [stack.combine(weights), stack.rows(weights, ends)]
    for v in vectors(stack.n):
        results += [stack.quad_forms(v), stack.quad_forms(v, ends[:1]), stack.matvecs(v)]
        results += [stack.matvecs(v, rows=ends)]
    return results


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def check_repeatable(make: Make, rtol: float) -> None:
    """The same call gives the same bits, from one thread or from several at once."""
    stack, _ = make(grams(9, 40))
    expected = outputs(stack)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: outputs(stack), range(8)):
            assert same(found, expected)


PROTOCOL = checks()


# --- of KernelStack besides -------------------------------------------------------------------


def check_sizes_cannot_be_set(make: Make, rtol: float) -> None:
    stack, _ = make(grams(3, 4))
    for name in ("m", "n", "dtype", "n_jobs"):
        with pytest.raises(AttributeError):
            setattr(stack, name, 7)


def check_diagonals_and_traces_are_kept(make: Make, rtol: float) -> None:
    stack, _ = make(grams(6, 23))
    for array in (stack.diagonals(), stack.traces()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert stack.diagonals() is stack.diagonals()
    assert stack.traces() is stack.traces()


def check_all_kinds_of_index(make: Make, rtol: float) -> None:
    """Lists, slices, masks and places from the end choose what integers do."""
    stack, _ = make(grams(6, 23))
    weights, v = some_weights(6)[0], vectors(23)[0]
    for rows in ([22, 0, 11], slice(1, 23), slice(0, 0), [-1], [], np.arange(23) < 3):
        places = np.arange(23)[rows]
        np.testing.assert_array_equal(stack.rows(weights, rows), stack.rows(weights, places))
        np.testing.assert_array_equal(stack.matvecs(v, rows), stack.matvecs(v, places))
    for kernels in ([5, 0], slice(0, 6), slice(2, 5), [-1], [], np.arange(6) % 2 == 0):
        places = np.arange(6)[kernels]
        np.testing.assert_array_equal(stack.quad_forms(v, kernels), stack.quad_forms(v, places))
        np.testing.assert_array_equal(
            stack.matvecs(v, kernels=kernels), stack.matvecs(v, kernels=places)
        )


def check_restrict(make: Make, rtol: float) -> None:
    """Restricting and then combining is combining and then restricting."""
    stack, K = make(grams(6, 23))
    v = vectors(23)[0]
    for rows in ([22, 0, 5], [3, 3, 3], np.arange(23) > 9, slice(4, 17), slice(None), [-1]):
        part = stack.restrict(rows)
        expected = K[:, rows][:, :, rows]
        assert (part.m, part.n) == expected.shape[:2]
        for weights in some_weights(6):
            within(part.combine(weights), np.tensordot(weights, expected, 1), rtol)
            whole = stack.combine(weights)
            within(part.combine(weights), whole[rows][:, rows], rtol, scale=abs(whole).max())
        within(part.diagonals(), np.einsum("kii->ki", expected), rtol)
        within(part.matvecs(v[rows]), expected @ v[rows], rtol, abs(expected) @ abs(v[rows]))


def check_select(make: Make, rtol: float) -> None:
    stack, K = make(grams(6, 23))
    v = vectors(23)[1]
    for kernels in ([5, 0], slice(2, 5), np.arange(6) % 2 == 1, np.arange(6), [-1], [1, 1]):
        part = stack.select(kernels)
        assert (part.m, part.n) == K[kernels].shape[:2]
        within(part.combine(np.ones(part.m)), K[kernels].sum(axis=0), rtol)
        within(part.diagonals(), np.einsum("kii->ki", K[kernels]), rtol)
        scale = abs(K[kernels]) @ abs(v) @ abs(v)
        within(part.quad_forms(v), stack.quad_forms(v, kernels), rtol, scale)


def check_bad_arguments(make: Make, rtol: float) -> None:
    stack, _ = make(grams(3, 4))
    v, w = np.ones(4), np.ones(3)
    wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, "weights", lambda: stack.combine(v)),
        (ValueError, "weights", lambda: stack.combine(np.ones((3, 1)))),
        (ValueError, "weights", lambda: stack.rows(v, [0])),
        (ValueError, "v", lambda: stack.quad_forms(w)),
        (ValueError, "v", lambda: stack.matvecs(w)),
        (IndexError, "index", lambda: stack.rows(w, [4])),
        (IndexError, "index", lambda: stack.rows(w, [0.5])),
        (IndexError, "index", lambda: stack.rows(w, [True, False])),
        (IndexError, "index", lambda: stack.rows(w, 2)),
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


def check_arguments_are_left_alone(make: Make, rtol: float) -> None:
    """Lists, integers, read-only and strided vectors do; none is written to."""
    stack, _ = make(grams(6, 23))
    v = vectors(23)[0]
    frozen = v.copy()
    frozen.flags.writeable = False
    strided = np.repeat(v, 2)[::2]
    for same in (list(v), frozen, strided):
        np.testing.assert_array_equal(stack.quad_forms(same), stack.quad_forms(v))
        np.testing.assert_array_equal(stack.matvecs(same), stack.matvecs(v))
    np.testing.assert_array_equal(strided, v)
    np.testing.assert_array_equal(stack.combine([1] * 6), stack.combine(np.ones(6)))


def check_same_bits_for_every_n_jobs(make: Make, rtol: float) -> None:
    for m, n in [(1, 530), (5, 300), (9, 40)]:
        stack, _ = make(grams(m, n))
        expected = outputs(stack)
        for n_jobs in (1, 2, 3, -1):
            threaded = stack.threaded(n_jobs)
            assert threaded.n_jobs == n_jobs
            assert same(outputs(threaded), expected)


def check_pickle(make: Make, rtol: float) -> None:
    stack = make(grams(6, 23))[0].threaded(2)
    copy = pickle.loads(pickle.dumps(stack))
    assert (copy.m, copy.n, copy.n_jobs) == (6, 23, 2)
    assert same(outputs(copy), outputs(stack))
    assert not copy.combine(np.eye(6)[0]).flags.writeable


def check_repr(make: Make, rtol: float) -> None:
    text = repr(make(grams(6, 23))[0])
    assert "m=6" in text and "n=23" in text and len(text) < 100


CHECKS = checks()
