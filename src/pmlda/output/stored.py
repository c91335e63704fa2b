"""Maps of one picture on disk, as a Zarr group or as TIFFs, with their companion files.

A Zarr group contains its companions. Beside NAME.tif lie NAME-uncertainty.tif, NAME-documents.tif and the other
companions, each with the prefix NAME-.
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError
from pmlda.images import zarrs
from pmlda.images.tiles import write_tiled
from pmlda.output import figures
from pmlda.output.folder import PNG_LEVEL, run_record
from pmlda.output.places import COMPANIONS, beside, is_taken, is_tiff
from pmlda.output.report import write_report
from pmlda.recipe import Recipe, save_recipe
from pmlda.segmentation import Segmentation, topic_names
from pmlda.settings import write_settings
from pmlda.storage.atomic import write_file
from pmlda.types import FloatArray, Georeference, Image, IntArray


class Result(NamedTuple):
    """The result of a run before it gets its final name.

    group : the Zarr group with the maps
    shape : (H, W)
    image, overview : the picture and its maps at a displayable size
    documents : number of pixels, π and s of documents, tile by tile
    record : additional entries of run.json
    """

    group: Path
    shape: tuple[int, int]
    recipe: Recipe
    image: Image
    overview: dict[str, NDArray[Any]]
    documents: Iterable[tuple[IntArray, FloatArray, FloatArray]]
    georeference: Georeference | None
    timings: dict[str, float]
    record: dict[str, Any]


# ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────
def write(result: Result, out: Path, work: Path, *, overwrite: bool) -> None:
    """Move the result to its final name; until then all of it is in the folder of the run."""
    if is_taken(out) and not overwrite:
        raise OutputError(f"{str(out)!r} was written by another since this run was begun: move it away.")
    if not is_tiff(out):
        _accompany(result, lambda name: result.group / name)
        if overwrite and out.is_dir():
            shutil.rmtree(out)
        result.group.rename(out)
        return
    made = work / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    tiff = made / out.name
    names, (height, width) = topic_names(len(result.recipe.order)), result.shape
    maps = partial(write_tiled, georeference=result.georeference)
    maps(tiff, (height, width, len(names)), names, _rows(result, "memberships"))
    maps(beside(tiff, COMPANIONS[0]), (height, width, len(names)), names, _rows(result, "uncertainty"))
    maps(beside(tiff, COMPANIONS[1]), (height, width, 1), ["document"], _rows(result, "documents"), dtype="int32")
    _accompany(result, lambda name: beside(tiff, name))
    if overwrite:
        out.unlink(missing_ok=True)
    for file in sorted(made.iterdir(), key=lambda file: file == tiff):  # the maps last
        file.replace(out.with_name(file.name))


def _rows(result: Result, name: str) -> Callable[[slice], NDArray[Any]]:
    """A function that reads some rows of a map, with all columns."""

    def read(rows: slice) -> NDArray[Any]:
        block = zarrs.read_block(result.group, name, rows, slice(0, result.shape[1]))
        return block if block.ndim == 3 else block[..., None]

    return read


def _accompany(result: Result, place: Callable[[str], Path]) -> None:
    """Write model, settings, documents, overview, figure, report and record."""
    save_recipe(place("model.pmlda"), result.recipe)
    write_file(place("settings.toml"), write_settings(result.recipe.settings).encode())
    documents = _write_documents(place("documents.csv"), result)
    with place("overview.npz").open("wb") as file:
        arrays: dict[str, Any] = _packed(result.overview)
        np.savez_compressed(file, **arrays)
    small = _small(result, documents)
    record = run_record(small) | result.record
    record["pictures"][0] |= {
        "shape": record["shape"],
        "pixels_without_data": result.shape[0] * result.shape[1] - record["pixels_with_data"],
    }
    del record["pictures"][0]["sha256"]  # that of the overview
    figures.overview(small, 0).savefig(place("figure.png"), pil_kwargs={"compress_level": PNG_LEVEL})
    write_report(small, 0, place("report.html"))
    write_file(place("run.json"), (json.dumps(record, indent=1) + "\n").encode())


def _write_documents(path: Path, result: Result) -> tuple[FloatArray, FloatArray]:
    """A line for each document: its number, its pixels, s and π; s (D,) and π (D, K) of all of them."""
    all_scales, all_proportions, number = [], [], 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["document", "pixels", "scale", *topic_names(len(result.recipe.order))])
        for sizes, proportions, scales in result.documents:
            for size, pi, s in zip(sizes, proportions, scales, strict=True):
                table.writerow([number, int(size), s, *pi])
                number += 1
            all_scales.append(scales)
            all_proportions.append(proportions)
    return np.concatenate(all_scales), np.concatenate(all_proportions)


def _packed(overview: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The overview with maps in float16, which is enough for display."""
    small = {name: array.astype(np.float16) for name, array in overview.items() if array.dtype == np.float32}
    return dict(overview) | {name: small[name] for name in ("memberships", "uncertainty")}


def _small(result: Result, documents: tuple[FloatArray, FloatArray]) -> Segmentation:
    """The overview as a Segmentation."""
    shown = result.overview
    return Segmentation(
        [result.image._replace(valid=shown["valid"])],
        result.recipe,
        [shown["memberships"]],
        [shown["uncertainty"]],
        [shown["documents"]],
        documents[1],
        documents[0],
        timings=dict(result.timings),
        record=result.record,
    )
