"""What runs wrote, in a folder, a Zarr group or TIFFs → a Segmentation."""

import io
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError
from pmlda.features import Function
from pmlda.howmany import from_record
from pmlda.images import read_image
from pmlda.images.windowed import WindowedArray, open_windowed
from pmlda.labels import Canvas, PixelLabels
from pmlda.labels import read_labels as read_pixel_labels
from pmlda.labels.agreement import Agreement
from pmlda.labels.files import LABEL_IMAGE, STROKES
from pmlda.output.checks import check_documents, check_labels, check_memberships, check_uncertainty
from pmlda.output.places import PLANES, beside, is_tiff, is_tiled, picture_name
from pmlda.output.record import read_record
from pmlda.output.report import write_report
from pmlda.output.tables import matches_from_record, shares_from_record
from pmlda.partitions import read_labels
from pmlda.recipe import Recipe, load_recipe
from pmlda.segmentation import Map, Segmentation, derived
from pmlda.settings import LONGEST_NAME
from pmlda.storage import atomic
from pmlda.storage.regular import require_regular
from pmlda.storage.tables import read_small
from pmlda.storage.zips import open_zip, read_entry
from pmlda.types import FitCheck, FloatArray, Image, IntArray, LeftOut, Share
from pmlda.validate import brief, require

__all__ = ["load", "load_tiled", "read_record", "renew_reports"]

# A number in documents.csv with its comma, a name in its head, and the least that such a file may take.
BYTES_OF_NUMBER, BYTES_OF_NAME, LEAST_BYTES = 32, 5 * LONGEST_NAME, 2**12
MOST_OVERVIEW_BYTES = 2**30
OVERVIEW = {"pixels": 3, "valid": 2, "memberships": 3, "uncertainty": 3, "documents": 2} | dict.fromkeys(PLANES, 2)
"""Arrays of an overview and their dimensions."""


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
    n_topics, entries = len(recipe.order), record["pictures"]
    with _explained(folder):
        places = [folder / picture_name(i, entry["name"]) if several else folder for i, entry in enumerate(entries)]
        loaded = [load_picture(place, entry, n_topics) for place, entry in zip(places, entries, strict=True)]
        shapes = [maps.shape[:2] for _, maps, *_ in loaded]
        pixel_labels = _labels(record, lambda index, name: places[index] / name, shapes, recipe)
        residuals, novelties = (
            [load_plane(place, name, found[1].shape) for place, found in zip(places, loaded, strict=True)]
            for name in PLANES
        )
    images, maps, std, labels, scales, proportions = (list(each) for each in zip(*loaded, strict=True))
    return Segmentation(
        images,
        recipe,
        maps,
        std,
        labels,
        np.concatenate(proportions),
        np.concatenate(scales),
        several,
        pixel_labels=pixel_labels,
        residual_maps=_of_all(residuals),
        novelty_maps=_of_all(novelties),
        **_recorded(record),
    )


def _recorded(record: dict[str, Any]) -> dict[str, Any]:
    """What a record knows of a Segmentation."""
    return {
        "record": record,
        "timings": record["seconds"],
        "interrupted": record["interrupted"],
        "agreements": _agreements(record),
        "share_rows": _shares(record),
        "fit_checks": _checks(record),
        "matches": matches_from_record(record),
        "choice": from_record(record),
        "applied": record.get("applied", False),
        "left_out": tuple(LeftOut(**each) for each in record.get("left_out", ())),
    }


def _labels(
    record: dict[str, Any], path: Callable[[int, str], Path], shapes: Sequence[tuple[int, int]], recipe: Recipe
) -> tuple[PixelLabels | None, ...]:
    """What was said of the pixels of each picture, from the files beside its maps; empty without labels.

    path : of a file that belongs to a picture, from the picture's number and the file's name
    """
    files = [(entry.get("labels") or {}).get("file") for entry in record["pictures"]]
    unknown = {file for file in files if file not in (None, LABEL_IMAGE, STROKES)}
    require(not unknown, f"its labels are in {brief(sorted(map(str, unknown)))}, which no run writes")
    if not any(files):
        return ()
    sources = [None if file is None else path(index, file) for index, file in enumerate(files)]
    canvases, settings = [Canvas(shape) for shape in shapes], recipe.settings
    return read_pixel_labels(sources, canvases, settings.n_topics, settings.topic_names)


def _agreements(record: dict[str, Any]) -> tuple[tuple[Agreement, ...], ...]:
    """How well strokes agree with their pixels, as a run has found it."""
    told = [entry.get("labels") or {} for entry in record["pictures"]]
    return tuple(tuple(Agreement.from_table(each) for each in labels.get("agreement", ())) for labels in told)


def _shares(record: dict[str, Any]) -> tuple[tuple[Share, ...], ...]:
    """How much of each picture every topic has."""
    return tuple(shares_from_record(entry) for entry in record["pictures"])


def _checks(record: dict[str, Any]) -> tuple[FitCheck, ...]:
    """Whether the topics explain each picture; empty where the model does not tell."""
    entries = [entry.get("fit") for entry in record["pictures"]]
    return tuple(FitCheck(**entry) for entry in entries) if all(entries) else ()


def load_picture(
    folder: Path, entry: dict[str, Any], n_topics: int
) -> tuple[Image, Map, Map, IntArray, FloatArray, FloatArray]:
    """The picture as it was shown, memberships, uncertainty, documents, and s and π of each document."""
    needed = ("memberships.tif", "documents.tif", "documents.csv", "picture.png")
    missing = [name for name in needed if not (folder / name).is_file()]
    require(not missing, f"{', '.join(missing)} is missing in it")
    found, shown = read_image(folder / "memberships.tif"), read_image(folder / "picture.png")
    maps = np.asarray(found.pixels, np.float32)
    std = np.where(found.valid[..., None], np.zeros_like(maps), np.float32(np.nan))
    if (folder / "uncertainty.tif").exists():
        std = np.asarray(read_image(folder / "uncertainty.tif").pixels, np.float32)
    labels = read_labels(folder / "documents.tif", maps.shape[:2]).astype(np.int64)
    shapes = {each.shape[:2] for each in (maps, std, labels, shown.pixels)}
    require(len(shapes) == 1, f"its maps have several sizes, {sorted(shapes)}")
    require(maps.shape[2] == std.shape[2] == n_topics, f"its maps are not of {n_topics} topics, as its model is")
    check_memberships(maps)
    check_uncertainty(std, maps)
    scales, proportions = read_documents(folder / "documents.csv", int(labels.max(initial=-1)) + 1, n_topics)
    check_labels(labels, len(scales))
    place = {"georeference": found.georeference, "pixel_size": found.pixel_size}
    about: dict[str, Any] = place | _told(entry)
    image = shown._replace(valid=found.valid, **about)
    return image, maps, std, labels, scales, proportions


def load_plane(folder: Path, name: str, shape: tuple[int, ...]) -> Map | None:
    """The residuals or the novelty of a picture whose maps have this shape; None if there are none."""
    file = folder / f"{name}.tif"
    if not file.exists():
        return None
    found = np.asarray(read_image(file).pixels[..., 0], np.float32)
    require(found.shape == shape[:2], f"its {name}.tif has the shape {found.shape}, its maps another")
    return found


def _of_all(planes: Sequence[Map | None]) -> tuple[Map, ...]:
    """The maps of all pictures; none unless there is one of each."""
    known = tuple(each for each in planes if each is not None)
    return known if len(known) == len(planes) else ()


def read_documents(path: Path, n_documents: int, n_topics: int) -> tuple[FloatArray, FloatArray]:
    """s (D,) and π (D, K) of each document, checked."""
    most = BYTES_OF_NUMBER * (n_documents + 1) * (n_topics + 3) + BYTES_OF_NAME * n_topics + LEAST_BYTES
    lines = read_small(path, most, OutputError).decode("utf-8").splitlines()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a table without rows
        table = np.loadtxt(lines, delimiter=",", skiprows=1, ndmin=2, comments=None)
    expected = (n_documents, n_topics + 3)
    require(table.shape == expected, f"its documents.csv has numbers of the shape {table.shape}, not {expected}")
    require(bool((table[:, 0] == np.arange(n_documents)).all()), "its documents.csv is not in order")
    check_documents(table[:, 2], table[:, 3:])
    return table[:, 2], table[:, 3:]


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    """Name and notes of a picture for people; what stands for bytes of a name that is not UTF-8 becomes a sign."""

    def legible(text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    return {"name": legible(entry["name"]), "notes": tuple(legible(note) for note in entry.get("notes", ()))}


def renew_reports(folder: str | Path) -> list[Path]:
    """Make the report of every picture of a result again; the old ones stay until the new ones are written."""
    found, folder = load(folder).overview(), Path(folder)
    pages = []
    for index, entry in enumerate(found.record["pictures"]):
        page = beside(folder / picture_name(index, entry["name"]) if found.several else folder, "report.html")
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
        maps = [_array(out, name) for name in ("memberships", "uncertainty", "documents")]
        _check_sizes(record, len(recipe.order), maps)
        scales, proportions = read_documents(beside(out, "documents.csv"), record["documents"], len(recipe.order))
        residual, novelty = (_plane(out, name, maps[2].shape) for name in PLANES)
        pixel_labels = _labels(record, lambda _, name: beside(out, name), [maps[0].shape[:2]], recipe)
        overview = partial(_load_overview, out, recipe, record, scales, proportions, pixel_labels)
        small = overview()
    return replace(
        small,
        membership_maps=[maps[0]],
        uncertainty_maps=[maps[1]],
        document_maps=[maps[2]],
        path=out,
        residual_maps=() if residual is None or not small.residual_maps else (residual,),
        novelty_maps=() if novelty is None or not small.novelty_maps else (novelty,),
        _overview=overview,
        _keeper=keeper,
    )


# What the readers of pictures, tables and zip files raise when a file is not what it should be.
_NO_FILE = (OSError, EOFError, BadZipFile, zlib.error)
_DAMAGE = (*_NO_FILE, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError)


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """One error for whatever is missing in a result, or damaged."""
    try:
        yield
    except _DAMAGE as error:
        text = (str(error) or type(error).__name__).rstrip(".")
        raise OutputError(f"The result in {str(out)!r} cannot be used: {text}. Run `pmlda segment` again.") from None


def _check_sizes(record: dict[str, Any], n_topics: int, maps: list[Any]) -> None:
    """Refuse parts of different results."""
    dimensions = [len(each.shape) for each in maps]
    require(dimensions == [3, 3, 2], f"its maps have {dimensions} dimensions")
    shapes = {tuple(each.shape[:2]) for each in maps}
    require(len(shapes) == 1, f"its maps have several sizes, {sorted(shapes)}")
    height, width = shapes.pop()
    require(record["shape"][:2] == [height, width], f"its maps have {height} × {width} pixels, its picture others")
    require(record["pixels_with_data"] <= height * width, "it has more pixels with data than pixels")
    widths = {each.shape[-1] for each in maps[:2]}
    require(widths == {n_topics}, f"its maps are not of {n_topics} topics, as its model is")


def _array(out: Path, name: str) -> Any:
    """A map on disk, read when it is sliced."""
    if is_tiff(out):
        source = open_windowed(out if name == "memberships" else beside(out, f"{name}.tif"))
    else:
        source = open_windowed(out, key=name)
    bands = WindowedArray(source)
    return derived((bands,), _first) if name in ("documents", *PLANES) else bands


def _plane(out: Path, name: str, shape: tuple[int, ...]) -> Any:
    """The map of residuals, or of novelty, on disk; None if there is none."""
    there = beside(out, f"{name}.tif").exists() if is_tiff(out) else (out / name / "zarr.json").is_file()
    if not there:
        return None
    found = _array(out, name)
    require(tuple(found.shape) == tuple(shape), f"its map {name} has the shape {tuple(found.shape)}, its maps another")
    return found


def _known_plane(overview: NDArray[Any]) -> tuple[Map, ...]:
    """The residuals, or the novelty, of an overview, if there are any."""
    return () if np.isnan(overview).all() else (overview.astype(np.float32),)


def _first(bands: NDArray[Any]) -> NDArray[Any]:
    """The only band of a map (H, W)."""
    return np.asarray(bands[..., 0])


def _load_overview(
    out: Path,
    recipe: Recipe,
    record: dict[str, Any],
    scales: FloatArray,
    proportions: FloatArray,
    pixel_labels: tuple[PixelLabels | None, ...],
) -> Segmentation:
    """The overview, from the companion of the maps."""
    with _explained(out):
        shown = _read_overview(beside(out, "overview.npz"))
        maps, std = shown["memberships"].astype(np.float32), shown["uncertainty"].astype(np.float32)
        shapes = {each.shape[:2] for each in shown.values()}
        require(len(shapes) == 1, f"its overview has several sizes, {sorted(shapes)}")
        require(maps.shape == std.shape and maps.shape[2] == len(recipe.order), "its overview is of other topics")
        check_memberships(maps)
        check_uncertainty(std, maps)
        check_labels(shown["documents"], len(scales))
    about = record["pictures"][0]
    image = Image(shown["pixels"], shown["valid"].astype(bool), tuple(about["bands"]), **_told(about))
    return Segmentation(
        [image],
        recipe,
        [maps],
        [std],
        [shown["documents"]],
        proportions,
        scales,
        pixel_labels=pixel_labels,
        residual_maps=_known_plane(shown["residual"]),
        novelty_maps=_known_plane(shown["novelty"]),
        **_recorded(record),
    )


def _read_overview(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an overview: numbers of the right dimensions."""
    require_regular(path, OutputError)
    with open_zip(path) as archive:
        found = {name: _npy(read_entry(archive, f"{name}.npy", MOST_OVERVIEW_BYTES)) for name in OVERVIEW}
    for name, array in found.items():
        kinds = "iu" if name == "documents" else "biuf"
        require(array.ndim == OVERVIEW[name] and array.dtype.kind in kinds, f"{name} of its overview is no such array")
    return found


def _npy(data: bytes) -> NDArray[Any]:
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))
