"""PNG or JPEG file → Content: grey or red, green, blue, upright, transparency as valid pixels."""

from pathlib import Path
from typing import Any

import numpy as np

from pmlda.images.checks import Array, check_size
from pmlda.images.choice import Choice
from pmlda.images.content import RGB, Content, turn_upright
from pmlda.images.gdal import find_rasterio, read_raster

ORIENTATION = 0x0112
GREY_MODES = ("1", "L", "LA", "La")


def read_png(path: Path, choice: Choice) -> Content:
    """A PNG through Pillow, one with colours of 16 bits through rasterio if that is installed."""
    from PIL.PngImagePlugin import PngImageFile

    choice.require_single(path)
    deep_colour = _is_deep_colour(path)
    if deep_colour and find_rasterio() is not None:
        content = read_raster(path, None, "PNG", in_parts=False)
        return content._replace(bands=_colour_names(content.pixels), georeference=None)
    # Image.open would refuse pictures above Pillow's own limit; the limit here is MOST_VALUES.
    with path.open("rb") as file, PngImageFile(file) as picture:
        content = _from_pillow(picture, str(path))
    return content.with_notes('Colours of 16 bits read as 8; pip install "pmlda[geo]".') if deep_colour else content


def read_jpeg(path: Path, choice: Choice) -> Content:
    """A JPEG through Pillow."""
    from PIL.JpegImagePlugin import JpegImageFile

    choice.require_single(path)
    with path.open("rb") as file, JpegImageFile(file) as picture:
        return _from_pillow(picture, str(path))


def pillow_size(path: Path, kind: str) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a PNG or JPEG, from its header."""
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    with path.open("rb") as file, (PngImageFile if kind == "PNG" else JpegImageFile)(file) as picture:
        height, width = picture.height, picture.width
        turned = kind == "JPEG" and int(picture.getexif().get(ORIENTATION, 1)) >= 5  # a PNG may have it at its end
        n_bands = 1 if picture.mode in GREY_MODES or picture.mode.startswith("I") else 3
        deep = picture.mode.startswith("I")
    if kind == "PNG" and _is_deep_colour(path) and find_rasterio() is not None:
        deep = True
    return ((width, height) if turned else (height, width)) + (n_bands,), np.dtype(np.uint16 if deep else np.uint8)


def _is_deep_colour(path: Path) -> bool:
    """Whether a PNG has colours of 16 bits, which Pillow cuts down to 8: bytes 24 and 25 are depth and kind."""
    with path.open("rb") as file:
        header = file.read(26)
    return header[:4] == b"\x89PNG" and len(header) == 26 and header[24] == 16 and header[25] in (2, 4, 6)


def _from_pillow(picture: Any, what: str) -> Content:
    """A picture that Pillow opened."""
    check_size((picture.height, picture.width, len(picture.getbands())), what, in_parts=False)
    orientation = int(picture.getexif().get(ORIENTATION, 1))
    transparent = picture.info.get("transparency")
    mode = picture.mode
    picture.load()
    if mode.startswith("I"):  # 16 bits; older versions of Pillow widen them to 32
        pixels: Array = np.array(picture).astype(np.uint16)[:, :, None]
        valid = pixels[:, :, 0] != transparent if isinstance(transparent, int) else None
        return turn_upright(Content(pixels, ("grey",), valid), orientation)
    grey = mode in GREY_MODES
    see_through = transparent is not None or mode in ("LA", "La", "PA", "RGBA", "RGBa")
    pixels = np.array(picture.convert(("L" if grey else "RGB") + ("A" if see_through else "")))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    valid = pixels[:, :, -1] != 0 if see_through else None
    pixels = pixels[:, :, :-1] if see_through else pixels
    content = Content(pixels, _colour_names(pixels), valid)
    if not grey and mode not in ("RGB", "RGBA", "RGBa"):
        content = content.with_notes(f"Colours converted from {'a palette' if mode in ('P', 'PA') else mode} to RGB.")
    return turn_upright(content, orientation)


def _colour_names(pixels: Array) -> tuple[str, ...]:
    return ("grey",) if pixels.shape[2] == 1 else RGB
