"""What a reader found → the same with more notes, fewer valid pixels, turned upright; several → one with all bands."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.images.checks import Array, equals_nodata
from pmlda.types import Georeference, PixelSize

RGB = ("red", "green", "blue")

# Rows and columns of a part of a picture.
Window = tuple[slice, slice]


class Content(NamedTuple):
    """What a reader found.

    pixels : (H, W, B)
    bands : (B,) their names, or () if the file names none
    valid : (H, W), or None if the file does not say
    georeference, notes, pixel_size : as in Image
    nodata : (B,) the number that means no data in each band, or None; () if the file names none
    numbers : (B,) what the file counts the bands as, from 1, where some were left out; () if they are all there
    """

    pixels: Array
    bands: tuple[str, ...] = ()
    valid: NDArray[np.bool_] | None = None
    georeference: Georeference | None = None
    notes: tuple[str, ...] = ()
    nodata: tuple[float | None, ...] = ()
    numbers: tuple[int, ...] = ()
    pixel_size: PixelSize | None = None

    def with_notes(self, *notes: str) -> "Content":
        """The same with more notes."""
        return self._replace(notes=(*self.notes, *notes))

    def without_data(self) -> NDArray[np.bool_]:
        """(H, W) where the file says that there is no data."""
        missing = equals_nodata(self.pixels, self.nodata)
        return missing if self.valid is None else missing | ~self.valid

    def take_bands(self, chosen: Sequence[int]) -> "Content":
        """Some of the bands, in this order."""
        numbers = self.band_numbers
        return self._replace(
            pixels=self.pixels[:, :, list(chosen)],
            bands=tuple(self.bands[band] if self.bands else f"band {numbers[band]}" for band in chosen),
            nodata=tuple(self.nodata[band] for band in chosen) if self.nodata else (),
            numbers=tuple(numbers[band] for band in chosen),
        )

    @property
    def band_numbers(self) -> tuple[int, ...]:
        """(B,) what the file counts the bands as, from 1."""
        return self.numbers or tuple(range(1, self.pixels.shape[2] + 1))


def number_bands(n_bands: int) -> tuple[str, ...]:
    """Names for bands that have none."""
    return tuple(f"band {number + 1}" for number in range(n_bands))


def turn_upright(content: Content, orientation: int) -> Content:
    """The picture turned as the orientation in its EXIF or TIFF tags asks: 1 to 8, 1 for upright already."""
    turns: dict[int, Callable[[Array], Array]] = {
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: a[::-1].swapaxes(0, 1),
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: a[:, ::-1].swapaxes(0, 1),
    }
    if orientation not in turns:
        return content
    turn, size = turns[orientation], content.pixel_size
    if size is not None and orientation >= 5:
        content = content._replace(pixel_size=PixelSize(size.width, size.height, size.unit))
    turned = content._replace(
        pixels=np.ascontiguousarray(turn(content.pixels)),
        valid=None if content.valid is None else np.ascontiguousarray(turn(content.valid)),
    )
    return turned.with_notes(f"Turned upright, as its orientation tag {orientation} asks.")


def stack_bands(parts: Sequence[Content]) -> Content:
    """Pictures of the same size as the bands of one. A pixel is valid where it is valid in all."""
    valid = [part.valid for part in parts if part.valid is not None]
    notes = dict.fromkeys(note for part in parts for note in part.notes)  # each once, in order
    named = all(part.bands for part in parts) and len({part.bands for part in parts}) == len(parts)
    return Content(
        np.concatenate([part.pixels for part in parts], axis=2),
        tuple(name for part in parts for name in part.bands) if named else (),
        np.logical_and.reduce(valid) if valid else None,
        parts[0].georeference,
        tuple(notes),
        tuple(number for part in parts for number in part.nodata or (None,) * part.pixels.shape[2]),
        pixel_size=parts[0].pixel_size,
    )
