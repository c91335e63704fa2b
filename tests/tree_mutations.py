"""Valid trees of JSON → the same with one thing wrong: a value dropped, of another type, extreme, or too deep."""

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.storage.digest import digest_bytes

DEEP = 100_000
"""Levels of lists in lists, far beyond what any reader follows."""
STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    -1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "[/bold]\x1b[31m",
    "\ud800",
    "a/../../b\0",
    [],
    {},
    [[]],
    [None],
    {"x": 1},
    "x" * 5000,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a tree."""
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def mutated(tree: Any, rng: random.Random) -> Any:
    """A copy with one value dropped, doubled or replaced."""
    tree = copy.deepcopy(tree)
    *above, key = rng.choice(list(places(tree)))
    parent = tree
    for step in above:
        parent = parent[step]
    kind = rng.random()
    if kind < 0.2:
        del parent[key]
    elif kind < 0.3 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif kind < 0.4 and isinstance(parent[key], int | float):
        parent[key] = rng.choice([-parent[key], parent[key] * 1e9, parent[key] + 1, str(parent[key])])
    else:
        parent[key] = copy.deepcopy(rng.choice(STRANGE))
    return tree


def too_deep(text: str, rng: random.Random) -> str:
    """JSON in which one number is a hundred thousand lists in each other."""
    nested = "[" * DEEP + "]" * DEEP
    tree = json.loads(text)
    *above, key = rng.choice(list(places(tree)))
    parent = tree
    for step in above:
        parent = parent[step]
    parent[key] = "@here@"
    return json.dumps(tree).replace('"@here@"', nested)


def mutated_array(array: Any, rng: random.Random) -> Any:
    """An array with another type, shape or extreme numbers."""

    def spoilt(value: Any) -> Any:
        other = array.astype(np.float64) if array.dtype.kind in "biuf" else np.zeros(array.shape)
        other[...] = np.where(np.arange(other.size).reshape(other.shape) % 2 == 0, value, other)
        return other

    choices: list[Callable[[], Any]] = [
        lambda: spoilt(np.nan),
        lambda: spoilt(np.inf),
        lambda: spoilt(-5.0),
        lambda: spoilt(1e308),
        lambda: spoilt(1e-320),
        lambda: spoilt(0.0),
        lambda: array[..., None],
        lambda: np.atleast_1d(array)[:0],
        lambda: array.ravel()[:1].reshape(()) if array.size else array,
        lambda: array.astype("U8"),
        lambda: array.astype(np.complex128) if array.dtype.kind != "U" else array,
        lambda: np.zeros(array.shape, [("a", "f8")]),
        lambda: np.full(array.shape, 2**62),
        lambda: np.zeros(array.shape, "M8[s]"),
    ]
    return rng.choice(choices)()


class Archive:
    """A model file, or a file of a run, taken apart, so that it can be written with something else in it."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        self.document = json.loads(entries.pop("model.json"))
        self.arrays = {name.removesuffix(".npy"): data for name, data in entries.items()}
        self.packing = zipfile.ZipFile(path).infolist()[0].compress_type

    def write(self, path: Path, document: Any, **arrays: bytes) -> Path:
        """The file with this document and these arrays in it, and with digests that are right."""
        kept = self.arrays | arrays
        if isinstance(document, dict) and isinstance(document.get("sha256"), dict):
            for name in document["sha256"]:
                document["sha256"][name] = digest_bytes(kept.get(name, b""))
        with zipfile.ZipFile(path, "w", self.packing) as archive:
            for name, data in kept.items():
                archive.writestr(f"{name}.npy", data)
            archive.writestr("model.json", json.dumps(document))
        return path

    def spoilt(self, path: Path, rng: random.Random) -> Path:
        """The file with one thing wrong in its document or in one of its arrays."""
        if rng.random() < 0.5:
            return self.write(path, mutated(self.document, rng))
        name = rng.choice(list(self.arrays))
        other = mutated_array(np.load(io.BytesIO(self.arrays[name])), rng)
        return self.write(path, copy.deepcopy(self.document), **{name: npy(other)})


def npy(array: Any) -> bytes:
    """An array as a file."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()
