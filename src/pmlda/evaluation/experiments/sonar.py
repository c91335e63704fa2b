"""Sonar pictures: mean and entropy in windows → three bottoms, by PM-LDA and its rivals.

Without data: simulated seabeds (`pmlda.evaluation.scenes.seabed`), whose truth is the share of the ground that each
bottom has. With data: how well memberships tell the labelled bottoms apart.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda.evaluation.experiments.charts import error_chart, maps_figure
from pmlda.evaluation.experiments.outcome import Outcome
from pmlda.evaluation.experiments.rivals import (
    MODELS,
    Answer,
    Grid,
    Maps,
    all_answers,
    best_of,
    errors_of,
    full_size,
    told,
)
from pmlda.evaluation.experiments.sonar_files import Labelled, Region, read_folder
from pmlda.evaluation.scenes import BOTTOMS, seabed
from pmlda.images import read_image, to_rgb
from pmlda.metrics import auc, membership_rmse
from pmlda.output.figures import comparison
from pmlda.pipeline.api import segment
from pmlda.segmentation import crisp

N_TOPICS = 3
# The paper's features; then those of the authors' code, which has a filter for ripples beside them.
FEATURES = ("sonar", "sonar+ripple")
# PM-LDA has this one setting: sliding windows as in the paper, half overlapping and for that reason not blended, and
# the package's own defaults.
DOCUMENTS, SMALL_DOCUMENTS = "windows:64/32", "windows:32/16"
SIZE, SMALL_SIZE = 256, 96
# Models are scored, and rivals fitted, at so many evenly spread pixels at most. PM-LDA learns its topics from as many,
# or from 500 of each window where that is more.
MOST_PIXELS = 8_000
# A strip is drawn in part, this many times as long as high.
LONGEST = 8
# So much of a scene, where ripples have most of the ground, counts as rippled: the paper says that fuzzy c-means gives
# it to two clusters.
RIPPLED = 0.1


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : the folder `sonar`, or the one above it; None makes up `seeds` seabeds."""
    feature_sets = FEATURES[:1] if small else FEATURES
    if data is None:
        return made_up(seeds, small, feature_sets)
    return labelled(read_folder(data), small, feature_sets)


def ask_all(pixels: NDArray[Any], features: str, small: bool) -> tuple[list[Answer], Grid]:
    """What all models make of a picture, and the pixels that they are about."""
    step = int(np.ceil(np.sqrt(pixels.size / MOST_PIXELS)))
    documents = SMALL_DOCUMENTS if small else DOCUMENTS
    found = segment(pixels, N_TOPICS, features=features, documents=documents, blend=0.0, sample=MOST_PIXELS)
    return all_answers(found, step, small=small)


# ── seabeds with known truth ──────────────────────────────────────────────────────────────────────────────────────


def made_up(seeds: int, small: bool, feature_sets: Sequence[str]) -> Outcome:
    """Membership error on seabeds that are made up."""
    rows: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []
    rippled: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for features in feature_sets:
        for seed in range(seeds):
            picture, truth = seabed(SMALL_SIZE if small else SIZE, seed)
            answers, grid = ask_all(picture, features, small)
            true = grid.thinned(truth)
            best = best_of(answers, partial(membership_rmse, truth=true))
            rows.append({"features": features, "seed": seed} | errors_of(best, true))
            settings.append({"features": features, "seed": seed} | {m: best[m].setting for m in MODELS})
            rippled.append({"features": features, "seed": seed} | {m: two_largest(best[m].maps, true) for m in MODELS})
            if not figures:
                figures["seabed"] = maps_figure(picture, truth, best, grid.step, BOTTOMS)
    figures["errors"] = error_chart(rows, [f"features: {row['features']}" for row in rows])
    details = {
        "truth": "each bottom's share of the ground: what the bottoms of a cell send back adds up in these shares",
        "choice": "rivals at the setting of least error, chosen with the truth; PM-LDA at one setting",
        "settings": settings,
        "two largest topics of rippled ground": rippled,
    }
    remarks = [
        told([row for row in rows if row["features"] == name], f"seabeds with features {name}") for name in feature_sets
    ]
    papers = [row for row in rippled if row["features"] == FEATURES[0]]
    return Outcome(rows, " ".join([*remarks, told_of_ripples(papers)]), figures, details)


def two_largest(maps: Maps, truth: Maps) -> list[float]:
    """The mean memberships of rippled ground in the two topics that have most of it.

    >>> two_largest(np.array([[[0.6, 0.0, 0.4], [0.0, 1.0, 0.0]]]), np.array([[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]))
    [0.6, 0.4]
    """
    ripples = truth[..., BOTTOMS.index("ripple")]
    where = ripples >= np.quantile(ripples, 1.0 - RIPPLED)
    largest = np.sort(maps[where].mean(axis=0, dtype=np.float64))[:-3:-1]
    return [round(float(mean), 4) for mean in largest]


def told_of_ripples(rippled: list[dict[str, Any]]) -> str:
    parts = []
    for model in ("PM-LDA", "FCM, paper"):
        first, second = np.mean([row[model] for row in rippled], axis=0)
        parts.append(f"{first:.2f} and {second:.2f} by {model}")
    return f"Rippled ground has, in the two topics that have most of it, memberships of {'; '.join(parts)}."


# ── labelled pictures ─────────────────────────────────────────────────────────────────────────────────────────────


def labelled(pictures: list[Labelled], small: bool, feature_sets: Sequence[str]) -> Outcome:
    """Area under the ROC curve of each bottom; for every model and bottom the topic that suits it best."""
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for picture in pictures[:1] if small else pictures:
        for features in feature_sets:
            answers, grid = ask_all(picture.pixels, features, small)
            counted = grid.thinned(picture.counted)
            for bottom, region in picture.regions.items():
                where = grid.thinned(region)
                if not 0 < where[counted].sum() < counted.sum():
                    continue
                best = best_of(answers, partial(shortfall, where=where, counted=counted))
                row = {"picture": picture.name, "sonar": picture.sonar, "features": features, "bottom": bottom}
                rows.append(row | {m: round(best_auc(best[m].maps, where, counted), 4) for m in MODELS})
            if features == FEATURES[0]:
                figures[picture.name] = picture_figure(picture, answers, grid.step)
    means = means_of(rows)
    details = {
        "measure": "area under the ROC curve of a bottom against all other labelled pixels",
        "choice": "for every model the topic of largest area; rivals also at the setting of largest area",
        "means": means,
    }
    return Outcome(rows, told_of_labelled(means), figures, details)


def best_auc(maps: Maps, where: Region, counted: Region) -> float:
    """The largest area of any topic."""
    return max(auc(maps[..., k], where, mask=counted) for k in range(maps.shape[2]))


def shortfall(maps: Maps, where: Region, counted: Region) -> float:
    """What that area lacks."""
    return 1.0 - best_auc(maps, where, counted)


def means_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Averages over pictures for each kind of sonar, set of features and bottom."""
    shared = ("sonar", "features", "bottom")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in shared), []).append(row)
    table = []
    for key, chosen in groups.items():
        means = {m: round(float(np.mean([row[m] for row in chosen])), 4) for m in MODELS}
        table.append(dict(zip(shared, key, strict=True)) | {"pictures": len(chosen)} | means)
    return table


def told_of_labelled(means: list[dict[str, Any]]) -> str:
    parts = [
        f"{row['bottom']} ({row['sonar']}, {row['features']}, {row['pictures']}): "
        + ", ".join(f"{model} {row[model]:.3f}" for model in MODELS if model != "FCM, paper")
        for row in means
    ]
    return "Mean area under the ROC curve, and of how many pictures: " + "; ".join(parts) + "."


def picture_figure(picture: Labelled, answers: list[Answer], step: int) -> Figure:
    """PM-LDA's maps, labels drawn by hand, the paper's fuzzy c-means, and LDA with documents like the paper's."""
    ours, fuzzy = answers[0], answers[1]
    lda = next(answer for answer in answers if answer.model == "LDA")
    part = interesting(picture)
    names = list(picture.regions)
    truth = np.full(picture.pixels.shape, -1)
    for k, name in enumerate(names):
        truth[picture.regions[name]] = k
    models: dict[str, NDArray[Any]] = {
        "PM-LDA": full_size(ours.maps, step, picture.pixels.shape)[:, part],
        "by hand": truth[:, part],
        "FCM, m = 1.5": full_size(fuzzy.maps, step, picture.pixels.shape)[:, part],
        "LDA": full_size(crisp(lda.maps), step, picture.pixels.shape)[:, part],
    }
    return comparison(to_rgb(read_image(picture.pixels[:, part])), models)


def interesting(picture: Labelled) -> slice:
    """Columns to draw: all, or of a strip the part in which the bottoms are most evenly present."""
    height, width = picture.pixels.shape
    length = min(width, LONGEST * height)
    columns = np.stack([region.sum(axis=0) for region in picture.regions.values()])
    sums = np.cumsum(np.pad(columns, ((0, 0), (1, 0))), axis=1)
    inside = sums[:, length:] - sums[:, : width - length + 1]
    first = int(np.argmax(inside.min(axis=0)))
    return slice(first, first + length)
