"""Stacks whose sums are rougher than float64 say so, and no gap is told smaller than it is."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from _helpers.stack_contract import check_precision_is_as_claimed, check_symmetric

from kernelweave import KernelStack, duality_gap, learn
from kernelweave.stacks import memory
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.identity import WithIdentity
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.rounding import Units, fine_values, plain_values

SINGLE = float(np.finfo(np.float32).eps)
DOUBLE = float(np.finfo(np.float64).eps)
EXTENDED = float(np.finfo(np.longdouble).eps)


def short(x, bits):
    """x with so many bits of its mantissa, as a tensor core reads it."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=float))
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


class Rough:
    """Kernels whose blocks are exact; passes read ``bits`` of each number and sum in float32."""

    sum_eps = SINGLE

    def __init__(self, K, bits=24):
        self.K, self.bits = K, bits
        self.m, self.n = K.shape[:2]
        self.rough = short(K, bits).astype(np.float32)
        self.entry_eps = 2.0 ** (2 - bits)  # both factors of each product lose bits

    def block(self, kernel, rows, columns):
        return self.K[kernel][np.ix_(rows, columns)]

    def matvecs(self, v, rows=None, kernels=None):
        chosen = self.rough if kernels is None else self.rough[kernels]
        chosen = chosen if rows is None else chosen[:, rows]
        return (chosen @ short(v, self.bits).astype(np.float32)).astype(float)

    def quad_forms(self, v, kernels=None):
        return self.matvecs(v, kernels=kernels) @ v


def problem(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 0.8, 1.0, -1.0)
    far = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.stack([np.exp(-far / (2 * s**2)) for s in (0.3, 1.0, 3.0, 10.0)]), y


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize("bits", [24, 11])
@pytest.mark.parametrize("seed", range(4))
def test_no_gap_is_told_smaller_than_it_is(seed, bits):
    """The judge knows nothing of the stack: it has the kernels as blocks give them."""
    K, y = problem(seed)
    found = learn(Rough(K, bits), y, C=1e4, tol=1e-5, max_iter=60)
    judged = learn(KernelStack(K), y, C=1e4, tol=1e-9)
    assert found.dual <= judged.primal and judged.dual <= found.primal
    assert found.gap <= 1e-5 or found.status != "optimal"
    true = duality_gap(
        KernelStack(K), y, found.weights, found.coef, found.bias, C=1e4, dual_alpha=found.dual_alpha
    )
    assert true.gap <= found.gap * (1 + 1e-6) + 1e-12


def test_units_by_default_and_as_said():
    K, _ = problem(0, 12)
    assert KernelStack(K).units == Units(DOUBLE, 0.0, EXTENDED)
    rough = as_stack(Rough(K))
    assert rough.units == Units(SINGLE, 2.0**-22, EXTENDED)
    views = [rough.restrict(np.arange(5)), rough.select(np.array([1, 3])), WithIdentity(rough)]
    views += [MixedStack([rough, KernelStack(K)]), rough.threaded(2)]
    assert all(view.units == rough.units for view in views)


def test_a_fine_product_of_ones_own_is_as_fine_as_it_says():
    class Own(Rough):
        asked = 0

        def fine_product(self, kernel, rows, support, w):
            self.asked += 1
            return self.K[kernel][np.ix_(rows, support)] @ w.astype(float)

    K, _ = problem(0, 12)
    own = Own(K)
    stack, d, coef = as_stack(own), np.ones(4), np.ones(12)
    assert stack.units.fine == DOUBLE  # unless it says that it is finer
    own.fine_eps = EXTENDED
    assert stack.units.fine == EXTENDED
    del own.fine_eps
    rough, plain = fine_values(stack, d, coef), fine_values(KernelStack(K), d, coef)
    assert own.asked == 4
    assert rough.error.max() > 5 * plain.error.max()


def test_charge_of_plain_sums():
    """(terms·sum_eps + entry_eps)·s_i Σ s_j|w_j|: by hand, where all K_ii are one."""
    K, _ = problem(0, 12)
    f, coef, d = np.zeros(12), np.ones(12), np.eye(4)[0]
    fine, rough = (plain_values(as_stack(s), d, coef, f).error for s in (KernelStack(K), Rough(K)))
    terms = fine / (DOUBLE * 12)
    np.testing.assert_allclose(rough, (terms * SINGLE + 2.0**-22) * 12, rtol=1e-6)


def made(stack):
    """The same stack, as the contract wants it."""
    return lambda K: (as_stack(stack(K)), K, abs(K))


class Boasts(Rough):
    """What every stack was charged before it could name its units: float64's."""

    sum_eps = DOUBLE

    def __init__(self, K, bits=24):
        super().__init__(K, bits)
        self.entry_eps = 0.0


class Coarse(Rough):
    """A fine product that is no finer than float32, and does not say so."""

    def fine_product(self, kernel, rows, support, w):
        return (self.rough[kernel][np.ix_(rows, support)] @ w.astype(np.float32)).astype(float)


class Skew(Rough):
    """Passes read the kernels, blocks their lower triangles alone."""

    def __init__(self, K):
        super().__init__(K + np.triu(1e-6 * K, 1))


def test_the_contract_measures_the_claims():
    """A stack that claims too much is found out; one that is honest passes."""
    for check in (check_precision_is_as_claimed, check_symmetric):
        check(made(Rough), 1e-6)
        check(made(lambda K: Rough(K, 11)), 1e-6)
    for check, stack in (
        (check_precision_is_as_claimed, Boasts),
        (check_precision_is_as_claimed, lambda K: Boasts(K, 11)),
        (check_precision_is_as_claimed, Coarse),
        (check_symmetric, Skew),
    ):
        with pytest.raises(AssertionError):
            check(made(stack), 1e-6)


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize("bits", [24, 11])
def test_charged_as_float64_gaps_were_false(bits):
    """The same problems as above, charged as all stacks once were.

    How many are false depends on the order in which a processor sums float32: one is enough.
    """
    false = 0
    for seed in range(4):
        K, y = problem(seed)
        found = learn(Boasts(K, bits), y, C=1e4, tol=1e-5, max_iter=60)
        model = found.weights, found.coef, found.bias
        true = duality_gap(KernelStack(K), y, *model, C=1e4, dual_alpha=found.dual_alpha)
        false += true.gap > 2.0 * found.gap and true.gap > 1e-5
    assert false


def test_kernels_symmetric_up_to_rounding_are_made_symmetric():
    """Rows are summed for columns: the gap told was 1e-12 where 0.2 was true."""
    K, y = problem(0, 10)
    K[:, 0, 1] += 1e-9
    stack, every = KernelStack(K), np.arange(10)
    for k in range(4):
        held = stack.block(k, every, every)
        np.testing.assert_array_equal(held, held.T)
        np.testing.assert_allclose(held, (K[k] + K[k].T) / 2, atol=1e-16)
    assert K[0, 0, 1] != K[0, 1, 0]  # the user's own stays as it is
    found = learn(stack, y, C=1e9, tol=1e-6)
    assert found.certificate().gap <= max(1.1 * found.gap, 1e-6)


@pytest.fixture
def no_room(monkeypatch):
    """Memory for the check and for other stacks, none for a copy of this one."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 10 * 10 * 5)


def test_without_room_for_a_copy_the_difference_is_charged(no_room):
    """Blocks are those of the symmetric part, and passes are off by what is claimed."""
    K, y = problem(0, 10)
    K[:, 0, 1] += 1e-9
    K.flags.writeable = False
    stack, every = KernelStack(K), np.arange(10)
    assert np.shares_memory(stack.combine(np.eye(4)[0]), K)
    assert stack.units.entry == pytest.approx(0.5e-9, rel=1e-5)
    views = stack.restrict(every[::-1]), stack.select([0]), stack.threaded(2), WithIdentity(stack)
    for view in (*views, pickle.loads(pickle.dumps(stack))):
        assert view.units == stack.units
    found = learn(stack, y, C=1e9, tol=1e-6)
    best = learn(KernelStack((K + K.transpose(0, 2, 1)) / 2), y, C=1e9, tol=1e-9)
    assert found.dual <= best.primal and best.dual <= found.primal
    assert found.certificate().gap <= max(1.1 * found.gap, 1e-6)


def test_the_contract_holds_without_room_for_a_copy(monkeypatch):
    def skew(K):
        K = K.copy()
        K[:, 0, 1] += 1e-9 * abs(K[:, 0, 1])
        stack = KernelStack(K)
        assert stack.units.entry > 0.0
        return stack, K, abs(K)

    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 23 * 23 * 7)
    check_precision_is_as_claimed(skew, 1e-13)


def test_arrays_of_our_own_are_made_symmetric_in_place(monkeypatch):
    """A list of matrices is copied once, to be one array, and not again."""
    K, _ = problem(0, 10)
    K[:, 0, 1] += 1e-9
    room = 8 * 10 * 10 * 4
    monkeypatch.setattr(memory, "available_bytes", lambda: room)
    stack, every = KernelStack(list(K)), np.arange(10)
    assert stack.units.entry == 0.0
    np.testing.assert_array_equal(stack.block(0, every, every), (0.5 * K[0] + 0.5 * K[0].T))


def test_float32_kernels_off_by_their_own_ulp_are_made_symmetric():
    """Sums are charged as float64's: what float32 entries differ by would be in no bound."""
    K = problem(0, 10)[0].astype(np.float32)
    K[:, 0, 1] = np.nextafter(K[:, 1, 0], 2.0, dtype=np.float32)
    stack, every = KernelStack(K, dtype=np.float32), np.arange(10)
    held = stack.block(0, every, every)
    np.testing.assert_array_equal(held, held.T)


def test_a_few_ulp_need_no_copy():
    K, _ = problem(0, 10)
    K[:, 0, 1] *= 1.0 + 2 * DOUBLE
    K.flags.writeable = False
    assert np.shares_memory(KernelStack(K).combine(np.eye(4)[0]), K)
