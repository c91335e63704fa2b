"""Colours and textures blended in known smooth shares → how far every model's memberships are from these shares.

Colours are added up pixel by pixel, with noise. Photographs of grass, gravel and brick are blended by amplitude (pixel
values add up) or by area (each small patch shows one of them). Nothing else is needed: the photographs come with
scikit-image.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda import PMLDA
from pmlda.errors import DataError
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
    papers_fcm,
    rivals,
    told,
)
from pmlda.evaluation.scenes import TEXTURES, blended_textures, smooth_scene
from pmlda.features import compute_features
from pmlda.features.scaling import KINDS
from pmlda.images import read_image
from pmlda.metrics import membership_rmse
from pmlda.peers import make_peer
from pmlda.pipeline.api import segment

N_TOPICS = 3
COLOUR_NAMES = ("water", "sand", "grass")
COLOUR_SIZE, SMALL_COLOUR_SIZE = 128, 48
# Standard deviations, of full brightness: 5, 13 and 26 of 255 levels.
NOISES = (0.02, 0.05, 0.1)
# Textures need windows that hold several of their blades, stones or bricks, and shares that change more slowly than
# that: the fields behind the shares have three times the width of the window.
TEXTURE_SIZE, WINDOW = 480, 24
SMALL_TEXTURE_SIZE, SMALL_WINDOW = 160, 8
# Every eighth pixel of a texture counts, since windows of neighbours hold nearly the same.
TEXTURE_STEP, COLOUR_STEP = 8, 2
# Beside those that every experiment tries: on textures the best fuzzifier is below the least of them.
MORE_FUZZIFIERS = (1.2, 1.3, 1.4, 1.6, 1.75)
# Four starts, the default, found a poor optimum of some textures, with a bound far below that of others.
STARTS = 16


class Case(NamedTuple):
    """One kind of picture, and how it is treated.

    stem : of the figure with its maps
    make : seed → picture, truth (H, W, 3)
    features : the same for all models
    documents : of PM-LDA
    lda_documents : those that LDA may choose from, with the truth; smaller and larger ones did worse
    step : every step-th pixel is scored
    is_aside : a third of the seeds will do
    """

    title: str
    stem: str
    make: Callable[[int], tuple[NDArray[np.uint8], Maps]]
    topic_names: tuple[str, ...]
    features: str
    documents: str
    lda_documents: tuple[str, ...]
    step: int
    is_aside: bool = False


def cases(small: bool) -> list[Case]:
    """Colours at three levels of noise; textures by either mixing; as an aside, textures with the other's features."""
    window = SMALL_WINDOW if small else WINDOW
    plain, root = f"grain:{window}", f"grain:{window},root"
    if small:
        return [colours(NOISES[0], small), textures("amplitude", root, small), textures("area", plain, small)]
    return [
        *(colours(noise, small) for noise in NOISES),
        textures("amplitude", root, small),
        textures("area", plain, small),
        textures("amplitude", plain, small)._replace(is_aside=True),
        textures("area", root, small)._replace(is_aside=True),
    ]


def colours(noise: float, small: bool) -> Case:
    """PM-LDA as it comes: superpixels, blended over their borders."""
    side = SMALL_COLOUR_SIZE if small else COLOUR_SIZE
    make = partial(smooth_scene, side, side, N_TOPICS, noise)
    windows = ("windows:16", "windows:8")
    stem = f"colours-{100.0 * noise:g}-percent"
    return Case(f"colours, noise {noise:g}", stem, make, COLOUR_NAMES, "color", "auto", windows, COLOUR_STEP)


def textures(mixing: str, features: str, small: bool) -> Case:
    """One document: words of smaller ones would be near-copies of each other, and pull each other to their own mean."""
    side = SMALL_TEXTURE_SIZE if small else TEXTURE_SIZE
    make = partial(blended_textures, side, mixing)
    windows = (f"windows:{side // 4}", f"windows:{side // 8}")
    stem = f"{mixing}-root" if features.endswith("root") else mixing
    return Case(f"textures by {mixing}, {features}", stem, make, TEXTURES, features, "whole", windows, TEXTURE_STEP)


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """Needs no data: `seeds` pictures of each kind."""
    if data is not None:
        raise DataError(f"blend makes its own pictures and reads no data, but was given {str(data)!r}: leave it out.")
    rows: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    chosen = cases(small)
    for case in chosen:
        for seed in range(-(-seeds // 3) if case.is_aside else seeds):
            picture, truth = case.make(seed)
            best, grid = ask(case, picture, truth, small)
            about: dict[str, Any] = {"picture": case.title, "seed": seed}
            rows.append(about | measure(best, grid, grid.thinned(truth)))
            settings.append(about | {model: best[model].setting for model in MODELS})
            if seed == 0:
                figures[case.stem] = maps_figure(picture, truth, best, case.step, case.topic_names)
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


def ask(case: Case, picture: NDArray[np.uint8], truth: Maps, small: bool) -> tuple[dict[str, Answer], Grid]:
    """Each model's best answer, and the pixels that it is about."""
    if case.documents == "whole":
        ours, grid = in_one_document(case, picture)
        answers = [ours, papers_fcm(grid, N_TOPICS), *rivals(grid, N_TOPICS, case.lda_documents, small)]
    else:
        found = segment(picture, N_TOPICS, features=case.features, documents=case.documents)
        answers, grid = all_answers(found, case.step, case.lda_documents, small)
    answers += [] if small else sharper(grid)
    return best_of(answers, partial(membership_rmse, truth=grid.thinned(truth))), grid


def sharper(grid: Grid) -> list[Answer]:
    """Fuzzy c-means at more fuzzifiers, so that its best is not at the end of those that were tried."""
    answers = []
    for scaling, m in product(KINDS, MORE_FUZZIFIERS):
        maps = make_peer("fcm", N_TOPICS, fuzzifier=m).fit(grid.words(scaling)).memberships_
        answers.append(Answer("FCM", f"m = {m:g}, features: {scaling}", maps.reshape(*grid.values.shape[:2], N_TOPICS)))
    return answers


def in_one_document(case: Case, picture: NDArray[np.uint8]) -> tuple[Answer, Grid]:
    """PM-LDA from many starts, of which the highest bound is kept, on the words that its rivals see."""
    image = read_image(picture)
    values = compute_features(case.features, image).values[:: case.step, :: case.step]
    grid = Grid(image, values, case.step)
    model = PMLDA(N_TOPICS, covariance="full", n_init=STARTS, random_state=0).fit(grid.words("standard"))
    maps = model.memberships_.reshape(*values.shape[:2], N_TOPICS)
    return Answer("PM-LDA", f"documents: whole, starts: {STARTS}", maps), grid


def measure(best: dict[str, Answer], grid: Grid, truth: Maps) -> dict[str, Any]:
    """What a row says of the answers."""
    errors = errors_of(best, truth)
    return errors | {"linear fit": round(linear_fit(grid, truth), 4), "% below the best rival": below(errors)}


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
