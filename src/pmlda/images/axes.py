"""Names and lengths of the dimensions of an array → which are rows, columns and bands: one rule for all readers.

Names decide where there are any. Where there are none, lengths have to, and a note says how the picture was read.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.checks import Array, require
from pmlda.images.choice import ALL, COUNTED, Choice, Part, Step, gather, step
from pmlda.images.content import Window

Y_NAMES = (
    *("y", "lat", "latitude", "northing", "row", "rows", "line", "lines"),
    *("height", "ydim", "ny", "nrows", "downtrack", "along_track"),
)
X_NAMES = (
    *("x", "lon", "longitude", "easting", "col", "cols", "column", "columns", "sample", "samples"),
    *("width", "xdim", "nx", "ncols", "crosstrack", "across_track"),
)
Z_NAMES = ("z", "depth", "slice", "slices", "plane", "planes", "level", "lev", "altitude", "focus", "zdim", "nz")
T_NAMES = ("t", "time", "times", "timepoint", "timepoints", "frame", "frames", "date", "tdim", "nt")
KNOWN = {"z": Z_NAMES, "t": T_NAMES}
BAND_NAMES = (
    *("c", "channel", "channels", "band", "bands", "wavelength", "wavelengths", "wavelen", "lambda", "wl"),
    *("rgb", "color", "colour", "component", "spectral", "feature", "features", "topic", "variable"),
)

# A first or last axis of at most this length is one of bands where nothing else is said and the others are far longer.
FEW_BANDS, FAR_LONGER = 16, 8

# What stands for a name where xarray, GDAL or the netCDF library was told none.
NO_NAME = re.compile(r"(dim|phony_dim)_?\d+")


class Axes(NamedTuple):
    """Which dimension of an array is what.

    plane : those of rows and columns
    bands : that of bands, or none
    others : the rest, which have length one, or of which one position is taken
    notes : what to say if they had to be guessed, or if one of many was taken
    taken : what is taken along dimensions that count slices or times
    """

    plane: tuple[int, int]
    bands: tuple[int, ...]
    others: tuple[int, ...]
    notes: tuple[str, ...] = ()
    taken: tuple[Step, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Rows, columns and, if there are any, bands."""
        return (*self.plane, *self.bands)

    def cube_shape(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """(H, W, B) of an array of this shape."""
        y, x = self.plane
        return shape[y], shape[x], shape[self.bands[0]] if self.bands else 1

    def cube_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The type of what `read` gives."""
        return gather(lambda _: np.zeros(1, dtype), self.taken).dtype

    def cube(self, array: Array) -> Array:
        """(H, W, B) the array, or a part of it with one position of all others, in this order."""
        turned = array.transpose(*self.order, *self.others)
        return turned.reshape(self.cube_shape(array.shape))

    def read(self, array: Any, window: Window | None = None, nodata: Sequence[float | None] = ()) -> Array:
        """(H, W, B) of an array, or of anything that is sliced like one, or a window of it.

        nodata : numbers that mean no data, which projections leave out
        """

        def read_part(part: Part) -> Array:
            index = [part.get(axis, slice(0, int(length))) for axis, length in enumerate(array.shape)]
            if window is not None:
                index[self.plane[0]], index[self.plane[1]] = window
            return self.cube(np.asarray(array[tuple(index)]))

        return np.ascontiguousarray(gather(read_part, self.taken, nodata))


def find_axes(
    names: Sequence[Hashable] | None,
    shape: Sequence[int],
    what: str,
    choice: Choice = ALL,
    usual: Literal["first", "last"] = "last",
) -> Axes:
    """By name, or by length where there are no names. usual : where bands are if lengths do not tell

    >>> find_axes(("x", "wavelength", "y"), (156, 10, 95), "The cube").order
    (2, 0, 1)
    >>> find_axes(("t", "z", "y", "x"), (5, 12, 95, 156), "The stack", Choice(z="max", t=2)).taken[0].note
    'Time 2 of 5 was read.'
    >>> find_axes(None, (10, 95, 156), "The cube").notes
    ('Read as 95 × 156 pixels with 10 bands; the first of its 3 axes, which have no names, was taken for the bands.',)
    """
    if names is None or not is_named(names):
        return _guess(shape, what, choice, usual)
    taken = _take(names, shape, what, choice)
    chosen = [names[each.axis] for each in taken]
    y, x, rest, others = _plane_dimensions(names, shape, what, chosen)
    at = {name: number for number, name in enumerate(names)}
    notes = tuple(each.note for each in taken if each.note)
    return Axes((at[y], at[x]), tuple(at[d] for d in rest), tuple(at[d] for d in others), notes, tuple(taken))


def is_named(names: Sequence[Hashable]) -> bool:
    """Whether these are names that somebody gave."""
    return bool(names) and all(isinstance(name, str) and name and not NO_NAME.fullmatch(name) for name in names)


def _take(names: Sequence[Hashable], shape: Sequence[int], what: str, choice: Choice) -> list[Step]:
    """What is taken along the dimensions that count times and slices."""
    taken = []
    for asked, along in choice.along.items():
        known = KNOWN[asked]
        axis = next((at for at, name in enumerate(names) if str(name).lower() in known), None)
        if axis is not None:
            taken.append(step(what, asked, along, axis, int(shape[axis])))
            continue
        strange = [
            str(name)
            for name, length in zip(names, shape, strict=True)
            if length > 1 and str(name).lower() not in (*Y_NAMES, *X_NAMES, *BAND_NAMES, *Z_NAMES, *T_NAMES)
        ]
        require(
            not strange,
            f"{what} has dimensions {_list(names, shape)}, none of which is called {asked}. If "
            f"{' or '.join(strange)} counts {COUNTED[asked]}s, rename it to {asked}.",
        )
        step(what, asked, along, 0, 1)  # it has one slice, or one time
    return taken


def _plane_dimensions(
    names: Sequence[Hashable], lengths: Sequence[int], what: str, chosen: Sequence[Hashable]
) -> tuple[Hashable, Hashable, list[Hashable], list[Hashable]]:
    """(y, x, [what counts the bands, if anything does], [others, which have length one or are chosen from])."""
    shape = dict(zip(names, lengths, strict=True))
    y, x = (next((d for d in names if str(d).lower() in known), None) for known in (Y_NAMES, X_NAMES))
    if y is None or x is None or len(shape) < len(names):
        raise ImageError(f"{what} has dimensions {_list(names, lengths)}. Rename those of the plane to y and x.")
    others = [d for d in names if d not in (y, x)]
    free = [d for d in others if d not in chosen]
    rest = [d for d in free if shape[d] != 1] or free[:1]
    if len(rest) > 1:
        raise ImageError(f"{what} has dimensions {_list(names, lengths)}. {_advise([str(d) for d in rest])}")
    return y, x, rest, [d for d in others if d not in rest]


def _list(names: Sequence[Hashable], lengths: Sequence[int]) -> str:
    """Dimensions with their lengths, for an error."""
    return f"{{{', '.join(f'{name}: {length}' for name, length in zip(names, lengths, strict=True))}}}"


def _advise(names: Sequence[str]) -> str:
    """What to do about more dimensions than rows, columns and bands."""
    return advise([asked for asked, known in KNOWN.items() if any(name.lower() in known for name in names)])


def advise(asked: Sequence[str]) -> str:
    """What to do about more dimensions than rows, columns and bands. asked : those of z and t that there are"""
    if not asked:
        return "Select one picture (rows, columns, bands); slices and times are chosen where they are called z and t."
    options = " and ".join(f"one {COUNTED[each]} with {each} (a number from 1, max or mean)" for each in asked)
    return f"Choose {options}."


def _guess(shape: Sequence[int], what: str, choice: Choice, usual: Literal["first", "last"]) -> Axes:
    """Bands where they usually are, unless the axis at the other end alone is short enough to be theirs."""
    n = len(shape)
    if choice.along and n > 2:
        asked = " and ".join(f"{name}={along}" for name, along in choice.along.items())
        raise ImageError(
            f"{what} has {n} axes without names, shape {tuple(shape)}, so {asked} cannot be found. Name them: in Zarr, "
            "NetCDF, HDF5, OME-TIFF or an xarray.DataArray, for example (z, y, x)."
        )
    require(n in (2, 3), f"{what} has {n} dimensions, shape {tuple(shape)}. Give (height, width, bands).")
    if n == 2:
        choice.require_flat(what)
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
