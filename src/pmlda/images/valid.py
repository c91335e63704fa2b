"""What a reader found + mask + no-data number → Image, of whose pixels it is known which have data."""

import numpy as np
from numpy.typing import NDArray

from pmlda.images.checks import Array, as_numbers, equals_nodata, require
from pmlda.images.content import Content, Window, number_bands
from pmlda.images.ignored import Ignoring, in_shadow, notes_on_ignored, saturated
from pmlda.types import Ignored, Image

ALL: Window = (slice(None), slice(None))


def to_image(name: str, content: Content, ignoring: Ignoring, mask: Content | None, inside: Window = ALL) -> Image:
    """A pixel has no data if any band is NaN, infinite or the no-data number, or if the file or the mask says so.

    ignoring : also, which pixels are left out as saturated or as shadow
    inside : the part that is wanted; the rest of the content is there to decide on it
    """
    pixels = as_numbers(content.pixels, name)
    n_bands, ignoring = pixels.shape[2], ignoring.checked(name, pixels.dtype)
    valid = _finite(pixels)
    valid &= ~content.without_data()
    if ignoring.nodata is not None:
        valid &= ~equals_nodata(pixels, [ignoring.nodata] * n_bands)
    if mask is not None:
        valid &= _in_use(mask)
    clipped, dark = saturated(pixels, valid, ignoring), in_shadow(pixels, valid, ignoring)
    pixels, valid = pixels[inside], valid[inside]
    notes = (*content.notes, *no_data_notes(valid))
    ignored = Ignored()
    if clipped is not None or dark is not None:
        clipped, dark = (np.zeros(valid.shape, bool) if each is None else each[inside] for each in (clipped, dark))
        dark &= ~clipped
        ignored = Ignored(int(clipped.sum()), int(dark.sum()))
        notes += notes_on_ignored(ignored, ignoring, valid.size, pixels.dtype)
        valid = valid & ~clipped & ~dark
    bands = content.bands or number_bands(n_bands)
    return Image(pixels, valid, bands, name, content.georeference, notes, content.pixel_size, ignored)


def as_content(image: Image) -> Content:
    """A picture that was read before, as a reader would find it."""
    counted = no_data_notes(image.valid)  # of the whole picture; each window counts its own
    notes = tuple(note for note in image.notes if note not in counted)
    return Content(image.pixels, image.bands, image.valid, image.georeference, notes, pixel_size=image.pixel_size)


def no_data_notes(valid: NDArray[np.bool_]) -> tuple[str, ...]:
    """A note on how many pixels have no data, if any.

    >>> no_data_notes(np.array([[True, False]])), no_data_notes(np.array([[True, True]]))
    (('1 of 2 pixels has no data.',), ())
    """
    missing = valid.size - int(valid.sum())
    return (f"{missing} of {valid.size} pixels {'has' if missing == 1 else 'have'} no data.",) if missing else ()


def check_mask(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse a mask that is not as high and wide as the picture."""
    require(
        shape[:2] == expected[:2],
        f"The mask has {shape[0]} × {shape[1]} pixels, the picture {expected[0]} × {expected[1]}. "
        "Give a mask with one value for each pixel.",
    )


def _in_use(mask: Content) -> NDArray[np.bool_]:
    """(H, W) where the mask is not zero. In a mask with several bands one that is not zero is enough."""
    use: NDArray[np.bool_] = (mask.pixels != 0).any(axis=2) & _finite(mask.pixels) & ~mask.without_data()
    return use


def _finite(pixels: Array) -> NDArray[np.bool_]:
    """(H, W) whether all bands are finite; band by band, because a cube of truth values would be large."""
    valid = np.ones(pixels.shape[:2], dtype=bool)
    if pixels.dtype.kind == "f":
        for band in range(pixels.shape[2]):
            valid &= np.isfinite(pixels[:, :, band])
    return valid
