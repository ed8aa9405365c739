"""Storages of one's own: any object that builds a stack from kernels on the training rows."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    Polynomial,
)
from kernelweave.io.model_file import load

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.8, 1, -1)
KERNELS = [
    Gaussian(1.5),
    Gaussian(1.0, relative=True),
    Polynomial(3, 0.5),
    Linear(),
    Laplacian(2.0),
]


class Device:
    """An array that refuses to be one of NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self._held = array

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("it lives elsewhere")


class Far:
    """Kernels generated from the columns, kept where NumPy does not reach."""

    def __init__(self, kernels: Any) -> None:
        self.m, self.n = len(kernels), kernels[0].n
        self.K = [Device(generated(one)) for one in kernels]

    def block(self, kernel: int, rows: Any, columns: Any) -> np.ndarray:
        return self.K[kernel]._held[np.ix_(rows, columns)]


def generated(one: Any) -> np.ndarray:
    """A normalized kernel from the columns, its parameters and its normalizer alone."""
    x, k, norm = one.values, one.kernel, one.normalizer
    far = x[:, None] - x[None]
    if isinstance(k, Gaussian):
        K = np.exp(-(far**2).sum(2) / (2 * k.width**2))
    elif isinstance(k, Laplacian):
        K = np.exp(-np.abs(far).sum(2) / k.width)
    else:
        K = (x @ x.T + getattr(k, "offset", 0.0)) ** getattr(k, "degree", 1)
    if norm.means is not None:
        K -= np.add.outer(norm.means, norm.means)
    K *= (
        norm.scale
        if norm.inverse_norms is None
        else np.outer(norm.inverse_norms, norm.inverse_norms)
    )
    whole = np.zeros((one.n, one.n))
    at = np.arange(one.n) if one.places is None else one.places
    whole[np.ix_(at, at)] = K
    return whole


class Elsewhere:
    """A storage without parameters that says how often it was asked."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def build(self, kernels: Any) -> Far:
        self.sizes.append(kernels[0].n)
        return Far(kernels)

    def plan(self, kernels: Any) -> list[int]:
        return [8 * one.n for one in kernels]

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a device cannot be copied")


@pytest.mark.parametrize("rule", ["trace", "sphere", "center+trace", "center+sphere", None])
def test_what_a_storage_is_given_makes_the_kernels(rule: str | None) -> None:
    gaps = X.copy()
    gaps[::7, :2] = np.nan
    for data, views in ((X, "all"), (gaps, {"a": [0, 1], "b": [2, 3]})):
        bank = KernelBank(KERNELS, views=views, normalize=rule, storage=Elsewhere())
        dense = clone(bank).set_params(storage="dense")
        every = np.arange(len(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, exact = bank.fit(data), dense.fit(data)
        assert found.names == exact.names
        for place, number in enumerate(found.kept):
            other = int(np.flatnonzero(exact.kept == number)[0])
            K = exact.stack.block(other, every, every)
            np.testing.assert_allclose(found.stack.block(place, every, every), K, atol=1e-9)


def test_estimators_take_any_storage(tmp_path: Path) -> None:
    storage = Elsewhere()
    bank = KernelBank(KERNELS, storage=storage)
    model = MKLClassifier(bank, tol=1e-4).fit(X, Y)
    dense = MKLClassifier(KernelBank(KERNELS), tol=1e-4).fit(X, Y)
    assert model.duality_gap_ <= 1e-4
    assert model.objective_ == pytest.approx(dense.objective_, rel=2e-4)
    assert storage.sizes == [90]

    path = tmp_path / "model.kw"
    model.save(path)
    again = load(path)
    assert again.kernels.storage == "auto"
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert bank.storage is storage

    numbers = MKLRegressor(bank, loss="squared", tol=1e-4).fit(X, X[:, 0] ** 2)
    assert numbers.duality_gap_ <= 1e-4


def test_folds_ask_the_same_object() -> None:
    storage = Elsewhere()
    MKLClassifierCV(KernelBank(KERNELS, storage=storage), cv=3).fit(X, Y)
    assert storage.sizes == [60, 60, 60, 90]


def test_it_is_a_parameter_like_others() -> None:
    storage = Elsewhere()
    bank = KernelBank(KERNELS, storage=storage)
    assert clone(bank).storage is storage and bank.get_params()["storage"] is storage
    assert clone(MKLClassifier(bank)).kernels.storage is storage
    assert bank.set_params(storage="dense").storage == "dense"
    assert "Elsewhere" in repr(KernelBank(storage=storage))


def test_it_may_say_what_it_takes() -> None:
    told = KernelBank(KERNELS, storage=Elsewhere()).plan(X)
    assert told.nbytes == (720,) * 5 and told.storage == ("Elsewhere",) * 5
    assert "5 in Elsewhere" in str(told)


def test_means_may_come_from_the_storage() -> None:
    class Means(Elsewhere):
        def means(self, kernel: Any, counts: np.ndarray) -> np.ndarray:
            asked.append(kernel.name)
            return kernel._raw(np.arange(90), np.arange(90)) @ counts / counts.sum()

    asked: list[str] = []
    bank = KernelBank(KERNELS, normalize="center+trace", storage=Means())
    own, other = bank.fit(X), clone(bank).set_params(storage=Elsewhere()).fit(X)
    assert len(asked) == 5
    np.testing.assert_allclose(own.scales, other.scales, rtol=1e-12)


@pytest.mark.parametrize("wrong", [3, object(), Elsewhere])
def test_what_is_no_storage_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"storage must be .*build\(kernels\).*found"):
        KernelBank(storage=wrong).fit(X)


def test_a_storage_must_return_a_stack_of_its_kernels() -> None:
    class Lost:
        def build(self, kernels: Any) -> Any:
            return Far(kernels[:2])

    with pytest.raises(ValueError, match="Lost must return a stack of 5 kernels over 90 rows"):
        KernelBank(KERNELS, storage=Lost()).fit(X)


def test_own_kernels_on_demand_are_read_in_one_order() -> None:
    class Skew(Linear):
        """Off by 1e-9 above the diagonal."""

        fills_half = False

        def fill(self, pair: Any, out: np.ndarray) -> None:
            np.matmul(pair.a.values, pair.b.values.T, out=out)
            out += 1e-9 * np.subtract.outer(pair.a.values[:, 0], pair.b.values[:, 0])

        @property
        def is_linear(self) -> bool:
            return False

        def entry(self) -> None:
            return None

    stack = KernelBank([Skew()], storage="lazy").fit(X).stack
    every = np.arange(90)
    K = stack.block(0, every, every)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14)
    np.testing.assert_allclose(stack.block(0, every[:5], every), K[:5], rtol=0, atol=1e-14)


def test_the_example_of_the_contributors_page_runs() -> None:
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.search(r"### Add a storage.*?```python\n(.*?)```", page, re.DOTALL)
    assert code is not None and len(code[1].splitlines()) <= 40
    exec(compile(code[1], "CONTRIBUTING.md", "exec"), {})
