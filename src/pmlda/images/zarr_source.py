"""Zarr store → Stored, or Content of a small one: an array, one that xarray wrote, OME-Zarr, or our own maps."""

import base64
import importlib
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images.axes import Axes, find_axes
from pmlda.images.checks import (
    Array,
    Key,
    as_numbers,
    check_size,
    decoding,
    nodata_number,
    require,
)
from pmlda.images.choice import Choice
from pmlda.images.content import Content, Window
from pmlda.images.dataarray import band_names, place
from pmlda.images.gdal import quiet
from pmlda.images.pixel_size import from_ngff
from pmlda.images.stored import Stored, check_stored, stamp_folder
from pmlda.storage.regular import require_regular_inside
from pmlda.types import Georeference, PixelSize

METADATA = ("zarr.json", ".zarray", ".zgroup")

# What `create_maps` calls the array that is meant when a folder of maps is given as a picture.
MEMBERSHIPS = "memberships"


def is_zarr(path: Path) -> bool:
    """Whether the path is that of a Zarr: by its name, or by what lies in the folder."""
    return path.is_dir() and (path.suffix.lower() == ".zarr" or any((path / name).is_file() for name in METADATA))


def read_zarr(path: Path, choice: Choice, window: Window | None = None) -> Content:
    """All of a Zarr that is small enough, or a window of it."""
    stored = open_zarr(path, choice)
    if window is None:
        check_size(stored.shape, str(path))
        window = slice(0, stored.shape[0]), slice(0, stored.shape[1])
    return stored.read(window)


def open_zarr(path: Path, choice: Choice) -> Stored:
    """A Zarr store on disk, of which nothing but the description is read."""
    found = any((path / name).is_file() for name in METADATA)
    require(found, f"{path} is not a Zarr: no zarr.json, .zarray or .zgroup in it. Give the folder of a Zarr store.")
    require_regular_inside(path, ImageError)
    with quiet():  # zarr warns of types of text that its format has not settled yet
        zarr = load_zarr(path)
        node = zarr.open(path, mode="r")
        group = node if hasattr(node, "array_keys") else None
        if group is None:
            choice.require_no_key(path)
        inner, notes = ("", []) if group is None else _choose_array(group, path, choice.key)
        # As windows are read: from what lies with the array, and not from the copy that its group may have of it.
        array = zarr.open_array(path / inner, mode="r") if inner else node
        return _open_array(path, inner, array, group, notes, choice)


def _open_array(path: Path, inner: str, array: Any, group: Any, notes: Sequence[str], choice: Choice) -> Stored:
    """The array at `inner` in a store."""
    what = f"{inner} in {path}" if inner else str(path)
    check_stored(what, array.shape, array.dtype)
    names = _dimensions(array, group, inner)
    axes = find_axes(names, array.shape, what, choice)
    shape = axes.cube_shape(array.shape)
    y, x, band = (*(str(names[axis]) if names else "" for axis in axes.order), "")[:3]
    bands, georeference = _describe(array, group, inner, (y, x, band), shape[2])
    scaled = "scale_factor" in array.attrs or "add_offset" in array.attrs
    kept = ["The Zarr names a scale and an offset; the numbers were kept as they are stored."] if scaled else []
    nodata = _nodata(array)
    ignored = [number for number in (nodata, choice.nodata) if number is not None]
    said, size = (*notes, *axes.notes, *kept), _pixel_size(group, inner)
    about = Content(np.empty((0, 0, 0)), bands, None, georeference, said, (nodata,) * shape[2], pixel_size=size)
    return Stored(
        shape,
        axes.cube_type(as_numbers(np.empty(0, array.dtype), what).dtype),
        bands,
        georeference,
        about.notes,
        (array.chunks[axes.plane[0]], array.chunks[axes.plane[1]]),
        f"{array.shape} {array.dtype} {stamp_folder(path / inner)}",
        partial(_read_window, path, inner, axes, about, ignored),
        pixel_size=size,
    )


def _read_window(
    path: Path, inner: str, axes: Axes, about: Content, ignored: Sequence[float], window: Window
) -> Content:
    """The numbers of a window as (rows, columns, bands). ignored : numbers that projections leave out"""
    with decoding(path, "Zarr"):
        array = load_zarr(path).open_array(path / inner, mode="r")
        n_bands = axes.cube_shape(array.shape)[2]
        check_size([*(each.stop - each.start for each in window), n_bands], str(path))
        return about._replace(pixels=axes.read(array, window, ignored))


def load_zarr(path: Path) -> Any:
    """The library zarr."""
    try:
        return importlib.import_module("zarr")
    except ImportError:
        raise MissingLibraryError(f'{path} needs the library zarr. Install it: pip install "pmlda[scale]".') from None


# ── which array ────────────────────────────────────────────────────────────────────────────────────────────────────


def _choose_array(group: Any, path: Path, key: Key) -> tuple[str, list[str]]:
    """The path of the array inside a group, and what to say about the choice."""
    arrays = dict(sorted(group.arrays()))
    listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"
    groups = ", ".join(group.group_keys())
    listed += f"; and the groups {groups}" if groups else ""
    if key is not None:
        inside = str(key).strip("/")
        known = inside in group and hasattr(group[inside], "chunks")
        require(known, f"key={key!r} is not an array in {path}. It holds: {listed}.")
        return inside, []
    scales = _multiscales(group)
    levels = scales[0].get("datasets", []) if scales else []
    if levels and MEMBERSHIPS not in arrays:
        note = "Smaller copies in the store were left out; the largest was read."
        return str(levels[0]["path"]), [note] if len(levels) > 1 else []
    pictures = [name for name, array in arrays.items() if len(array.shape) >= 2]
    if len(pictures) > 1 and MEMBERSHIPS in pictures:
        others = ", ".join(name for name in pictures if name != MEMBERSHIPS)
        return MEMBERSHIPS, [f"The memberships were read; key chooses another array: {others}."]
    remedy = "Choose one with key" if arrays else "Give the folder of an array"
    require(len(pictures) == 1, f"{path} holds {len(pictures)} arrays that can be pictures. {remedy}: {listed}.")
    return pictures[0], []


def _multiscales(group: Any) -> list[Mapping[str, Any]]:
    """The pictures of an OME-Zarr; of other groups nothing."""
    attributes = dict(group.attrs)
    found = attributes.get("ome", attributes).get("multiscales")
    return found if isinstance(found, list) else []


def _find_level(group: Any, inner: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The picture of an OME-Zarr to which an array belongs, and what is said of the array; of others nothing."""
    for scales in [] if group is None else _multiscales(group):
        for level in scales.get("datasets", []):
            if str(level["path"]) == inner:
                return scales, level
    return {}, {}


# ── what it says about itself ──────────────────────────────────────────────────────────────────────────────────────


def _dimensions(array: Any, group: Any, inner: str) -> list[Any] | None:
    """The names of the dimensions, if there are any."""
    named = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    scales, _ = _find_level(group, inner)
    if scales.get("axes"):
        named = [axis["name"] if isinstance(axis, dict) else axis for axis in scales["axes"]]
    return None if named is None else list(named)


def _describe(
    array: Any, group: Any, inner: str, dimensions: tuple[str, str, str], n_bands: int
) -> tuple[tuple[str, ...], Georeference | None]:
    """Names of bands and place."""
    y, x, band = dimensions
    beside = {} if group is None else _beside(group, inner)
    mapping = str(array.attrs.get("grid_mapping", "spatial_ref"))
    about = dict(beside[mapping].attrs) if mapping in beside else {}
    labels = np.asarray(beside[band][...]) if band in beside else None
    units = beside[band].attrs.get("units", "") if band in beside else ""
    named = band_names(dict(array.attrs), band, labels, n_bands, units)
    bands = _channels(group, inner, n_bands) or named
    return bands, place(dict(array.attrs), about, _line(beside, x), _line(beside, y))


def _beside(group: Any, inner: str) -> dict[str, Any]:
    """The arrays in the same group as the picture."""
    parent = inner.rpartition("/")[0]
    return dict((group[parent] if parent else group).arrays())


def _line(beside: Mapping[str, Any], name: str) -> Array | None:
    return np.asarray(beside[name][...]) if name in beside else None


def _pixel_size(group: Any, inner: str) -> PixelSize | None:
    """How large pixels are, as OME-Zarr says of each level."""
    scales, level = _find_level(group, inner)
    return from_ngff(scales.get("axes"), level.get("coordinateTransformations"))


def _channels(group: Any, inner: str, n_bands: int) -> tuple[str, ...]:
    """The labels of channels in OME-Zarr."""
    attributes = dict(group.attrs) if any(_find_level(group, inner)) else {}
    channels = attributes.get("ome", attributes).get("omero", {}).get("channels", [])
    labels = tuple(str(one.get("label") or f"channel {at + 1}") for at, one in enumerate(channels))
    return labels if len(labels) == n_bands else ()


def _nodata(array: Any) -> float | None:
    """The no-data number: an attribute, or the fill value where xarray wrote the second format of Zarr."""
    if array.dtype.kind == "b":
        return None
    value = array.attrs.get("_FillValue", array.attrs.get("nodata"))
    if value is None and array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in array.attrs:
        value = array.fill_value
    if isinstance(value, str):  # xarray packs real numbers into text
        try:
            value = struct.unpack("<d", base64.b64decode(value))[0]
        except (ValueError, struct.error):
            value = float(value)
    return None if value is None else nodata_number(value)
