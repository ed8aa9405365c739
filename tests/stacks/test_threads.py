"""Threads of BLAS are one number for the whole process: fits lower it, and put it back."""

import threading

import numpy as np
import pytest

from kernelweave import MKLClassifier, MKLRegressorCV, learn, regularization_path
from kernelweave.learners.newton import Newton
from kernelweave.stacks import resources as threads
from kernelweave.stacks.resources import blas_limit, blas_threads

BEFORE = 8


class Library:
    """Stands for a BLAS of eight threads."""

    num_threads = BEFORE

    def set_num_threads(self, count):
        self.num_threads = count


@pytest.fixture
def blas(monkeypatch):
    one = Library()
    monkeypatch.setattr(threads, "_libraries", lambda: [one])
    return one


def test_small_fits_have_one_thread_and_large_ones_those_of_n_jobs(blas):
    assert [blas_limit(300, None), blas_limit(300, 4), blas_limit(5000, 4)] == [1, 1, 4]
    assert blas_limit(5000, None) == 1 and blas_limit(10**5, None) is None
    with blas_threads(None):
        assert blas.num_threads == BEFORE
    with blas_threads(99):
        assert blas.num_threads == BEFORE  # never more than there were


class Spy(Newton):
    """Newton's learner, which writes down how many threads it has."""

    def iterate(self, *asked):
        self.seen.append(self.blas.num_threads)
        if self.error:
            raise self.error
        return super().iterate(*asked)


def _fits(spy):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.tile([-1.0, 1.0], 10)
    stack = np.array([X @ X.T, (X @ X.T) ** 2])
    yield lambda: learn(stack, y, learner=spy)
    yield lambda: regularization_path(stack, y, [0.1, 1.0], learner=spy)
    yield lambda: MKLClassifier(learner=spy).fit(X, y)
    yield lambda: MKLRegressorCV(Cs=1, cv=2, weight_norms=[1], learner=spy).fit(X, y)


@pytest.mark.parametrize("error", [None, ValueError("no"), KeyboardInterrupt()])
def test_fits_have_one_thread_and_restore_it_however_they_end(blas, error):
    spy = Spy()
    spy.seen, spy.error, spy.blas = [], error, blas
    for fit in _fits(spy):
        spy.seen.clear()
        if error is None:
            fit()
        else:
            with pytest.raises(type(error)):
                fit()
        assert {*spy.seen} == {1} and blas.num_threads == BEFORE


def test_limits_of_several_threads_are_undone_by_the_last(blas):
    inside, leave = threading.Barrier(2), threading.Event()

    def other():
        with blas_threads(2), blas_threads(1):
            inside.wait()
            leave.wait()

    thread = threading.Thread(target=other)
    with blas_threads(3):
        thread.start()
        inside.wait()
        assert blas.num_threads == 1
    assert blas.num_threads == 1
    leave.set()
    thread.join()
    assert blas.num_threads == BEFORE
