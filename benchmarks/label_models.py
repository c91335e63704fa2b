"""What benchmarks/labels.py compares: PM-LDA with labels and without, and rivals that learn from the same strokes.

Rivals are shown at the best of several settings, chosen with the truth, which no user has; PM-LDA at its defaults.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter
from skimage.segmentation import random_walker
from sklearn.ensemble import RandomForestClassifier

from pmlda import PMLDA, segment
from pmlda.evaluation.robot import told_shares
from pmlda.features import find_features
from pmlda.features.automatic import complete_features, complete_settings
from pmlda.features.scaling import Scaling
from pmlda.images import read_image
from pmlda.metrics import match_topics
from pmlda.pipeline.api import apply
from pmlda.settings import Settings

TREES, LEAVES = 300, (1, 5, 20)
# Sides of the windows over which maps of a forest, which knows nothing of neighbours, are averaged.
AVERAGED = (1, 5, 11)
BETAS = (10.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
# The rate of the prior of s under which topics are fixed at what the strokes cover.
FIXED_RATE = 2.0


class Problem(NamedTuple):
    """A picture (H, W) or (H, W, bands), and the strokes of a user who has looked at it."""

    picture: np.ndarray
    n_topics: int
    strokes: list
    features: str = "auto"
    documents: Any = "auto"
    seed: int = 0

    @property
    def told(self):
        """(H, W, K) what the strokes say of each pixel, NaN where they say nothing."""
        return told_shares(self.strokes, self.picture.shape[:2], self.n_topics)

    @property
    def bands(self):
        """(H, W, bands) between 0 and 1."""
        return self.picture.reshape(*self.picture.shape[:2], -1) / float(self.picture.max())

    def options(self):
        return {"features": self.features, "documents": self.documents, "random_state": self.seed}


def rmse(maps, truth, mask=None):
    """Error of maps whose topics are numbered as the truth is."""
    squares = (np.asarray(maps) - truth) ** 2
    return float(np.sqrt((squares if mask is None else squares[mask]).mean()))


# ── PM-LDA ────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_labels(problem, truth=None, **settings):
    """(H, W, K) memberships, where the strokes are labels."""
    found = segment(problem.picture, problem.n_topics, labels=problem.strokes, **problem.options(), **settings)
    return np.asarray(found.memberships)


def without_labels(problem, truth):
    """(H, W, K) memberships in topics of which nothing was said, numbered as the truth is."""
    maps = np.asarray(segment(problem.picture, problem.n_topics, **problem.options()).memberships)
    return maps[..., match_topics(maps, truth)]


def at_stroke_means(problem, truth=None):
    """(H, W, K) memberships in topics that are fixed at the mean of the words under their strokes."""
    settings = {"refits": 0, "scale_rate": FIXED_RATE, "design_effect": 1}
    start = segment(problem.picture, problem.n_topics, **problem.options(), **settings)
    recipe, image = start.recipe, start.images[0]
    words = recipe.scaling.apply(recipe.features.compute(image).values[image.valid])
    told = problem.told[image.valid]
    means = np.stack([words[told[:, k] == 1.0].mean(axis=0) for k in range(problem.n_topics)])
    model = PMLDA(**recipe.model.get_params()).set_params(fixed={"topics": means}, topic_bounds=None)
    model.fit(words, groups=start.document_maps[0][image.valid])
    return np.asarray(apply(recipe._replace(model=model, order=np.arange(problem.n_topics)), image).memberships)


# ── rivals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def words_of(problem):
    """(H, W, p) the words that PM-LDA has: the same features in the same units."""
    image, settings = read_image(problem.picture), Settings(topics=problem.n_topics)
    features = find_features(complete_features(problem.features, image.pixels.shape[2], settings))
    values = features.fit_compute(image).values
    rows = values.reshape(-1, values.shape[2])
    words = Scaling(complete_settings(settings, features).scaling).fit(rows).apply(rows)
    return words.reshape(*values.shape[:2], -1)


def forest(problem, truth, averaged=(1,)):
    """(H, W, K) the best maps of random forests: probabilities as shares."""
    words = words_of(problem)
    answers = (planted(words, problem.told, words, leaf, problem.seed) for leaf in LEAVES)
    return best(truth, (window_means(maps, side) for maps in answers for side in averaged))


def averaged_forest(problem, truth):
    """(H, W, K) the best maps of random forests, averaged over windows or not."""
    return forest(problem, truth, AVERAGED)


def planted(words, told, wanted, leaf, seed):
    """(…, K) shares of the words wanted (…, p), by a forest that learnt what was told (…, K) of words (…, p).

    A pixel that was told to be half of one topic and half of another counts as half a pixel of each.
    """
    known = np.isfinite(told).all(axis=-1)
    row, topic = np.nonzero(told[known])
    model = RandomForestClassifier(TREES, min_samples_leaf=leaf, random_state=seed, n_jobs=-1)
    model.fit(words[known][row], topic, sample_weight=told[known][row, topic])
    found = np.zeros((*wanted.shape[:-1], told.shape[-1]))
    rows = model.predict_proba(wanted.reshape(-1, wanted.shape[-1]))
    found[..., model.classes_] = rows.reshape(*wanted.shape[:-1], -1)
    return found


def window_means(maps, side):
    return uniform_filter(maps, (side, side, 1), mode="nearest")


def walker(problem, truth):
    """(H, W, K) the best maps of random walks, on the bands and on the features."""
    return best(
        truth, (walked(data, problem.told, beta) for data in (problem.bands, words_of(problem)) for beta in BETAS)
    )


def walked(data, told, beta):
    """(H, W, K) with what probability a walk from each pixel first comes to a pixel of each topic.

    Only pixels that were told to be all of one topic are seeds: a walk has no use for others.
    """
    seeds = np.where((told == 1.0).any(axis=2), np.nan_to_num(told).argmax(axis=2) + 1, 0)
    given = np.unique(seeds[seeds > 0])
    # Solved exactly: the solver by conjugate gradients is slower here, and gives up where beta is large.
    found = random_walker(
        np.asarray(data, np.float64), seeds, beta=beta, mode="bf", channel_axis=-1, return_full_prob=True
    )
    maps = np.zeros(told.shape)
    maps[..., given - 1] = np.moveaxis(found, 0, -1)
    return maps


def best(truth, answers):
    return min(answers, key=lambda maps: rmse(maps, truth))


MODELS = {
    "labels": with_labels,
    "no labels": without_labels,
    "fixed topics": at_stroke_means,
    "forest": forest,
    "forest, averaged": averaged_forest,
    "walker": walker,
}
