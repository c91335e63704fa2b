"""Maps of one picture on disk, as a Zarr group or as TIFFs, with their companion files.

A Zarr group contains its companions. Beside NAME.tif lie NAME-uncertainty.tif, NAME-documents.tif and the other
companions, each with the prefix NAME-.
"""

import csv
import errno
import filecmp
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError
from pmlda.howmany import from_record
from pmlda.images import zarrs
from pmlda.images.tiles import write_tiled
from pmlda.labels import PixelLabels
from pmlda.labels.agreement import Agreement
from pmlda.output import figures
from pmlda.output.folder import PNG_LEVEL, run_record, write_spectra
from pmlda.output.places import (
    COMPANIONS,
    MOST_MARK_BYTES,
    OPTIONAL_FILES,
    PLANES,
    beside,
    check_replaced,
    files_of_tiff,
    identify,
    is_tiff,
    write_mark,
)
from pmlda.output.report import write_report
from pmlda.output.tables import write_shares, write_topics
from pmlda.recipe import Recipe, save_recipe
from pmlda.segmentation import Segmentation
from pmlda.settings import write_settings
from pmlda.storage.atomic import name_file, name_folder, remove_leftovers, write_file
from pmlda.storage.digest import digest_file
from pmlda.storage.tables import parse_json, read_small
from pmlda.types import FitCheck, FloatArray, Georeference, Image, IntArray, Match, PixelSize, Share

# The folder within that of a run in which files lie before they get their names, and the list of them.
MADE, MADE_LIST = "made", "made.json"


class Result(NamedTuple):
    """The result of a run before it gets its final name.

    group : the Zarr group with the maps
    shape : (H, W)
    image, overview : the picture and its maps at a displayable size
    documents : number of pixels, π and s of documents, tile by tile
    record : additional entries of run.json
    shares, matches : how much of the picture each topic has, and what it is most like in a library
    labels : what was said of pixels
    agreement : how well it agrees with them
    pixel_size : how large a pixel is, if that is known
    checks : whether the topics explain the picture
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
    shares: tuple[Share, ...] = ()
    matches: tuple[tuple[Match, ...], ...] = ()
    labels: PixelLabels | None = None
    agreement: tuple[Agreement, ...] = ()
    pixel_size: PixelSize | None = None
    checks: tuple[FitCheck, ...] = ()

    def has(self, plane: str) -> bool:
        """Whether a map that there need not be is known: "residual" or "novelty"."""
        return bool(np.isfinite(self.overview[plane]).any())


# ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────
def write(result: Result, out: Path, work: Path, replaces: str | None) -> None:
    """Give the result its final name; until then all of it is in the folder of the run.

    replaces : which earlier result may be replaced, as check_out found it before the run was begun
    """
    try:
        if is_tiff(out):
            _write_tiffs(result, out, work)
            name_tiffs(out, work, replaces)
            return
        zarrs.build_pyramid(result.group)
        _accompany(result, lambda name: result.group / name)
        write_mark(result.group)
        name_folder(result.group, out, check=partial(check_replaced, replaces=replaces, name=out))
    except OSError as error:
        raise _unwritten(out, error) from None


def _write_tiffs(result: Result, out: Path, work: Path) -> None:
    """Write all files into the folder of the run, and last a list of them with their digests."""
    made = work / MADE
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    tiff = made / out.name
    names, (height, width) = result.recipe.settings.topic_names, result.shape
    maps = partial(write_tiled, georeference=result.georeference, pixel_size=result.pixel_size)
    topics = partial(maps, colours=figures.topic_colours(len(names)).tolist())
    topics(tiff, (height, width, len(names)), names, _rows(result, "memberships"))
    topics(beside(tiff, COMPANIONS[0]), (height, width, len(names)), names, _rows(result, "uncertainty"))
    maps(beside(tiff, COMPANIONS[1]), (height, width, 1), ["document"], _rows(result, "documents"), dtype="int32")
    for plane in filter(result.has, PLANES):
        maps(beside(tiff, f"{plane}.tif"), (height, width, 1), [plane], _rows(result, plane))
    _accompany(result, lambda name: beside(tiff, name))
    digests = {path.name: digest_file(path) for path in files_of_tiff(tiff) if path.exists()}
    write_file(work / MADE_LIST, json.dumps(digests, indent=1).encode())


def is_made(out: Path, work: Path) -> bool:
    """Whether the folder of a run holds all files of its result, which is a TIFF, and they are intact."""
    try:
        digests = parse_json(read_small(work / MADE_LIST, MOST_MARK_BYTES, OutputError))
        made = work / MADE / out.name
        optional = [beside(made, name) for name in OPTIONAL_FILES]
        paths = [path for path in files_of_tiff(made) if path not in optional or path.name in digests]
        return all(digest_file(path) == digests[path.name] for path in paths)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def is_named(out: Path, work: Path) -> bool:
    """Whether all files of the result have their names."""
    return is_made(out, work) and all(_are_equal(new, path) for new, path in _pairs(out, work))


def check_place(out: Path, work: Path, replaces: str | None) -> None:
    """Refuse to resume a run whose result could not be renamed to its final name."""
    if is_tiff(out):
        _check_names(out, work, replaces, [pair for pair in _pairs(out, work) if not _are_equal(*pair)])
    elif os.path.lexists(out):
        check_replaced(out, replaces, out)


def name_tiffs(out: Path, work: Path, replaces: str | None) -> None:
    """Give all files their names, the maps last. A run that is killed meanwhile goes on here.

    A file that is there already stays if it is the same. Any other gives way only if it belongs to the result that is
    to be replaced.
    """
    waiting = [pair for pair in _pairs(out, work) if not _are_equal(*pair)]
    may_replace = _check_names(out, work, replaces, waiting)
    try:
        for _, path in _pairs(out, work):
            remove_leftovers(path)
        if waiting and may_replace:
            out.unlink(missing_ok=True)  # no maps beside files of another run, should this one be killed
        for new, path in waiting:
            if new.exists():
                name_file(new, path, replace=may_replace)
            else:  # labels of the result that is replaced
                path.unlink()
    except OSError as error:
        raise _unwritten(out, error) from None


Pair = tuple[Path, Path]
"""A file in the folder of the run, and the name that it will get."""


def _pairs(out: Path, work: Path) -> list[Pair]:
    return list(zip(files_of_tiff(work / MADE / out.name), files_of_tiff(out), strict=True))


def _check_names(out: Path, work: Path, replaces: str | None, waiting: list[Pair]) -> bool:
    """Whether files may be replaced; an error if one would have to be that may not."""
    # Once some of the old files have been replaced, the record beside them may be the new one.
    may_replace = replaces is not None and identify(out) in (replaces, identify(work / MADE / out.name))
    taken = next((path for _, path in waiting if os.path.lexists(path) and not may_replace), None)
    if taken is not None:
        raise OutputError(f"{str(taken)!r} was written by another since this run was begun: move it away.")
    return may_replace


def _are_equal(made: Path, path: Path) -> bool:
    """Whether a file is there already, byte for byte, or is not to be there."""
    if not made.exists():
        return not os.path.lexists(path)
    return made.is_file() and path.is_file() and filecmp.cmp(made, path, shallow=False)


def _unwritten(out: Path, error: OSError) -> OutputError:
    if isinstance(error, FileExistsError) or error.errno == errno.ENOTEMPTY:
        return OutputError(f"{str(out)!r} was written by another since this run was begun: move it away.")
    return OutputError(f"{str(out)!r} could not be written: {error.strerror or error}.")


def _rows(result: Result, name: str) -> Callable[[slice, int], NDArray[Any]]:
    """A function that reads some rows of one of the maps, with all columns."""

    def read(rows: slice, band: int) -> NDArray[Any]:
        return zarrs.read_block(result.group, name, rows, slice(0, result.shape[1]), band)

    return read


def _accompany(result: Result, place: Callable[[str], Path]) -> None:
    """Write model, settings, documents, labels, overview, figure, report and record."""
    save_recipe(place("model.pmlda"), result.recipe)
    write_file(place("settings.toml"), write_settings(result.recipe.settings).encode())
    documents = _write_documents(place("documents.csv"), result)
    if result.labels is not None:
        name, content = result.labels.to_file()
        write_file(place(name), content)
    with place("overview.npz").open("wb") as file:
        arrays: dict[str, Any] = _packed(result.overview)
        np.savez_compressed(file, **arrays)
    small = _small(result, documents)
    write_shares(place("shares.csv"), small, [0])
    write_topics(place("topics.csv"), small)
    write_spectra(place("spectra.png"), result.recipe)
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
        table.writerow(["document", "pixels", "scale", *result.recipe.settings.topic_names])
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
    return dict(overview) | {name: small[name] for name in ("memberships", "uncertainty", *PLANES)}


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
        pixel_labels=(result.labels,),
        agreements=(result.agreement,),
        share_rows=(result.shares,),
        matches=result.matches,
        choice=from_record(result.record),
        residual_maps=(shown["residual"],) if result.has("residual") else (),
        novelty_maps=(shown["novelty"],) if result.has("novelty") else (),
        fit_checks=result.checks,
    )
