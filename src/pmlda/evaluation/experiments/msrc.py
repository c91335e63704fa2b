"""Photographs of cows on grass: filter responses → three topics, one of which finds the cows.

Topics are shared by all pictures of a set, superpixels are documents. For every model alike, the topic of largest area
under the ROC curve, pixels of all pictures together, is the one for cows. Without data: pictures that are made up.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda.evaluation.experiments.msrc_files import COW, GRASS, VOID, Photograph, make_set, read_sets
from pmlda.evaluation.experiments.msrc_models import (
    BLEND,
    DENSE,
    DOCUMENTS,
    SCALE_RATE,
    SMALL_DOCUMENTS,
    SPACING,
    Corpus,
    cut,
    features_of,
    pooled,
    rivals,
    soft_maps,
)
from pmlda.evaluation.experiments.outcome import Outcome
from pmlda.evaluation.experiments.rivals import Answer, Maps, best_of, full_size
from pmlda.images import to_rgb
from pmlda.metrics import auc, below_curve, operating_point, roc
from pmlda.output.figures import PALETTE, Panel, coloured, crisp_picture, grid, transition_picture
from pmlda.partitions import borders
from pmlda.segmentation import Map, between

# Energies of filter responses, of which the figures are; their sizes pixel by pixel; signed, as the paper prints it.
FEATURES = ("winn:energy", "winn", "winn:signed")
MODELS = ("PM-LDA", "LDA, paper", "LDA", "FCM", "GMM", "BPM")
LOW, HIGH = 0.4, 0.6
# How near a transition has to be to a border in the truth, in pixels: the reach of a filter, and a little.
NEAR = 8
SIZE, SMALL_SIZE = (128, 192), (72, 108)
PICTURES_IN_FIGURE = 7
# Grass, the rest, cow → the rest, cow, grass: the palette begins with blue, orange and green.
AS_COLOURED = [1, 2, 0]


class Scored(NamedTuple):
    """How well a model finds the cows.

    topic : the one for cows; area : pooled; areas : of each picture that has some, by name
    point : false and true positive rate of the pixels in which that topic is the largest
    """

    topic: int
    area: float
    areas: dict[str, float]
    point: tuple[float, float]


class Question(NamedTuple):
    """At every third pixel: whether there is a cow (n,), whether it counts (n,), of which picture it is (n,)."""

    cow: NDArray[np.bool_]
    known: NDArray[np.bool_]
    picture: NDArray[np.int64]
    names: list[str]

    def score(self, rows: Maps) -> Scored:
        areas = [auc(rows[:, k], self.cow, mask=self.known) for k in range(rows.shape[1])]
        topic = int(np.argmax(areas))
        each = {}
        for i, name in enumerate(self.names):
            here = self.known & (self.picture == i)
            if 0 < self.cow[here].sum() < here.sum():
                each[name] = round(auc(rows[:, topic], self.cow, mask=here), 4)
        point = operating_point(rows.argmax(axis=1) == topic, self.cow, mask=self.known)
        return Scored(topic, areas[topic], each, point)


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : a folder of labelled photographs, or one with the folders paper and dev; None makes up `seeds` of them."""
    if data is None:
        sets = {"pastures": make_set(min(seeds, 2) if small else seeds, *(SMALL_SIZE if small else SIZE))}
    else:
        sets = {name: pictures[:2] if small else pictures for name, pictures in read_sets(data).items()}
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    details: dict[str, Any] = {
        "setting of PM-LDA": f"documents: {DOCUMENTS}, covariance: full, scale_rate: {SCALE_RATE:g}, "
        f"learns from every {SPACING}th pixel, blend: {BLEND:g}, features in units of their spread",
        "choice of topic": "for every model the topic of largest pooled area",
        "choice of setting": "rivals at the setting of largest pooled area, chosen with the truth; PM-LDA at one",
        "sets": {},
    }
    remarks = []
    for name, pictures in sets.items():
        corpus = cut([picture.image for picture in pictures], SMALL_DOCUMENTS if small else DOCUMENTS)
        details["sets"][name] = {}
        for features in FEATURES[:1] if small or data is None else FEATURES:
            found = compare(corpus, pictures, features, small)
            rows += [{"pictures": name, "features": features} | row for row in found.rows]
            details["sets"][name][features] = found.details
            if features == FEATURES[0]:
                figures |= {f"{name}_{stem}": figure for stem, figure in found.figures.items()}
                remarks.append(f"{name}, {len(pictures)} picture(s): {found.remark}")
    return Outcome(rows, " ".join(remarks), figures, details)


def compare(corpus: Corpus, pictures: list[Photograph], features: str, small: bool) -> Outcome:
    """All models on one set of pictures and features."""
    question = ask(corpus, pictures)
    values = features_of(corpus, features)
    maps = soft_maps(corpus, values, small)
    answers = [Answer("PM-LDA", "the one setting", pooled(maps, corpus.images, DENSE))]
    answers += rivals(corpus, values, small)
    best = best_of(answers, lambda rows: -question.score(rows).area)
    scores = {model: question.score(best[model].maps) for model in MODELS}
    topic = scores["PM-LDA"].topic
    curve = roc(best["PM-LDA"].maps[:, topic], question.cow, mask=question.known)[:2]
    points = [question.score(answer.maps).point for answer in answers if answer.model == "LDA"]
    details = {
        "transitions": transitions(maps, pictures),
        "LDA below the curve": {
            "paper": below_curve(scores["LDA, paper"].point, *curve),
            "settings": len(points),
            "of them below": sum(below_curve(point, *curve) for point in points),
        },
        "areas of pictures": {model: scores[model].areas for model in MODELS},
        "all settings": [
            {"model": a.model, "setting": a.setting, "AUC": round(question.score(a.maps).area, 4)} for a in answers
        ],
    }
    figures = {"roc": roc_figure(best, scores, question)}
    grass = (pooled_truth(corpus, pictures) == GRASS) & question.known
    order = topic_order(best["PM-LDA"].maps, topic, grass)
    paper = best["LDA, paper"].maps
    lda = paper[:, topic_order(paper, scores["LDA, paper"].topic, grass)]
    drawn = [panels(*each) for each in zip(pictures, [m[..., order] for m in maps], split(lda, corpus), strict=True)]
    for first in range(0, len(drawn), PICTURES_IN_FIGURE):
        figures[f"maps_{first // PICTURES_IN_FIGURE + 1}"] = grid(drawn[first : first + PICTURES_IN_FIGURE])
    rows = [table_row(model, best[model], scores[model]) for model in MODELS]
    return Outcome(rows, told(scores, details), figures, details)


def ask(corpus: Corpus, pictures: list[Photograph]) -> Question:
    truth = pooled_truth(corpus, pictures)
    numbers = [np.full(picture.truth.shape, i) for i, picture in enumerate(pictures)]
    names = [picture.name for picture in pictures]
    return Question(truth == COW, truth != VOID, pooled(numbers, corpus.images, DENSE), names)


def pooled_truth(corpus: Corpus, pictures: list[Photograph]) -> NDArray[np.int64]:
    return pooled([picture.truth for picture in pictures], corpus.images, DENSE)


def table_row(model: str, answer: Answer, score: Scored) -> dict[str, Any]:
    areas = list(score.areas.values())
    return {
        "model": model,
        "setting": answer.setting,
        "AUC": round(score.area, 4),
        "median of pictures": round(float(np.median(areas)), 4),
        "lowest": min(areas),
        "FPR of labels": round(score.point[0], 4),
        "TPR of labels": round(score.point[1], 4),
    }


def told(scores: dict[str, Scored], details: dict[str, Any]) -> str:
    """What the set says, in three sentences."""
    below, near = details["LDA below the curve"], details["transitions"]
    areas = ", ".join(f"{model} {scores[model].area:.3f}" for model in MODELS)
    side = "below" if below["paper"] else "on or above"
    return (
        f"pooled area of the cow topic: {areas}. The point of the paper's LDA lies {side} PM-LDA's curve; of all "
        f"{below['settings']} settings of LDA, {below['of them below']} have theirs below it. Of transition pixels, "
        f"{100 * near['near']:.0f} % are within {NEAR} pixels of a border in the truth; of all pixels, "
        f"{100 * near['all near']:.0f} %."
    )


# ── where memberships are in between ──────────────────────────────────────────────────────────────────────────────


def transitions(maps: list[Map], pictures: list[Photograph]) -> dict[str, float]:
    """How many pixels are in transition, and how many of those, and of all, are near a border in the truth."""
    from scipy.ndimage import distance_transform_edt

    counted = between_all = near_all = both = 0
    for each, picture in zip(maps, pictures, strict=True):
        known = picture.truth != VOID
        near = (distance_transform_edt(~borders(picture.truth)) <= NEAR) & known
        here = between(each, LOW, HIGH) & known
        counted, between_all = counted + int(known.sum()), between_all + int(here.sum())
        near_all, both = near_all + int(near.sum()), both + int((near & here).sum())
    return {
        "pixels": round(between_all / counted, 4),
        "near": round(both / max(between_all, 1), 4),
        "all near": round(near_all / counted, 4),
    }


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def topic_order(rows: Maps, cow: int, grass: NDArray[np.bool_]) -> list[int]:
    """Grass, the rest, cow: of the two topics that are not for cows, the one with more grass comes first."""
    others = [k for k in range(rows.shape[1]) if k != cow]
    return [*sorted(others, key=lambda k: -float(rows[grass, k].sum())), cow]


def split(rows: Maps, corpus: Corpus) -> list[Map]:
    """Rows of every third pixel → full maps of each picture, NaN where it has no data."""
    found, first = [], 0
    for image in corpus.images:
        valid = image.valid[::DENSE, ::DENSE]
        last = first + int(valid.sum())
        small = np.full((*valid.shape, rows.shape[1]), np.nan, np.float32)
        small[valid] = rows[first:last]
        height, width = image.valid.shape
        found.append(full_size(small, DENSE, (height, width)))
        first = last
    return found


def panels(picture: Photograph, maps: Map, lda: Map) -> list[Panel]:
    """The paper's row: picture, grass, sky, cow, transitions, largest topic, LDA."""
    seen = to_rgb(picture.image)
    names = ("grass", "the rest", "cow")
    return [
        Panel(seen, picture.name),
        *(Panel(coloured(maps[..., k]), f"PM-LDA: {name}", True) for k, name in enumerate(names)),
        Panel(transition_picture(seen, maps, LOW, HIGH), f"transition, {LOW:g} to {HIGH:g}"),
        Panel(crisp_picture(maps[..., AS_COLOURED]), "PM-LDA: largest"),
        Panel(crisp_picture(lda[..., AS_COLOURED]), "LDA, paper"),
    ]


def roc_figure(best: dict[str, Answer], scores: dict[str, Scored], question: Question) -> Figure:
    """Curves of the soft models, and LDA's points; the right half enlarges the upper left corner."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", dpi=110)
    axes = figure.subplots(1, 2)
    for axis in axes:
        for k, model in enumerate(("PM-LDA", "FCM", "GMM", "LDA")):
            rows, score = best[model].maps[:, scores[model].topic], scores[model]
            x, y, _ = roc(rows, question.cow, mask=question.known)
            label = f"{model}, area {score.area:.3f}"
            axis.plot(x, y, "-" if k == 0 else ":", color=PALETTE[k], linewidth=2 if k == 0 else 1.4, label=label)
        stars = (("LDA, paper", "*", 14, "#D00000"), ("LDA", "s", 7, PALETTE[3]))
        for model, marker, size, colour in stars:
            label = "LDA as in the paper: its labels" if model == "LDA, paper" else "LDA at its best: its labels"
            axis.plot(*scores[model].point, marker, markersize=size, color=colour, label=label)
        axis.set_xlabel("false positive rate")
    axes[0].set_ylabel("true positive rate")
    axes[0].legend(loc="lower right", fontsize=8)
    axes[1].set_xlim(0.0, 0.3)
    axes[1].set_ylim(0.5, 1.0)
    axes[1].set_title("the upper left corner", fontsize=9)
    return figure
