"""Small text files that anyone may have written → plain values: JSON or TOML, of limited size and depth."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pmlda.errors import PmldaError
from pmlda.storage.regular import require_regular

Value = TypeVar("Value")


def read_small(path: str | os.PathLike[str], most_bytes: int, error: type[PmldaError]) -> bytes:
    """All bytes of a regular file of at most so many; OSError if it cannot be opened."""
    require_regular(path, error)
    with Path(path).open("rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise error(f"{str(path)!r} is larger than {most_bytes:,} bytes, which such a file never is.")
    return data


def parse_json(data: bytes) -> Any:
    """The values in JSON text, or ValueError."""
    return _parsed(lambda: json.loads(data.decode("utf-8")))


def parse_toml(text: str) -> dict[str, Any]:
    """The table in TOML text, or ValueError."""
    return _parsed(lambda: tomllib.loads(text))


def _parsed(parse: Callable[[], Value]) -> Value:
    try:
        return parse()
    except RecursionError:
        raise PmldaError("it is nested too deeply") from None
