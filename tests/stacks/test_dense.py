"""The dense stack: its contract in both precisions, what it refuses, what it shares and copies."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _helpers.stack_contract import CHECKS, grams, same, some_weights, vectors
from _helpers.stack_contract import dense_outputs as outputs
from joblib import Parallel, delayed

from kernelweave._core.settings import SETTINGS
from kernelweave.stacks import _passes, memory, threads
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.resources import available_bytes

TYPES = [np.float64, np.float32]
RTOL = {np.float64: 1e-13, np.float32: 2e-7}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any, dtype: Any) -> None:
    check(lambda K: (KernelStack(K, dtype=dtype), K, abs(K)), RTOL[dtype])


# --- what may enter -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("K", "error", "message"),
    [
        (np.eye(3), ValueError, r"shape \(m, n, n\), found \(3, 3\); for a single .* K\[None\]"),
        ([[1.0, 0.0], [0.0, 1.0]], ValueError, r"pass K\[None\]"),
        (np.ones((2, 3, 4)), ValueError, r"shape \(m, n, n\), found \(2, 3, 4\)"),
        (np.ones((2, 2, 2, 2)), ValueError, r"found \(2, 2, 2, 2\)"),
        (np.ones(4), ValueError, r"found \(4,\)"),
        (7.0, ValueError, r"found \(\)"),
        (np.ones((0, 3, 3)), ValueError, "K is empty"),
        (np.ones((3, 0, 0)), ValueError, "K is empty"),
        ([], ValueError, "K is empty"),
        ([np.eye(3), np.eye(4)], ValueError, r"K\[1\] has shape \(4, 4\), but K\[0\] .* \(3, 3\)"),
        ([np.eye(3), np.ones(3)], ValueError, r"K\[1\] has shape \(3,\)"),
        (np.eye(3)[None] * 1j, TypeError, "K must hold real numbers, found .* complex128"),
        (np.eye(3, dtype=object)[None], TypeError, "K must hold real .* object"),
        (np.full((1, 2, 2), "a"), TypeError, "K must hold real .* <U1"),
        ([np.eye(2), np.eye(2) * 1j], TypeError, r"K\[1\] must hold real .* complex128"),
        (None, TypeError, "K must hold real .* NoneType"),
        (np.ma.masked_invalid(np.eye(2)[None]), TypeError, "masked"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_wrong_kind_of_input(K: Any, error: type[Exception], message: str, check: bool) -> None:
    with pytest.raises(error, match=message):
        KernelStack(K, check=check)


def test_wrong_options() -> None:
    K = grams(2, 4)
    with pytest.raises(ValueError, match="dtype must be float64 or float32, found int64"):
        KernelStack(K, dtype=np.int64)
    with pytest.raises(ValueError, match="indefinite must be 'raise' or 'clip', found 'drop'"):
        KernelStack(K, check=False, indefinite="drop")
    for n_jobs in (0, -2):
        with pytest.raises(ValueError, match=f"n_jobs .* found {n_jobs}"):
            KernelStack(K, n_jobs=n_jobs)
    for wrong in ("2", 1.5, True):
        with pytest.raises(TypeError, match="n_jobs"):
            KernelStack(K).threaded(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", TYPES)
def test_entries_that_are_not_finite(dtype: Any) -> None:
    K = grams(4, 40)
    K[2, 39, 1] = K[2, 5, 5] = np.nan
    K[2, 1, 39] = np.inf
    told = r"^K\[2\] has 2 NaN and 1 infinite entries, the first at \[1, 39\]$"
    with pytest.raises(ValueError, match=told):
        KernelStack(K, dtype=dtype)
    K[3, 0, 0] = -np.inf
    with pytest.raises(ValueError, match=r"K\[2\] has .* entries, .* \(2 kernels have such\)"):
        KernelStack(K, dtype=dtype)
    assert np.isnan(KernelStack(K, check=False, dtype=dtype).traces()[2])


def test_too_large_for_float32() -> None:
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"K\[0\] has 0 NaN and 1 inf"):
        KernelStack(np.diag([1e39, 1.0])[None], dtype=np.float32)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
def test_asymmetry(dtype: Any, tolerance: float, scale: float) -> None:
    K = np.stack([np.eye(40)] * 3) * scale
    K[1, 37, 2] = 0.9 * tolerance * scale
    KernelStack(K, dtype=dtype)
    K[1, 37, 2] = 1.1 * tolerance * scale
    text = rf"K\[1\] is not symmetric: entries \[2, 37\] and \[37, 2\] differ by {K[1, 37, 2]:.3g} "
    with pytest.raises(ValueError, match=text.replace("+", r"\+")):
        KernelStack(K, dtype=dtype)


@pytest.mark.parametrize("difference", [1.0, -1.0])
@pytest.mark.parametrize("place", [(37, 2), (2, 37)])
def test_asymmetry_either_way(place: tuple[int, int], difference: float) -> None:
    K = np.stack([4 * np.eye(40)] * 2)
    K[1][place] = difference
    with pytest.raises(ValueError, match=r"K\[1\] is not symmetric: .* differ by 1 \(largest "):
        KernelStack(K)


@pytest.mark.parametrize("place", [(37, 2), (2, 37), (9, 9)])
def test_one_entry_that_is_not_finite(place: tuple[int, int]) -> None:
    for value, found in ((np.nan, "1 NaN and 0"), (-np.inf, "0 NaN and 1")):
        K = np.stack([4 * np.eye(40)] * 2)
        K[1][place] = value
        with pytest.raises(ValueError, match=rf"K\[1\] has {found} infinite"):
            KernelStack(K)


def test_float32_input_is_judged_as_float32() -> None:
    """Kept in float64, numbers that were rounded to float32 are as rough as before."""
    x = np.random.default_rng(4).standard_normal((60, 3))
    K = (x @ x.T + np.triu(np.full((60, 60), 1e-6), 1)).astype(np.float32)
    assert np.linalg.eigvalsh(K.astype(float))[0] < -1e-7
    for source in (K[None], [K], [np.eye(60), K]):
        assert KernelStack(source).dtype == np.float64
    with pytest.raises(ValueError, match="not symmetric"):
        KernelStack(K[None].astype(np.float64))


@pytest.mark.parametrize("lapack", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-5)])
def test_negative_eigenvalues(
    dtype: Any, tolerance: float, scale: float, lapack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lapack:
        monkeypatch.setattr(SETTINGS, "lapack_rows", 0)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]

    def with_smallest(value: float) -> np.ndarray:
        values = np.linspace(1.0, 4.0, 30)
        values[0] = value
        A = (Q * values) @ Q.T * scale
        return np.stack([np.eye(30) * scale, (A + A.T) / 2])

    KernelStack(with_smallest(-2.0 * tolerance), dtype=dtype)  # rounding: within tol · 4
    with pytest.raises(ValueError, match=r"K\[1\] is not positive semidefinite: smallest "):
        KernelStack(with_smallest(-8.0 * tolerance), dtype=dtype)
    message = rf"eigenvalue {-0.12 * scale:.3g} \(largest {4 * scale:.3g}\); "
    message += r"KernelStack\(K, indefinite='clip'\) sets"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        KernelStack(with_smallest(-0.12), dtype=dtype)


@pytest.mark.parametrize("lapack", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_semidefinite_kernels_pass(
    dtype: Any, lapack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lapack:
        monkeypatch.setattr(SETTINGS, "lapack_rows", 0)
    rng = np.random.default_rng(1)
    x = rng.standard_normal(70)
    rank_one = np.outer(x, x)
    blocks = np.kron(np.eye(7), np.ones((10, 10)))
    one_entry = np.zeros((70, 70))
    one_entry[3, 3] = 1.0
    wide = np.exp(-((x[:, None] - x) ** 2) / 2e4)
    K = np.stack([rank_one, blocks, np.zeros((70, 70)), one_entry, wide, 1e-12 * wide, 1e12 * wide])
    assert KernelStack(K, dtype=dtype).m == 7


def test_negative_diagonal_and_zero_trace() -> None:
    for diagonal in ([-1.0, -1.0], [1.0, -1.0]):
        with pytest.raises(ValueError, match=r"K\[0\] is not positive semidefinite"):
            KernelStack(np.diag(diagonal)[None])
    with pytest.raises(ValueError, match="smallest eigenvalue -1 "):
        KernelStack([[[0.0, 1.0], [1.0, 0.0]]])


@pytest.mark.parametrize("convert", [False, True])
def test_clip_projects_in_a_copy(convert: bool) -> None:
    K = grams(3, 12)
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((12, 12)))[0]
    values = np.linspace(-1.0, 2.0, 12)
    K[1] = (Q * values) @ Q.T
    K[1] = (K[1] + K[1].T) / 2
    source = np.asfortranarray(K) if convert else K
    kept = source.copy()
    stack = KernelStack(source, indefinite="clip")
    np.testing.assert_array_equal(source, kept)
    projected = stack.combine([0, 1, 0])
    np.testing.assert_allclose(projected, (Q * np.maximum(values, 0)) @ Q.T, atol=1e-14)
    np.testing.assert_array_equal(projected, projected.T)
    for k in (0, 2):
        np.testing.assert_array_equal(stack.combine(np.eye(3)[k]), K[k])
    KernelStack(projected[None])
    positive = grams(3, 12)
    assert np.shares_memory(KernelStack(positive, indefinite="clip").combine([1, 0, 0]), positive)


# --- what is kept ---------------------------------------------------------------------------


def test_no_copy_and_read_only() -> None:
    K = grams(3, 8)
    stack = KernelStack(K)
    view = stack.combine([0, 1, 0])
    assert np.shares_memory(view, K[1]) and not view.flags.writeable
    assert K.flags.writeable
    assert not np.shares_memory(stack.combine([0, 2, 0]), K)
    assert np.shares_memory(stack.select([1, 2]).combine([1, 0]), K)
    assert np.shares_memory(stack.threaded(2).combine([1, 0, 0]), K)
    assert not np.shares_memory(stack.select([2, 0]).combine([1, 0]), K)
    assert stack.restrict(np.arange(8)) is stack


def test_dtype_is_float64_unless_asked() -> None:
    K = grams(2, 8)
    assert KernelStack(K.astype(np.float32)).dtype == np.float64
    small = KernelStack(K, dtype=np.float32)
    assert small.dtype == small.restrict([1, 2]).dtype == small.select([1, 0]).dtype == np.float32
    assert small.combine([1, 0]).dtype == np.float64
    assert KernelStack(np.eye(3, dtype=int)[None]).dtype == np.float64


def inputs(K: np.ndarray) -> list[Any]:
    """The same matrices in every layout that NumPy knows, and as sequences."""
    frozen = K.copy()
    frozen.flags.writeable = False
    strided = np.repeat(np.repeat(K, 2, axis=0), 2, axis=2)[::2, :, ::2]
    shifted = np.frombuffer(b"x" + K.tobytes(), offset=1, dtype=K.dtype).reshape(K.shape)
    assert not shifted.flags.aligned and not strided.flags.c_contiguous
    layouts = [K, frozen, np.asfortranarray(K), strided, shifted, K.astype(K.dtype.newbyteorder())]
    return [*layouts, list(K), tuple(strided), K.tolist()]


@pytest.mark.parametrize("dtype", TYPES)
def test_each_pass_compiles_once_for_a_dtype(dtype: Any) -> None:
    K = grams(5, 11).astype(dtype)
    passes = ["quad_forms", "matvecs", "weighted_sums", "submatrices", "survey", "factors"]
    expected = None
    for source in inputs(K):
        stack = KernelStack(source, dtype=dtype)
        found = [*outputs(stack), *outputs(stack.restrict([3, 1])), *outputs(stack.select([4, 1]))]
        found += outputs(pickle.loads(pickle.dumps(stack)))
        expected = expected or found
        assert same(found, expected)
        for name in passes:
            signatures = getattr(_passes, name).signatures
            kinds = {str(signature[0].dtype) for signature in signatures}
            assert len(signatures) == len(kinds) <= 2, name
    types = {(x.dtype, x.flags.c_contiguous, x.flags.writeable, type(x)) for x in found
             if x.shape == (11, 11)}  # fmt: skip
    assert types == {(np.dtype(np.float64), True, False, np.ndarray)}


def test_other_array_likes(tmp_path: Path) -> None:
    K = grams(3, 6)
    np.save(tmp_path / "K.npy", K)
    mapped = KernelStack(np.load(tmp_path / "K.npy", mmap_mode="r"))
    assert type(mapped.combine([1, 0, 0])) is np.ndarray
    assert same(outputs(mapped), outputs(KernelStack(K)))

    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return K

    assert same(outputs(KernelStack(Wrapped())), outputs(KernelStack(K)))  # type: ignore[arg-type]


def test_allocate_then_fill() -> None:
    K = KernelStack.allocate(2, 5, np.float32)
    assert K.shape == (2, 5, 5) and K.dtype == np.float32 and K.flags.writeable
    K[:] = np.eye(5)
    np.testing.assert_array_equal(KernelStack(K, check=False, dtype=np.float32).traces(), [5, 5])
    with pytest.raises(ValueError, match="dtype"):
        KernelStack.allocate(2, 5, np.int64)


# --- threads and processes ------------------------------------------------------------------


@pytest.fixture
def always_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "worth_threads", 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 600), (3, 270), (5, 300), (26, 31)])
def test_same_bits_for_every_n_jobs(dtype: Any, shape: Any, always_threads: None) -> None:
    K = grams(*shape)
    stack = KernelStack(K, dtype=dtype)
    expected = [*outputs(stack), *outputs(stack.restrict(slice(1, None, 2)))]
    for n_jobs in (2, 3, 5, -1):
        threaded = KernelStack(K, dtype=dtype, n_jobs=n_jobs)
        assert threaded.restrict(slice(1, None, 2)).n_jobs == threaded.select([0]).n_jobs == n_jobs
        assert same(outputs(threaded) + outputs(threaded.restrict(slice(1, None, 2))), expected)


def test_threads_are_used_when_it_pays(
    monkeypatch: pytest.MonkeyPatch, always_threads: None
) -> None:
    made = []
    pool = threads._pool
    monkeypatch.setattr(threads, "_pool", lambda *key: made.append(key[0]) or pool(*key))
    stack = KernelStack(grams(9, 12), n_jobs=2)
    assert made == [2, 2]  # entries, then factors
    stack.quad_forms(np.ones(12))
    assert made == [2, 2, 2]
    monkeypatch.setattr(SETTINGS, "worth_threads", 1 << 22)
    stack.quad_forms(np.ones(12))
    stack.threaded(None).quad_forms(np.ones(12))
    assert made == [2, 2, 2]


def test_errors_in_threads_are_raised(always_threads: None) -> None:
    def work(start: int, stop: int) -> None:
        if stop == 8:
            raise RuntimeError("task 7")

    with pytest.raises(RuntimeError, match="task 7"):
        threads.run(work, 8, 1, 2)


def test_many_callers_at_once(always_threads: None) -> None:
    stack = KernelStack(grams(9, 300), n_jobs=2)
    expected = outputs(stack)
    with ThreadPoolExecutor(4) as pool:
        assert all(same(found, expected) for found in pool.map(lambda _: outputs(stack), range(8)))


def test_in_worker_processes() -> None:
    stack = KernelStack(grams(5, 40), n_jobs=2)
    found = Parallel(n_jobs=2, max_nbytes=1000)(delayed(outputs)(stack) for _ in range(2))
    assert all(same(results, outputs(stack)) for results in found)


def _quad_forms_into(queue: Any, stack: KernelStack) -> None:
    SETTINGS.worth_threads = 0
    queue.put(stack.quad_forms(np.ones(stack.n)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(always_threads: None) -> None:
    stack = KernelStack(grams(9, 40), n_jobs=2)
    expected = stack.quad_forms(np.ones(40))  # the pool is live now
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_quad_forms_into, args=(queue, stack))
    child.start()
    child.join(20)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive and child.exitcode == 0
    np.testing.assert_array_equal(queue.get(), expected)


# --- memory ---------------------------------------------------------------------------------


def test_memory_is_asked_for_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = KernelStack(grams(4, 8))
    K32 = grams(4, 8).astype(np.float32)
    monkeypatch.setattr(SETTINGS, "tiny", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    K = grams(4, 8)
    KernelStack(K, check=False)  # no copy, no question
    text = (
        "4 kernels on 8 rows take 1.91e-06 GiB as float64, but only 9.31e-08 GiB is available; "
        "use fewer kernels or fewer rows"
    )
    for call in (
        lambda: KernelStack(K32),
        lambda: KernelStack(list(K)),
        lambda: KernelStack.allocate(4, 8),
    ):
        with pytest.raises(MemoryError) as caught:
            call()
        assert str(caught.value) == text
    with pytest.raises(MemoryError, match=r"4 kernels on 7 rows .* fewer rows$"):
        stack.restrict(slice(0, 7))
    with pytest.raises(MemoryError, match="2 kernels on 8 rows"):
        stack.select([3, 1])
    stack.select([1, 2])
    with pytest.raises(MemoryError, match=r"4 kernels on 8 rows take .* as float32.* fewer rows$"):
        KernelStack(K, dtype=np.float32)
    with pytest.raises(MemoryError, match="1 kernels on 8 rows"):
        KernelStack(K)  # the check works on a copy of one kernel
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * 8 * 8 * 4)
    with pytest.raises(MemoryError, match=r"fewer rows, or float32: KernelStack\(dtype='float32'"):
        KernelStack.allocate(4, 8)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert stack.restrict([0, 1]).n == 2


def fake_system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_available_memory_of_a_machine(tmp_path: Path) -> None:
    root = fake_system(
        tmp_path, {"proc/meminfo": "MemTotal:  900 kB\nMemAvailable:  500 kB\nSwapFree: 7 kB\n"}
    )
    assert available_bytes(root) == 500 * 1024


def test_available_memory_in_control_groups(tmp_path: Path) -> None:
    root = fake_system(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable:  500000 kB\n",
            "proc/self/cgroup": "3:cpu:/other\n0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "100\n",
            "sys/fs/cgroup/a/memory.max": "5000\n",
            "sys/fs/cgroup/a/memory.current": "4200\n",
            "sys/fs/cgroup/a/memory.stat": "anon 3\ninactive_file 300\n",
        },
    )
    assert available_bytes(root) == 5000 - 4200 + 300
    (root / "sys/fs/cgroup/a/memory.max").write_text("1000\n")
    assert available_bytes(root) == 0
    # an older layout; inside a container the group's own path is not visible
    (root / "proc/self/cgroup").write_text("4:cpu,memory:/docker/x\n0::/\n")
    fake_system(
        root,
        {
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 50\n",
        },
    )
    assert available_bytes(root) == 1050


def test_available_memory_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf_names", pages, raising=False)
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    assert available_bytes(tmp_path) == 40960
    monkeypatch.delattr(os, "sysconf_names")
    assert available_bytes(tmp_path) is None


def test_available_memory_here() -> None:
    found = available_bytes()
    assert found is None or found > 1 << 20


def test_vectors_and_weights_cover_the_sparse_path() -> None:
    """Guards the contract: its vectors reach both ways of computing K v."""
    shares = [np.count_nonzero(v) / len(v) for v in vectors(40)]
    assert shares[0] == 1.0 and 0 < shares[2] < 0.4 and shares[-1] == 0
    assert any(np.count_nonzero(w) == 1 for w in some_weights(6))
