"""Output folder: a segmentation → maps, figures, report, model, settings and a record of the run.

All of it is written, or nothing.
"""

import json
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import OutputError, PmldaError
from pmlda.images import to_rgb, write_labels, write_maps
from pmlda.labels import PixelLabels
from pmlda.labels.agreement import Agreement, least_agreeing
from pmlda.output import figures
from pmlda.output.places import check_folder, check_replaced, picture_name, write_mark
from pmlda.output.spectra import spectra_figure, spectral_lines
from pmlda.output.tables import match_record, share_record, write_shares, write_table, write_topics
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.recipe import Recipe, save_recipe
from pmlda.segmentation import Segmentation
from pmlda.settings import Settings, write_settings
from pmlda.storage import atomic
from pmlda.storage.digest import digest
from pmlda.types import Image

LIBRARIES = ("pmlda", "numpy", "scipy", "scikit-learn", "scikit-image", "numba")
# A third of the time of Pillow's own 6 for a twelfth more bytes.
PNG_LEVEL = 3


def save(segmentation: Segmentation, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write everything into a new folder next to the one asked for, then give it that name."""
    write_result(segmentation, folder, check_folder(folder, overwrite=overwrite))
    return Path(folder)


def write_result(
    segmentation: Segmentation, folder: str | Path, replaces: str | None, *, run: str | None = None
) -> dict[str, Any]:
    """What save does; the record in run.json.

    replaces : as in new_folder
    run : the id of the run that writes it, so that it knows its own result again
    """
    with new_folder(folder, replaces) as here:
        save_recipe(here / "model.pmlda", segmentation.recipe)
        (here / "settings.toml").write_text(write_settings(segmentation.settings), encoding="utf-8")
        write_topics(here / "topics.csv", segmentation)
        write_spectra(here / "spectra.png", segmentation.recipe)
        record = run_record(segmentation) | {"run": run}
        (here / "run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for index, image in enumerate(segmentation.images):
            each = here / picture_name(index, image.name) if segmentation.several else here
            each.mkdir(exist_ok=True)
            save_picture(segmentation, index, image, each)
        if segmentation.several:  # one table of all pictures
            write_shares(here / "shares.csv", segmentation, range(len(segmentation.images)))
    return record


@contextmanager
def new_folder(folder: str | Path, replaces: str | None, pictures: str = "") -> Iterator[Path]:
    """A result folder that gets its name once all of it is written; after an error, nothing has changed.

    replaces : which earlier result may be replaced, as check_folder found it before the work was begun
    pictures : a pattern of files in it that are no result, but pictures to be read
    """
    final, check = Path(folder).resolve(), partial(check_replaced, replaces=replaces, name=Path(folder))
    try:
        atomic.remove_leftovers(final)
        with atomic.new_folder(final, check=check, shield=deferred_interrupt) as part:
            yield part
            write_mark(part, pictures)
    except PmldaError:
        raise
    except OSError as error:
        raise OutputError(f"{str(folder)!r} could not be written: {error.strerror or error}.") from None


def save_picture(segmentation: Segmentation, index: int, image: Image, folder: Path) -> None:
    """What belongs to one picture."""
    from pmlda.output.report import write_report

    maps, names = segmentation.membership_maps[index], segmentation.topic_names
    settings = segmentation.settings
    place: dict[str, Any] = {"georeference": image.georeference, "pixel_size": image.pixel_size}
    about = {"valid": image.valid, "colours": figures.topic_colours(len(names)).tolist(), **place}
    write_maps(folder / "memberships.tif", maps, names, **about)
    if segmentation.has_uncertainty:
        # Three digits are enough, and pack much better than seven.
        write_maps(folder / "uncertainty.tif", segmentation.uncertainty_maps[index].astype(np.float16), names, **about)
    residual = segmentation.residual_of(index)
    if residual is not None:
        write_maps(folder / "residual.tif", residual.astype(np.float16), ["residual"], valid=image.valid, **place)
    write_labels(folder / "documents.tif", segmentation.document_maps[index], name="document", **place)
    if (told := segmentation.labels_of(index)) is not None:
        name, content = told.to_file()
        (folder / name).write_bytes(content)
    write_documents(folder / "documents.csv", segmentation, index)
    write_shares(folder / "shares.csv", segmentation, [index])
    _png(folder / "labels.png", figures.indexed_labels(maps))
    picture = to_rgb(image)
    _png(folder / "picture.png", picture)
    _png(folder / "transition.png", figures.transition_picture(picture, maps, settings.low, settings.high))
    (folder / "maps").mkdir()
    for k in range(len(names)):
        _png(folder / "maps" / map_file(settings, k), figures.indexed_map(maps[..., k]))
    _png(folder / "maps" / "mixed.png", figures.composite(maps))
    doubt = segmentation.uncertainty_maps[index].max(axis=2)
    _png(folder / "maps" / "uncertainty.png", figures.indexed_map(np.clip(doubt / 0.5, 0.0, 1.0), "magma"))
    if residual is not None:
        _png(folder / "maps" / "residual.png", figures.indexed_map(residual / figures.LARGEST_RESIDUAL, "magma"))
    figures.overview(segmentation, index).savefig(folder / "figure.png", pil_kwargs={"compress_level": PNG_LEVEL})
    write_report(segmentation, index, folder / "report.html")


def write_spectra(path: Path, recipe: Recipe) -> None:
    """The figure of spectra, if topics are spectra."""
    lines = spectral_lines(recipe)
    if lines is not None:
        spectra_figure(recipe, lines).savefig(path, pil_kwargs={"compress_level": PNG_LEVEL})


def map_file(settings: Settings, k: int) -> str:
    """The file of a topic's map: topic-2.png, or 2-deep-water.png of a name; its number keeps it unlike all others.

    >>> from pmlda.settings import make_settings
    >>> map_file(make_settings({"topics": 2, "names": ["a/b <c>", "?"]}), 0), map_file(make_settings({}), 1)
    ('1-a-b-c.png', 'topic-2.png')
    """
    words = [str(k + 1), *re.findall(r"\w+", settings.names[k])] if settings.names else ["topic", str(k + 1)]
    return f"{'-'.join(words)}.png"


def write_documents(path: Path, segmentation: Segmentation, index: int) -> None:
    """A line for each document of a picture: its number in documents.tif, its pixels, s and π."""
    from pmlda.output.report import documents_of

    which, sizes = documents_of(segmentation, index)
    rows = (
        [number, size, segmentation.scales[row], *segmentation.proportions[row]]
        for number, (row, size) in enumerate(zip(which, sizes, strict=True))
    )
    write_table(path, ["document", "pixels", "scale", *segmentation.topic_names], rows)


def _png(path: Path, picture: figures.Picture | figures.Indexed) -> None:
    from PIL import Image as Pillow

    if isinstance(picture, figures.Indexed):
        drawn = Pillow.fromarray(picture.levels)
        drawn.putpalette(picture.palette.tobytes())
    else:
        drawn = Pillow.fromarray(picture)
    drawn.save(path, compress_level=PNG_LEVEL)


def run_record(segmentation: Segmentation) -> dict[str, Any]:
    """What was done, with what, on what, how long it took, and whether it settled."""
    model = segmentation.recipe.model
    return {
        "settings": segmentation.settings.model_dump(),
        "topics": list(segmentation.topic_names),
        "features": list(segmentation.feature_names),
        "seed": int(model.seed_),
        "sweeps": int(model.n_iter_),
        "verdict": str(segmentation.verdict),
        "state": segmentation.verdict.state,
        "interrupted": segmentation.interrupted,
        "seconds": {name: round(value, 3) for name, value in segmentation.timings.items()},
        **match_record(segmentation),
        "pictures": [
            {
                "name": image.name,
                "shape": list(image.pixels.shape),
                "bands": list(image.bands),
                "pixels_without_data": int((~image.valid).sum()),
                "sha256": digest(image.pixels),
                "notes": list(image.notes),
            }
            | {"shares": share_record(segmentation.shares_of(index))}
            | label_record(segmentation.labels_of(index), segmentation.agreement_of(index))
            for index, image in enumerate(segmentation.images)
        ],
        **({"left_out": [each._asdict() for each in segmentation.left_out]} if segmentation.left_out else {}),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def label_record(told: PixelLabels | None, agreement: Sequence[Agreement]) -> dict[str, Any]:
    """In which file the labels of a picture are, how many, and how well those that agree least do."""
    if told is None:
        return {}
    n_strokes = len(told.strokes) + len(told.regions)
    kept = [each.to_table() for each in least_agreeing(agreement)]
    return {"labels": {"file": told.file_name, "strokes": n_strokes, "pixels": len(told.pixel), "agreement": kept}}
