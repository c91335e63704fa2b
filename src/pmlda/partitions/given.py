"""Labels that are given, in an array or in a file: one whole number for each pixel."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import MissingFileError, PmldaError
from pmlda.partitions.common import renumber
from pmlda.types import Image, IntArray
from pmlda.validate import require

LABEL_FILES = (".npy", ".png", ".tif", ".tiff")


def read_labels(path: Path, shape: tuple[int, ...] | None = None) -> NDArray[np.generic]:
    """The numbers in a label image as they are stored: a palette of colours is not applied.

    shape : of the picture; a file that says it is of another is not decoded
    """
    suffix, what = path.suffix.lower(), f"label image {str(path)!r}"
    require(
        suffix in LABEL_FILES,
        f"{what} ends in {suffix!r}, expected one of {', '.join(LABEL_FILES)}: convert it first.",
    )
    if not path.is_file():
        raise MissingFileError(f"{what} was not found: check the path.")
    try:
        if suffix == ".npy":
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            require_shape(mapped.shape, shape, what)
            return np.array(mapped)
        if suffix == ".png":
            # Not Image.open, which refuses large files: how large this one may be is known from the picture.
            from PIL.PngImagePlugin import PngImageFile

            with path.open("rb") as file, PngImageFile(file) as picture:
                require_shape((picture.height, picture.width), shape, what)
                return np.asarray(picture)
        import tifffile

        with tifffile.TiffFile(path) as tiff:
            require_shape(tiff.series[0].shape, shape, what)
            return np.asarray(tiff.asarray())
    except PmldaError:
        raise
    except (OSError, ValueError, EOFError, SyntaxError, LookupError, AttributeError) as error:  # of damaged files
        raise PmldaError(f"{what} could not be read as {suffix} ({error}): write it again.") from error


def require_shape(found: tuple[int, ...], expected: tuple[int, ...] | None, what: str) -> None:
    """Refuse labels of another shape than the picture's, if that is known."""
    require(
        expected is None or tuple(found) == expected,
        f"{what} has shape {tuple(found)} but the picture has {expected}: give one label for each pixel.",
    )


def from_labels(labels: NDArray[np.generic], image: Image, what: str) -> IntArray:
    """Labels of the user, without gaps; pixels with a negative label are not used."""
    require_shape(labels.shape, image.valid.shape, what)
    require(
        labels.dtype.kind in "iu",
        f"{what} has numbers of type {labels.dtype}, expected integers: convert it with labels.astype(int).",
    )
    integers = labels.astype(np.int64)
    used = image.valid & (integers >= 0)
    require(
        bool(used.any()),
        f"{what} has no label of at least 0 on a valid pixel: give the pixels that should be used labels from 0.",
    )
    return renumber(integers, used)
