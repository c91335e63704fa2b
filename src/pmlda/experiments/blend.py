"""Colours and textures blended in known smooth shares → how far every model's memberships are from these shares.

Colours are added up pixel by pixel, with noise. Photographs of grass, gravel and brick are blended by amplitude (pixel
values add up) or by area (each small patch shows one of them). Nothing else is needed: the photographs come with
scikit-image.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda.experiments.charts import error_chart, maps_figure
from pmlda.experiments.outcome import DataError, Outcome
from pmlda.experiments.rivals import MODELS, Grid, Maps, all_answers, best_of, errors_of, told
from pmlda.metrics import membership_rmse
from pmlda.pipeline import segment
from pmlda.scenes import TEXTURES, blended_textures, smooth_scene

SUMMARY = "colours and textures blended in known shares: membership error of every model"

N_TOPICS = 3
COLOUR_NAMES = ("water", "sand", "grass")
COLOUR_SIZE, SMALL_COLOUR_SIZE = 128, 48
# Standard deviations, of full brightness: 5, 13 and 26 of 255 levels.
NOISES = (0.02, 0.05, 0.1)
# Textures need windows that hold several of their blades, stones or bricks, and shares that change more slowly than
# that: the fields behind the shares have three times the width of the window.
TEXTURE_SIZE, WINDOW = 480, 24
SMALL_TEXTURE_SIZE, SMALL_WINDOW = 160, 8
# Every eighth pixel of a texture is scored, since windows of neighbours hold nearly the same; so many pixels decide on
# PM-LDA's topics, about as many as its rivals see.
TEXTURE_STEP, COLOUR_STEP = 8, 2
SAMPLE = 4_000


class Case(NamedTuple):
    """One kind of picture, and how it is treated.

    make : seed → picture, truth (H, W, 3)
    features : the same for all models
    documents : of PM-LDA
    lda_documents : those that LDA may choose from, with the truth
    step : every step-th pixel is scored
    """

    title: str
    make: Callable[[int], tuple[NDArray[np.uint8], Maps]]
    topic_names: tuple[str, ...]
    features: str
    documents: str
    lda_documents: tuple[str, ...]
    step: int


def cases(small: bool) -> list[Case]:
    """Colours at three levels of noise; then textures, each mixing with either feature."""
    side = SMALL_COLOUR_SIZE if small else COLOUR_SIZE
    colours = [
        Case(
            f"colours, noise {noise:g}",
            partial(smooth_scene, side, side, N_TOPICS, noise),
            COLOUR_NAMES,
            "color",
            "auto",
            ("windows:64", "windows:32", "windows:16"),
            COLOUR_STEP,
        )
        for noise in NOISES
    ]
    side, window = (SMALL_TEXTURE_SIZE, SMALL_WINDOW) if small else (TEXTURE_SIZE, WINDOW)
    # One document: words of smaller ones would be near-copies of each other, and pull each other to their own mean.
    textures = [
        Case(
            f"textures by {mixing}, {features}",
            partial(blended_textures, side, mixing),
            TEXTURES,
            features,
            "whole",
            tuple(f"windows:{size}" for size in (side // 4, side // 8, side // 16)),
            TEXTURE_STEP,
        )
        for mixing, features in (
            ("amplitude", f"grain:{window},root"),
            ("area", f"grain:{window}"),
            ("amplitude", f"grain:{window}"),
            ("area", f"grain:{window},root"),
        )
    ]
    return [colours[0], *textures[:2]] if small else colours + textures


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """Needs no data: `seeds` pictures of each kind."""
    if data is not None:
        raise DataError(f"blend makes its own pictures and reads no data, but was given {str(data)!r}: leave it out.")
    rows: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    chosen = cases(small)
    for case in chosen:
        for seed in range(seeds):
            row, setting, figure = measure(case, seed, small)
            rows.append(row)
            settings.append(setting)
            if seed == 0:
                figures[case.title.replace(",", "").replace(":", " ").replace(" ", "-")] = figure
    figures["errors"] = error_chart(rows, [row["picture"] for row in rows])
    by_case = {case.title: [row for row in rows if row["picture"] == case.title] for case in chosen}
    details = {
        "measure": "root of the mean squared error of memberships, topics matched to the truth",
        "choice": "rivals at the setting of least error, chosen with the truth; PM-LDA at one setting",
        "linear fit": "what the best affine map from the features to the truth is off by, found with the truth",
        "means": [{"picture": title} | means_of(each) for title, each in by_case.items()],
        "settings": settings,
    }
    remark = " ".join(told(each, f"pictures ({title})") for title, each in by_case.items())
    return Outcome(rows, remark, figures, details)


def measure(case: Case, seed: int, small: bool) -> tuple[dict[str, Any], dict[str, Any], Figure]:
    """A row of the table, the settings that were best, and the maps."""
    picture, truth = case.make(seed)
    found = segment(picture, N_TOPICS, features=case.features, documents=case.documents, sample=SAMPLE)
    answers, grid = all_answers(found, case.step, case.lda_documents, small)
    true = grid.thinned(truth)
    best = best_of(answers, partial(membership_rmse, truth=true))
    errors = errors_of(best, true)
    about: dict[str, Any] = {"picture": case.title, "seed": seed}
    rest = {"linear fit": round(linear_fit(grid, true), 4), "% below the best rival": below(errors)}
    figure = maps_figure(picture, truth, best, case.step, case.topic_names)
    return about | errors | rest, about | {model: best[model].setting for model in MODELS}, figure


def below(errors: dict[str, Any]) -> float:
    """By how many per cent PM-LDA's error is below that of the best rival; negative where it is above."""
    return round(float(100.0 * (1.0 - errors["PM-LDA"] / min(errors[model] for model in MODELS[1:]))), 1)


def means_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every column; the gain is that of the mean errors, over the rival that is best on average."""
    means = {
        key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0] if key not in ("picture", "seed")
    }
    return means | {
        "PM-LDA is best": sum(row["PM-LDA is best"] for row in rows),
        "% below the best rival": below(means),
    }


def linear_fit(grid: Grid, truth: Maps) -> float:
    """The error of the best affine map from features to memberships: what there is to be read from the features."""
    words = grid.words("standard")
    known = np.column_stack([words, np.ones(len(words))])
    target = truth.reshape(len(words), -1)
    weights = np.linalg.lstsq(known, target, rcond=None)[0]
    return float(np.sqrt(np.mean((known @ weights - target) ** 2)))
