"""One picture's features → what PM-LDA and its rivals make of them, rivals at many settings → each at its best.

An experiment takes the best setting of each rival, chosen with the truth, which no user has: rivals are shown at their
best, PM-LDA at one setting.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pmlda.features.scaling import KINDS, Scaling
from pmlda.metrics import membership_rmse
from pmlda.partitions import partition
from pmlda.peers import make_peer
from pmlda.segmentation import Segmentation
from pmlda.types import Image

MODELS = ("PM-LDA", "FCM, paper", "FCM", "LDA", "GMM")
FUZZIFIERS = (1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 4.0)
COVARIANCES = ("full", "tied", "diag", "spherical")
WINDOWS = ("windows:64", "windows:32", "windows:16")
DICTIONARIES = (100, 200)
PAPER_FUZZIFIER = 1.5
# What answers that know nothing are worth: the same share of every topic everywhere.
NOTHING = "1/K"

Maps = NDArray[np.floating]


class Answer(NamedTuple):
    """What a model said: memberships (h, w, K), and at which setting."""

    model: str
    setting: str
    maps: Maps


class Grid(NamedTuple):
    """Every step-th pixel of a picture: those at which models are fitted and scored.

    values : (h, w, p) features, in their own units
    """

    image: Image
    values: NDArray[np.floating]
    step: int

    def thinned(self, maps: NDArray[Any]) -> NDArray[Any]:
        """(h, w, …) of (H, W, …)."""
        return maps[:: self.step, :: self.step]

    def words(self, scaling: str) -> NDArray[np.floating]:
        rows = self.values.reshape(-1, self.values.shape[2])
        return Scaling(scaling).fit(rows).apply(rows)

    def groups(self, documents: str) -> NDArray[np.int64]:
        return np.asarray(self.thinned(partition(documents, self.image)[0]).ravel())


def grid_of(found: Segmentation, step: int) -> Grid:
    """The features with which a picture was segmented."""
    image = found.images[0]
    return Grid(image, found.recipe.features.compute(image).values[::step, ::step], step)


def all_answers(
    found: Segmentation, step: int, documents: Sequence[str] = WINDOWS, small: bool = False
) -> tuple[list[Answer], Grid]:
    """PM-LDA's answer first, then those of its rivals at all settings, and the pixels that they are about.

    documents : those that LDA may choose from
    """
    grid = grid_of(found, step)
    n_topics = found.membership_maps[0].shape[2]
    ours = Answer("PM-LDA", f"documents: {found.settings.documents}", grid.thinned(found.membership_maps[0]))
    return [ours, papers_fcm(grid, n_topics), *rivals(grid, n_topics, documents, small)], grid


def rivals(grid: Grid, n_topics: int, documents: Sequence[str] = WINDOWS, small: bool = False) -> Iterator[Answer]:
    """Fuzzy c-means, visual-word LDA and Gaussian mixtures at every setting; small tries one of each."""
    shape = (*grid.values.shape[:2], n_topics)
    scalings = KINDS[:1] if small else KINDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a setting that is as poor as that, others are better
        for scaling in scalings:
            words = grid.words(scaling)
            centres = None
            for m in FUZZIFIERS[1:2] if small else FUZZIFIERS:
                # Four starts for the first; every other begins where the one before it ended.
                fuzzy = make_peer("fcm", n_topics, fuzzifier=m, init=centres).fit(words)
                centres = fuzzy.topic_means_
                yield Answer("FCM", f"m = {m:g}, features: {scaling}", fuzzy.memberships_.reshape(shape))
        words = grid.words("standard")
        for covariance in COVARIANCES[:1] if small else COVARIANCES:
            maps = make_peer("gmm", n_topics, covariance=covariance, n_init=2).fit(words).memberships_
            yield Answer("GMM", f"covariance: {covariance}", maps.reshape(shape))
        groups = {name: grid.groups(name) for name in (documents[1:2] if small else documents)}
        sizes = DICTIONARIES[:1] if small else DICTIONARIES
        for scaling, (name, each), size in product(scalings, groups.items(), sizes):
            maps = make_peer("lda", n_topics, dictionary=size).fit(grid.words(scaling), groups=each).memberships_
            yield Answer("LDA", f"documents: {name}, words: {size}, features: {scaling}", maps.reshape(shape))


def papers_fcm(grid: Grid, n_topics: int) -> Answer:
    """Fuzzy c-means as the paper has it: m = 1.5, features in their own units."""
    maps = make_peer("fcm", n_topics, fuzzifier=PAPER_FUZZIFIER).fit(grid.words("none")).memberships_
    setting = f"m = {PAPER_FUZZIFIER:g}, features: none"
    return Answer("FCM, paper", setting, maps.reshape(*grid.values.shape[:2], n_topics))


def best_of(answers: list[Answer], loss: Callable[[Maps], float]) -> dict[str, Answer]:
    """Model → its answer of least loss."""
    best: dict[str, tuple[float, Answer]] = {}
    for answer in answers:
        value = loss(answer.maps)
        if answer.model not in best or value < best[answer.model][0]:
            best[answer.model] = value, answer
    return {model: answer for model, (_, answer) in best.items()}


def errors_of(best: dict[str, Answer], truth: Maps) -> dict[str, Any]:
    """A row of a table: each model's membership error, and whether PM-LDA's is the least."""
    errors = {model: membership_rmse(best[model].maps, truth) for model in MODELS}
    row: dict[str, Any] = {model: round(error, 4) for model, error in errors.items()}
    row[NOTHING] = round(membership_rmse(np.full_like(truth, 1.0 / truth.shape[2]), truth), 4)
    return row | {"PM-LDA is best": min(errors, key=lambda model: errors[model]) == "PM-LDA"}


def told(rows: list[dict[str, Any]], scenes: str) -> str:
    """One sentence on rows of errors_of."""
    means = {model: float(np.mean([row[model] for row in rows])) for model in (*MODELS, NOTHING)}
    rival = min(MODELS[1:], key=lambda model: means[model])
    wins = sum(row["PM-LDA is best"] for row in rows)
    return (
        f"PM-LDA's membership error is below that of every rival on {wins} of {len(rows)} {scenes}: "
        f"{means['PM-LDA']:.3f} on average; the best rival is {rival} with {means[rival]:.3f}. The paper's fuzzy "
        f"c-means has {means['FCM, paper']:.3f}, LDA {means['LDA']:.3f}, the same share of everything everywhere "
        f"{means[NOTHING]:.3f}."
    )


def full_size(maps: NDArray[Any], step: int, shape: tuple[int, int]) -> NDArray[Any]:
    """(H, W, …) each pixel of the grid as a square of step × step."""
    return np.repeat(np.repeat(maps, step, axis=0), step, axis=1)[: shape[0], : shape[1]]
