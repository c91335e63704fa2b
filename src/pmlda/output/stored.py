"""Maps of one picture on disk, as a Zarr group or as TIFFs, with their companion files ⇄ a Segmentation.

A Zarr group contains its companions. Beside NAME.tif lie NAME-uncertainty.tif, NAME-documents.tif and the other
companions, each with the prefix NAME-.
"""

import csv
import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError
from pmlda.features import Function
from pmlda.images import zarrs
from pmlda.images.tiles import write_tiled
from pmlda.images.windowed import WindowedArray, open_windowed
from pmlda.output import figures
from pmlda.output.folder import PNG_LEVEL, check_folder, parse_record, read_documents, run_record
from pmlda.output.report import write_report
from pmlda.recipe import Recipe, load_recipe, save_recipe
from pmlda.segmentation import Segmentation, derived, topic_names
from pmlda.settings import write_settings
from pmlda.storage.atomic import write_file
from pmlda.types import FloatArray, Georeference, Image, IntArray
from pmlda.validate import require

TIFF_SUFFIXES = (".tif", ".tiff")
# Files that accompany the maps. The first two only beside a TIFF: in a Zarr group they are arrays.
COMPANIONS = (
    "uncertainty.tif",
    "documents.tif",
    "model.pmlda",
    "settings.toml",
    "documents.csv",
    "overview.npz",
    "figure.png",
    "report.html",
    "run.json",
)


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


def is_tiled(out: Path) -> bool:
    """Whether a run with this name is processed tile by tile."""
    return out.suffix.lower() in (".zarr", *TIFF_SUFFIXES)


def is_tiff(out: Path) -> bool:
    """Whether the name is that of a TIFF."""
    return out.suffix.lower() in TIFF_SUFFIXES


def beside(out: Path, name: str) -> Path:
    """Path of a companion of the maps: in the Zarr group, or beside a TIFF with its name as a prefix."""
    return out.with_name(f"{out.stem}-{name}") if is_tiff(out) else out / name


def check_out(out: Path, *, overwrite: bool, inputs: list[Path]) -> None:
    """Refuse an output that could not be written, before anything is computed."""
    if not is_tiff(out):
        check_folder(out, overwrite=overwrite, inputs=inputs)
        return
    read = [path.resolve() for path in inputs]
    for path in [out, *(beside(out, name) for name in COMPANIONS)]:
        if path.is_dir() or path.resolve() in read:
            raise OutputError(f"{str(path)!r} is a folder, or the picture itself. Give another name to write.")
        if path.exists() and not overwrite:
            raise OutputError(f"{str(path)!r} exists already. Give another name, or say --overwrite.")
    check_folder(out.parent / f".{out.name}-new")


def is_taken(out: Path) -> bool:
    """Whether a result of this name would replace something."""
    return any(out.iterdir()) if out.is_dir() else out.exists()


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


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────
def read_record(out: Path) -> dict[str, Any]:
    """The record of a run in its run.json."""
    return parse_record(beside(out, "run.json"), out)


def load(out: Path, keeper: Any = None, functions: Mapping[str, Function] | None = None) -> Segmentation:
    """Open the result of a run; maps stay on disk.

    keeper : an object that must exist as long as the result
    functions : features that are functions, by name; a model file does not contain them
    """
    record = read_record(out)
    recipe = load_recipe(beside(out, "model.pmlda"), functions)
    with _explained(out):
        scales, proportions = read_documents(beside(out, "documents.csv"))
        maps = [_array(out, name) for name in ("memberships", "uncertainty", "documents")]
        _check_sizes(record, recipe, maps, proportions)
        seconds = {str(name): float(value) for name, value in record["seconds"].items()}
        overview = partial(_load_overview, out, recipe, record, scales, proportions)
        small = overview()
    return Segmentation(
        small.images,
        recipe,
        [maps[0]],
        [maps[1]],
        [maps[2]],
        proportions,
        scales,
        timings=seconds,
        path=out,
        record=record,
        _overview=overview,
        _keeper=keeper,
    )


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """One error for whatever is missing in a result, or damaged."""
    try:
        yield
    except (OSError, EOFError, LookupError, TypeError, AttributeError, ValueError, BadZipFile, zlib.error) as error:
        text = (str(error) or type(error).__name__).rstrip(".")
        raise OutputError(f"The result in {str(out)!r} cannot be used: {text}. Run `pmlda segment` again.") from None


def _check_sizes(record: dict[str, Any], recipe: Recipe, maps: list[Any], proportions: FloatArray) -> None:
    """Refuse parts of different results."""
    shapes, n_topics = {tuple(each.shape[:2]) for each in maps}, len(recipe.order)
    require(len(shapes) == 1, f"its maps have several sizes, {sorted(shapes)}")
    widths = {each.shape[-1] for each in (maps[0], maps[1], proportions)}
    require(widths == {n_topics}, f"its maps are not of {n_topics} topics, as its model is")
    require(
        len(proportions) == record["documents"],
        f"its documents.csv has {len(proportions)} documents and its maps {record['documents']}",
    )


def _array(out: Path, name: str) -> Any:
    """A map on disk, read when it is sliced."""
    if is_tiff(out):
        bands = WindowedArray(open_windowed(out if name == "memberships" else beside(out, f"{name}.tif")))
        return derived((bands,), _first) if name == "documents" else bands
    import zarr  # late: only stores need it

    return zarr.open_array(out / name, mode="r")


def _first(bands: NDArray[Any]) -> NDArray[Any]:
    """The only band of a map (H, W)."""
    return np.asarray(bands[..., 0])


def _load_overview(
    out: Path, recipe: Recipe, record: dict[str, Any], scales: FloatArray, proportions: FloatArray
) -> Segmentation:
    """The overview, from the companion of the maps."""
    path = beside(out, "overview.npz")
    with _explained(out), path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        shown = {name: file[name] for name in file.files}
    about = record["pictures"][0]
    image = Image(shown["pixels"], shown["valid"], tuple(about["bands"]), about["name"], None, tuple(about["notes"]))
    return Segmentation(
        [image],
        recipe,
        [shown["memberships"].astype(np.float32)],
        [shown["uncertainty"].astype(np.float32)],
        [shown["documents"]],
        proportions,
        scales,
        timings={str(name): float(value) for name, value in record["seconds"].items()},
        record=record,
    )
