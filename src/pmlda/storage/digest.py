"""SHA-256 of bytes, and of values: arrays, numbers, texts, and whatever is made of them."""

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import PmldaError


def digest_bytes(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 of bytes, as sha256sum prints it."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(*values: Any) -> str:
    """64 characters that are equal for equal values, in every process, and different for different ones.

    Arrays count with their type and shape, numbers as Python's, tuples as lists, tables in any order, objects with
    their class and attributes. Functions and the like are refused.

    >>> digest([1, "a"], np.zeros(3)) == digest((1, "a"), np.zeros(3)) != digest([1, "a"], np.zeros((3, 1)))
    True
    """
    total = hashlib.sha256()
    for value in values:
        _feed(total, value)
    return total.hexdigest()


def _feed(total: Any, value: Any) -> None:
    """Add a value to a hash, so that no two values add the same bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex):
        total.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, str | os.PathLike):
        _feed_bytes(total, "text", os.fspath(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, bytes | bytearray | memoryview):
        _feed_bytes(total, "bytes", value)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        _feed(total, {"objects": list(value.shape), "items": value.ravel().tolist()})
    elif isinstance(value, np.ndarray):
        total.update(f"array {value.dtype.descr} {value.shape};".encode())
        if value.nbytes:
            total.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, dict):
        total.update(f"table {len(value)};".encode())
        for key in sorted(value, key=str):
            _feed(total, str(key))
            _feed(total, value[key])
    elif isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        total.update(f"list {len(value)};".encode())
        for item in value:
            _feed(total, item)
    else:
        total.update(f"object {type(value).__module__}.{type(value).__qualname__};".encode())
        _feed(total, _attributes(value))


def _feed_bytes(total: Any, kind: str, data: bytes | bytearray | memoryview) -> None:
    total.update(f"{kind} {memoryview(data).nbytes};".encode())
    total.update(data)


def _attributes(value: Any) -> dict[str, Any]:
    """What an object is made of."""
    if isinstance(value, tuple):
        return dict(value._asdict())  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(value) or not hasattr(value, "__dict__"):
        raise PmldaError(
            f"{value!r} cannot be identified by its content. Use numbers, texts, arrays, or objects made of them."
        )
    return dict(vars(value))
