"""Any file that GDAL reads, through rasterio → Content with names, place and no-data numbers."""

import contextlib
import importlib
import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images.checks import Key, check_size, require, require_no_key
from pmlda.images.choice import Choice
from pmlda.images.content import Content, Window, stack_bands
from pmlda.images.pixel_size import make_pixel_size
from pmlda.storage.regular import require_regular
from pmlda.types import Georeference, PixelSize

# An authority, perhaps a version of its list, and a code.
CRS_NAME = re.compile(r"(?:urn:ogc:def:crs:)?([A-Za-z]{1,20}):(?:[\w.]{0,20}:)?(\w{1,20})", re.ASCII)


def find_rasterio() -> Any:
    """The library rasterio, or None where it is not installed."""
    try:
        return importlib.import_module("rasterio")
    except ImportError:
        return None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """rasterio warns of every picture that does not lie anywhere on Earth; here that is nothing unusual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_nitf(path: Path, choice: Choice, window: Window | None = None) -> Content:
    """A NITF file."""
    choice.require_flat(path)
    return read_raster(path, choice.key, "NITF", window=window)


def read_raster(
    path: Path,
    key: Key,
    driver: str,
    skip: Sequence[int] = (),
    window: Window | None = None,
    *,
    in_parts: bool = True,
) -> Content:
    """A file or a window of it through GDAL, without the bands in skip; of files with several pictures, that of key."""
    with open_datasets(path, key, driver) as datasets:
        height, width = datasets[0].shape if window is None else (side.stop - side.start for side in window)
        check_size((sum(dataset.count for dataset in datasets), height, width), str(path), in_parts=in_parts)
        parts = [from_dataset(dataset, path, skip, window) for dataset in datasets]
    return parts[0] if len(parts) == 1 else stack_bands(parts)


def raster_layout(path: Path, key: Key, driver: str) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """(H, W) of a file that GDAL reads, and (rows, columns) of the blocks it is stored in."""
    with open_datasets(path, key, driver) as datasets:
        rows, columns = datasets[0].block_shapes[0] if datasets[0].count else (1, 1)
        return (datasets[0].height, datasets[0].width), (int(rows), int(columns))


def raster_size(path: Path, key: Key, driver: str) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a file that GDAL reads; transparency is no band."""
    alpha = find_rasterio().enums.ColorInterp.alpha if find_rasterio() is not None else None
    with open_datasets(path, key, driver) as datasets:
        n_bands = sum(role != alpha for dataset in datasets for role in dataset.colorinterp)
        kind = np.result_type(*(dtype for dataset in datasets for dtype in dataset.dtypes))
        return (datasets[0].height, datasets[0].width, n_bands), kind


@contextlib.contextmanager
def name_for_gdal(path: Path) -> Iterator[str]:
    """The path as GDAL takes it: in UTF-8. A file of another name is read through a link, with all that belongs to it.

    GDAL also opens files beside it that begin with the same name, and would wait for ever if one is a pipe.
    """
    stem = path.stem
    with os.scandir(path.parent) as entries:
        companions = [entry for entry in entries if entry.name.startswith(stem)]
    for entry in companions:
        if not entry.is_file():
            require_regular(entry.path, ImageError)
    try:
        name = os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        with tempfile.TemporaryDirectory(prefix="pmlda-") as folder:
            for entry in companions:
                os.symlink(os.path.abspath(entry.path), os.path.join(folder, f"picture{entry.name[len(stem) :]}"))
            yield os.path.join(folder, f"picture{path.suffix}")
    else:
        yield name


@contextlib.contextmanager
def open_datasets(path: Path, key: Key, driver: str, only: str = "") -> Iterator[list[Any]]:
    """The dataset of a file, or those of several pictures of the same size inside it, for as long as they are read.

    only : the name of the picture, if there is one alone and GDAL does not tell it
    """
    rasterio = find_rasterio()
    if rasterio is None:
        raise MissingLibraryError(f'{path} needs the library rasterio. Install it: pip install "pmlda[geo]".')
    with quiet(), name_for_gdal(path) as name, contextlib.ExitStack() as stack:
        dataset = stack.enter_context(rasterio.open(name, driver=driver))
        inside = dict(_subdatasets(dataset.subdatasets, Path(name)))
        if not inside or (key is None and len(inside) == 1 and dataset.count):
            _check_only(key, path, only or (dataset.tags(1).get("NETCDF_VARNAME", "") if dataset.count else ""))
            yield [dataset]
            return
        wanted = _choose_subdatasets(inside, path, key, driver)
        datasets = [stack.enter_context(rasterio.open(one)) for one in wanted]
        sizes = {dataset.shape for dataset in datasets}
        listed = ", ".join(inside)
        require(len(sizes) == 1, f"{path} holds pictures of several sizes. Choose one with key: {listed}.")
        yield datasets


def _check_only(key: Key, path: Path, only: str) -> None:
    """Refuse a key of a file with a single picture, unless it is the name of that picture."""
    if only:
        is_it = key is None or str(key).strip("/") == only
        require(is_it, f"key={key!r} is not in {path}. Choose one of: {only}.")
    else:
        require_no_key(key, path)


def _subdatasets(names: Sequence[str], path: Path) -> Iterator[tuple[str, str]]:
    """(key, name for GDAL) of each picture: "netcdf:/folder/file.nc:height" has the key "height"."""
    for name in names:
        if name.startswith("GTIFF_DIR:"):
            yield str(int(name.split(":")[1]) - 1), name
        else:
            yield name.rpartition(path.name)[2].strip('":/'), name


def _choose_subdatasets(inside: dict[str, str], path: Path, key: Key, driver: str) -> list[str]:
    """Names for GDAL. Without key: all pages of a TIFF, or the only picture of another file."""
    listed = ", ".join(inside)
    if key is not None:
        wanted = str(key).strip("/")
        require(wanted in inside, f"key={key!r} is not in {path}. Choose one of: {listed}.")
        return [inside[wanted]]
    alone = len(inside) == 1 or driver == "GTiff"
    require(alone, f"{path} holds {len(inside)} pictures. Choose one with key: {listed}.")
    return list(inside.values())


def from_dataset(dataset: Any, path: Path, skip: Sequence[int], window: Window | None) -> Content:
    """The bands of an open dataset of GDAL: numbers, names, place, and where there is no data."""
    enums = find_rasterio().enums
    require(dataset.count > 0, f"{path} holds no picture that GDAL can read. Export it as GeoTIFF.")
    box = None if window is None else find_rasterio().windows.Window.from_slices(*window)
    alpha = [band for band, role in enumerate(dataset.colorinterp) if role == enums.ColorInterp.alpha]
    kept = [band for band in range(dataset.count) if band not in alpha and band not in skip]
    require(bool(kept), f"{path} holds nothing but transparency. Give a picture with data.")
    pixels = np.moveaxis(dataset.read([band + 1 for band in kept], window=box), 0, 2)
    valid = np.ones(pixels.shape[:2], dtype=bool)
    notes = []
    for band in alpha:
        valid &= dataset.read(band + 1, window=box) != 0
        notes.append(f"Band {band + 1} is marked as transparency and was dropped.")
    flags = enums.MaskFlags
    if any(flags.per_dataset in band and flags.alpha not in band for band in dataset.mask_flag_enums):
        valid &= dataset.dataset_mask(window=box) != 0
    notes += scale_notes(dataset, kept)
    if dataset.gcps[0]:
        notes.append("The file places its picture by control points; these were not read.")
    names = [dataset.descriptions[band] for band in kept]
    bands = tuple(name or f"band {at + 1}" for at, name in enumerate(names)) if any(names) else ()
    nodata = tuple(dataset.nodatavals[band] for band in kept)
    numbers = tuple(band + 1 for band in kept)
    return Content(np.ascontiguousarray(pixels), bands, valid, _place(dataset), tuple(notes), nodata, numbers)


def scale_notes(dataset: Any, bands: Sequence[int]) -> list[str]:
    """A note if the file says that its numbers stand for others."""
    scaled = any(dataset.scales[band] != 1 or dataset.offsets[band] != 0 for band in bands)
    return ["The file names a scale and an offset; the numbers were kept as they are stored."] if scaled else []


def _place(dataset: Any) -> Georeference | None:
    if dataset.crs is None and dataset.transform.is_identity:
        return None
    a, b, c, d, e, f = tuple(dataset.transform)[:6]
    return Georeference(dataset.crs.to_wkt() if dataset.crs else "", (a, b, c, d, e, f))


def measure_pixels(place: Georeference) -> PixelSize | None:
    """How large pixels are on the ground, in metres; None where coordinates are angles, or nobody knows what."""
    rasterio = find_rasterio()
    if rasterio is None or not place.crs:
        return None
    a, b, _, d, e, _ = place.transform
    try:
        with quiet():
            crs = rasterio.crs.CRS.from_user_input(place.crs)
            metres = crs.linear_units_factor[1] if crs.is_projected else math.nan
    except rasterio.errors.CRSError:
        return None
    return make_pixel_size(math.hypot(b, e) * metres, math.hypot(a, d) * metres, "m")


def is_crs(name: str, crs: str) -> bool:
    """Whether a name such as EPSG:32633 or urn:ogc:def:crs:EPSG::32633 is that of a coordinate reference system.

    name : anyone may have written it; other forms are not looked up, since GDAL opens files and addresses on the web
    crs : well-known text
    """
    rasterio, parts = find_rasterio(), CRS_NAME.fullmatch(name)
    if rasterio is None or parts is None:
        return name == crs
    # Longitude comes first here whatever the authority says, and that is all in which these two differ.
    code = "EPSG:4326" if parts[2] == "CRS84" else f"{parts[1]}:{parts[2]}"
    try:
        with quiet():
            return bool(rasterio.crs.CRS.from_string(code) == rasterio.crs.CRS.from_wkt(crs))
    except rasterio.errors.CRSError:
        return False
