"""300 corruptions of a model file: each is an error or changes no prediction; memory is bounded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import kernelweave
from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, ModelFileError, Spectrum

rng = np.random.default_rng(11)
X = rng.normal(size=(12, 2))
Y = np.where(X[:, 0] > 0.0, 1, 0)
LIMIT = 8 * 2**20  # bytes that a load may take at most; the file has some 10,000


@pytest.fixture(scope="module")
def model():
    bank = KernelBank([Gaussian(1.0), Linear()], {"a": [0], "b": [0, 1]}, scale="standard")
    return MKLClassifier(bank).fit(X, Y)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    model.save(path)
    return path.read_bytes()


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(parts, **options):
    """A zip archive of (name, bytes) pairs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as archive:
        for name, part in parts:
            archive.writestr(name, part)
    return out.getvalue()


def with_manifest(content, change):
    """The file with another manifest and the right digest: made on purpose, not damaged."""
    parts = members(content)
    manifest = json.loads(parts["manifest.json"])
    manifest = change(manifest) or manifest
    text = json.dumps(manifest).encode()
    parts |= {"manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}
    return packed(parts.items())


def flips(content):
    for place in rng.integers(8 * len(content), size=100):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << (place % 8)
        yield bytes(damaged)


def truncations(content):
    for size in rng.integers(len(content), size=50):
        yield content[:size]


def shifts(content):
    for place in rng.integers(len(content), size=20):
        yield content[:place] + content[place + 1 :]
        yield content[:place] + b"\0" + content[place:]


def sizes(content):
    """Arrays that claim to be larger than they are, in the manifest or in the directory."""
    count = len(json.loads(members(content)["manifest.json"])["arrays"])
    for place in range(20):
        shape = [[2**40], [10**9, 10**9], [-1], [0, 2**62], [2**63], [1.5], "x", None][place % 8]

        def claim(manifest, place=place, shape=shape):
            manifest["arrays"][place % count]["shape"] = shape

        yield with_manifest(content, claim)
    for place in range(10):
        directory = content.rfind(b"PK\x01\x02", 0, len(content) - 100 * place)
        claimed = (2**31 + place).to_bytes(4, "little")
        yield content[: directory + 20] + 2 * claimed + content[directory + 28 :]


def nodes(value, path=()):
    """Paths to all parts of JSON."""
    yield path
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, part in inner.items() if isinstance(inner, dict) else ():
        yield from nodes(part, (*path, key))


def types(content):
    """Parts of the wrong type, which no digest reveals."""
    manifest = json.loads(members(content)["manifest.json"])
    paths = [path for path in nodes(manifest) if path[:1] in (("objects",), ("model",))]
    for number, place in enumerate(rng.permutation(len(paths))[:50]):
        strange = ["x", {"no such": 1}, {"object": 10**6}, {"array": "x"}, {"dict": 3}][number % 5]

        def change(manifest, path=paths[place], strange=strange):
            part = manifest
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = strange

        yield with_manifest(content, change)
    for wrong in ("O", "f2", "U9", "V8", "<f8", "M8", 3, None):
        yield with_manifest(content, lambda m, wrong=wrong: m["arrays"][0].update(dtype=wrong))
    for wrong in ([], "x", None, {"format": "x"}, {**manifest, "objects": None}):
        yield with_manifest(content, lambda m, wrong=wrong: wrong or [])
    yield packed([("manifest.json", b"[" * 100_000)])


def archives(content):
    parts = [*members(content).items()]
    for name in ("../evil", "/etc/evil", "a/b.bin", "..\\evil", "C:evil", "a\0b", "?", "0.bin/"):
        yield packed([*parts, (name, b"evil")])
        yield packed([(name if old == "0.bin" else old, part) for old, part in parts])
    with pytest.warns(UserWarning, match="Duplicate name"):
        for copied in range(5):
            yield packed([*parts, parts[copied]])
            yield packed([parts[copied], *parts])
    for left_out in range(5):
        yield packed(parts[:left_out] + parts[left_out + 1 :])
    yield packed(parts, compression=zipfile.ZIP_DEFLATED)
    yield packed([*parts, ("99.bin", bytes(10**6))], compression=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("one", ["[]", "1.5", '"a"', '{"a":[0]}'])
def test_memory_is_bounded_before_json_is_read(one, content, tmp_path):
    """A million parts take 60 to 500 MB once they are objects; their file has 3 to 10."""
    parts = members(content)
    crowd = ",".join([one] * 10**6)
    text = parts["manifest.json"].decode().replace("{", f'{{"more":[{crowd}],', 1).encode()
    parts |= {"manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}
    (tmp_path / "m").write_bytes(packed(parts.items()))
    tracemalloc.start()
    try:
        kernelweave.load(tmp_path / "m")
    except ModelFileError as error:
        assert "more memory than its size explains; if you trust it, raise max_bytes" in str(error)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * len(text) + 100e6


def of_class(manifest, name):
    return next(found["state"] for found in manifest["objects"] if found["class"] == name)


def empty_and_long(manifest):
    manifest["arrays"][0] |= {"shape": [10**12, 0]}


def endless_columns(manifest):
    of_class(manifest, "View")["columns"] = {"range": [0, 10**18, 1]}


def no_objects(manifest):
    of_class(manifest, "Table")["names"] = {"objects": [], "shape": [10**12, 0]}


def wide_words(manifest):
    words = {"strings": ["a"] * 30, "shape": [30], "width": 10**7}
    manifest["objects"][-1]["state"]["kernel_names_"] = words


def nothing_to_predict_with(manifest):
    """All kernels have a weight, and none is there."""
    for found in manifest["objects"]:
        if found["class"] == "Member":
            found["state"] |= {"kernel": None, "normalizer": None}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (empty_and_long, "1000000000000 is too long|size of its array"),
        (endless_columns, "too long|has the wrong type"),
        (no_objects, "too long"),
        (wide_words, "more memory than its size explains"),
        (nothing_to_predict_with, "was left out of this fitted bank"),
        (lambda m: m.update(version=True), "its format is True"),
        (lambda m: m.update(version=1.0), "its format is 1.0"),
    ],
)
def test_what_cannot_be_is_refused(change, told, content, tmp_path):
    (tmp_path / "m").write_bytes(with_manifest(content, change))
    with pytest.raises(ModelFileError, match=told):
        kernelweave.load(tmp_path / "m")


def test_arrays_without_numbers_are_no_longer_than_the_file(content, tmp_path):
    """(10¹², 0) takes no memory, but whoever goes through its rows is never done."""
    parts = members(content)
    manifest = json.loads(parts["manifest.json"])
    place = next(k for k, one in enumerate(manifest["arrays"]) if len(one["shape"]) == 2)
    manifest["arrays"][place] |= {"shape": [10**12, 0], "sha256": hashlib.sha256(b"").hexdigest()}
    text = json.dumps(manifest).encode()
    parts |= {"manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}
    (tmp_path / "m").write_bytes(packed((parts | {f"{place}.bin": b""}).items()))
    with pytest.raises(ModelFileError, match="1000000000000 is too long for what it holds"):
        kernelweave.load(tmp_path / "m")


def test_words_without_end_are_refused(tmp_path):
    strings = np.array([["ACGTA"], ["CCGT"], ["GATTACA"], ["TTAC"]], dtype=object)
    MKLClassifier([Spectrum(2)]).fit(strings, [0, 1, 0, 1]).save(tmp_path / "m")

    def lengthen(manifest):
        of_class(manifest, "kernels.Spectrum.words")["length"] = 10**18

    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(with_manifest(content, lengthen))
    with pytest.raises(ModelFileError, match="length must be at most"):
        kernelweave.load(tmp_path / "m")


def test_the_file_is_an_archive_from_end_to_end(content, tmp_path):
    path = tmp_path / "m"
    for damaged in (b"x" + content, content + b"x", content + bytes(10**5), content + content):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            kernelweave.load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="device files")
def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")  # to open it would wait for a writer
    for path in ("/dev/zero", tmp_path, tmp_path / "fifo"):
        with pytest.raises(ModelFileError, match="it is no file"):
            kernelweave.load(path)


def test_larger_files_and_more_objects_on_request(content, tmp_path):
    """Whoever allows larger files allows more objects in them."""
    crowd = ",".join(["[]"] * 10**6)
    parts = members(content)
    text = parts["manifest.json"].decode().replace("{", f'{{"more":[{crowd}],', 1).encode()
    parts |= {"manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}
    (tmp_path / "m").write_bytes(packed(parts.items()))
    with pytest.raises(ModelFileError, match="raise max_bytes"):
        kernelweave.load(tmp_path / "m")
    assert kernelweave.load(tmp_path / "m", max_bytes=2**33)


@pytest.mark.parametrize("name", ["builtins.eval", "subprocess.Popen", "kernels.FunctionKernel"])
def test_only_known_classes_are_made(name, content, tmp_path):
    def change(manifest):
        manifest["objects"][0]["class"] = name

    (tmp_path / "m").write_bytes(with_manifest(content, change))
    with pytest.raises(ModelFileError, match=f"KeyError.*{name}"):
        kernelweave.load(tmp_path / "m")


def test_options_that_did_not_exist_yet_have_their_defaults(model, content, tmp_path):
    def change(manifest):
        for found in manifest["objects"]:
            if found["class"] == "KernelBank":
                del found["state"]["missing"]
            if found["class"] == "Member":
                del found["state"]["alone"]

    (tmp_path / "m").write_bytes(with_manifest(content, change))
    back = kernelweave.load(tmp_path / "m")
    assert back.kernels.missing == "mean"
    assert np.array_equal(back.decision_function(X), model.decision_function(X))

    def lose(manifest):
        for found in manifest["objects"]:
            found["state"].pop("columns", None)

    (tmp_path / "m").write_bytes(with_manifest(content, lose))
    with pytest.raises(ModelFileError, match=r"View lacks 'columns'.*kernelweave 0\.1\.0' wrote"):
        kernelweave.load(tmp_path / "m")


def test_no_corruption_changes_a_prediction(model, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth, path = model.decision_function(X), tmp_path / "m"
    path.write_bytes(content)
    assert np.array_equal(kernelweave.load(path).decision_function(X), truth)
    kinds = (flips, truncations, shifts, sizes, types, archives)
    corrupted = [(kind.__name__, one) for kind in kinds for one in kind(content)]
    assert len(corrupted) >= 300
    survivors = []
    tracemalloc.start()
    for kind, damaged in corrupted:
        path.write_bytes(damaged)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            survivor = kernelweave.load(path)
        except ModelFileError as error:
            assert str(path) in str(error)
        else:
            survivors.append(kind)
            assert np.array_equal(survivor.decision_function(X), truth), kind
        taken = tracemalloc.get_traced_memory()[1] - held
        assert taken < LIMIT + 20 * len(damaged), kind
    tracemalloc.stop()
    assert [*tmp_path.rglob("*")] == [path]
    harmless = {kind: survivors.count(kind) for kind in set(survivors)}
    assert len(survivors) < 60, harmless  # most are errors
