"""Maps, block by block ⇄ a Zarr group on disk, which xarray opens with names and place, and viewers as OME-Zarr.

A block is one chunk of every map, so that processes that write different blocks never touch the same file. In the
group, topics come first, as OME-Zarr demands of channels; in memory they are last.
"""

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.images.checks import Array, require
from pmlda.images.gdal import measure_pixels
from pmlda.images.ngff import describe_ngff
from pmlda.images.shrink import halve, level_shapes
from pmlda.images.zarr_source import MEMBERSHIPS, load_zarr
from pmlda.storage.atomic import naming, sync
from pmlda.types import Georeference, PixelSize

# Some readers of OME-Zarr want names of one letter, and a group "labels" is something else there.
CHANNELS = "c"
TOPICS_FIRST = (CHANNELS, "y", "x")
# Type, fill value and dimensions of each map.
MAPS: dict[str, tuple[str, float, tuple[str, ...]]] = {
    MEMBERSHIPS: ("float32", np.nan, TOPICS_FIRST),
    "uncertainty": ("float16", np.nan, TOPICS_FIRST),
    "residual": ("float16", np.nan, ("y", "x")),
    "novelty": ("float32", np.nan, ("y", "x")),
    "dominant": ("int16", -1, ("y", "x")),
    "documents": ("int32", -1, ("y", "x")),
}
PLACE = "spatial_ref"
# Smaller copies of the maps of topics lie in a group of their own, since xarray wants arrays of one size in a group.
PYRAMID = "pyramid"
SMALLEST = 512
"""Levels become smaller until one has at most so many rows and columns."""


def create_maps(
    folder: str | os.PathLike[str],
    shape: tuple[int, int, int],
    chunk: int,
    names: Sequence[str],
    *,
    georeference: Georeference | None = None,
    pixel_size: PixelSize | None = None,
    colours: Sequence[Sequence[float]] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """A new Zarr group for maps (H, W, K) in blocks of chunk × chunk pixels; until they are written, nothing has data.

    memberships (K, H, W) in float32 and uncertainty (K, H, W) in float16 are NaN where there is no data, and −1 are
    documents (H, W) and dominant (H, W), the largest topic. The coordinate c holds the names; spatial_ref, x and y say
    where the maps lie, if known. The group is an OME-Zarr, whose smaller levels `build_pyramid` fills when all blocks
    have been written.

    pixel_size : of a picture without a georeference
    colours : (K, 3) in which viewers show the topics, from 0 to 1
    """
    path = Path(folder)
    zarr = load_zarr(path)
    require(min(*shape, chunk) > 0, f"Maps of shape {shape} in blocks of {chunk}: give whole numbers of at least 1.")
    require(len(names) == shape[2], f"names={names!r} does not fit {shape[2]} maps. Give one name for each map.")
    require(not path.exists() or (path.is_dir() and not any(path.iterdir())), f"{path} exists already. Remove it.")
    size = pixel_size if georeference is None else measure_pixels(georeference)
    levels = {name: [name, *_level_paths(name, shape)] for name in MAPS if MAPS[name][2] == TOPICS_FIRST}
    about = {"ome": describe_ngff(levels, TOPICS_FIRST, names, pixel_size=size, colours=colours)}
    with naming(path):
        group = zarr.create_group(path, zarr_format=3, attributes=dict(attributes or {}) | about)
        placed = {} if georeference is None else {"grid_mapping": PLACE, "coordinates": PLACE}
        for name in MAPS:
            _create_map(zarr, group, name, name, shape, chunk, placed)
            for inner, smaller in zip(levels.get(name, [])[1:], level_shapes(shape, SMALLEST), strict=False):
                _create_map(zarr, group, inner, name, (*smaller, shape[2]), chunk, {})
        _write_line(group, CHANNELS, np.array([str(name) for name in names], dtype=object), "str")
        if georeference is not None:
            _write_place(group, shape, georeference)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr: others may not know consolidated metadata; then they read the rest
            zarr.consolidate_metadata(path)


def _level_paths(name: str, shape: tuple[int, int, int]) -> list[str]:
    """Where the smaller levels of a map lie, by how many times smaller they are."""
    return [f"{PYRAMID}/{2 ** (at + 1)}/{name}" for at in range(len(level_shapes(shape, SMALLEST)))]


def _create_map(
    zarr: Any, group: Any, inner: str, name: str, shape: Sequence[int], chunk: int, attributes: Mapping[str, Any]
) -> None:
    """An empty array for a map, or for a level of it; each topic has chunks of its own, which viewers read alone."""
    dtype, fill, dimensions = MAPS[name]
    lengths = {CHANNELS: shape[2], "y": shape[0], "x": shape[1]}
    chunks = {CHANNELS: 1, "y": min(chunk, shape[0]), "x": min(chunk, shape[1])}
    group.create_array(
        inner,
        shape=tuple(lengths[dimension] for dimension in dimensions),
        chunks=tuple(chunks[dimension] for dimension in dimensions),
        dtype=dtype,
        fill_value=fill,
        dimension_names=dimensions,
        # A chunk that rotted is an error, not numbers.
        compressors=zarr.codecs.ZstdCodec(level=1, checksum=True),
        attributes=dict(attributes),
    )


def write_block(folder: str | os.PathLike[str], rows: slice, columns: slice, **maps: Array) -> None:
    """Write one block of the named maps; when this returns, it is on disk.

    A process that is killed meanwhile leaves each chunk as it was or as it will be, but perhaps not all maps alike.
    """
    for name, values in maps.items():
        array, block = _open_map(folder, name), np.asarray(values)
        _check_block(array, name, rows, columns)
        expected = (rows.stop - rows.start, columns.stop - columns.start, *array.shape[:-2])
        require(block.shape == expected, f"The block of {name} has shape {block.shape}, expected {expected}.")
        _write(array, Path(folder) / name, rows, columns, np.moveaxis(block, 2, 0) if block.ndim == 3 else block)


def read_block(
    folder: str | os.PathLike[str], name: str, rows: slice, columns: slice, topic: int | None = None
) -> Array:
    """Any part of a map, in its own type; of one topic (rows, columns)."""
    array = _open_map(folder, name)
    if array.ndim == 2:
        return np.asarray(array[rows, columns])
    block = np.asarray(array[slice(None) if topic is None else topic, rows, columns])
    return block if topic is not None else np.ascontiguousarray(np.moveaxis(block, 0, 2))


def build_pyramid(folder: str | os.PathLike[str]) -> None:
    """Fill the smaller levels of all maps that have some, each from the one before, chunk by chunk."""
    path = Path(folder)
    for name, (_, _, dimensions) in MAPS.items():
        if dimensions != TOPICS_FIRST:
            continue
        above, shape = _open_map(path, name), _open_map(path, name).shape
        for inner in _level_paths(name, (*shape[1:], shape[0])):
            shutil.rmtree(path / inner / "c", ignore_errors=True)  # of a run that was killed here
            level = _open_map(path, inner)
            for rows in _cut(level.shape[1], level.chunks[1]):
                for columns in _cut(level.shape[2], level.chunks[2]):
                    larger = above[:, 2 * rows.start : 2 * rows.stop, 2 * columns.start : 2 * columns.stop]
                    _write(level, path / inner, rows, columns, halve(np.asarray(larger)))
            above = level


def _cut(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _open_map(folder: str | os.PathLike[str], name: str) -> Any:
    path = Path(folder)
    require((path / name / "zarr.json").is_file(), f"{path} has no map {name!r}. Make it with create_maps.")
    return load_zarr(path).open_array(path / name, mode="r+")


def _check_block(array: Any, name: str, rows: slice, columns: slice) -> None:
    """Refuse rows and columns that are not those of one chunk."""
    for side, length, chunk in zip((rows, columns), array.shape[-2:], array.chunks[-2:], strict=True):
        start, stop, _ = side.indices(length)
        fits = start % chunk == 0 and stop == min(start + chunk, length) and start < stop
        require(fits, f"{side} is not one block of {name}: they have {chunk} of {length} rows or columns.")


def _write(array: Any, place: Path, rows: slice, columns: slice, block: Array) -> None:
    """Write one chunk of each topic, (K, rows, columns) or (rows, columns); when this returns, it is on disk."""
    at = (rows.start // array.chunks[-2], columns.start // array.chunks[-1])
    # One after the other: zarr would write all of them on threads of its own, which go on after an error in one.
    for topic in [(k,) for k in range(array.shape[0])] if array.ndim == 3 else [()]:
        file = place / array.metadata.encode_chunk_key((*topic, *at))
        with naming(file):
            array[(*topic, rows, columns)] = block[topic].astype(array.dtype, copy=False)
            _to_disk(file)


def _to_disk(file: Path) -> None:
    """zarr renames a chunk when it is complete, but does not wait for the disk. A chunk of fill values has no file."""
    for path in (file, file.parent):
        if path.exists():
            sync(path)


def _write_line(group: Any, name: str, values: Array, dtype: str, **attributes: Any) -> None:
    """A coordinate: an array with the name of its dimension."""
    array = group.create_array(
        name, shape=values.shape, chunks=values.shape, dtype=dtype, dimension_names=(name,), attributes=attributes
    )
    array[:] = values


def _write_place(group: Any, shape: tuple[int, int, int], place: Georeference) -> None:
    """The place as rioxarray writes it; rows and columns have coordinates of their own unless they are turned."""
    a, b, c, d, e, f = place.transform
    about = {"GeoTransform": " ".join(repr(float(number)) for number in (c, a, b, f, d, e))}
    if place.crs:
        about |= {"crs_wkt": place.crs, "spatial_ref": place.crs}
    group.create_array(PLACE, shape=(), dtype="int64", dimension_names=(), attributes=about)
    if b == 0 and d == 0:
        _write_line(group, "x", c + a * (np.arange(shape[1]) + 0.5), "float64", axis="X")
        _write_line(group, "y", f + e * (np.arange(shape[0]) + 0.5), "float64", axis="Y")
