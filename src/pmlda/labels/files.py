"""A file, an array or a list of strokes → a Drawing; strokes or a label image → the file that stays with the maps.

Files are label images (PNG, TIFF or .npy: 0 where nothing is known, elsewhere the number of a topic), strokes in JSON,
or GeoJSON. Anyone may have written them.
"""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import InputError, MissingFileError
from pmlda.images.indices import LABEL_IMAGES, read_indices
from pmlda.labels.geojson import is_geojson, to_strokes
from pmlda.labels.raster import Shape
from pmlda.labels.strokes import MOST_POINTS, Stroke, to_stroke
from pmlda.storage.tables import parse_json, read_small
from pmlda.types import Georeference
from pmlda.validate import brief, require, texts

# So many bytes hold all points that strokes may have, with all digits.
MOST_STROKE_BYTES = 64 * MOST_POINTS + 2**20
STROKE_FILES = (".json", ".geojson")
STROKES, LABEL_IMAGE = "strokes.json", "strokes.png"
"""The file that keeps the labels of a run: of strokes, and of a label image."""


class Drawing(NamedTuple):
    """What somebody drew on one picture.

    source : what errors call it
    strokes : each with what errors call it
    names : of topics, as listed in the file, in order
    image : (H, W) a label image instead of strokes
    """

    source: str
    strokes: tuple[tuple[str, Stroke], ...] = ()
    names: tuple[str, ...] = ()
    image: NDArray[np.integer] | None = None


def to_json(strokes: Sequence[Stroke], names: Sequence[str]) -> bytes:
    """The content of a file from which strokes are read again."""
    content: dict[str, Any] = {"names": list(names)} if names else {}
    content["strokes"] = [stroke.to_table() for stroke in strokes]
    return (json.dumps(content) + "\n").encode()


def to_png(image: NDArray[np.uint8]) -> bytes:
    """The content of a file from which a label image is read again."""
    from PIL import Image as Pillow

    stream = io.BytesIO()
    Pillow.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def read_drawing(source: Any, shape: Shape, place: Georeference | None) -> Drawing:
    """What was drawn on a picture. place : where the picture lies, if that is known"""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _read_image(path, repr(str(path)), shape) if _is_image(path) else _read_strokes(path, place)
    if isinstance(source, np.ndarray):
        return _read_image(source, "The array of labels", shape)
    require(
        isinstance(source, list | tuple | dict),
        f"Labels cannot be read from {brief(source)}. Give a file, an array (H, W) or a list of strokes.",
    )
    return _to_drawing(source, "the labels", place)


def _is_image(path: Path) -> bool:
    suffix = path.suffix.lower()
    if not os.path.exists(path):
        raise MissingFileError(f"The labels {str(path)!r} do not exist. Check the path.")
    require(
        suffix in (*LABEL_IMAGES, *STROKE_FILES),
        f"{str(path)!r} is no file of labels. Give a label image ({' '.join(LABEL_IMAGES)}), strokes (.json) or "
        "GeoJSON (.geojson).",
    )
    return suffix in LABEL_IMAGES


def _read_image(source: Any, name: str, shape: Shape) -> Drawing:
    """A label image, as large as the picture."""
    image = read_indices(source)
    require(
        image.shape == shape,
        f"{name} has {image.shape[0]} × {image.shape[1]} pixels, and the picture {shape[0]} × {shape[1]}. "
        "Give one label for each pixel.",
    )
    require(image.min() >= 0, f"{name} has a label {image.min()}. Give 0 where nothing is known, and topics from 1.")
    return Drawing(name, image=image)


def _read_strokes(path: Path, place: Georeference | None) -> Drawing:
    """Strokes in JSON or GeoJSON."""
    try:
        content = parse_json(read_small(path, MOST_STROKE_BYTES, InputError))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"The labels {str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not JSON: {error}.") from None
    return _to_drawing(content, repr(str(path)), place)


def _to_drawing(content: Any, name: str, place: Georeference | None) -> Drawing:
    """Checked strokes, and the names of topics."""
    names: tuple[str, ...] = ()
    if is_geojson(content):
        tables = to_strokes(content, place, name)
    else:
        if isinstance(content, dict):
            require(
                "strokes" in content and set(content) <= {"strokes", "names"},
                f'{name} has {brief(sorted(map(str, content)))}, expected a list of strokes, {{"strokes": […], '
                '"names": […]}, or GeoJSON.',
            )
            names, content = texts(f"The names in {name}", content.get("names", [])), content["strokes"]
        require(isinstance(content, list | tuple), f"{name} has {brief(content)} where a list of strokes is expected.")
        tables = [(f"Stroke {number + 1} of {name}", table) for number, table in enumerate(content)]
    strokes = tuple((what, to_stroke(table, what)) for what, table in tables)
    n_points = sum(stroke.n_points for _, stroke in strokes)
    require(
        n_points <= MOST_POINTS,
        f"{name} has {n_points} points, more than {MOST_POINTS}. Simplify its lines, or give a label image.",
    )
    return Drawing(name, strokes, names)
