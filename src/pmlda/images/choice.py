"""What to take from a source that holds more than one picture: a variable, a slice of a stack, a time of a series.

Slices and times are counted from 1. Several become one picture by their maximum or mean, read one after the other, so
that a stack need not fit in memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pmlda.images.checks import Array, Key, require
from pmlda.validate import brief

Along = int | Literal["max", "mean"] | None
PROJECTIONS = ("max", "mean")
COUNTED = {"z": "slice", "t": "time"}


class Choice(NamedTuple):
    """What to take; None of what was not asked for.

    key : the name of a variable, or the number of a TIFF series
    z, t : a slice and a time, counted from 1, or "max" or "mean" of all
    nodata : a number that means "no data", which projections leave out
    """

    key: Key = None
    z: Along = None
    t: Along = None
    nodata: float | None = None

    @property
    def along(self) -> dict[str, int | str]:
        """What was asked for along z and t, times first: each time has its slices."""
        return {name: value for name, value in (("t", self.t), ("z", self.z)) if value is not None}

    def describe(self) -> list[str]:
        """What was asked for, as texts that tell one choice from another."""
        asked = {"key": self.key} | self.along
        return [f"{name} {value}" for name, value in asked.items() if value is not None]

    def require_no_key(self, what: object) -> None:
        """Refuse a key for a file in which there is nothing to choose."""
        require(self.key is None, f"key={self.key!r}, but {what} holds a single picture. Leave key out.")

    def require_flat(self, what: object) -> None:
        """Refuse a second slice or time of a picture that has neither: it is the first, and the maximum, of one."""
        for name, value in self.along.items():
            step(str(what), name, value, 0, 1)

    def require_single(self, what: object) -> None:
        """Refuse to choose anything but the one picture of a file."""
        self.require_no_key(what)
        self.require_flat(what)


ALL = Choice()
"""Nothing was asked for."""


def make_choice(key: Any = None, z: Any = None, t: Any = None, nodata: float | None = None) -> Choice:
    """A choice of which it is known that it can be one."""
    for name, value in (("z", z), ("t", t)):
        is_number = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
        known = value is None or is_number or (isinstance(value, str) and value in PROJECTIONS)
        require(bool(known), f"{name}={brief(value)}: give a whole number from 1, 'max' or 'mean'.")
    return Choice(key, z, t, nodata)


class Step(NamedTuple):
    """What to take along one axis of an array. along : a number from 1, "max" or "mean" """

    axis: int
    along: int | str
    length: int
    note: str = ""


def step(what: str, name: str, along: int | str, axis: int, length: int) -> Step:
    """What to take along z or t, if it is there."""
    counted = f"{length} {COUNTED[name]}{'s' if length != 1 else ''}"
    require(
        isinstance(along, str) or along <= length,
        f"{what} has {counted}, and {name}={along} is not there. Give a number from 1 to {length}, max or mean.",
    )
    if length == 1:
        return Step(axis, along, length)
    if isinstance(along, str):
        return Step(axis, along, length, f"The {'maximum' if along == 'max' else 'mean'} of {counted} was taken.")
    return Step(axis, along, length, f"{COUNTED[name].capitalize()} {along} of {length} was read.")


Part = Mapping[int, slice]
"""Which positions of some axes are read."""


def gather(read: Callable[[Part], Array], steps: Sequence[Step], nodata: Sequence[float | None] = ()) -> Array:
    """What `read` gives for the positions that all steps ask for. No more than two of them are in memory at a time."""
    if not steps:
        return read({})
    first, *rest = steps

    def at(position: int) -> Array:
        here = {first.axis: slice(position, position + 1)}
        return gather(lambda part: read({**part, **here}), rest, nodata)

    if not isinstance(first.along, str):
        return at(first.along - 1)
    numbers = [number for number in nodata if number is not None and np.isfinite(number)]
    parts = (at(position) for position in range(first.length))
    return _maximum(parts, numbers) if first.along == "max" else _mean(parts, numbers)


def _maximum(parts: Iterable[Array], nodata: Sequence[float]) -> Array:
    """The largest of the values that have data; where none has, the first."""
    largest, known = None, None
    for part in parts:
        has_data = _has_data(part, nodata)
        if largest is None or known is None:
            largest, known = np.array(part), has_data
            continue
        with np.errstate(invalid="ignore"):
            better = has_data & (~known | (part > largest))
        np.copyto(largest, part, where=better)
        known |= has_data
    assert largest is not None
    return largest


def _mean(parts: Iterable[Array], nodata: Sequence[float]) -> Array:
    """The mean of the values that have data, NaN where none has: in single precision, in double that of doubles."""
    total, count, precision = None, None, np.dtype(np.float32)
    for part in parts:
        has_data = _has_data(part, nodata)
        if total is None or count is None:
            precision = np.result_type(part.dtype, np.float32) if part.dtype.kind == "f" else precision
            total, count = np.zeros(part.shape), np.zeros(part.shape, np.uint32)
        np.add(total, part, out=total, where=has_data)
        count += has_data
    assert total is not None
    assert count is not None
    with np.errstate(invalid="ignore"):
        return (total / count).astype(precision)


def _has_data(part: Array, nodata: Sequence[float]) -> Array:
    known = np.isfinite(part) if part.dtype.kind == "f" else np.ones(part.shape, bool)
    for number in nodata:
        known &= part != number
    return known
