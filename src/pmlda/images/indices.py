"""A label image, path or array → (H, W) whole numbers as they are stored: a palette of colours is not applied."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.images.arrays import from_array
from pmlda.images.checks import check_size, decoding, require
from pmlda.images.choice import ALL
from pmlda.images.content import Content
from pmlda.images.ignored import Ignoring
from pmlda.images.read import find_reader
from pmlda.images.valid import to_image

LABEL_IMAGES = (".png", ".tif", ".tiff", ".npy")


def read_indices(source: str | os.PathLike[str] | NDArray[Any]) -> NDArray[np.integer]:
    """(H, W) the number of every pixel, 0 where there is no data. A picture of whole numbers keeps their type."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        name, content = str(path), _read(path)
    else:
        name = "The array of labels"
        content = from_array(source, name)
    image = to_image(name, content, Ignoring(), None)
    n_bands = image.pixels.shape[2]
    require(
        n_bands == 1,
        f"{name} has {n_bands} bands, and a label image has one whole number for each pixel. "
        "Give a picture in grey or with a palette.",
    )
    numbers = np.where(image.valid, image.pixels[:, :, 0], 0)
    require(
        numbers.dtype.kind != "f" or bool((numbers == np.round(numbers)).all()),
        f"{name} has numbers that are not whole. Give 0 where nothing is known, and elsewhere the number of a topic.",
    )
    return numbers.astype(np.int64) if numbers.dtype.kind == "f" else numbers


def _read(path: Path) -> Content:
    """The content of a file, that of a PNG without its palette."""
    kind, reader = find_reader(path)
    with decoding(path, kind):
        return (_indices_of_png(path) if kind == "PNG" else None) or reader(path, ALL)


def _indices_of_png(path: Path) -> Content | None:
    """A PNG of bits, or of indices into a palette; None of any other."""
    from PIL.PngImagePlugin import PngImageFile

    with path.open("rb") as file, PngImageFile(file) as picture:
        if picture.mode not in ("1", "P"):
            return None
        check_size((picture.height, picture.width, 1), str(path), in_parts=False)
        return Content(np.asarray(picture).astype(np.uint8)[:, :, None])
