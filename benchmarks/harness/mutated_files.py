"""Model files changed at random: each is refused clearly, or predicts, in bounded time and memory.

    python -m benchmarks.harness.mutated_files --count 5000            in some minutes
    python -m benchmarks.harness.mutated_files --count 100 --seed 7    others
    python -m benchmarks.harness.mutated_files --keep FOLDER           keeps the files of findings

Checksums are repaired, so that nothing but the content itself tells. A file may change in its JSON
(numbers, words, keys, references, classes, sizes, very many nodes), in its arrays (numbers, types,
shapes) and as an archive (junk around it, members twice, missing, compressed). Each is read and
asked to predict in a process of its own kind, which is watched. What may come of it:

- refused: ``ModelFileError``;
- same, other: predictions for all rows, as those of the model or not; a number that is changed for
  another that could have been there is no fault;
- unclear: any other error, predictions that are no numbers or no classes of the model;
- slow: more than 2 s; large: more than 4 × the bytes of the file + 100 MB;
- died: the process ended or hung.

The exit code is 1 if anything was unclear, slow, large or died.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import multiprocessing
import sys
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave
from benchmarks.harness.internals import MODEL_CLASSES
from benchmarks.harness.model_zoo import ZOO, made

GOOD = ("refused", "same", "other")
SECONDS, TIMES, ROOM = 2.0, 4, 100e6
PATIENCE = 20.0  # seconds after which a process has hung
Rng = np.random.Generator
Parts = dict[str, bytes]

NUMBERS = [0, 1, -1, 2, 3, 7, 63, 10**6, 10**12, 10**18, 2**31, 2**63, 2**64, -(10**18)]
NUMBERS += [10**400, 0.5, 1.5, -0.0, 1e-300, 1e300]  # type: ignore[list-item]
STRANGE: list[Any] = [None, True, False, "", "x", "trace", "\0", "é" * 99, [], {}, [[]], [0], "nan"]
STRANGE += [{"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"dict": []}, {"no such": 1}]
STRANGE += [{"range": [0, 10**18, 1]}, {"range": [0, 5, 0]}, {"slice": [None, None, 0]}]
STRANGE += [{"type": "float"}, {"dtype": "O"}, {"dtype": "<f8"}, {"object": 10**6}, {"object": 0}]
STRANGE += [{"array": 0}, {"array": 10**6}, {"strings": ["a"], "shape": [1], "width": 10**10}]
STRANGE += [
    {"objects": [], "shape": [10**12, 0]},
    {"strings": [], "shape": [0, 10**12], "width": 1},
]
DTYPES = ["f8", "f4", "i8", "i4", "i2", "i1", "u1", "u8", "b1", "f2", "O", "U9", "V8", 3, None]


# --- archives -----------------------------------------------------------------------------------


def unpacked(content: bytes) -> Parts:
    """Members by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(
    parts: Iterator[tuple[str, bytes]] | Any, compression: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive of (name, bytes) pairs."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        with zipfile.ZipFile(out, "w", compression) as archive:
            for name, part in parts:
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), part, compression)
    return out.getvalue()


def repaired(manifest: Any, parts: Parts, text: bytes | None = None) -> bytes:
    """The file with this manifest, and digests that match."""
    entries = manifest.get("arrays")
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        raw = parts.get(f"{place}.bin")
        if isinstance(entry, dict) and raw is not None:
            entry["sha256"] = hashlib.sha256(raw).hexdigest()
    text = json.dumps(manifest).encode() if text is None else text
    digest = hashlib.sha256(text).hexdigest().encode()
    return packed((parts | {"manifest.json": text, "manifest.sha256": digest}).items())


# --- JSON ---------------------------------------------------------------------------------------


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all parts of JSON."""
    if path:
        yield path
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, part in inner.items() if isinstance(inner, dict) else ():
        yield from nodes(part, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def any_of(rng: Rng, found: list[Any]) -> Any:
    return found[int(rng.integers(len(found)))]


def places(manifest: Any, wanted: Callable[[Any], bool] = lambda part: True) -> list[Any]:
    """Paths of the description of objects, whose parts are as wanted."""
    roots = ("objects", "model")
    every = [path for path in nodes(manifest) if path[0] in roots and len(path) > 1]
    return [path for path in every if wanted(at(manifest, path))] or every


def put(manifest: Any, path: tuple[Any, ...], part: Any) -> None:
    at(manifest, path[:-1])[path[-1]] = part


def strange(manifest: Any, parts: Parts, rng: Rng) -> None:
    put(manifest, any_of(rng, places(manifest)), any_of(rng, STRANGE))


def number(manifest: Any, parts: Parts, rng: Rng) -> None:
    path = any_of(rng, places(manifest, lambda part: type(part) in (int, float)))
    old = at(manifest, path)
    near = [old + 1, old - 1, -old, 2 * old, old / 2] if type(old) in (int, float) else []
    put(manifest, path, any_of(rng, [*NUMBERS, *near]))


def word(manifest: Any, parts: Parts, rng: Rng) -> None:
    path = any_of(rng, places(manifest, lambda part: isinstance(part, str)))
    other = at(manifest, any_of(rng, places(manifest, lambda part: isinstance(part, str))))
    old = str(at(manifest, path))
    put(manifest, path, any_of(rng, [other, old[:-1], old + old, old.upper(), "", "\ud800", "0"]))


def swapped(manifest: Any, parts: Parts, rng: Rng) -> None:
    one, other = (any_of(rng, places(manifest)) for _ in range(2))
    if one[: len(other)] != other and other[: len(one)] != one:
        first, second = at(manifest, one), at(manifest, other)
        put(manifest, one, second)
        put(manifest, other, first)


def lost(manifest: Any, parts: Parts, rng: Rng) -> None:
    path = any_of(rng, places(manifest))
    del at(manifest, path[:-1])[path[-1]]


def doubled(manifest: Any, parts: Parts, rng: Rng) -> None:
    path = any_of(rng, places(manifest, lambda part: isinstance(part, list) and len(part) > 0))
    found = at(manifest, path)
    if isinstance(found, list) and found:
        found.insert(int(rng.integers(len(found) + 1)), any_of(rng, found))


def class_of_another(manifest: Any, parts: Parts, rng: Rng) -> None:
    any_of(rng, manifest["objects"])["class"] = any_of(rng, sorted(MODEL_CLASSES))


def reference(manifest: Any, parts: Parts, rng: Rng) -> None:
    kind = any_of(rng, ["object", "array"])
    path = any_of(rng, places(manifest, lambda part: isinstance(part, dict) and kind in part))
    most = len(manifest["objects"] if kind == "object" else manifest["arrays"])
    put(manifest, path, {kind: int(rng.integers(most))})


def head(manifest: Any, parts: Parts, rng: Rng) -> None:
    """The keys that every file has."""
    key = any_of(rng, ["format", "version", "writer", "arrays", "objects", "model"])
    manifest[key] = any_of(rng, [*STRANGE, True, 1.0, "1", 2, 0, -1, [1], {"version": 1}])


# --- arrays -------------------------------------------------------------------------------------


def array_claims(manifest: Any, parts: Parts, rng: Rng) -> None:
    """An array that is described as another."""
    if not manifest["arrays"]:
        return strange(manifest, parts, rng)
    entry = any_of(rng, manifest["arrays"])
    shape = entry["shape"] if isinstance(entry["shape"], list) else [1]
    shapes = [
        shape[::-1],
        [*shape, 1],
        [1, *shape],
        [int(np.prod(shape))],
        [10**12, 0],
        [0, 10**12],
    ]
    shapes += [[], [-1], [2**63], [1.5], "x", None, [True], [[1]], shape[:-1], [0] * 40]
    key = any_of(rng, ["shape", "shape", "dtype", "order", "writable"])
    values = {"shape": shapes, "dtype": DTYPES, "order": ["F", "C", "K", None, 3]}
    entry[key] = any_of(rng, values.get(key, [True, False, None, "x"]))


def array_is(manifest: Any, parts: Parts, rng: Rng) -> None:
    """An array of another size or type, truly."""
    if not manifest["arrays"]:
        return strange(manifest, parts, rng)
    place = int(rng.integers(len(manifest["arrays"])))
    count = int(rng.choice([0, 1, 2, 5, 24, 25]))
    shape = any_of(rng, [[count], [count, 1], [1, count], [count, 3], [3, count], [10**12, 0], []])
    dtype = any_of(rng, ["f8", "i8", "b1", "f4", "u1", "i4"])
    size = int(np.prod(shape)) if shape else 1
    made = rng.integers(0, 9, size=size).astype(f"<{dtype}")
    parts[f"{place}.bin"] = made.tobytes()
    entry = {"dtype": dtype, "shape": shape, "order": "C", "writable": True, "sha256": ""}
    manifest["arrays"][place] = entry


def array_numbers(manifest: Any, parts: Parts, rng: Rng) -> None:
    """Some numbers of an array, or all, changed."""
    if not manifest["arrays"]:
        return strange(manifest, parts, rng)
    place = int(rng.integers(len(manifest["arrays"])))
    kind = manifest["arrays"][place]["dtype"]
    found = np.frombuffer(parts[f"{place}.bin"], dtype=f"<{kind}").copy()
    if not found.size:
        return strange(manifest, parts, rng)
    chosen = slice(None) if rng.random() < 0.3 else rng.integers(found.size, size=2)
    values: list[Any] = [0, 1, -1, 127]
    if kind[0] == "f":
        values += [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300]
    elif kind[0] == "i":
        values += [np.iinfo(found.dtype).max, np.iinfo(found.dtype).min, found.size, 24]
    with np.errstate(all="ignore"):
        if rng.random() < 0.2:
            raw = rng.integers(0, 256, size=found.nbytes, dtype=np.uint8)
            found = raw.view(found.dtype) if kind != "b1" else raw.astype(bool)
        else:
            value = any_of(rng, values)
            found[chosen] = value if kind[0] != "u" else abs(int(value))
    parts[f"{place}.bin"] = found.tobytes()


# --- text and archive ---------------------------------------------------------------------------


def crowded(manifest: Any, parts: Parts, rng: Rng) -> bytes:
    """A manifest of very many nodes, none of which means anything."""
    count = int(rng.choice([10**4, 10**5, 10**6]))
    one = any_of(rng, ["[]", "{}", "0", "1.5", '"a"', '{"tuple":[]}', "null", '{"a":[0]}'])
    crowd = "[" + ",".join([one] * count) + "]"
    text = json.dumps(manifest)
    key = any_of(rng, ['"model":', '"objects":', '"writer":', '"arrays":'])
    return repaired(manifest, parts, text.replace(key, f'"more":{crowd},{key}', 1).encode())


def deep(manifest: Any, parts: Parts, rng: Rng) -> bytes:
    text = "[" * int(rng.choice([500, 10**5])) + "]" * int(rng.choice([0, 500, 10**5]))
    return repaired(manifest, parts, text.encode())


def text_changed(manifest: Any, parts: Parts, rng: Rng) -> bytes:
    """Bytes of the JSON, changed where they stand."""
    text = bytearray(json.dumps(manifest).encode())
    for place in rng.integers(len(text), size=int(rng.integers(1, 4))):
        text[place] = any_of(rng, list(b'0123456789-.e[]{}",: \0\xffnaN'))
    return repaired(manifest, parts, bytes(text))


def archive(manifest: Any, parts: Parts, rng: Rng) -> bytes:
    """Junk around the archive, and members that should not be."""
    whole, pairs = repaired(manifest, parts), [*parts.items()]
    junk = rng.bytes(int(rng.integers(1, 300)))
    place = int(rng.integers(len(pairs)))
    found = [
        junk + whole,
        whole + junk,
        whole + whole,
        junk,
        whole[: int(rng.integers(len(whole)))],
        packed([*pairs, ("more.bin", junk)]),
        packed(pairs[:place] + pairs[place + 1 :]),
        packed([*pairs, pairs[place]]),
        packed(pairs, zipfile.ZIP_DEFLATED),
        packed([*pairs, *((f"{k}.txt", b"") for k in range(20_000))]),
    ]
    return any_of(rng, found)


CHANGES = (strange, number, word, swapped, lost, doubled, class_of_another, reference, head)
CHANGES += (array_claims, array_is, array_numbers)  # type: ignore[assignment]
TEXTS = (crowded, deep, text_changed, archive)
KINDS = {one.__name__: one for one in (*CHANGES, *TEXTS)}


def mutated(content: bytes, rng: Rng) -> tuple[str, bytes]:
    """What was changed, and the file; now and then twice."""
    parts = unpacked(content)
    manifest = json.loads(parts["manifest.json"])
    name = any_of(rng, [*CHANGES, *CHANGES, *CHANGES, *TEXTS]).__name__
    if name in {one.__name__ for one in TEXTS}:
        return name, KINDS[name](manifest, parts, rng)
    for _ in range(1 + (rng.random() < 0.2)):
        KINDS[name](manifest, parts, rng)
    return name, repaired(manifest, parts)


# --- judging ------------------------------------------------------------------------------------


def judged(path: Path, X: Any, truth: Any) -> tuple[str, str]:
    """What comes of a file, and what is to be said of it."""
    size = path.stat().st_size
    tracemalloc.start()
    began = time.process_time()
    try:
        outcome, told = outcome_of(path, X, truth)
    finally:
        seconds, most = time.process_time() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if seconds > SECONDS:
        return "slow", f"{seconds:.1f} s, {outcome}: {told}"
    if most > TIMES * size + ROOM:
        return "large", f"{most / 1e6:.0f} MB for {size / 1e6:.2f} MB, {outcome}: {told}"
    return outcome, told


def outcome_of(path: Path, X: Any, truth: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = kernelweave.load(path)
            found = model.predict(X)
            values = model.decision_function(X) if hasattr(model, "decision_function") else found
    except kernelweave.ModelFileError as error:
        return "refused", str(error)
    except Exception as error:
        return "unclear", f"{type(error).__name__}: {error}"
    if np.shape(found)[:1] != np.shape(truth)[:1]:
        return "unclear", f"{np.shape(found)} predictions for {len(truth)} rows"
    if not np.isfinite(np.asarray(values, dtype=float)).all():
        return "unclear", "decision values that are not finite"
    if hasattr(model, "classes_") and not np.isin(found, model.classes_).all():
        return "unclear", "predictions that are no classes"
    return ("same" if np.array_equal(found, truth) else "other"), ""


def child(pipe: Connection) -> None:
    """Judges files of one model after another, for as long as it lives."""
    known: dict[str, Any] = {}
    while True:
        name, path = pipe.recv()
        if name not in known:
            model, X = made(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = X, model.predict(X)
            with tempfile.TemporaryDirectory() as folder:  # compiles what a load needs
                model.save(f"{folder}/m")
                outcome_of(Path(folder, "m"), *known[name])
        pipe.send("ready")
        pipe.send(judged(path, *known[name]))


class Judge:
    """A process that judges, started again when it died."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=child, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def __call__(self, name: str, path: Path) -> tuple[str, str]:
        try:
            self._pipe.send((name, path))
            self._pipe.recv()
            if self._pipe.poll(PATIENCE):
                found: tuple[str, str] = self._pipe.recv()
                return found
            told = f"no answer in {PATIENCE:.0f} s"
        except (EOFError, ConnectionError):
            self._process.join(5.0)
            told = f"ended with {self._process.exitcode}"
        self._process.kill()
        self._start()
        return "died", told

    def close(self) -> None:
        self._process.kill()


def run(count: int, seed: int, folder: Path, keep: Path | None = None, names: Any = ZOO) -> Any:
    """Outcomes by kind of change, and what was wrong: kind, model, number, what was said."""
    judge, outcomes, wrong, contents = Judge(), dict[str, Counter[str]](), [], dict[str, bytes]()
    every = list(names)
    for k in range(count):
        rng, name = np.random.default_rng([seed, k]), every[k % len(every)]
        if name not in contents:
            made(name)[0].save(folder / "whole")
            contents[name] = (folder / "whole").read_bytes()
        kind, content = mutated(contents[name], rng)
        path = folder / "m.kweave"
        path.write_bytes(content)
        outcome, told = judge(name, path)
        outcomes.setdefault(kind, Counter())[outcome] += 1
        if outcome not in GOOD:
            wrong.append((outcome, kind, name, k, told))
            if keep is not None:
                (keep / f"{seed}-{k}.kweave").write_bytes(content)
    judge.close()
    return outcomes, wrong


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the files of findings")
    parser.add_argument("--only", nargs="+", choices=ZOO, default=list(ZOO), help="models")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        outcomes, wrong = run(args.count, args.seed, Path(folder), args.keep, args.only)
    total = sum(outcomes.values(), Counter())
    for kind, found in sorted(outcomes.items()):
        print(f"{kind:<18}" + "".join(f"{found[name]:>7} {name}" for name in total if found[name]))
    for outcome, kind, name, k, told in wrong:
        print(f"{outcome}: {kind} of {name!r}, number {k}: {' '.join(told.split())[:300]}")
    print(", ".join(f"{count} {name}" for name, count in total.most_common()))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
