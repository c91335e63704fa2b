"""Array in memory, dask array or DataArray → Stored: what is known without its numbers, and how to read windows."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.images.arrays import from_array
from pmlda.images.axes import find_axes
from pmlda.images.checks import Array, check_size, require
from pmlda.images.choice import Choice
from pmlda.images.content import Content, Window
from pmlda.images.dataarray import arrange, from_dataarray
from pmlda.images.stored import Held, Stored, check_stored, stamp
from pmlda.storage.digest import digest


def hold(content: Content, fingerprint: str) -> Stored:
    """A picture that is in memory already."""
    shape = (content.pixels.shape[0], content.pixels.shape[1], content.pixels.shape[2])
    about = (content.pixels.dtype, content.bands, content.georeference, content.notes)
    stored = Stored(shape, *about, None, fingerprint, Held(content))
    return stored._replace(numbers=content.numbers, pixel_size=content.pixel_size)


def from_layout(
    array: Any, what: str, chunks: tuple[int, int] | None, fingerprint: str, read: Callable[[Window], Content]
) -> Stored:
    """An array (H, W) or (H, W, B) of which only shape and type are known."""
    shape = array.shape
    require(len(shape) in (2, 3), f"{what} has {len(shape)} dimensions, shape {shape}. Give (height, width, bands).")
    check_stored(what, shape, array.dtype)
    n_bands = shape[2] if len(shape) == 3 else 1
    return Stored((shape[0], shape[1], n_bands), array.dtype, (), None, (), chunks, fingerprint, read)


def is_dask(source: Any) -> bool:
    """Whether the source is a dask array; nobody has one who has not imported dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(source, dask.Array)


def open_dask(source: Any, choice: Choice) -> Stored:
    """A dask array (H, W) or (H, W, B), of which nothing is computed yet."""
    what = "The dask array"
    if choice.along:
        find_axes(None, source.shape, what, choice)
    unknown = any(length != length for length in source.shape)  # NaN where dask has not counted yet
    require(not unknown, f"{what} has unknown lengths, {source.shape}. Call its compute_chunk_sizes() first.")
    chunks = tuple(max(lengths) for lengths in source.chunks[:2]) if source.ndim >= 2 and source.size else (1, 1)
    fingerprint = f"dask {source.name} {source.shape} {source.dtype}"
    return from_layout(source, what, (chunks[0], chunks[1]), fingerprint, partial(_read_dask, source))


def _read_dask(source: Any, window: Window) -> Content:
    """Computed where it is asked for: inside a task of a cluster there is no other scheduler."""
    part = source[window]
    check_size(part.shape, "The window")
    return from_array(_computed(part), "The dask array")


def _computed(part: Any) -> Array:
    array = part.compute(scheduler="synchronous")
    return array if isinstance(array, np.ndarray) else np.asarray(array)


def open_dataarray(source: Any, choice: Choice) -> Stored:
    """A DataArray; if dask stands behind it, or a file that xarray has not read yet, only windows of it are read."""
    found = arrange(source, choice)
    lazy = source.chunks is not None
    file = Path(str(source.encoding.get("source", "")))
    if lazy:
        fingerprint = f"dask {source.data.name}"
    elif not getattr(source.variable, "_in_memory", True) and file.is_file():  # opened, but not read yet
        fingerprint = f"{source.name} {stamp(file)}"
    else:
        fingerprint = digest(np.asarray(source.values))
    rows, columns = (max(source.chunks[axis]) for axis in found.axes.plane) if lazy else (0, 0)
    check_stored("The DataArray", found.shape, found.dtype)
    return Stored(
        found.shape,
        found.dtype,
        found.bands,
        found.georeference,
        found.notes,
        (rows, columns) if lazy else None,
        fingerprint,
        partial(from_dataarray, source, choice),
    )
