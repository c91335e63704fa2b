"""One file for a table of values, without pickle: numbers, texts, lists, arrays and registered classes ⇄ JSON and .npy.

An untrusted file can be opened safely: sizes are judged before anything is unpacked, only known entries are read,
arrays hold numbers and texts, and every array carries its SHA-256. Only classes that belong in model files are made, by
their constructors, which check what they are given. The files of a run, checkpoints and parts, are of the same make,
not packed, and may hold any registered class whose fields have the types that it declares.
"""

import dataclasses
import io
import json
import math
import os
import struct
import sys
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib import format as npy

from pmlda.errors import MissingFileError, ModelFileError, NotAFileError, PmldaError
from pmlda.storage.account import is_signed, sign
from pmlda.storage.atomic import new_file
from pmlda.storage.conform import check_fields
from pmlda.storage.digest import digest_bytes
from pmlda.storage.regular import require_regular
from pmlda.storage.tables import parse_json
from pmlda.storage.zips import MOST_UNPACKED_BYTES, open_zip, read_entry
from pmlda.types import Draws, Estimate, Labels, Latents, Statistics, Topics
from pmlda.validate import brief, require

SCHEMA_VERSION = 1
MOST_ARRAY_BYTES = 2**32
MOST_ARRAYS = 256
# Headers of .npy files are Python expressions, which two threads must not parse at once before Python 3.11.8: it may
# raise "AST constructor recursion depth mismatch" (python/cpython#106905).
_one_parser = threading.Lock()
# Characters of an error about the content of a file: some tell the content.
MOST_SAID = 300
# Of arrays: numbers, texts, dates and differences of dates, which may all be labels of documents.
ARRAY_KINDS = "biufUSMm"


class Kind(NamedTuple):
    """What a file is for.

    format : what it says of itself
    writer : what writes it
    most_json_bytes : how much there may be beside arrays; reading it takes fifty times as much memory
    own : a file of a run: it is not packed, may have any number of arrays, which are as long as the file at most, keeps
        tuples and NumPy numbers as they are, and may hold any registered class. Other files hold plain values that
        every version of pmlda can read.
    """

    format: str
    writer: str
    most_json_bytes: int
    own: bool


MODEL = Kind("pmlda model", "PMLDA.save", 2**22, own=False)
# Packing would take longer than the sweeps between two checkpoints, and hardly shorten random numbers.
CHECKPOINT = Kind("pmlda checkpoint", "a fit with a checkpoint", 2**26, own=True)
PART = Kind("pmlda part", "a run in blocks", 2**26, own=True)

_CLASSES: dict[str, type[Any]] = {}
_NAMES: dict[type[Any], str] = {}
_IN_MODELS: set[str] = set()
C = TypeVar("C")


def register(cls: type[C], *others: type[Any], in_models: bool = False) -> type[C]:
    """Let files hold objects of these classes; also a decorator.

    A class is a NamedTuple, a dataclass, or one that declares the types of all its attributes.

    in_models : model files may hold them as well, under names without a module, which may change meanwhile. They are
        made by their constructors, which must be safe to call with anything.
    """
    for each in (cls, *others):
        name = each.__name__ if in_models else f"{each.__module__}.{each.__qualname__}"
        if in_models and not _has_fields(each):
            raise TypeError(f"{name} is neither a NamedTuple nor a dataclass, so model files must not hold it.")
        if _CLASSES.setdefault(name, each) is not each:
            raise TypeError(f"Another class is already registered as {name}.")
        _NAMES[each] = name
        if in_models:
            _IN_MODELS.add(name)
    return cls


def _has_fields(cls: type[Any]) -> bool:
    return hasattr(cls, "_asdict") or dataclasses.is_dataclass(cls)


register(Topics, Latents, Statistics, Estimate, Draws, Labels)

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
    with new_file(path) as part, part.open("xb") as stream:
        write(stream, content)


def write(
    stream: IO[bytes], content: dict[str, Any], kind: Kind = MODEL, note: Any = None, key: bytes | None = None
) -> None:
    """Write content to an open file. One array at a time is copied.

    note : plain values that read_note finds without reading the rest
    key : signs the file, so that only who has the key takes it for intact
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    document: dict[str, Any] = {"format": kind.format, "schema_version": SCHEMA_VERSION, "note": note}
    document["content"] = _encode(content, arrays, "content", kind)
    document["sha256"], n_packed = {}, 0
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            data = _to_npy(array)
            document["sha256"][name] = digest_bytes(data)
            n_packed += len(data)
            archive.writestr(f"{name}.npy", data, _packing(n_packed, kind))
        text = json.dumps(document, indent=1)
        require(
            len(text) <= kind.most_json_bytes,
            f"There are more than {kind.most_json_bytes:,} bytes of numbers and texts in lists and tables, which "
            f"{kind.format} files do not keep. Give arrays instead.",
        )
        archive.writestr("model.json", text, _packing(len(text), kind))
        if key is not None:
            archive.comment = sign(key, text.encode())


def _packing(n_packed: int, kind: Kind) -> int:
    """How zip keeps the next of these bytes in all: as they are once there are more than a reader would unpack."""
    return zipfile.ZIP_STORED if kind.own or n_packed > MOST_UNPACKED_BYTES // 2 else zipfile.ZIP_DEFLATED


def _to_npy(array: np.ndarray[Any, Any]) -> bytes | memoryview:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()


def read_note(path: str | os.PathLike[str], kind: Kind, key: bytes | None = None) -> Any:
    """The note that was written with the content."""
    require_regular(path, ModelFileError)
    with _explained(path, kind), open_zip(path, packed=not kind.own) as archive:
        return _read_document(archive, kind, key)["note"]


def load(path: str | os.PathLike[str], kind: Kind = MODEL, key: bytes | None = None) -> dict[str, Any]:
    """Read what was written, or raise one ModelFileError that says what is wrong with the file.

    key : refuse a file that was not signed with it
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"There is no file {str(path)!r}.")
    require_regular(path, ModelFileError)
    with _explained(path, kind):
        with open_zip(path, packed=not kind.own) as archive:
            document = _read_document(archive, kind, key)
            arrays = _read_arrays(archive, document["sha256"], kind)
        content = _decode(document["content"], arrays, kind)
        if not isinstance(content, dict):
            raise ModelFileError("its content is not a table of settings and results")
        return content


@contextmanager
def _explained(path: str | os.PathLike[str], kind: Kind) -> Iterator[None]:
    """One ModelFileError for whatever is wrong with a file."""
    unusable = f"{str(path)!r} is not a usable {kind.format.removeprefix('pmlda ')} file"
    try:
        yield
    except PmldaError as error:
        raise ModelFileError(f"{unusable}: {_said(error).rstrip('.')}.") from None
    except RecursionError:
        raise ModelFileError(f"{unusable}: it is nested too deeply.") from None
    except _DAMAGE as error:
        if kind.own and isinstance(error, MemoryError):
            raise
        raise ModelFileError(
            f"{unusable}: it is damaged, incomplete, or was not written by "
            f"{kind.writer} ({type(error).__name__}: {_said(error)}). Save the model again, or fetch the file again."
        ) from None


@contextmanager
def usable(path: str | os.PathLike[str]) -> Iterator[None]:
    """One ModelFileError for whatever is wrong with the content of a model file."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ModelFileError(
            f"{str(path)!r} is not a usable model file: it lacks something or has too much ({_said(error)})."
        ) from None


def _said(error: BaseException) -> str:
    """The text of an error, in one line that is not too long."""
    return " ".join((str(error) or type(error).__name__).split())[:MOST_SAID]


def _read_document(archive: zipfile.ZipFile, kind: Kind, key: bytes | None) -> dict[str, Any]:
    """All but the arrays, of which it has the digests."""
    text = read_entry(archive, "model.json", kind.most_json_bytes)
    if key is not None and not is_signed(key, text, archive.comment):
        raise ModelFileError("it was written by another account, or for another run")
    document = parse_json(text)
    if not isinstance(document, dict) or document.get("format") != kind.format:
        raise ModelFileError(f"it was not written by {kind.writer}")
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(
            f"its schema version is {brief(version)}, expected a whole number from 1 to {SCHEMA_VERSION}"
        )
    if version > SCHEMA_VERSION:
        raise ModelFileError(
            f"it has schema version {brief(version)}, and this pmlda reads up to {SCHEMA_VERSION}; "
            "install a newer pmlda"
        )
    return document


def _read_arrays(archive: zipfile.ZipFile, digests: dict[str, str], kind: Kind) -> dict[str, np.ndarray[Any, Any]]:
    if len(digests) > MOST_ARRAYS and not kind.own:
        raise ModelFileError(f"it lists {len(digests)} arrays, more than the limit of {MOST_ARRAYS}")
    arrays = {}
    remaining = MOST_ARRAY_BYTES
    for name, digest in digests.items():
        data = read_entry(archive, f"{name}.npy", sys.maxsize if kind.own else remaining)
        remaining -= len(data)
        if digest_bytes(data) != digest:
            raise ModelFileError(f"its array {name} was changed after it was written; save the model again")
        arrays[name] = _array(name, data)
    return arrays


def _array(name: str, data: bytes) -> np.ndarray[Any, Any]:
    """An .npy file that holds as many numbers or texts as its header says, and no objects."""
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with _one_parser:
        shape, by_columns, dtype = read_header(stream)
    if dtype.hasobject:
        raise ModelFileError(f"its array {name} holds Python objects, which are never opened")
    if dtype.kind not in ARRAY_KINDS or dtype.itemsize == 0:
        raise ModelFileError(f"its array {name} has the type {dtype}, and neither numbers nor texts")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ModelFileError(f"its array {name} does not have the size that its header says")
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if by_columns else "C").copy(order="K")


# ── values ⇄ JSON ──────────────────────────────────────────────────────────────────────────────────────────────
def _encode(value: Any, arrays: dict[str, np.ndarray[Any, Any]], name: str, kind: Kind) -> Any:
    """A value as JSON, arrays set aside under their names."""
    if isinstance(value, np.generic) and not isinstance(value, np.str_):
        if kind.own:
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        value = float(value) if isinstance(value, np.floating) else value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}  # exact, and able to say infinity
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            if not all(isinstance(item, str) for item in value.flat):
                raise PmldaError(f"{name} holds Python objects, which model files do not keep. Use numbers or strings.")
            value = value.astype(str)
        if value.dtype.kind not in ARRAY_KINDS:
            raise PmldaError(
                f"{name} has the type {value.dtype}, which model files do not keep. Use numbers or strings."
            )
        if value.dtype.itemsize == 0:  # texts that are all empty
            value = value.astype("U1")
        name = f"{name}~{len(arrays)}" if name in arrays else name
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {"table": {str(key): _encode(item, arrays, f"{name}.{key}", kind) for key, item in value.items()}}
    known = _NAMES.get(type(value))
    if known is not None and _may_hold(kind, known):
        fields = {key: _encode(item, arrays, f"{name}.{key}", kind) for key, item in _fields(value).items()}
        return {"object": known, "fields": fields}
    if isinstance(value, list) or type(value) is tuple or (isinstance(value, tuple) and not kind.own):
        items = [_encode(item, arrays, f"{name}.{i}", kind) for i, item in enumerate(value)]
        return {"tuple": items} if kind.own and isinstance(value, tuple) else items
    raise PmldaError(
        f"{name} is a {type(value).__name__}, which {'these' if kind.own else 'model'} files do not keep. "
        "They hold numbers, texts, lists, tables, arrays and registered classes such as the families of pmlda."
    )


def _decode(value: Any, arrays: dict[str, np.ndarray[Any, Any]], kind: Kind) -> Any:
    """The inverse of _encode."""
    if isinstance(value, list):
        return [_decode(item, arrays, kind) for item in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "array" in value:
        return arrays[value["array"]]
    if "table" in value:
        return {key: _decode(item, arrays, kind) for key, item in value["table"].items()}
    if kind.own and "tuple" in value:
        return tuple(_decode(item, arrays, kind) for item in value["tuple"])
    if kind.own and "scalar" in value:
        dtype, data = value["scalar"]
        return np.frombuffer(bytes.fromhex(data), np.dtype(dtype))[0]
    known = value.get("object")
    if known not in _CLASSES or not _may_hold(kind, known):
        raise ModelFileError(f"it asks for an object of the unknown kind {brief(known)}")
    return _make(_CLASSES[known], {key: _decode(item, arrays, kind) for key, item in value["fields"].items()})


def _may_hold(kind: Kind, name: str) -> bool:
    return kind.own or name in _IN_MODELS


def _fields(value: Any) -> dict[str, Any]:
    """The state of an object of a registered class."""
    if isinstance(value, tuple):
        return dict(value._asdict())  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value))


def _make(cls: type[Any], fields: dict[str, Any]) -> Any:
    """An object with this state, if that is a state of its class."""
    if dataclasses.is_dataclass(cls):
        return cls(**fields)  # its constructor checks
    check_fields(cls, fields)
    if _has_fields(cls):
        return cls(**fields)
    made = object.__new__(cls)
    vars(made).update(fields)
    return made
