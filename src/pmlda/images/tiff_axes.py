"""Axes of a TIFF series, as letters → which are rows, columns, bands, slices and times.

OME, ImageJ and tifffile's own metadata name them: Z, T, C, and S for samples of a pixel. Pages of a plain TIFF have no
name: they are bands, unless slices or times were asked for.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.axes import advise
from pmlda.images.choice import COUNTED, Choice, Step, gather, step

# What tifffile calls pages of which nothing is known.
UNKNOWN = "QI"


class SeriesAxes(NamedTuple):
    """What each axis of a series is.

    letters : one for each axis
    taken : what is taken along slices and times
    notes : what to say about it
    """

    letters: str
    taken: tuple[Step, ...]
    notes: tuple[str, ...]

    @property
    def order(self) -> list[str]:
        """Rows, columns, pages, and samples last."""
        pages = [axis for axis in self.letters if axis not in "YXS"]
        return ["Y", "X", *pages, *(["S"] if "S" in self.letters else [])]

    def n_bands(self, shape: Sequence[int]) -> int:
        """Number of bands of a series of this shape."""
        taken = {each.axis for each in self.taken}
        sides = [self.letters.index(axis) for axis in "YX"]
        return math.prod(length for at, length in enumerate(shape) if at not in sides and at not in taken)

    def cube_type(self, dtype: Any) -> np.dtype[Any]:
        """The type of what is taken."""
        return gather(lambda _: np.zeros(1, dtype), self.taken).dtype


def name_axes(series: Any, path: Path, choice: Choice) -> SeriesAxes:
    """What each axis of a series is, and what to take along slices and times."""
    letters, shape = series.axes, series.shape
    taken, notes = _take(letters, shape, path, choice)
    chosen = {each.axis for each in taken}
    many = [axis for at, axis in enumerate(letters) if axis not in "YXS" and shape[at] > 1 and at not in chosen]
    if len(many) > 1:
        known = [axis.lower() for axis in many if axis in "ZT"]
        raise ImageError(f"{path} has axes {_list(letters, shape)}. {advise(known)}")
    if len(series.levels) > 1:  # tifffile takes pages of half the size for these
        notes.append("Smaller copies in the file were left out; the largest was read.")
    if letters == "QYX" and not taken and shape[2] <= 4 < min(shape[:2]):
        # (H, W, B) saved without saying so becomes H pages of a picture that is B pixels wide.
        notes.append(f"Read as {shape[2]} bands: pages of {shape[1]} × {shape[2]} are no pictures.")
        letters = "YXC"
    elif many and many[0] in "ZT":
        notes.append(f"The {'depths' if many[0] == 'Z' else 'times'} of the file were read as bands.")
    return SeriesAxes(letters, tuple(taken), tuple(notes))


def _take(letters: str, shape: Sequence[int], path: Path, choice: Choice) -> tuple[list[Step], list[str]]:
    """What is taken along times and slices. Pages without a name are those, if one of the two was asked for."""
    taken, notes = [], []
    for name, along in choice.along.items():
        axis = letters.find(name.upper())
        unknown = [at for at, letter in enumerate(letters) if letter in UNKNOWN and shape[at] > 1]
        if axis < 0 and unknown:
            if len(unknown) > 1 or len(choice.along) > 1:
                raise ImageError(
                    f"{path} has axes {_list(letters, shape)}, and does not say which are slices or times. "
                    "Save it as an OME-TIFF or as an ImageJ hyperstack."
                )
            axis = unknown[0]
            notes.append(
                f"The file does not say what its {shape[axis]} pages are; they were taken for {COUNTED[name]}s."
            )
        if axis < 0:
            step(str(path), name, along, 0, 1)  # it has one slice, or one time
            continue
        taken.append(step(str(path), name, along, axis, int(shape[axis])))
        notes += [taken[-1].note] if taken[-1].note else []
    return taken, notes


def _list(letters: str, shape: Sequence[int]) -> str:
    """Axes with their lengths, for an error."""
    return f"{{{', '.join(f'{axis}: {length}' for axis, length in zip(letters, shape, strict=True))}}}"
