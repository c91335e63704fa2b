"""One picture's features → what every rival of PM-LDA makes of them, each at several settings.

An experiment takes the best setting of each rival, chosen with the truth, which no user has: rivals are shown at their
best, PM-LDA at one setting.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pmlda.features.scaling import KINDS, Scaling
from pmlda.partitions import partition
from pmlda.peers import make_peer
from pmlda.segmentation import Segmentation
from pmlda.types import Image

FUZZIFIERS = (1.5, 2.0, 2.25, 2.5, 2.75, 3.0)
COVARIANCES = ("full", "tied", "diag", "spherical")
WINDOWS = (64, 32, 16)
PAPER_FUZZIFIER = 1.5
# Where ten sweeps change LDA's perplexity, some tens, by less than this, its maps hardly change any more.
LDA_TOL = 0.1

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
    return Grid(image, found.chain.features.compute(image).values[::step, ::step], step)


def rivals(grid: Grid, n_topics: int, small: bool = False) -> Iterator[Answer]:
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
        for size in WINDOWS[1:2] if small else WINDOWS:
            model = make_peer("lda", n_topics, dictionary=100, n_init=1, tol=LDA_TOL)
            maps = model.fit(words, groups=grid.groups(f"windows:{size}")).memberships_
            yield Answer("LDA", f"documents: windows:{size}", maps.reshape(shape))


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


def full_size(maps: NDArray[Any], step: int, shape: tuple[int, int]) -> NDArray[Any]:
    """(H, W, …) each pixel of the grid as a square of step × step."""
    return np.repeat(np.repeat(maps, step, axis=0), step, axis=1)[: shape[0], : shape[1]]
