"""Names, size of pixels and colours of maps → metadata of OME-Zarr 0.5, from which viewers take channels and levels."""

from collections.abc import Mapping, Sequence
from typing import Any

from pmlda.images.pixel_size import UNITS
from pmlda.types import PixelSize

VERSION = "0.5"


def describe_ngff(
    levels: Mapping[str, Sequence[str]],
    axes: Sequence[str],
    names: Sequence[str],
    *,
    pixel_size: PixelSize | None = None,
    colours: Sequence[Sequence[float]] | None = None,
) -> dict[str, Any]:
    """The attribute "ome" of a group.

    levels : the paths of the arrays of each picture, from the largest to the smallest, each half as large as before
    axes : names of the dimensions of these arrays: that of channels, then rows and columns
    colours : (K, 3) red, green and blue of each channel, from 0 to 1

    >>> about = describe_ngff({"shares": ["0", "1"]}, ("c", "y", "x"), ["sand"], pixel_size=PixelSize(2.0, 3.0, "m"))
    >>> about["multiscales"][0]["datasets"][1]["coordinateTransformations"]
    [{'type': 'scale', 'scale': [1.0, 4.0, 6.0]}, {'type': 'translation', 'translation': [0.0, 1.0, 1.5]}]
    """
    unit = {} if pixel_size is None else {"unit": UNITS[pixel_size.unit]}
    channel, *plane = axes
    about_axes = [{"name": channel, "type": "channel"}, *({"name": name, "type": "space"} | unit for name in plane)]
    height, width = (1.0, 1.0) if pixel_size is None else pixel_size[:2]
    scales = [
        {
            "name": name,
            "axes": about_axes,
            "datasets": [_describe_level(path, 2**at, height, width) for at, path in enumerate(paths)],
            "type": "mean",
        }
        for name, paths in levels.items()
    ]
    channels = [
        {"label": name, "active": True, "window": {"min": 0.0, "max": 1.0, "start": 0.0, "end": 1.0}}
        | ({} if colours is None else {"color": _hexadecimal(colours[k])})
        for k, name in enumerate(names)
    ]
    return {"version": VERSION, "multiscales": scales, "omero": {"channels": channels}}


def _describe_level(path: str, factor: int, height: float, width: float) -> dict[str, Any]:
    """Size and place of pixels that are means of factor × factor; the centre of the first lies between those."""
    shift = (factor - 1) / 2
    steps: list[dict[str, Any]] = [{"type": "scale", "scale": [1.0, height * factor, width * factor]}]
    if shift:
        steps.append({"type": "translation", "translation": [0.0, height * shift, width * shift]})
    return {"path": path, "coordinateTransformations": steps}


def _hexadecimal(colour: Sequence[float]) -> str:
    return bytes(round(255 * float(level)) for level in colour).hex().upper()
