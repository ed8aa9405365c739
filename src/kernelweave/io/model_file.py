"""Model files: a fitted model as data alone, for colleagues, other machines and later years.

A ``.kweave`` file is a zip archive, stored uncompressed:

    manifest.json     format version, the objects of the model, and dtype, shape and SHA-256 of
                      every array
    manifest.sha256   the digest of the manifest
    0.bin, 1.bin, …   the arrays: raw numbers, little-endian

Loading runs no code of the file: it makes objects of a fixed list of classes (``_registry.py``),
and checks sizes before it takes memory and digests before it believes a number. A model that cannot
predict rows of its own is refused. Digests prove that a file is undamaged, not who made it: whoever
can change the numbers can change the digests, and a model from elsewhere may predict whatever its
maker wants.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import __version__
from kernelweave._core.atomic import written
from kernelweave._core.checks import shown
from kernelweave.io._decode import Allowance, Decoder, index
from kernelweave.io._encode import NUMBERS, Encoder
from kernelweave.io._registry import ESTIMATORS, name_of
from kernelweave.io._whole import check_whole

FORMAT = "kernelweave model"
VERSION = 1  # of the format; raised when a class changes in more than attributes with a default

_MANIFEST, _DIGEST = "manifest.json", "manifest.sha256"
_MOST = 2**31  # bytes that ``load`` allows unless told otherwise
_PIECE = 2**20  # bytes read at a time
_FIRST, _LAST = b"PK\x03\x04", b"PK\x05\x06"  # how an archive begins, and the record at its end
_END = 22  # bytes of that record, without a comment
_LIST, _ITEM = 128, 64  # bytes that a list or object of JSON takes, and one more item
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of all members: equal models make equal files


class ModelFileError(ValueError):
    """A file that is damaged, too new, too large or no model file."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, which appears whole or not at all.

    The file holds what a pickle holds: support rows, kernels with a weight, and the parameters
    (with their matrices, if there are ``Precomputed`` kernels). Kernels that are functions, and
    parameters that are objects of other libraries, raise ``TypeError``.
    """
    if name_of(type(model)) not in ESTIMATORS:
        raise TypeError(f"model must be a fitted estimator of kernelweave, found {shown(model)}")
    if not hasattr(model, "bank_"):
        raise ValueError("the model was fitted with refit=False: it has nothing to predict with")
    encoder = Encoder()
    root = encoder.encode(model, type(model).__name__)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "writer": f"kernelweave {__version__}",
        "arrays": [_described(array) for array in encoder.arrays],
        "objects": encoder.objects,
        "model": root,
    }
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":")).encode("ascii")
    with written(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_member(_MANIFEST), text)
        archive.writestr(_member(_DIGEST), hashlib.sha256(text).hexdigest())
        for place, array in enumerate(encoder.arrays):
            info = _member(f"{place}.bin")
            info.file_size = array.nbytes
            with archive.open(info, "w") as member:
                member.write(_raw(array))


def load(path: str | os.PathLike[str], max_bytes: int = _MOST) -> Any:
    """Read a fitted model from a file made by ``model.save(path)``.

    Same X, same call, same machine: decision values are equal to the last bit. As after
    unpickling, ``combined_kernel`` is not available.

    Parameters
    ----------
    path : str or path
    max_bytes : int
        The largest size of file to read, 2 GiB unless you say otherwise. A model file takes about
        as much memory as it has bytes.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, too large, of a newer format, or no model file. It is a
        ``ValueError``.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # others may never end, or wait for a writer
        raise ModelFileError(f"{Path(path)} cannot be loaded: it is no file.")
    with open(path, "rb") as file:
        try:
            return _load(file, max_bytes)
        except ModelFileError as error:
            told = str(error)
        except zipfile.BadZipFile:
            told = "it is no model file, or only a part of one"
        except (OSError, MemoryError, RecursionError) as error:
            told = str(error) or type(error).__name__
        except Exception as error:  # a file made on purpose may raise anything
            told = f"its content is wrong ({type(error).__name__}: {error})"
    raise ModelFileError(f"{Path(path)} cannot be loaded: {told}.")


def _load(file: IO[bytes], most: int) -> Any:
    size = os.fstat(file.fileno()).st_size
    _check_ends(file, size)
    limits = Allowance(size, most)
    with zipfile.ZipFile(file) as archive:
        members = _check_members(archive, size, most)
        manifest = _manifest(archive, members, limits)
        described = manifest["arrays"]
        expected = {_MANIFEST, _DIGEST, *(f"{place}.bin" for place in range(len(described)))}
        if members.keys() != expected:
            strange = min(members.keys() ^ expected)
            raise ModelFileError(f"member {shown(strange)} is missing or too many")
        arrays = [
            _array(archive, members[f"{place}.bin"], entry, limits)
            for place, entry in enumerate(described)
        ]
    decoder = Decoder(arrays, limits)
    try:
        for found in manifest["objects"]:
            decoder.add(found)
        model = decoder.decode(manifest["model"])
        check_whole(model)
    except Exception as error:  # a file made on purpose may raise anything
        raise ModelFileError(
            f"kernelweave {__version__} cannot make sense of it ({type(error).__name__}: {error}); "
            f"it says that {shown(manifest.get('writer'))} wrote it"
        ) from error
    return model


def _check_ends(file: IO[bytes], size: int) -> None:
    """An archive from its first byte to its last, as ``save`` writes it."""
    first = file.read(len(_FIRST))
    file.seek(max(size - _END, 0))
    last = file.read(_END)
    if not last.startswith(_LAST) or not last.endswith(b"\0\0") or first not in (_FIRST, _LAST):
        raise ModelFileError("it is no model file, only a part of one, or has more around it")
    file.seek(0)


def _check_members(archive: zipfile.ZipFile, size: int, most: int) -> dict[str, zipfile.ZipInfo]:
    """Members by name; none is read before their sizes are known to be true and allowed."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if len(members) < len(infos):
        raise ModelFileError("two members have one name")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ModelFileError(f"member {shown(info.filename)} is compressed")
    if min((info.header_offset for info in infos), default=0):
        raise ModelFileError("there is something before the archive")
    total = sum(info.file_size for info in infos)
    if total > size:
        raise ModelFileError("its members claim more bytes than it has")
    if total > most:
        raise ModelFileError(
            f"it holds {total} bytes and max_bytes is {most}; if you trust it, raise max_bytes"
        )
    return members


def _manifest(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], limits: Allowance
) -> dict[str, Any]:
    if _MANIFEST not in members:
        raise ModelFileError("it is a zip archive, but no model file")
    text = archive.read(members[_MANIFEST])
    limits.claim(_LIST * (text.count(b"[") + text.count(b"{")) + _ITEM * text.count(b","))
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError("it is a zip archive, but no model file")
    version = manifest["version"]
    if type(version) is not int or version != VERSION:
        raise ModelFileError(
            f"its format is {shown(version)}, written by {shown(manifest.get('writer'))}; "
            f"kernelweave {__version__} reads format {VERSION}: upgrade kernelweave"
        )
    digest = members.get(_DIGEST)
    if digest is None or archive.read(digest) != hashlib.sha256(text).hexdigest().encode():
        raise ModelFileError("the digest of its manifest does not match: it is damaged")
    return manifest


def _array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: dict[str, Any], limits: Allowance
) -> NDArray[Any]:
    shape = [limits.length(index(length)) for length in entry["shape"]]
    if entry["dtype"] not in NUMBERS:
        raise ModelFileError(f"member {info.filename} has the wrong type")
    dtype = np.dtype(f"<{entry['dtype']}")
    if math.prod(shape) * dtype.itemsize != info.file_size:
        raise ModelFileError(f"member {info.filename} does not have the size of its array")
    array = np.empty(shape, dtype=dtype, order="F" if entry["order"] == "F" else "C")
    raw = array.reshape(-1, order="A").view(np.uint8)
    with archive.open(info) as member:
        for start in range(0, len(raw), _PIECE):
            piece = raw[start : start + _PIECE]
            piece[:] = np.frombuffer(member.read(len(piece)), dtype=np.uint8)
    if hashlib.sha256(raw.data).hexdigest() != entry["sha256"]:
        raise ModelFileError(f"the digest of member {info.filename} does not match: it is damaged")
    array.flags.writeable = bool(entry["writable"])
    return array


def _described(array: NDArray[Any]) -> dict[str, Any]:
    return {
        "dtype": array.dtype.str[1:],
        "shape": list(array.shape),
        "order": _order(array),
        "writable": bool(array.flags.writeable),
        "sha256": hashlib.sha256(_raw(array)).hexdigest(),
    }


def _order(array: NDArray[Any]) -> str:
    """The order of its numbers in memory, which BLAS may show in the last bit."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _raw(array: NDArray[Any]) -> memoryview:
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order=_order(array))  # type: ignore[call-overload]
    return plain.reshape(-1, order="A").view(np.uint8).data


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _EPOCH)
