"""Output folder: a segmentation → maps, figures, report, model, settings and a record of the run.

All of it is written, or nothing.
"""

import json
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import OutputError, PmldaError
from pmlda.images import to_rgb, write_labels, write_maps
from pmlda.labels import PixelLabels
from pmlda.labels.agreement import Agreement, least_agreeing
from pmlda.output import figures
from pmlda.output.places import check_folder, check_replaced, picture_name, write_mark
from pmlda.output.shown import at_displayable_size
from pmlda.output.spectra import spectra_figure, spectral_lines
from pmlda.output.tables import match_record, share_record, write_shares, write_table, write_topics
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.threads import each_in_turn
from pmlda.recipe import Recipe, save_recipe
from pmlda.segmentation import Map, Segmentation, documents_of
from pmlda.settings import Settings, write_settings
from pmlda.storage import atomic
from pmlda.storage.digest import digest
from pmlda.types import Image, IntArray

LIBRARIES = ("pmlda", "numpy", "scipy", "scikit-learn", "scikit-image", "numba")
# Two thirds of the time of level 3, for 2 % more bytes of noisy pictures and maps, and 15 % more of flat ones.
PNG_LEVEL = 1
# Of a picture, so many pixels at a time become colours.
PIXELS_AT_ONCE = 2**18


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
    """What belongs to one picture. Files are written at the same time, the slowest first."""
    (folder / "maps").mkdir()
    which = documents_of(segmentation, index)
    shown = at_displayable_size(segmentation, index)
    tasks: list[Task] = [
        *_maps_of(segmentation, index, image, folder),
        *_pictures_of(segmentation, index, image, folder),
        partial(write_documents, folder / "documents.csv", segmentation, which),
        partial(write_shares, folder / "shares.csv", segmentation, [index]),
    ]
    if (told := segmentation.labels_of(index)) is not None:
        name, content = told.to_file()
        tasks.append(partial((folder / name).write_bytes, content))
    tasks.insert(1, partial(_write_report, shown, index, folder / "report.html", which))
    tasks.insert(2, partial(_write_figure, shown, index, folder / "figure.png"))
    model: Any = segmentation.recipe.model
    each_in_turn(_run, tasks, getattr(model, "n_jobs", None))


Task = Callable[[], Any]


def _run(task: Task) -> None:
    task()


def _maps_of(segmentation: Segmentation, index: int, image: Image, folder: Path) -> Iterator[Task]:
    """The TIFFs of one picture."""
    maps, names = segmentation.membership_maps[index], segmentation.topic_names
    place: dict[str, Any] = {"georeference": image.georeference, "pixel_size": image.pixel_size}
    about = {"valid": image.valid, "colours": figures.topic_colours(len(names)).tolist(), **place}
    yield partial(write_maps, folder / "memberships.tif", maps, names, **about)
    if segmentation.has_uncertainty:
        doubt = segmentation.uncertainty_maps[index]
        yield partial(write_maps, folder / "uncertainty.tif", doubt, names, three_digits=True, **about)
    one: dict[str, Any] = {"valid": image.valid, **place}
    residual = segmentation.residual_of(index)
    if residual is not None:
        yield partial(write_maps, folder / "residual.tif", residual, ["residual"], three_digits=True, **one)
    novelty = segmentation.novelty_of(index)
    if novelty is not None:
        yield partial(write_maps, folder / "novelty.tif", novelty, ["novelty"], **one)
    documents = segmentation.document_maps[index]
    yield partial(write_labels, folder / "documents.tif", documents, name="document", **place)


def _pictures_of(segmentation: Segmentation, index: int, image: Image, folder: Path) -> Iterator[Task]:
    """The PNGs of one picture."""
    maps, settings = segmentation.membership_maps[index], segmentation.settings
    doubt, residual = segmentation.uncertainty_maps[index], segmentation.residual_of(index)
    picture = to_rgb(image)

    def transition(picture: figures.Picture, maps: Map) -> figures.Picture:
        return figures.transition_picture(picture, maps, settings.low, settings.high)

    yield partial(_png, folder / "picture.png", lambda part: part, picture)
    yield partial(_png, folder / "transition.png", transition, picture, maps)
    yield partial(_png, folder / "maps" / "mixed.png", figures.composite, maps)
    for k in range(maps.shape[2]):
        yield partial(_png, folder / "maps" / map_file(settings, k), figures.indexed_map, maps[..., k])
    yield partial(_png, folder / "maps" / "uncertainty.png", figures.indexed_doubt, doubt)
    if residual is not None:
        yield partial(_png, folder / "maps" / "residual.png", figures.indexed_residual, residual)
    novelty = segmentation.novelty_of(index)
    if novelty is not None:
        yield partial(_png, folder / "maps" / "novelty.png", figures.indexed_novelty, novelty)
    yield partial(_png, folder / "labels.png", figures.indexed_labels, maps)


def _write_figure(shown: Segmentation, index: int, path: Path) -> None:
    figures.overview(shown, index).savefig(path, pil_kwargs={"compress_level": PNG_LEVEL})


def _write_report(shown: Segmentation, index: int, path: Path, which: tuple[IntArray, IntArray]) -> None:
    from pmlda.output.report import write_report

    write_report(shown, index, path, which)


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


def write_documents(path: Path, segmentation: Segmentation, which: tuple[IntArray, IntArray]) -> None:
    """A line for each document of a picture: its number in documents.tif, its pixels, s and π.

    which : as documents_of returns it
    """
    rows = (
        [number, size, segmentation.scales[row], *segmentation.proportions[row]]
        for number, (row, size) in enumerate(zip(*which, strict=True))
    )
    write_table(path, ["document", "pixels", "scale", *segmentation.topic_names], rows)


def _png(path: Path, paint: Callable[..., figures.Picture | figures.Indexed], *maps: NDArray[Any]) -> None:
    """What is painted of maps (H, W, …), some rows at a time, so that what lies between stays in cache."""
    from PIL import Image as Pillow

    step = max(1, PIXELS_AT_ONCE // maps[0].shape[1])
    parts = [paint(*(each[top : top + step] for each in maps)) for top in range(0, len(maps[0]), step)]
    indexed = [each for each in parts if isinstance(each, figures.Indexed)]
    drawn = Pillow.fromarray(np.concatenate([each.levels for each in indexed] if indexed else parts))
    if indexed:
        drawn.putpalette(indexed[0].palette.tobytes())
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
        "applied": segmentation.applied,
        "seconds": {name: round(value, 3) for name, value in segmentation.timings.items()},
        **match_record(segmentation),
        **({} if segmentation.choice is None else {"choice": segmentation.choice.to_table()}),
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
            | ({"fit": segmentation.fit_checks[index]._asdict()} if segmentation.fit_checks else {})
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
