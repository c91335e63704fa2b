"""Output folder: a segmentation → maps, figures, report, model, settings and a record of the run, and back.

All of it is written, or nothing.
"""

import csv
import json
import os
import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import OutputError, PmldaError
from pmlda.features import Function
from pmlda.images import read_image, to_rgb, write_labels, write_maps
from pmlda.output import figures
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.partitions import read_labels
from pmlda.recipe import load_recipe, save_recipe
from pmlda.segmentation import Map, Segmentation
from pmlda.settings import write_settings
from pmlda.storage import atomic
from pmlda.storage.digest import digest
from pmlda.types import FloatArray, Image, IntArray
from pmlda.validate import require

LIBRARIES = ("pmlda", "numpy", "scipy", "scikit-learn", "scikit-image", "numba")
# What shows that a folder was written here: by segment and apply, by compare and reproduce, by simulate.
MARKS = ("run.json", "results.json", "*/results.json", "truth.tif")
# A third of the time of Pillow's own 6 for a twelfth more bytes.
PNG_LEVEL = 3


def save(segmentation: Segmentation, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write everything into a new folder next to the one asked for, then give it that name."""
    write_result(segmentation, folder, overwrite=overwrite)
    return Path(folder)


def write_result(
    segmentation: Segmentation, folder: str | Path, *, overwrite: bool, run: str | None = None
) -> dict[str, Any]:
    """What save does; the record in run.json.

    run : the id of the run that writes it, so that it knows its own result again
    """
    with new_folder(folder, overwrite=overwrite) as here:
        save_recipe(here / "model.pmlda", segmentation.recipe)
        (here / "settings.toml").write_text(write_settings(segmentation.settings), encoding="utf-8")
        record = run_record(segmentation) | {"run": run}
        (here / "run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for index, image in enumerate(segmentation.images):
            each = here / picture_name(index, image.name) if segmentation.several else here
            each.mkdir(exist_ok=True)
            save_picture(segmentation, index, image, each)
    return record


def check_folder(folder: str | Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse early what save would refuse late.

    overwrite : replace the folder, but only one that this package wrote, and that holds none of the inputs
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{str(folder)!r} is a file. Give the name of a folder.")
    final = folder.resolve()
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise OutputError(f"The folder {str(folder)!r} is not empty. Give another one, or say --overwrite.")
        if not any(next(folder.glob(mark), None) for mark in MARKS):
            raise OutputError(
                f"The folder {str(folder)!r} is not a result of pmlda, so it is not overwritten. "
                "Empty it yourself, or give another one."
            )
        inside = next((path for path in [Path.cwd(), *inputs] if path.resolve().is_relative_to(final)), None)
        if inside is not None:
            raise OutputError(f"The folder {str(folder)!r} holds {str(inside)!r}. Give another one to write.")
    if not final.parent.is_dir():
        raise OutputError(f"The folder {str(final.parent)!r} does not exist. Make it first.")
    if not os.access(final.parent, os.W_OK):
        raise OutputError(f"The folder {str(final.parent)!r} cannot be written to. Choose another place.")


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """A result folder that gets its name once all of it is written; after an error, nothing has changed."""
    check_folder(folder, overwrite=overwrite)
    try:
        with atomic.new_folder(Path(folder).resolve(), replace=True, shield=deferred_interrupt) as part:
            yield part
    except PmldaError:
        raise
    except OSError as error:
        raise OutputError(f"{str(folder)!r} could not be written: {error.strerror or error}.") from None


def save_picture(segmentation: Segmentation, index: int, image: Image, folder: Path) -> None:
    """What belongs to one picture."""
    from pmlda.output.report import write_report

    maps, names = segmentation.membership_maps[index], segmentation.topic_names
    settings = segmentation.settings
    write = partial(write_maps, names=names, valid=image.valid, georeference=image.georeference)
    write(folder / "memberships.tif", maps)
    if segmentation.has_uncertainty:
        # Three digits are enough, and pack much better than seven.
        write(folder / "uncertainty.tif", segmentation.uncertainty_maps[index].astype(np.float16))
    write_labels(folder / "documents.tif", segmentation.document_maps[index])
    write_documents(folder / "documents.csv", segmentation, index)
    _png(folder / "labels.png", figures.indexed_labels(maps))
    picture = to_rgb(image)
    _png(folder / "picture.png", picture)
    _png(folder / "transition.png", figures.transition_picture(picture, maps, settings.low, settings.high))
    (folder / "maps").mkdir()
    for k, name in enumerate(names):
        _png(folder / "maps" / f"{name.replace(' ', '-')}.png", figures.indexed_map(maps[..., k]))
    _png(folder / "maps" / "mixed.png", figures.composite(maps))
    doubt = segmentation.uncertainty_maps[index].max(axis=2)
    _png(folder / "maps" / "uncertainty.png", figures.indexed_map(np.clip(doubt / 0.5, 0.0, 1.0), "magma"))
    figures.overview(segmentation, index).savefig(folder / "figure.png", pil_kwargs={"compress_level": PNG_LEVEL})
    write_report(segmentation, index, folder / "report.html")


def write_documents(path: Path, segmentation: Segmentation, index: int) -> None:
    """A line for each document of a picture: its number in documents.tif, its pixels, s and π."""
    from pmlda.output.report import documents_of

    which, sizes = documents_of(segmentation, index)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["document", "pixels", "scale", *segmentation.topic_names])
        for number, (row, size) in enumerate(zip(which, sizes, strict=True)):
            table.writerow([number, size, segmentation.scales[row], *segmentation.proportions[row]])


def _png(path: Path, picture: figures.Picture | figures.Indexed) -> None:
    from PIL import Image as Pillow

    if isinstance(picture, figures.Indexed):
        drawn = Pillow.fromarray(picture.levels)
        drawn.putpalette(picture.palette.tobytes())
    else:
        drawn = Pillow.fromarray(picture)
    drawn.save(path, compress_level=PNG_LEVEL)


def picture_name(index: int, name: str) -> str:
    """A folder's name for one of several pictures, unlike all others."""
    return f"{index + 1:03d}-{Path(name).stem or 'picture'}"


def run_record(segmentation: Segmentation) -> dict[str, Any]:
    """What was done, with what, on what, how long it took, and whether it settled."""
    model = segmentation.recipe.model
    return {
        "settings": segmentation.settings.model_dump(),
        "features": list(segmentation.feature_names),
        "seed": int(model.seed_),
        "sweeps": int(model.n_iter_),
        "verdict": str(segmentation.verdict),
        "state": segmentation.verdict.state,
        "interrupted": segmentation.interrupted,
        "seconds": {name: round(value, 3) for name, value in segmentation.timings.items()},
        "pictures": [
            {
                "name": image.name,
                "shape": list(image.pixels.shape),
                "bands": list(image.bands),
                "pixels_without_data": int((~image.valid).sum()),
                "sha256": digest(image.pixels),
                "notes": list(image.notes),
            }
            for image in segmentation.images
        ],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def load(folder: str | Path, functions: Mapping[str, Function] | None = None) -> Segmentation:
    """What save wrote, or what a run wrote to a .zarr or .tif.

    The picture is as it was shown, in 8 bits, and uncertainty has three digits.

    functions : as in load_recipe
    """
    from pmlda.output import stored  # knows this module

    folder = Path(folder)
    if stored.is_tiled(folder):
        return stored.load(folder, functions=functions)
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


def read_record(folder: str | Path) -> dict[str, Any]:
    """What run.json says of a run."""
    return parse_record(Path(folder) / "run.json", folder)


def parse_record(path: Path, folder: str | Path) -> dict[str, Any]:
    """The table in a run.json, which belongs to the result in a folder."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"its run.json: {error.strerror}" if isinstance(error, OSError) else "its run.json is damaged"
        raise OutputError(f"{str(folder)!r} is not a folder that `pmlda segment` wrote ({reason}).") from None
    if not isinstance(content, dict):
        raise OutputError(f"{str(folder)!r} is not a folder that `pmlda segment` wrote (its run.json is damaged).")
    return content


def renew_reports(folder: str | Path) -> list[Path]:
    """Make the report of every picture of a result again; the old ones stay until the new ones are written."""
    from pmlda.output import stored
    from pmlda.output.report import write_report

    found, folder = load(folder).overview(), Path(folder)
    pages = []
    for index, image in enumerate(found.images):
        page = stored.beside(folder / picture_name(index, image.name) if found.several else folder, "report.html")
        try:
            with atomic.new_file(page) as part:
                write_report(found, index, part)
        except OSError as error:
            raise OutputError(f"{str(page)!r} could not be written: {error.strerror or error}.") from None
        pages.append(page)
    return pages
