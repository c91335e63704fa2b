"""A Segmentation → xarray Datasets: maps with the names of topics and the place of every pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pmlda.errors import MissingLibraryError
from pmlda.images.windowed import open_windowed
from pmlda.segmentation import Segmentation
from pmlda.types import FloatArray, Georeference

if TYPE_CHECKING:
    from xarray import Dataset

PLACE = "spatial_ref"


def to_dataset(segmentation: Segmentation, index: int) -> Dataset:
    """The maps of one of the pictures, in memory."""
    try:
        import xarray  # late: few need it
    except ImportError:
        raise MissingLibraryError('to_xarray needs the library xarray: pip install "pmlda[xarray]".') from None

    maps = np.asarray(segmentation.membership_maps[index])
    place = _place(segmentation, index)
    rows_and_topics = ("y", "x", "topic")
    arrays: dict[str, Any] = {
        "memberships": (rows_and_topics, maps),
        "uncertainty": (rows_and_topics, np.asarray(segmentation.uncertainty_maps[index], np.float32)),
        "document": (("y", "x"), np.asarray(segmentation.document_maps[index])),
    }
    planes = {"residual": segmentation.residual_of(index), "novelty": segmentation.novelty_of(index)}
    for name, plane in planes.items():
        if plane is not None:
            arrays[name] = (("y", "x"), np.asarray(plane, np.float32))
    coordinates: dict[str, Any] = {"topic": list(segmentation.topic_names), **_lines(maps.shape, place)}
    about: dict[str, Any] = {"picture": segmentation.images[index].name}
    if place is not None:
        coordinates[PLACE] = ((), 0, _grid_mapping(place))
        about |= {"crs": place.crs, "transform": list(place.transform)}
    found = xarray.Dataset(arrays, coordinates, about)
    for name in arrays:
        if place is not None:
            found[name].attrs["grid_mapping"] = PLACE
    return found


def _place(segmentation: Segmentation, index: int) -> Georeference | None:
    """Where a picture lies; of maps on disk, these know."""
    if segmentation.path is None:
        return segmentation.images[index].georeference
    return open_windowed(segmentation.path).georeference


def _lines(shape: tuple[int, ...], place: Georeference | None) -> dict[str, FloatArray]:
    """y and x of the middle of each pixel on the map; numbers of rows and columns where maps lie nowhere or turned."""
    rows, columns = np.arange(float(shape[0])), np.arange(float(shape[1]))
    if place is None:
        return {"y": rows, "x": columns}
    a, b, c, d, e, f = place.transform
    if b or d:
        return {"y": rows, "x": columns}
    return {"y": f + e * (rows + 0.5), "x": c + a * (columns + 0.5)}


def _grid_mapping(place: Georeference) -> dict[str, str]:
    """The place as rioxarray writes it."""
    a, b, c, d, e, f = place.transform
    transform = " ".join(repr(float(number)) for number in (c, a, b, f, d, e))
    return {"GeoTransform": transform} | ({"crs_wkt": place.crs, "spatial_ref": place.crs} if place.crs else {})
