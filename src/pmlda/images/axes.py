"""Names and lengths of the dimensions of an array → which are rows, columns and bands: one rule for all readers.

Names decide where there are any. Where there are none, lengths have to, and a note says how the picture was read.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

from pmlda.errors import ImageError
from pmlda.images.checks import Array, require

Y_NAMES = (
    *("y", "lat", "latitude", "northing", "row", "rows", "line", "lines"),
    *("height", "ydim", "ny", "nrows", "downtrack", "along_track"),
)
X_NAMES = (
    *("x", "lon", "longitude", "easting", "col", "cols", "column", "columns", "sample", "samples"),
    *("width", "xdim", "nx", "ncols", "crosstrack", "across_track"),
)

# A first or last axis of at most this length is one of bands where nothing else is said and the others are far longer.
FEW_BANDS, FAR_LONGER = 16, 8

# What stands for a name where xarray, GDAL or the netCDF library was told none.
NO_NAME = re.compile(r"(dim|phony_dim)_?\d+")


class Axes(NamedTuple):
    """Which dimension of an array is what.

    plane : those of rows and columns
    bands : that of bands, or none
    others : the rest, which have length one
    notes : what to say if they had to be guessed
    """

    plane: tuple[int, int]
    bands: tuple[int, ...]
    others: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Rows, columns and, if there are any, bands."""
        return (*self.plane, *self.bands)

    def cube_shape(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """(H, W, B) of an array of this shape."""
        y, x = self.plane
        return shape[y], shape[x], shape[self.bands[0]] if self.bands else 1

    def cube(self, array: Array) -> Array:
        """(H, W, B) the array, or a part of it, in this order."""
        turned = array.transpose(*self.order, *self.others)
        return turned.reshape(self.cube_shape(array.shape))


def find_axes(
    names: Sequence[Hashable] | None, shape: Sequence[int], what: str, usual: Literal["first", "last"] = "last"
) -> Axes:
    """By name, or by length where there are no names. usual : where bands are if lengths do not tell

    >>> find_axes(("x", "wavelength", "y"), (156, 10, 95), "The cube").order
    (2, 0, 1)
    >>> find_axes(None, (10, 95, 156), "The cube").notes
    ('Read as 95 × 156 pixels with 10 bands; the first of its 3 axes, which have no names, was taken for the bands.',)
    """
    if names is None or not is_named(names):
        return _guess(shape, what, usual)
    y, x, rest, others = plane_dimensions(names, shape, what)
    at = {name: number for number, name in enumerate(names)}
    return Axes((at[y], at[x]), tuple(at[d] for d in rest), tuple(at[d] for d in others))


def is_named(names: Sequence[Hashable]) -> bool:
    """Whether these are names that somebody gave."""
    return bool(names) and all(isinstance(name, str) and name and not NO_NAME.fullmatch(name) for name in names)


def plane_dimensions(
    names: Sequence[Hashable], lengths: Sequence[int], what: str
) -> tuple[Hashable, Hashable, list[Hashable], list[Hashable]]:
    """(y, x, [what counts the bands, if anything does], [others, which have length one])."""
    shape = dict(zip(names, lengths, strict=True))
    y, x = (next((d for d in names if str(d).lower() in known), None) for known in (Y_NAMES, X_NAMES))
    if y is None or x is None or len(shape) < len(names):
        listed = ", ".join(f"{name}: {length}" for name, length in zip(names, lengths, strict=True))
        raise ImageError(f"{what} has dimensions {{{listed}}}. Rename those of the plane to y and x.")
    others = [d for d in names if d not in (y, x)]
    rest = [d for d in others if shape[d] != 1] or others[:1]
    require(len(rest) <= 1, f"{what} has more than 3 dimensions, {shape}. Select one plane with .isel().")
    return y, x, rest, [d for d in others if d not in rest]


def _guess(shape: Sequence[int], what: str, usual: Literal["first", "last"]) -> Axes:
    """Bands where they usually are, unless the axis at the other end alone is short enough to be theirs."""
    n = len(shape)
    require(n in (2, 3), f"{what} has {n} dimensions, shape {tuple(shape)}. Give (height, width, bands).")
    if n == 2:
        return Axes((0, 1), (), ())
    few = {"first": _is_short(shape[0], shape[1:]), "last": _is_short(shape[2], shape[:2])}
    other: Literal["first", "last"] = "first" if usual == "last" else "last"
    where = other if few[other] and not few[usual] else usual
    axes = Axes((1, 2), (0,), ()) if where == "first" else Axes((0, 1), (2,), ())
    height, width, n_bands = axes.cube_shape(shape)
    note = (
        f"Read as {height} × {width} pixels with {n_bands} band{'s' if n_bands != 1 else ''}; "
        f"the {where} of its 3 axes, which have no names, was taken for the bands."
    )
    return axes._replace(notes=(note,))


def _is_short(length: int, others: Sequence[int]) -> bool:
    return length <= FEW_BANDS and length * FAR_LONGER <= min(others)
