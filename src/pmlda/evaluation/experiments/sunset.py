"""Sunsets: vertical gradient, red and blue → three topics whose memberships fade as the sky does; LDA beside it.

Without data: sunsets that are made up here, whose colours mix in known shares. With data: the authors' picture, once
with the paper's features, once with the authors' own features and superpixels.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image as PillowImage

from pmlda.errors import DataError
from pmlda.evaluation.experiments.outcome import Outcome, inner, need_files, read_arrays
from pmlda.evaluation.experiments.rivals import (
    MODELS,
    PAPER_FUZZIFIER,
    Answer,
    all_answers,
    best_of,
    errors_of,
    full_size,
    told,
)
from pmlda.evaluation.scenes import SUNSET, sunset
from pmlda.images import to_rgb
from pmlda.metrics import membership_rmse
from pmlda.output.figures import comparison
from pmlda.partitions.automatic import auto_documents
from pmlda.peers import make_peer
from pmlda.pipeline.api import segment
from pmlda.segmentation import Map, Segmentation, between, crisp

N_TOPICS = 3
FEATURES = "sunset"
HEIGHT, WIDTH = 150, 200
# Rivals are fitted, and all are scored, at every second pixel of every second row.
STEP = 2
# The photograph is reduced to about this many pixels on its longer side, for the sake of time.
LONGER_SIDE = 400
LOW, HIGH = 0.4, 0.6


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : the authors' folder, or the one above it; None makes up `seeds` sunsets."""
    return made_up(seeds, small) if data is None else photographs(inner(data, "authors"), small)


# ── sunsets with known truth ──────────────────────────────────────────────────────────────────────────────────────


def made_up(seeds: int, small: bool) -> Outcome:
    """Membership error and the share of the picture that is in transition."""
    rows: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    height, width = (48, 64) if small else (HEIGHT, WIDTH)
    for seed in range(seeds):
        picture, truth = sunset(height, width, seed)
        found = segment(picture, N_TOPICS, features=FEATURES)
        as_for_pmlda = auto_documents(found.images[0].valid.shape, N_TOPICS)
        documents = (as_for_pmlda, "windows:32", "windows:16")
        answers, grid = all_answers(found, STEP, documents, small)
        true = grid.thinned(truth)
        best = best_of(answers, partial(membership_rmse, truth=true))
        soft = {"in transition": in_transition(true), "by PM-LDA": in_transition(best["PM-LDA"].maps)}
        labels = {"LDA, labels": round(membership_rmse(one_of(best["LDA"].maps), true), 4)}
        rows.append({"seed": seed} | errors_of(best, true) | labels | soft)
        settings.append({"seed": seed} | {model: best[model].setting for model in MODELS})
        if not figures:
            figures["sunset"] = comparison(picture, {"truth": truth} | drawn(found, best), topic_names=SUNSET)
    in_truth, by_us = (float(np.mean([row[name] for row in rows])) for name in ("in transition", "by PM-LDA"))
    remark = (
        f"{told(rows, 'sunsets')} In transition, some membership between {LOW} and {HIGH}, are {by_us:.0%} of the "
        f"pixels by PM-LDA, in truth {in_truth:.0%}."
    )
    details = {
        "choice": "rivals at the setting of least error, chosen with the truth; PM-LDA at the package's defaults",
        "transition": [LOW, HIGH],
        "settings": settings,
    }
    return Outcome(rows, remark, figures, details)


def drawn(found: Segmentation, best: dict[str, Answer]) -> dict[str, NDArray[Any]]:
    """What the figure shows: LDA as the paper has it, by its labels."""
    shape = found.membership_maps[0].shape[:2]
    rivals = {name: full_size(best[name].maps, STEP, shape) for name in ("FCM, paper", "FCM", "LDA")}
    return {"PM-LDA": found.membership_maps[0]} | rivals | {"LDA": crisp(rivals["LDA"])}


def one_of(maps: Map) -> Map:
    """(H, W, K) 1 for the largest topic, 0 for others."""
    return np.eye(maps.shape[2], dtype=np.float32)[crisp(maps)]


def in_transition(maps: Map) -> float:
    """The share of pixels of which some membership is between LOW and HIGH."""
    return round(float(between(maps, LOW, HIGH).mean()), 4)


def largest_steps(maps: Map) -> float:
    """The change to the next pixel, of any membership, that one pair of neighbours in a hundred exceeds."""
    steps = [np.abs(np.diff(maps, axis=axis)).max(axis=2).ravel() for axis in (0, 1)]
    return round(float(np.percentile(np.concatenate(steps), 99)), 4)


# ── the authors' picture ──────────────────────────────────────────────────────────────────────────────────────────


def photographs(folder: Path, small: bool) -> Outcome:
    """There is no truth: the table shows how soft the maps are."""
    picture_path, array_path = need_files(folder, ["sunset1.jpg", "sunset.npz"])
    photograph = read_reduced(picture_path, 64 if small else LONGER_SIDE)
    rgb, features_first, superpixels = read_arrays(array_path, ["rgb", "features", "superpixels"])
    given = np.moveaxis(features_first, 0, -1)
    if not rgb.shape[:2] == given.shape[:2] == superpixels.shape:
        raise DataError(
            f"In {str(array_path)!r} rgb, features and superpixels have shapes {rgb.shape}, {features_first.shape} and "
            f"{superpixels.shape}. Expected (H, W, 3), (p, H, W) and (H, W)."
        )

    def authors(pixels: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(given)

    runs = {
        "photograph": segment(photograph, N_TOPICS, features=FEATURES),
        "authors": segment(rgb, N_TOPICS, features=authors, documents=superpixels.astype(np.int64)),
    }
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for name, found in runs.items():
        soft = soft_maps(found)
        features = "sunset" if name == "photograph" else "the authors'"
        for model, each in soft.items():
            softness = {"in transition": in_transition(each), "step that 1 % exceed": largest_steps(each)}
            rows.append({"picture": name, "features": features, "model": model} | softness)
        shown = soft | {"LDA": crisp(soft["LDA"])}
        figures[name] = comparison(to_rgb(found.images[0]), {m: shown[m] for m in ("PM-LDA", "FCM", "LDA")})
    share = {(row["picture"], row["model"]): row["in transition"] for row in rows}
    remark = " ".join(
        f"{name}: in transition are {share[name, 'PM-LDA']:.0%} of the pixels by PM-LDA, {share[name, 'FCM']:.0%} by "
        f"fuzzy c-means, {share[name, 'LDA']:.0%} by LDA, whose labels have none."
        for name in runs
    )
    return Outcome(rows, remark, figures, {"transition": [LOW, HIGH], "size": list(photograph.shape[:2])})


def soft_maps(found: Segmentation) -> dict[str, Map]:
    """PM-LDA's maps, and those of LDA and the paper's fuzzy c-means from the same features and documents."""
    image, documents = found.images[0], found.document_maps[0]
    values = found.recipe.features.compute(image).values
    words = found.recipe.scaling.apply(values.reshape(-1, values.shape[2]))
    shape = (*documents.shape, N_TOPICS)
    fuzzy = make_peer("fcm", N_TOPICS, fuzzifier=PAPER_FUZZIFIER).fit(words).memberships_.reshape(shape)
    lda = make_peer("lda", N_TOPICS, dictionary=100).fit(words, groups=documents.ravel()).memberships_.reshape(shape)
    return {"PM-LDA": found.membership_maps[0], "FCM": fuzzy, "LDA": lda, "LDA, labels": one_of(lda)}


def read_reduced(path: Path, longer_side: int) -> NDArray[np.uint8]:
    """(H, W, 3) the photograph, no longer than that."""
    try:
        with PillowImage.open(path) as picture:
            colours = picture.convert("RGB")
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read as a picture ({error}). Expected JPEG.") from None
    colours.thumbnail((longer_side, longer_side), PillowImage.Resampling.BOX)
    return np.asarray(colours)
