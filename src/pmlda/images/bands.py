"""A text such as "5,4,3", "10-40" or "650nm,550nm" → which bands of a picture to read, and in which order."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.checks import require
from pmlda.types import FloatArray
from pmlda.validate import brief

# What files call the units of wavelengths, in small letters.
UNITS = {"nanometers": "nm", "nanometer": "nm", "nm": "nm", "micrometers": "µm", "micrometer": "µm", "microns": "µm"}
UNITS |= {"micron": "µm", "um": "µm", "µm": "µm", "μm": "µm"}
IN_NANOMETRES = {"nm": 1.0, "µm": 1000.0}
# Wavelengths of sensors of light, and none of 100 µm or 100 nm: without a unit, numbers below it are micrometres.
LARGEST_MICROMETRES = 100.0
# How far the nearest band may be from the wavelength that was asked for, relative to it.
NEAR = 0.1
# Band names are listed in messages up to so many.
FEW = 8

NUMBER = r"\d+(?:\.\d*)?"
ASKED = re.compile(rf"({NUMBER})(?:\s*-\s*({NUMBER}))?\s*(nm|[uµμ]m)?", re.IGNORECASE)


def wavelengths_of(bands: Sequence[str]) -> FloatArray | None:
    """(B,) nanometres, where all names of bands are wavelengths with their unit.

    >>> wavelengths_of(["450.5 nm", "0.6 µm"]).tolist(), wavelengths_of(["red", "0.6 µm"])
    ([450.5, 600.0], None)
    """
    found = [re.fullmatch(r"([0-9.eE+-]+) ?(nm|µm)", band.strip()) for band in bands]
    try:
        values = [float(match[1]) * IN_NANOMETRES[match[2]] for match in found if match is not None]
    except ValueError:
        return None
    return np.array(values) if values and len(values) == len(found) else None


def _likely_wavelengths(bands: Sequence[str]) -> FloatArray | None:
    """The same where names are numbers without a unit, as coordinates along bands often are."""
    found = [re.fullmatch(rf"(?:wavelengths? )?({NUMBER})", band.strip().lower()) for band in bands]
    values = np.array([float(match[1]) for match in found if match is not None])
    if len(values) < len(found):
        return wavelengths_of(bands)
    return values * (1000.0 if values.max() < LARGEST_MICROMETRES else 1.0)


class Bands(NamedTuple):
    """The bands that a picture has.

    names : (B,)
    numbers : (B,) what the file counts them as, from 1: transparency and bad bands are no bands, but have a number
    what : what to call the picture in an error
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    what: str

    def choose(self, asked: str) -> list[int]:
        """Positions of the bands asked for, in the order given.

        >>> cube = Bands(("450 nm", "550 nm", "650 nm", "750 nm"), (1, 2, 3, 4), "The cube")
        >>> cube.choose("3,1"), cube.choose("2-4"), cube.choose("650nm, 0.54um"), cube.choose("500-700 nm")
        ([2, 0], [1, 2, 3], [2, 1], [1, 2])
        """
        found = [at for each in _items(asked) for at in self._find(each)]
        twice = next((at for number, at in enumerate(found) if at in found[:number]), None)
        require(twice is None, f"bands={asked!r} asks for {self._called(twice)} twice. Give every band once.")
        return found

    def _find(self, item: str) -> list[int]:
        """The bands that one item stands for."""
        parts = ASKED.fullmatch(item)
        if parts is not None and parts[3] is None:
            return self._numbered(item, parts[1], parts[2] or parts[1])
        names = [name.lower() for name in self.names]
        if item.lower() in names:
            return [names.index(item.lower())]
        if parts is None:
            raise ImageError(
                f"bands={item!r}: {self.what} has no band of this name. Give numbers from 1 (5,4,3 or 10-40), "
                f"wavelengths (650nm) or names: {self._listed()}."
            )
        first, last, unit = parts.groups()
        factor = IN_NANOMETRES["nm" if unit.lower() == "nm" else "µm"]
        ends = float(first) * factor, None if last is None else float(last) * factor
        return self._at_wavelength(item, *ends)

    def _numbered(self, item: str, first: str, last: str) -> list[int]:
        """Bands by their number, or by a range of numbers in either direction."""
        require(
            first.isdigit() and last.isdigit(),
            f"bands={item!r} is neither a whole number nor a wavelength. Give numbers from 1, or a unit: 0.65um.",
        )
        low, high = int(first), int(last)
        wanted = range(low, high + 1) if low <= high else range(low, high - 1, -1)
        for end in (low, high):
            has_it = end in self.numbers or (low != high and min(self.numbers) <= end <= max(self.numbers))
            require(has_it, f"{self.what} has no band {end}: it has {self._counted()}.")
        at = {number: position for position, number in enumerate(self.numbers)}
        return [at[number] for number in wanted if number in at]

    def _at_wavelength(self, item: str, low: float, high: float | None) -> list[int]:
        """The band nearest to a wavelength, or all between two."""
        waves = _likely_wavelengths(self.names)
        if waves is None:
            raise ImageError(
                f"bands={item!r} is a wavelength, and the bands of {self.what} have none: {self._listed()}. "
                "Give their numbers, from 1."
            )
        reach = f"its wavelengths reach from {waves.min():g} to {waves.max():g} nm"
        if high is not None:
            low, high = min(low, high), max(low, high)
            inside = [int(at) for at in np.flatnonzero((waves >= low) & (waves <= high))]
            require(bool(inside), f"{self.what} has no band from {low:g} to {high:g} nm: {reach}.")
            return inside
        nearest = int(np.abs(waves - low).argmin())
        require(
            abs(waves[nearest] - low) <= NEAR * low,
            f"{self.what} has no band at {low:g} nm: {reach}, and the nearest is {waves[nearest]:g} nm.",
        )
        return [nearest]

    def _called(self, at: int | None) -> str:
        return "" if at is None else f"band {self.numbers[at]}"

    def _counted(self) -> str:
        n, last = len(self.numbers), max(self.numbers)
        return f"{n} band{'s' if n != 1 else ''}" + ("" if last == n else f", numbered up to {last} with gaps")

    def _listed(self) -> str:
        more = f", … {len(self.names)} in all" if len(self.names) > FEW else ""
        return ", ".join(self.names[:FEW]) + more


def as_text(asked: Any) -> str | None:
    """Bands as they are written: one text, a number, or a list of numbers and texts; None and "" are all of them.

    >>> as_text([5, 4, "650nm"]), as_text(3), as_text(None)
    ('5,4,650nm', '3', None)
    """
    if asked is None or (isinstance(asked, str) and not asked.strip()):
        return None
    items = list(asked) if isinstance(asked, list | tuple | range | np.ndarray) else [asked]
    sound = all(isinstance(each, str | int | np.integer) and not isinstance(each, bool) for each in items)
    require(sound and bool(items), f"bands={brief(asked)}: give numbers from 1, wavelengths or names.")
    return ",".join(str(each) for each in items)


def count_at_most(asked: str, n_bands: int) -> int:
    """How many bands may be asked for, before their names are known.

    >>> count_at_most("5,4,3", 12), count_at_most("10-40,50", 224), count_at_most("400-700nm", 12)
    (3, 32, 12)
    """
    count = 0
    for item in _items(asked):
        parts = ASKED.fullmatch(item)
        is_range = parts is not None and parts[2] is not None
        if parts is None or not is_range:
            count += 1
        elif parts[3] is None and parts[1].isdigit() and parts[2].isdigit():
            count += abs(int(parts[2]) - int(parts[1])) + 1
        else:
            count = n_bands
    return min(count, n_bands)


def _items(asked: str) -> list[str]:
    items = [item.strip() for item in asked.split(",")]
    require(all(items), f"bands={asked!r} has an empty place. Give numbers from 1, wavelengths or names with commas.")
    return items
