"""What runs wrote, in a folder, a Zarr group or TIFFs → a Segmentation."""

import json
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError
from pmlda.features import Function
from pmlda.images import read_image
from pmlda.images.windowed import WindowedArray, open_windowed
from pmlda.output.places import beside, is_tiff, is_tiled, picture_name
from pmlda.output.report import write_report
from pmlda.partitions import read_labels
from pmlda.recipe import Recipe, load_recipe
from pmlda.segmentation import Map, Segmentation, derived
from pmlda.storage import atomic
from pmlda.types import FloatArray, Image, IntArray
from pmlda.validate import require


def load(folder: str | Path, functions: Mapping[str, Function] | None = None) -> Segmentation:
    """What save wrote, or what a run wrote to a .zarr or .tif.

    The picture is as it was shown, in 8 bits, and uncertainty has three digits.

    functions : as in load_recipe
    """
    folder = Path(folder)
    if is_tiled(folder):
        return load_tiled(folder, functions=functions)
    record, several = read_record(folder), not (folder / "memberships.tif").exists()
    recipe = load_recipe(folder / "model.pmlda", functions)
    try:
        entries = record["pictures"]
        places = [folder / picture_name(i, entry["name"]) if several else folder for i, entry in enumerate(entries)]
        loaded = [load_picture(place, entry) for place, entry in zip(places, entries, strict=True)]
        images, maps, std, labels, scales, proportions = (list(each) for each in zip(*loaded, strict=True))
        widths = {each.shape[-1] for each in (*maps, *std, *proportions)}
        require(widths == {len(recipe.order)}, f"its maps are not of {len(recipe.order)} topics, as its model is")
        seconds = {str(name): float(value) for name, value in record["seconds"].items()}
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        text = str(error).rstrip(".")
        raise OutputError(f"The result in {str(folder)!r} cannot be used: {text}. Run `pmlda segment` again.") from None
    return Segmentation(
        images,
        recipe,
        maps,
        std,
        labels,
        np.concatenate(proportions),
        np.concatenate(scales),
        several,
        seconds,
        bool(record.get("interrupted", False)),
        record=record,
    )


def load_picture(folder: Path, entry: dict[str, Any]) -> tuple[Image, Map, Map, IntArray, FloatArray, FloatArray]:
    """The picture as it was shown, memberships, uncertainty, documents, and s and π of each document."""
    needed = ("memberships.tif", "documents.tif", "documents.csv", "picture.png")
    missing = [name for name in needed if not (folder / name).is_file()]
    require(not missing, f"{', '.join(missing)} is missing in it")
    found, shown = read_image(folder / "memberships.tif"), read_image(folder / "picture.png")
    maps = np.asarray(found.pixels, np.float32)
    std = np.where(found.valid[..., None], np.zeros_like(maps), np.float32(np.nan))
    if (folder / "uncertainty.tif").exists():
        std = np.asarray(read_image(folder / "uncertainty.tif").pixels, np.float32)
    labels = read_labels(folder / "documents.tif").astype(np.int64)
    scales, proportions = read_documents(folder / "documents.csv")
    shapes = {each.shape[:2] for each in (maps, std, labels, shown.pixels)}
    require(len(shapes) == 1, f"its maps have several sizes, {sorted(shapes)}")
    require(len(scales) == labels.max() + 1, f"documents.csv has {len(scales)} documents and documents.tif others")
    notes = tuple(str(note) for note in entry["notes"])
    image = shown._replace(valid=found.valid, name=entry["name"], georeference=found.georeference, notes=notes)
    return image, maps, std, labels, scales, proportions


def read_documents(path: Path) -> tuple[FloatArray, FloatArray]:
    """s (D,) and π (D, K) of each document."""
    with path.open(encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a table without rows
        table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    require(len(table) > 0, f"{path.name} has no documents")
    return table[:, 2], table[:, 3:]


def read_record(result: str | Path) -> dict[str, Any]:
    """What the run.json of a result says of its run."""
    folder = Path(result)
    try:
        content = json.loads(beside(folder, "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"its run.json: {error.strerror}" if isinstance(error, OSError) else "its run.json is damaged"
        raise OutputError(f"{str(folder)!r} is not a folder that `pmlda segment` wrote ({reason}).") from None
    if not isinstance(content, dict):
        raise OutputError(f"{str(folder)!r} is not a folder that `pmlda segment` wrote (its run.json is damaged).")
    return content


def renew_reports(folder: str | Path) -> list[Path]:
    """Make the report of every picture of a result again; the old ones stay until the new ones are written."""
    found, folder = load(folder).overview(), Path(folder)
    pages = []
    for index, image in enumerate(found.images):
        page = beside(folder / picture_name(index, image.name) if found.several else folder, "report.html")
        try:
            with atomic.new_file(page) as part:
                write_report(found, index, part)
        except OSError as error:
            raise OutputError(f"{str(page)!r} could not be written: {error.strerror or error}.") from None
        pages.append(page)
    return pages


# ── maps on disk ──────────────────────────────────────────────────────────────────────────────────────────────────
def load_tiled(out: Path, keeper: Any = None, functions: Mapping[str, Function] | None = None) -> Segmentation:
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
