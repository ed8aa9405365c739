"""Every stack keeps the protocol: dense, with the identity, on demand, factors, views of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _helpers.small_stacks import Factors, OnDemand
from _helpers.stack_contract import (
    PROTOCOL,
    check_restrict_to_repeats,
    grams,
    some_weights,
    vectors,
    within,
)
from scipy.sparse import csr_array

from kernelweave.papers.gai2010._centering import CenteredStack
from kernelweave.stacks.column_sets import ColumnSets
from kernelweave.stacks.combined import BlockCombined
from kernelweave.stacks.completed import Completed, as_stack
from kernelweave.stacks.defaults import BlockStack, Part
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.generated import GeneratedStack
from kernelweave.stacks.identity import Changed, WithIdentity
from kernelweave.stacks.lazy import LazyStack
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import NotDense, is_stack

RTOL = {np.float64: 1e-13, np.float32: 2e-7}
Made = tuple[Any, np.ndarray, np.ndarray]


class Duck:
    """Kernels behind ``n``, ``m`` and ``block`` alone; sizes as NumPy hands them out."""

    def __init__(self, K: np.ndarray) -> None:
        self._K = K
        self.m, self.n = np.array(K.shape[:2])

    def block(self, kernel: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        assert isinstance(kernel, int)
        return self._K[kernel][rows[:, None], columns]


def dense(K: np.ndarray) -> Made:
    return KernelStack(K), K, abs(K)


def in_float32(K: np.ndarray) -> Made:
    return KernelStack(K, dtype=np.float32), K, abs(K)


def with_identity(K: np.ndarray) -> Made:
    return _with_identity(KernelStack(K), K)


def with_identity_in_float32(K: np.ndarray) -> Made:
    return _with_identity(KernelStack(K, dtype=np.float32), K)


def _with_identity(stack: Any, K: np.ndarray) -> Made:
    both = WithIdentity(stack)
    assert both.precision == stack.precision
    K = np.concatenate([K, np.eye(K.shape[1])[None]])
    return both, K, abs(K)


def gaussians(m: int, n: int) -> OnDemand:
    """Widths from 0.3 to 10, the constant kernel, and one of rank one: as many as are asked for."""
    rng = np.random.default_rng(n)
    widths = (np.inf, *np.geomspace(0.3, 10.0, max(m - 2, 1)))
    return OnDemand(
        rng.standard_normal((n, 2)), widths[: max(m - 1, 1)], rng.random((int(m > 1), n))
    )


def on_demand(K: np.ndarray) -> Made:
    stack = gaussians(*K.shape[:2])
    return stack, stack.matrices(), stack.matrices()


def with_identity_on_demand(K: np.ndarray) -> Made:
    stack, K, _ = on_demand(K)
    return _with_identity(stack, K)


def factors(K: np.ndarray) -> Made:
    """Of rank 1, 4, 7, …"""
    m, n = K.shape[:2]
    rng = np.random.default_rng(m)
    parts = [rng.standard_normal((n, 1 + 3 * k)) * 10.0 ** (k % 3 - 1) for k in range(m)]
    K = np.stack([F @ F.T for F in parts])
    norms = np.sqrt(np.einsum("kii->ki", K))
    return Factors(parts), K, norms[:, :, None] * norms[:, None, :]


class ManyPoints(FactorStack):
    """As if n were too large for K(d) to be written out."""

    most_dense = 0


def factor_stack(K: np.ndarray) -> Made:
    """The same factors, and K(d) written out."""
    small, K, sizes = factors(K)
    return FactorStack(small.factors), K, sizes


def factor_stack_by_blocks(K: np.ndarray) -> Made:
    """The same, K(d) as one factor."""
    small, K, sizes = factors(K)
    return ManyPoints(small.factors), K, sizes


def column_sets(K: np.ndarray) -> Made:
    """Overlapping sets of some columns, K(d) written out."""
    m, n = K.shape[:2]
    rng = np.random.default_rng(m)
    G = rng.standard_normal((5 + m, n))
    A = (
        rng.random((m, len(G)))
        * (rng.random((m, len(G))) < 0.4)
        * 10.0 ** (np.arange(m) % 3)[:, None]
    )
    norms = np.sqrt(A @ G**2)
    K = np.einsum("kj,ja,jb->kab", A, G, G)
    return ColumnSets(G, csr_array(A)), K, norms[:, :, None] * norms[:, None, :]


def mixed(K: np.ndarray) -> Made:
    """Odd kernels as arrays, even ones as factors."""
    small, low, sizes = factors(K)
    even, odd = np.arange(0, len(K), 2), np.arange(1, len(K), 2)
    parts = [FactorStack([small.factors[k] for k in even])]
    if odd.size:
        parts.append(KernelStack(K[odd]))
    stack = MixedStack(parts, [even, odd][: len(parts)])
    K, sizes = K.copy(), np.where((np.arange(len(K)) % 2)[:, None, None], abs(K), sizes)
    K[even] = low[even]
    return stack, K, sizes


def mixed_by_blocks(K: np.ndarray) -> Made:
    """Kernels on demand beside factors."""
    first, low, small = factors(K)
    second = gaussians(*K.shape[:2])
    stack = MixedStack([Factors(first.factors), second])
    both = np.concatenate([low, second.matrices()])
    return stack, both, np.concatenate([small, second.matrices()])


def with_identity_of_factors(K: np.ndarray) -> Made:
    stack, K, sizes = factors(K)
    eye = np.eye(K.shape[1])[None]
    return WithIdentity(stack), np.concatenate([K, eye]), np.concatenate([sizes, eye])


def lazy(K: np.ndarray) -> Made:
    """Room for a third of the rows."""
    return _lazy(K, K.shape[0] * K.shape[1] ** 2 * 8 / 3 / 2**20)


def lazy_without_room(K: np.ndarray) -> Made:
    return _lazy(K, 0.0)


def _lazy(K: np.ndarray, size: float) -> Made:
    blocks = Duck(K).block
    return LazyStack(blocks, np.einsum("kii->ki", K), size), K, abs(K)


def generated(K: np.ndarray) -> Made:
    """Gaussians on pairs of columns and, where m is even, polynomials."""
    m, n = K.shape[:2]
    rng = np.random.default_rng(m)
    X, each = rng.standard_normal((n, 4)), 2 - m % 2
    sets = [np.sort(rng.permutation(4)[:2]) for _ in range(m // each)]
    found = []
    for columns in sets:
        far = ((X[:, None, columns] - X[None, :, columns]) ** 2).sum(axis=2)
        found += [np.exp(-far / (2.0 * 0.8**2)), (X[:, columns] @ X[:, columns].T + 1.0) ** 2][
            :each
        ]
    K = np.stack([3.0 * matrix / np.trace(matrix) for matrix in found])
    degrees = [2][: each - 1]
    return GeneratedStack(X, sets, [0.8], degrees, trace=3.0), K, abs(K) + 3.0 / n


def completed(K: np.ndarray) -> Made:
    stack = as_stack(Duck(K))
    assert type(stack) is Completed
    return stack, K, abs(K)


def restricted(K: np.ndarray) -> Made:
    """Some of twice as many points, in another order."""
    m, n = K.shape[:2]
    whole = gaussians(m, 2 * n + 1)
    rows = np.random.default_rng(m).permutation(whole.n)[:n]
    part = whole.restrict(rows)
    assert type(part) is Part
    K = np.ascontiguousarray(whole.matrices()[:, rows][:, :, rows])
    return part, K, K


def selected(K: np.ndarray) -> Made:
    """All but one of the kernels, from the last to the first."""
    whole = gaussians(len(K) + 1, K.shape[1])
    kernels = np.arange(1, len(K) + 1)[::-1]
    part = whole.select(kernels)
    assert type(part) is Part
    K = whole.matrices()[kernels]
    return part, K, K


def part_of_a_part(K: np.ndarray) -> Made:
    m, n = K.shape[:2]
    whole = gaussians(m + 1, n + 3)
    part = whole.restrict(np.arange(n + 3)[::-1]).select(slice(1, None)).restrict(slice(1, n + 1))
    K = whole.matrices()[1:, ::-1, ::-1][:, 1 : n + 1, 1 : n + 1]
    return part, np.ascontiguousarray(K), np.ascontiguousarray(K)


def centered(K: np.ndarray) -> Made:
    """Constants 10⁷ times as large as the kernels, which take all but nine digits of them."""
    return _centered(KernelStack, K)


def centered_on_demand(K: np.ndarray) -> Made:
    return _centered(lambda K: as_stack(Duck(K)), K)


def _centered(stack_of: Any, K: np.ndarray) -> Made:
    K = K + 1e7 * np.einsum("kii->k", K)[:, None, None] / K.shape[1]
    exact = K.astype(np.longdouble) - K[:, :1, :1]
    exact = exact - exact.mean(axis=1, keepdims=True)
    exact = exact - exact.mean(axis=2, keepdims=True)
    varies = abs(K - K[:, :1, :1]).max(axis=(1, 2), keepdims=True)
    return CenteredStack(stack_of(K)), exact.astype(float), np.broadcast_to(varies, K.shape)


MAKERS = [
    dense,
    with_identity,
    on_demand,
    with_identity_on_demand,
    factors,
    factor_stack,
    factor_stack_by_blocks,
    column_sets,
    mixed,
    mixed_by_blocks,
    with_identity_of_factors,
    lazy,
    lazy_without_room,
    generated,
    completed,
    restricted,
    selected,
    part_of_a_part,
    centered,
    centered_on_demand,
]


def applies(check: Any, make: Any) -> bool:
    """A ridge is each row's own: rows that repeat do not share it."""
    return check is not check_restrict_to_repeats or "identity" not in make.__name__


@pytest.mark.parametrize(
    ("check", "make"),
    [(check, make) for make in MAKERS for check in PROTOCOL if applies(check, make)],
    ids=lambda item: item.__name__,
)
def test_contract(check: Any, make: Any) -> None:
    check(make, RTOL[np.float64])


@pytest.mark.parametrize(
    ("check", "make"),
    [
        (check, make)
        for make in (in_float32, with_identity_in_float32)
        for check in PROTOCOL
        if applies(check, make)
    ],
    ids=lambda item: item.__name__,
)
def test_contract_in_float32(check: Any, make: Any) -> None:
    check(make, RTOL[np.float32])


# --- combined kernels -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dense, on_demand, factors], ids=lambda make: make.__name__)
@pytest.mark.parametrize("times", [0.3, 0.0, -2.0])
def test_multiples_and_ridges(make: Any, times: float) -> None:
    """Kernels that are scaled or shifted do what the array would, in either order."""
    stack, K, _ = make(grams(6, 23))
    places, other, every = np.array([22, 0, 7]), np.array([7, 3]), np.arange(23)
    for weights in some_weights(6)[:3]:
        whole, eye = np.tensordot(weights, K, 1), np.eye(23)
        kernel = stack.combined(weights)
        for found, expected in (
            (Changed(kernel, times), times * whole),
            (Changed(kernel, ridge=times), whole + times * eye),
            (Changed(Changed(kernel, ridge=0.7), times), times * (whole + 0.7 * eye)),
            (Changed(kernel, times, 0.7), times * whole + 0.7 * eye),
        ):
            size = np.tensordot(abs(weights), abs(K), 1).max() + 1.0
            assert found.n == 23 and found.is_dense == kernel.is_dense
            within(found.block(every, every), expected, 1e-13, size)
            within(found.block(places, other), expected[np.ix_(places, other)], 1e-13, size)
            within(found.rows(places), expected[places], 1e-13, size)
            within(found.diagonal(), np.diagonal(expected), 1e-13, size)
            for v in vectors(23):
                within(found @ v, expected @ v, 1e-13, size * abs(v).sum())
            if found.is_dense:
                within(found.dense(), expected, 1e-13, size)
                assert not found.dense().flags.writeable
            else:
                with pytest.raises(NotDense):
                    found.dense()
            if (parts := found.factor()) is not None:
                F, tau = parts[0].array(), parts[1]
                within(F @ F.T + tau * eye, expected, 1e-13, size)


def test_factors_are_handed_on() -> None:
    stack, K, _ = factors(grams(4, 9))
    F, tau = stack.combined([1.0, 0.0, 2.0, 0.0]).factor()
    assert F.shape == (9, 1 + 7) and tau == 0.0
    F, tau = WithIdentity(stack).combined([1.0, 0.0, 2.0, 0.0, 0.5]).factor()
    assert F.shape == (9, 1 + 7) and tau == 0.5
    np.testing.assert_allclose(F.array() @ F.array().T, K[0] + 2.0 * K[2])
    F, tau = Changed(Changed(stack.combined(np.ones(4)), ridge=0.5), 3.0).factor()
    assert tau == 1.5
    np.testing.assert_allclose(F.array() @ F.array().T, 3.0 * K.sum(axis=0))
    assert stack.combined([1.0, -1.0, 0.0, 0.0]).factor() is None
    for other in (dense, on_demand, completed):
        assert other(grams(4, 9))[0].combined(np.ones(4)).factor() is None


class Touchy(OnDemand):
    """Must not be asked for its second kernel."""

    def block(self, kernel: int, rows: Any, columns: Any) -> np.ndarray:
        assert kernel != 1
        return super().block(kernel, rows, columns)


@pytest.mark.parametrize("wrap", [lambda stack: stack, lambda stack: stack.restrict(slice(1, 9))])
def test_kernels_of_weight_zero_are_not_touched(wrap: Any) -> None:
    stack = wrap(Touchy(np.random.default_rng(0).standard_normal((9, 2)), [1.0, 2.0, 3.0]))
    combined = stack.combined([0.5, 0.0, 0.5])
    combined.rows([0, 1])
    combined.block([0], [1])
    combined.diagonal()
    combined @ np.ones(stack.n)
    stack.quad_forms(np.ones(stack.n), [0, 2])
    stack.matvecs(np.ones(stack.n), kernels=[2])
    with pytest.raises(AssertionError):
        stack.quad_forms(np.ones(stack.n))


def test_no_array_is_an_error_that_says_what_to_do() -> None:
    stack = gaussians(3, 5)
    with pytest.raises(NotDense, match=r"OnDemand .* no n × n matrix: ask for rows or blocks"):
        stack.combined(np.ones(3)).dense()
    assert issubclass(NotDense, TypeError)
    assert isinstance(stack.combined(np.ones(3)), BlockCombined)


def test_no_array_is_an_error_that_names_the_object() -> None:
    """Not the wrapper that completes it."""
    with pytest.raises(NotDense, match="Duck"):
        as_stack(Duck(grams(2, 3))).combined(np.ones(2)).dense()


# --- defaults ---------------------------------------------------------------------------------


def test_what_counts_as_a_stack() -> None:
    K = grams(2, 5)
    stack = KernelStack(K)
    assert as_stack(stack) is stack and type(as_stack(K)) is KernelStack
    on_demand = gaussians(2, 5)
    assert as_stack(on_demand) is on_demand
    assert is_stack(Duck(K)) and not is_stack(K)
    for missing in ("n", "m", "block"):
        part = type("Part", (), {name: 3 for name in ("n", "m", "block") if name != missing})()
        assert not is_stack(part)
    with pytest.raises(NotImplementedError, match="BlockStack has no block"):
        BlockStack().block(0, np.arange(1), np.arange(1))


class Knowing(Duck):
    """A duck that knows its traces and quadratic forms by heart."""

    precision = np.dtype(np.float32)

    def __init__(self, K: np.ndarray) -> None:
        super().__init__(K)
        self.calls: list[str] = []

    def traces(self) -> np.ndarray:
        self.calls.append("traces")
        return np.trace(self._K, axis1=1, axis2=2)

    def quad_forms(self, v: Any, kernels: Any = None) -> np.ndarray:
        self.calls.append("quad_forms")
        return (self._K @ v @ v)[slice(None) if kernels is None else kernels]


def test_an_object_is_asked_for_what_it_has() -> None:
    K = grams(4, 9)
    duck = Knowing(K)
    stack, v = as_stack(duck), np.ones(9)
    np.testing.assert_allclose(stack.traces(), np.trace(K, axis1=1, axis2=2))
    np.testing.assert_allclose(stack.quad_forms(v, [2]), [v @ K[2] @ v])
    assert duck.calls == ["traces", "quad_forms"]
    np.testing.assert_allclose(stack.matvecs(v), K @ v)
    assert stack.precision == np.float32 and stack.restrict([1, 2]).precision == np.float32
    assert WithIdentity(stack).precision == np.float32


def test_blocks_are_made_float64() -> None:
    class Short(Duck):
        def block(self, kernel: int, rows: Any, columns: Any) -> Any:
            return super().block(kernel, rows, columns).astype(np.float32).tolist()

    found = as_stack(Short(grams(2, 5))).block(0, np.arange(5), np.arange(2))
    assert found.dtype == np.float64 and found.shape == (5, 2)


def test_the_defaults_hold_some_rows_at_a_time() -> None:
    """Of kernels larger than that, no pass asks for the whole."""
    stack = OnDemand(np.random.default_rng(0).standard_normal((600, 1)), [1.0, 5.0])
    v = np.ones(600)
    BlockStack.diagonals(stack)
    stack.quad_forms(v)
    stack.matvecs(v)
    stack.combined(np.ones(2)) @ v
    stack.restrict(slice(0, 599)).matvecs(np.ones(599))
    assert stack.largest <= 256 * 600


def test_views_share_and_whole_ones_are_the_stack_itself() -> None:
    stack = gaussians(3, 9)
    assert stack.restrict(slice(None)) is stack and stack.restrict(np.arange(9)) is stack
    assert stack.threaded(4) is stack
    part = stack.restrict([4, 2])
    before = stack.asked
    part.block(0, np.arange(2), np.arange(2))
    assert stack.asked == before + 4
