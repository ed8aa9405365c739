"""Faults that must lose nothing: disks, signals, memory, forks, processes that compile at once.

    python -m benchmarks.harness.faults                     all of them, in some minutes
    python -m benchmarks.harness.faults --only memory fork  some of them
    python -m benchmarks.harness.faults --quick             fewer moments and levels

Every fault is put upon processes of its own. What a fit gives is compared bit by bit with a fit
that nothing disturbed. The table counts, by fault:

- result: the right result;
- refused: MemoryError, KeyboardInterrupt or the end by SIGTERM, with the model as it was before;
- ignored: the right result, although SIGINT came before: llvmlite's callbacks during compilation
  drop the exception;
- wrong: another result;
- broken: a model that is neither as before nor fitted, a cache that no longer serves, a warning
  that does not name the folder, or any other error;
- died or hung: the process ended otherwise, or did not end.

The exit code is 1 if anything was wrong, broken, died or hung. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave
from benchmarks.harness.fault_processes import Found, Place, can_mount, ended, mounted
from kernelweave import KernelBank, MKLClassifier

KINDS = ("result", "refused", "ignored", "wrong", "broken", "died or hung")
FORK_PATIENCE = 15.0  # seconds after which a fork has hung


# --- fits ---------------------------------------------------------------------------------------


def problem(n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n) > 0.8, 1, -1)


def fitted(n: int = 120, seed: int = 0, **params: Any) -> MKLClassifier:
    return MKLClassifier(**params).fit(*problem(n, seed))


def digest(model: MKLClassifier, n: int = 120) -> str:
    """The bits of what was learned and of what it predicts."""
    found = hashlib.sha256(model.decision_function(problem(n)[0]))
    for part in (model.weights_, model.dual_coef_, model.intercept_, model.support_):
        found.update(np.ascontiguousarray(part))
    return found.hexdigest()


def child_fit() -> dict[str, Any]:
    """One fit in a fresh process: its bits, and the warnings about the cache."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = digest(fitted())
    return {"digest": found, "warnings": [str(one.message) for one in caught]}


# --- disks --------------------------------------------------------------------------------------


def full_disk(place: Place, quick: bool) -> Found:
    """A file system of 64 KB (where one can be mounted), and a process that may write no file."""
    cache, found = place.empty("no room"), Counter[str]()
    if can_mount():
        small = mounted(cache, "size=64k")
        found += place.judge(place.start("fit", cache, before=small), str(cache))
    if not (quick and found):
        found += place.judge(place.start("unwritable", cache), str(cache))
    return found


def child_unwritable() -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return child_fit()


def read_only_home(place: Place, quick: bool) -> Found:
    """Neither the package's own folders nor HOME can be written: nothing is cached, nor warned."""
    copy, home = place.folder / "copy", place.empty("home")
    hidden = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(kernelweave.__file__).parent, copy / "kernelweave", ignore=hidden)
    for folder in [*(copy / "kernelweave").rglob("*"), copy / "kernelweave"]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("a file, so that no folder can be here")
    environment = {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": ""}
    if can_mount():
        before, environment["HOME"] = mounted(home, "ro"), str(home)
    else:
        before, environment["HOME"] = (), "/dev/null"
    return place.judge(place.start("fit", home, before=before, **environment))


def damaged_cache(place: Place, quick: bool) -> Found:
    """All files of a filled cache empty, cut, with one bit changed, or random."""
    rng, found = random.Random(0), Counter[str]()
    for kind in ("cut", "bit") if quick else ("empty", "cut", "bit", "random"):
        cache = place.folder / f"damaged {kind}"
        shutil.copytree(place.full, cache)
        for file in cache.rglob("*.nb*"):
            content = bytearray(file.read_bytes())
            if kind == "bit":
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            size = {"empty": 0, "cut": rng.randrange(len(content))}.get(kind, len(content))
            file.write_bytes(rng.randbytes(size) if kind == "random" else content[:size])
        found += place.judge(place.start("fit", cache), str(cache))
        found += place.judge(place.start("fit", cache))  # the files have been replaced
    return found


def compiling_at_once(place: Place, quick: bool) -> Found:
    """Two processes with one empty cache, and one that uses what they leave."""
    cache = place.empty("shared")
    both = [place.start("fit", cache) for _ in range(2)]
    found = sum((place.judge(process) for process in both), Counter())
    return found + place.judge(place.start("fit", cache))


# --- signals ------------------------------------------------------------------------------------


def interrupts(place: Place, quick: bool) -> Found:
    """SIGINT at random moments of fits of a model that was fitted before."""
    return counted(place.start("interrupted", place.full, str(20 if quick else 200)))


def child_interrupted(moments: str) -> Found:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    X, y = problem(200, 1)
    old = pickle.dumps(pickle.loads(pickle.dumps(fitted())))  # pickles are stable from here on
    before = digest(pickle.loads(old))
    since = time.perf_counter()
    after = digest(MKLClassifier().fit(X, y))
    while time.perf_counter() - since < 0.5:  # a fit on hot caches, for its time
        last = time.perf_counter()
        MKLClassifier().fit(X, y)
    seconds, rng, found = time.perf_counter() - last, random.Random(0), Counter[str]()
    for _ in range(int(moments)):
        model = pickle.loads(old)
        arrived = interrupted_fit(model, X, y, 1.05 * seconds * rng.random())
        now = digest(model)
        same = now == before and pickle.dumps(model) == old
        fine = "result" if arrived else "ignored"
        found[fine if now == after else "refused" if same and arrived else "broken"] += 1
        if model.fit(X, y) is not model or digest(model) != after:
            found["wrong"] += 1
    return found


def interrupts_compiling(place: Place, quick: bool) -> Found:
    """SIGINT again and again while everything is compiled, into an empty cache."""
    cache = place.empty("interrupted")
    found = counted(place.start("impatient", cache, place.right, str(3 if quick else 20)))
    return found + place.judge(place.start("fit", cache))


def child_impatient(right: str, moments: str) -> Found:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng, found = random.Random(0), Counter[str]()
    for _ in range(int(moments)):
        model = MKLClassifier()
        arrived = interrupted_fit(model, *problem(), 2.0 * rng.random())
        if hasattr(model, "bank_"):
            fine = "result" if arrived else "ignored"
            found[fine if digest(model) == right else "wrong"] += 1
        else:
            found["refused" if vars(model).keys() == model.get_params().keys() else "broken"] += 1
    found["result" if digest(fitted()) == right else "wrong"] += 1
    return found


def interrupted_fit(model: MKLClassifier, X: Any, y: Any, seconds: float) -> bool:
    """Fit; whether the SIGINT that is sent after so many seconds arrives, now or after the fit."""

    def send() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=send)
    try:
        timer.start()
        try:
            model.fit(X, y)
        finally:
            timer.join()
            time.sleep(0.01)  # where the handler runs if the fit was quicker
    except KeyboardInterrupt:
        return True
    return False


def terminations(place: Place, quick: bool) -> Found:
    """SIGTERM while processes compile and fit; what they leave in the cache serves the next."""
    cache, rng, found = place.empty("terminated"), random.Random(0), Counter[str]()
    for _ in range(2 if quick else 10):
        process = place.start("fit", cache)
        time.sleep(1.0 + 5.0 * rng.random())
        process.terminate()
        found += place.judge(process)
    return found + place.judge(place.start("fit", cache))


# --- memory and forks ---------------------------------------------------------------------------


def memory(place: Place, quick: bool) -> Found:
    """RLIMIT_AS from nothing beyond what the process has up to more than a fit takes."""
    return counted(place.start("bounded", place.full, str(5 if quick else 20)))


def child_bounded(levels: str) -> Found:
    matrices = KernelBank(storage="dense")  # factors would hardly need memory
    first = fitted(kernels=matrices)
    small, old = digest(first), pickle.dumps(first)
    low = address_space()
    right = digest(fitted(1500, kernels=matrices))
    most = address_space("VmPeak") - low
    found = Counter[str]()
    for level in range(int(levels)):
        extra = int(1.1 * most * level / (int(levels) - 1))

        def work(extra: int = extra) -> str:
            limits = resource.getrlimit(resource.RLIMIT_AS)
            model = pickle.loads(old)
            resource.setrlimit(resource.RLIMIT_AS, (address_space() + extra, limits[1]))
            try:
                model.fit(*problem(1500))
                kind = "result"
            except MemoryError:
                kind = "refused"
            resource.setrlimit(resource.RLIMIT_AS, limits)
            if digest(model) != (right if kind == "result" else small):
                return "wrong" if kind == "result" else "broken"
            return kind if digest(fitted(kernels=matrices)) == small else "wrong"

        found[in_fork(work)] += 1
    return found


def address_space(what: str = "VmSize") -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def in_fork(work: Callable[[], str]) -> str:
    """The outcome of ``work`` in a fork of this process."""
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os._exit(KINDS.index(work()))
        os._exit(KINDS.index("broken"))
    end = time.monotonic() + FORK_PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return KINDS[code] if code >= 0 else "died or hung"
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "died or hung"


def forks(place: Place, quick: bool) -> Found:
    """Forks at random moments of a fit with threads; children and parent fit on."""
    return counted(place.start("forking", place.full, str(5 if quick else 25)))


def child_forking(many: str) -> Found:
    warnings.simplefilter("ignore", DeprecationWarning)  # that forks and threads are a risk
    small, right = digest(fitted(n_jobs=2)), digest(fitted(900, n_jobs=2))
    rng, found = random.Random(0), Counter[str]()
    stop = threading.Event()

    def fit_on() -> None:
        while not stop.is_set():
            found["result" if digest(fitted(900, n_jobs=2)) == right else "wrong"] += 1

    worker = threading.Thread(target=fit_on)
    worker.start()
    for _ in range(int(many)):
        time.sleep(0.2 * rng.random())
        found[in_fork(lambda: "result" if digest(fitted(n_jobs=2)) == small else "wrong")] += 1
    stop.set()
    worker.join()
    return found


# --- the table ----------------------------------------------------------------------------------


def counted(process: subprocess.Popen[str]) -> Found:
    answer = ended(process)
    return Counter({answer["kind"]: 1}) if "kind" in answer else Counter(answer)


FAULTS: dict[str, Callable[[Place, bool], Found]] = {
    "full disk": full_disk,
    "read-only home": read_only_home,
    "damaged cache": damaged_cache,
    "compiling at once": compiling_at_once,
    "interrupts": interrupts,
    "interrupts compiling": interrupts_compiling,
    "terminations": terminations,
    "memory": memory,
    "forks": forks,
}


def rows(names: list[str], quick: bool) -> Iterator[tuple[str, Found, float]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for name in names:
            since = time.perf_counter()
            yield name, FAULTS[name](place, quick), time.perf_counter() - since


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=[*FAULTS])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, *words = args.child
        print(json.dumps(globals()[f"child_{name}"](*words)))
        return 0
    print(f"{'fault':21}" + "".join(f"{kind:>13}" for kind in KINDS) + f"{'seconds':>9}")
    bad = 0
    for name, found, seconds in rows(args.only, args.quick):
        print(f"{name:21}" + "".join(f"{found[kind]:13}" for kind in KINDS) + f"{seconds:9.0f}")
        sys.stdout.flush()
        bad += sum(found[kind] for kind in KINDS[3:])
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
