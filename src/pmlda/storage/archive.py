"""Model files: a dictionary of numbers, texts, arrays and families ⇄ one zip of JSON and .npy files. No pickle.

A file from a stranger can be opened safely: only known entries are read, arrays without objects, no entry is unpacked
beyond a limit, and every array carries its SHA-256. Checkpoints are files of the same make, larger and not packed.
"""

import dataclasses
import hashlib
import io
import json
import math
import os
import secrets
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from pmlda import families
from pmlda.errors import MissingFileError, ModelFileError, NotAFileError, PmldaError

SCHEMA_VERSION = 1
MOST_JSON_BYTES = 2**26
MOST_ARRAY_BYTES = 2**32
MOST_ARRAYS = 256


class Kind(NamedTuple):
    """What a file is for.

    format : what it says of itself
    writer : what writes it
    packing : how zip stores what it holds
    own : whether it never comes from a stranger, so that no limit is needed
    """

    format: str
    writer: str
    packing: int
    own: bool


MODEL = Kind("pmlda model", "PMLDA.save", zipfile.ZIP_DEFLATED, own=False)
# Packing would take longer than the sweeps between two checkpoints, and hardly shorten random numbers.
CHECKPOINT = Kind("pmlda checkpoint", "a fit with a checkpoint", zipfile.ZIP_STORED, own=True)
PART = Kind("pmlda part", "a run in blocks", zipfile.ZIP_STORED, own=True)

_CLASSES: dict[str, type[Any]] = {
    name: cls
    for name, cls in vars(families).items()
    if name in families.__all__ and isinstance(cls, type) and dataclasses.is_dataclass(cls)
}


# What the readers of zip, JSON and npy raise when bytes are not what they should be.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    SyntaxError,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    ArithmeticError,
    MemoryError,
)


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a model file: all of the content, or nothing."""
    path = Path(path)
    if path.is_dir():
        raise NotAFileError(f"{str(path)!r} is a directory. Give the name of a file in it.")
    path = path.resolve()  # a link stays a link, its target is replaced
    if not path.parent.is_dir():
        raise MissingFileError(f"The folder {str(path.parent)!r} does not exist. Make it first, or save elsewhere.")
    temporary = path.parent / f".pmlda-{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        with open(temporary, "xb") as stream:
            write(stream, content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(stream: IO[bytes], content: dict[str, Any], kind: Kind = MODEL, note: Any = None) -> None:
    """Write content to an open file. One array at a time is copied.

    note : plain values that read_note finds without reading the rest
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    document = {"format": kind.format, "schema_version": SCHEMA_VERSION, "note": note}
    document["content"] = _encode(content, arrays, "content")
    digests = {}
    with zipfile.ZipFile(stream, "w", kind.packing) as archive:
        for name, array in arrays.items():
            data = _to_npy(array)
            digests[name] = hashlib.sha256(data).hexdigest()
            archive.writestr(f"{name}.npy", data)
        archive.writestr("model.json", json.dumps(document | {"sha256": digests}, indent=1))


def _to_npy(array: np.ndarray[Any, Any]) -> bytes | memoryview:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()


def digest(value: Any) -> str:
    """A text of 64 characters that tells values apart; ValueError for what files do not keep."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    total = hashlib.sha256(json.dumps(_encode(value, arrays, "")).encode())
    for array in arrays.values():
        total.update(_to_npy(array))
    return total.hexdigest()


def read_note(path: str | os.PathLike[str], kind: Kind) -> Any:
    """The note that was written with the content."""
    with _explained(path, kind), zipfile.ZipFile(path) as archive:
        return _read_document(archive, kind)["note"]


def load(path: str | os.PathLike[str], kind: Kind = MODEL) -> dict[str, Any]:
    """Read what was written, or raise one ModelFileError that says what is wrong with the file."""
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"There is no file {str(path)!r}.")
    with _explained(path, kind):
        with zipfile.ZipFile(path) as archive:
            document = _read_document(archive, kind)
            arrays = _read_arrays(archive, document["sha256"], kind)
        content = _decode(document["content"], arrays)
        if not isinstance(content, dict):
            raise ModelFileError("its content is not a table of settings and results")
        return content


@contextmanager
def _explained(path: str | os.PathLike[str], kind: Kind) -> Iterator[None]:
    """One ModelFileError for whatever is wrong with a file."""
    unusable = f"{str(path)!r} is not a usable {kind.format.removeprefix('pmlda ')} file"
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{unusable}: {error}.") from None
    except RecursionError:
        raise ModelFileError(f"{unusable}: it is nested too deeply.") from None
    except _DAMAGE as error:
        if kind.own and isinstance(error, MemoryError):
            raise
        raise ModelFileError(
            f"{unusable}: it is damaged, incomplete, or was not written by "
            f"{kind.writer} ({type(error).__name__}: {error}). Save the model again, or fetch the file again."
        ) from None


def _read_document(archive: zipfile.ZipFile, kind: Kind) -> dict[str, Any]:
    """All but the arrays."""
    document = json.loads(_read(archive, "model.json", MOST_JSON_BYTES))
    if not isinstance(document, dict) or document.get("format") != kind.format:
        raise ModelFileError(f"it was not written by {kind.writer}")
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"its schema version is {version!r}, expected a whole number from 1 to {SCHEMA_VERSION}")
    if version > SCHEMA_VERSION:
        raise ModelFileError(
            f"it has schema version {version}, and this pmlda reads up to {SCHEMA_VERSION}; install a newer pmlda"
        )
    return document


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """The entry's bytes, never more than the limit whatever the entry claims."""
    with archive.open(name) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ModelFileError(f"its entry {name} is larger than the limit of {limit:,} bytes")
    return data


def _read_arrays(archive: zipfile.ZipFile, digests: dict[str, str], kind: Kind) -> dict[str, np.ndarray[Any, Any]]:
    if len(digests) > MOST_ARRAYS and not kind.own:
        raise ModelFileError(f"it lists {len(digests)} arrays, more than the limit of {MOST_ARRAYS}")
    arrays = {}
    remaining = sys.maxsize - 1 if kind.own else MOST_ARRAY_BYTES
    for name, digest in digests.items():
        data = _read(archive, f"{name}.npy", remaining)
        remaining -= len(data)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ModelFileError(f"its array {name} was changed after it was written; save the model again")
        arrays[name] = _array(name, data)
    return arrays


def _array(name: str, data: bytes) -> np.ndarray[Any, Any]:
    """An .npy file that holds as many numbers as its header says, and no objects."""
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    if dtype.hasobject:
        raise ModelFileError(f"its array {name} holds Python objects, which are never opened")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ModelFileError(f"its array {name} does not have the size that its header says")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def _encode(value: Any, arrays: dict[str, np.ndarray[Any, Any]], name: str) -> Any:
    """A value as JSON, arrays set aside under their names."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}  # exact, and able to say infinity
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            if not all(isinstance(item, str) for item in value.flat):
                raise PmldaError(f"{name} holds Python objects, which model files do not keep. Use numbers or strings.")
            value = value.astype(str)
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list | tuple):
        return [_encode(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {"table": {str(key): _encode(item, arrays, f"{name}.{key}") for key, item in value.items()}}
    if _CLASSES.get(type(value).__name__) is type(value):
        fields = {
            field.name: _encode(getattr(value, field.name), arrays, f"{name}.{field.name}")
            for field in dataclasses.fields(value)
        }
        return {"object": type(value).__name__, "fields": fields}
    raise PmldaError(
        f"{name} is a {type(value).__name__}, which model files do not keep. "
        "They hold numbers, texts, lists, tables, arrays and the families of pmlda."
    )


def _decode(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """The inverse of _encode."""
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "array" in value:
        return arrays[value["array"]]
    if "table" in value:
        return {key: _decode(item, arrays) for key, item in value["table"].items()}
    if value.get("object") not in _CLASSES:
        raise ModelFileError(f"it asks for an object of the unknown kind {value.get('object')!r}")
    return _CLASSES[value["object"]](**{key: _decode(item, arrays) for key, item in value["fields"].items()})
