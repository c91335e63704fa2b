"""Maps, block by block ⇄ a Zarr group on disk, which xarray opens with names and place.

A block is one chunk of every array, so that processes that write different blocks never touch the same file.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.images.checks import Array, require
from pmlda.images.zarr_source import MEMBERSHIPS, load_zarr
from pmlda.storage.atomic import naming, sync
from pmlda.types import Georeference

# Type, fill value and dimensions of each map.
MAPS: dict[str, tuple[str, float, tuple[str, ...]]] = {
    MEMBERSHIPS: ("float32", np.nan, ("y", "x", "topic")),
    "uncertainty": ("float16", np.nan, ("y", "x", "topic")),
    "residual": ("float16", np.nan, ("y", "x")),
    "labels": ("int16", -1, ("y", "x")),
    "documents": ("int32", -1, ("y", "x")),
}
PLACE = "spatial_ref"


def create_maps(
    folder: str | os.PathLike[str],
    shape: tuple[int, int, int],
    chunk: int,
    names: Sequence[str],
    *,
    georeference: Georeference | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """A new Zarr group for maps (H, W, K) in blocks of chunk × chunk pixels; until they are written, nothing has data.

    memberships (H, W, K) in float32 and uncertainty (H, W, K) in float16 are NaN where there is no data, labels (H, W)
    in int16 are −1. The coordinate topic holds the names; spatial_ref, x and y say where the maps lie, if known.
    """
    path = Path(folder)
    zarr = load_zarr(path)
    require(min(*shape, chunk) > 0, f"Maps of shape {shape} in blocks of {chunk}: give whole numbers of at least 1.")
    require(len(names) == shape[2], f"names={names!r} does not fit {shape[2]} maps. Give one name for each map.")
    require(not path.exists() or (path.is_dir() and not any(path.iterdir())), f"{path} exists already. Remove it.")
    with naming(path):
        group = zarr.create_group(path, zarr_format=3, attributes=dict(attributes or {}))
        placed = {} if georeference is None else {"grid_mapping": PLACE, "coordinates": PLACE}
        for name, (dtype, fill, dimensions) in MAPS.items():
            group.create_array(
                name,
                shape=shape[: len(dimensions)],
                chunks=(min(chunk, shape[0]), min(chunk, shape[1]), shape[2])[: len(dimensions)],
                dtype=dtype,
                fill_value=fill,
                dimension_names=dimensions,
                # A chunk that rotted is an error, not numbers.
                compressors=zarr.codecs.ZstdCodec(level=1, checksum=True),
                attributes=placed,
            )
        _write_line(group, "topic", np.array([str(name) for name in names], dtype=object), "str")
        if georeference is not None:
            _write_place(group, shape, georeference)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr: others may not know consolidated metadata; then they read the rest
            zarr.consolidate_metadata(path)


def write_block(folder: str | os.PathLike[str], rows: slice, columns: slice, **maps: Array) -> None:
    """Write one block of the named maps; when this returns, it is on disk.

    A process that is killed meanwhile leaves each chunk as it was or as it will be, but perhaps not all maps alike.
    """
    for name, values in maps.items():
        array, key = _open_block(folder, name, rows, columns)
        block = np.asarray(values)
        expected = (rows.stop - rows.start, columns.stop - columns.start, *array.shape[2:])
        require(block.shape == expected, f"The block of {name} has shape {block.shape}, expected {expected}.")
        file = Path(folder) / name / key
        with naming(file):
            array[rows, columns] = block.astype(array.dtype, copy=False)
            _to_disk(file)


def read_block(folder: str | os.PathLike[str], name: str, rows: slice, columns: slice) -> Array:
    """Any part of a map, in its own type."""
    array = _open_map(folder, name)
    return np.asarray(array[rows, columns])


def _open_map(folder: str | os.PathLike[str], name: str) -> Any:
    path = Path(folder)
    require((path / name / "zarr.json").is_file(), f"{path} has no map {name!r}. Make it with create_maps.")
    return load_zarr(path).open_array(path / name, mode="r+")


def _open_block(folder: str | os.PathLike[str], name: str, rows: slice, columns: slice) -> tuple[Any, str]:
    """A map, and the file in it that holds this block."""
    array = _open_map(folder, name)
    at = []
    for side, length, chunk in zip((rows, columns), array.shape, array.chunks, strict=False):
        start, stop, _ = side.indices(length)
        fits = start % chunk == 0 and stop == min(start + chunk, length) and start < stop
        require(fits, f"{side} is not one block of {name}: they have {chunk} of {length} rows or columns.")
        at.append(start // chunk)
    return array, array.metadata.encode_chunk_key((*at, *[0] * (array.ndim - 2)))


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
