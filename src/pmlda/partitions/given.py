"""Labels that are given, in an array or in a file: one whole number for each pixel."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import MissingFileError, PmldaError
from pmlda.partitions.common import renumber
from pmlda.types import Image, IntArray
from pmlda.validate import require

LABEL_FILES = (".npy", ".png", ".tif", ".tiff")


def read_labels(path: Path) -> NDArray[np.generic]:
    """The numbers in a label image as they are stored: a palette of colours is not applied."""
    suffix = path.suffix.lower()
    require(
        suffix in LABEL_FILES,
        f"label image {str(path)!r} ends in {suffix!r}, expected one of {', '.join(LABEL_FILES)}: convert it first.",
    )
    if not path.is_file():
        raise MissingFileError(f"label image {str(path)!r} was not found: check the path.")
    try:
        if suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        if suffix == ".png":
            import PIL.Image

            with PIL.Image.open(path) as picture:
                return np.asarray(picture)
        import tifffile

        return np.asarray(tifffile.imread(path))
    except (OSError, ValueError, EOFError) as error:
        raise PmldaError(
            f"label image {str(path)!r} could not be read as {suffix} ({error}): write it again."
        ) from error


def from_labels(labels: NDArray[np.generic], image: Image, what: str) -> IntArray:
    """Labels of the user, without gaps; pixels with a negative label are not used."""
    require(
        labels.shape == image.valid.shape,
        f"{what} has shape {labels.shape} but the picture has {image.valid.shape}: give one label for each pixel.",
    )
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
