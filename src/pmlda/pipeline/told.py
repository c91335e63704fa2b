"""What users said of pixels and regions → labels of the words and the documents of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import InputError
from pmlda.labels import Canvas, PixelLabels, Region, read_labels
from pmlda.labels.agreement import Agreement, Under, contradictions, judge
from pmlda.pipeline.job import Job
from pmlda.pipeline.tiles import PICTURE_PLACES, Tile, places_of
from pmlda.settings import Settings, make_settings
from pmlda.storage.store import Content, need
from pmlda.types import BoolArray, FloatArray, IntArray, Labels
from pmlda.validate import require

# A document has the label of a region that holds at least this part of it.
INSIDE = 0.5


def read_told(sources: Sequence[Any], pictures: Sequence[Canvas], settings: Settings) -> tuple[PixelLabels | None, ...]:
    """Labels of pictures, one source for each; nothing at all where there are none."""
    if all(source is None for source in sources):
        return ()
    require(
        settings.model == "pmlda",
        f"Labels were given, but model={settings.model!r} learns without them. Use model='pmlda', or leave labels out.",
    )
    return read_labels(sources, pictures, settings.n_topics, settings.names)


def named(settings: Settings, brought: Sequence[str]) -> Settings:
    """Settings with names of the first topics, if the settings have none; topics that have none keep their number."""
    if settings.names or not brought:
        return settings
    return make_settings(settings.model_dump() | {"names": (*brought, *settings.topic_names[len(brought) :])})


def names_in(labels: Sequence[PixelLabels | None]) -> tuple[str, ...]:
    """The names of topics that labels bring."""
    return next((each.names for each in labels if each is not None and each.names), ())


def table_of(job: Job) -> PixelLabels | None:
    """Labels of some picture, which has the table that all pictures share; None where there are no labels."""
    return next((each for each in job.labels if each is not None), None)


def told_at(job: Job, tile: Tile, places: IntArray) -> IntArray | None:
    """(n,) the rows of the table for pixels of a tile, by their places; None where there are no labels."""
    if not job.labels:
        return None
    labels = job.labels[tile.picture]
    return np.zeros(len(places), np.int64) if labels is None else labels.rows_at(places - tile.picture * PICTURE_PLACES)


def told_inside(job: Job, tile: Tile, valid: NDArray[np.bool_]) -> IntArray | None:
    """The same for the valid pixels of a tile, or of a rectangle around one."""
    return told_at(job, tile, places_of(tile, job.plan.shapes[tile.picture][1])[valid]) if job.labels else None


def strokes_inside(job: Job, tile: Tile, valid: NDArray[np.bool_]) -> IntArray | None:
    """(n,) the stroke of each valid pixel of a tile, −1 for none; None where the picture has no labels."""
    labels = job.labels[tile.picture] if job.labels else None
    if labels is None:
        return None
    return labels.strokes_at(places_of(tile, job.plan.shapes[tile.picture][1])[valid] - tile.picture * PICTURE_PLACES)


def to_labels(job: Job, row: IntArray | None) -> Labels | None:
    """Labels of words whose rows of the table are known; None where nothing is said of any of them."""
    table = table_of(job)
    return None if row is None or table is None or not row.any() else table.labels(row)


def told_topics(job: Job) -> BoolArray | None:
    """(K,) topics of which labels say something; None where there are no labels."""
    table = table_of(job)
    if table is None:
        return None
    said = [table.counts, table.any_of, *((each.counts + each.any_of)[None] for each in _regions(job))]
    return np.asarray(np.concatenate(said).any(axis=0))


def _regions(job: Job) -> list[Region]:
    return [region for labels in job.labels if labels is not None for region in labels.regions]


def judged(job: Job, under: Sequence[Content | None]) -> tuple[tuple[Agreement, ...], ...]:
    """How well the strokes of each picture agree with their pixels; empty where there are no labels.

    under : what is found under the strokes in each tile, or None
    """
    entries: list[tuple[Agreement, ...]] = []
    for picture, labels in enumerate(job.labels):
        here = [each for tile, each in zip(job.plan.tiles, under, strict=True) if tile.picture == picture and each]
        if labels is None or not here:
            entries.append(())
            continue
        total = Under(*(np.sum([each[name] for each in here], axis=0) for name in Under._fields))
        entries.append(tuple(judge(*labels.said(), total, job.settings.topic_names)))
    return tuple(entries)


def notes_on(labels: PixelLabels | None, agreement: Sequence[Agreement]) -> tuple[str, ...]:
    """Sentences on the labels of a picture, for the user."""
    return () if labels is None else (labels.note, *contradictions(agreement))


# ── before topics are known ────────────────────────────────────────────────────────────────────────────────────────
def survey_told(job: Job, tile: Tile, valid: NDArray[np.bool_]) -> Content:
    """How many valid pixels of a tile are labelled, and which rows of the table are used."""
    row = told_inside(job, tile, valid)
    return {} if row is None else {"n_told": int((row > 0).sum()), "told": np.unique(row[row > 0]).tolist()}


def check_told(job: Job, surveyed: Sequence[Content], n_valid: int) -> None:
    """Refuse labels from which nothing can be learnt."""
    table = table_of(job)
    if table is None:
        return
    n_told = sum(each.get("n_told", 0) for each in surveyed)
    require(
        n_told > 0 or bool(_regions(job)),
        "All labels are on pixels without data. Check the labels, the mask and the nodata value.",
    )
    counts = table.counts[sorted({row for each in surveyed for row in each.get("told", ())})]
    one = n_told == n_valid and len(set(counts.argmax(axis=1))) == 1 and bool((counts > 0).sum() == len(counts))
    require(
        not one,
        "All pixels are labelled as one topic, so there is nothing to tell apart. Label examples of several topics, "
        "or leave pixels without a label.",
    )


# ── documents ──────────────────────────────────────────────────────────────────────────────────────────────────────
def told_documents(
    job: Job, tiles: Sequence[Tile], numbers: Sequence[IntArray], documents: IntArray, layer: int = 0
) -> Labels | None:
    """Labels of documents, those of all regions that hold at least half of their pixels; None if none has any.

    numbers : for each tile, the numbers of its documents; one that spans tiles has one number
    documents : (D,) the numbers of the documents whose labels are asked for
    layer : of the partition
    """
    if not _regions(job):
        return None
    sizes: IntArray = np.zeros(max((int(each.max(initial=0)) for each in numbers), default=0) + 1, np.int64)
    inside: dict[tuple[int, int, int], int] = {}
    for tile, number in zip(tiles, numbers, strict=True):
        labels = np.asarray(need(job.store, "survey", tile.number)["labels"][layer], np.int64)
        used = labels >= 0
        np.add.at(sizes, number, np.bincount(labels[used], minlength=len(number)))
        width = job.plan.shapes[tile.picture][1]
        regions = [each for each in enumerate(_regions_in(job, tile.picture)) if each[1].crosses(tile.rows, width)]
        pixel = places_of(tile, width)[used] - tile.picture * PICTURE_PLACES if regions else np.empty(0, np.int64)
        for index, region in regions:
            held = np.bincount(labels[used][region.holds(pixel)], minlength=len(number))
            for document in np.flatnonzero(held).tolist():
                key = int(number[document]), tile.picture, index
                inside[key] = inside.get(key, 0) + int(held[document])
    said: dict[int, list[Region]] = {}
    for (of_document, picture, index), count in sorted(inside.items()):
        if count >= INSIDE * sizes[of_document]:
            said.setdefault(of_document, []).append(_regions_in(job, picture)[index])
    return _join(said, documents)


def _regions_in(job: Job, picture: int) -> tuple[Region, ...]:
    labels = job.labels[picture]
    return () if labels is None else labels.regions


def _join(said: dict[int, list[Region]], documents: IntArray) -> Labels | None:
    """One label for each document: what is said of it in several places adds up."""
    row = np.zeros(len(documents), np.int64)
    found = [_label_of(said[document]) for document in documents.tolist() if document in said]
    if not found:
        return None
    row[[document in said for document in documents.tolist()]] = 1 + np.arange(len(found))
    nothing = np.zeros_like(found[0][0])
    counts, any_of, strength = zip((nothing, nothing, 0.0), *found, strict=True)
    return Labels(row, np.array(counts), np.array(any_of), np.array(strength))


def _label_of(regions: Sequence[Region]) -> tuple[FloatArray, FloatArray, float]:
    """counts (K,), any_of (K,) and strength of a document in these regions."""
    counts = np.sum([region.counts for region in regions], axis=0)
    vague = [region for region in regions if region.strength > 0]
    if len(vague) > 1:
        raise InputError(
            f"{vague[0].what} and {vague[1].what[0].lower()}{vague[1].what[1:]} both say of one document that it "
            "contains one of several topics. Draw them apart, or use smaller documents."
        )
    return (counts, vague[0].any_of, vague[0].strength) if vague else (counts, np.zeros_like(counts), 0.0)
