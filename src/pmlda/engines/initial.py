"""Where a chain starts: words → topics near the extremes of the data, and memberships that fit them.

Topics are the corners that words mix, not the centres of clusters, so the starting means are the small clusters that
lie farthest apart.
"""

import warnings
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pmlda.engines.labels import means_from_labels
from pmlda.engines.parameters import Checked
from pmlda.engines.posterior import draw_nodes, weigh_words
from pmlda.families.base import Family
from pmlda.families.rows import count_distinct
from pmlda.families.sparse import as_floats
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, FloatArray, Latents, Topics

SAMPLE_WORDS = 5_000
SPREAD_WORDS, SPREAD_PASSES = 4_000, 20
SAMPLE_NODES = 1024
# Filters of warnings belong to the process: threads that change them at the same time would leave them changed.
_LOCK = Lock()


def start_means(rng: np.random.Generator, documents: Documents, family: Family, n_topics: int) -> FloatArray:
    """(K, p) means: K of the small clusters of a sample of the words, each as far as possible from those before it.

    Known means come before all others.
    """
    from sklearn.cluster import KMeans  # late, because it alone is a tenth of the time to import pmlda
    from sklearn.exceptions import ConvergenceWarning

    points = family.starting_points(rng, documents, SAMPLE_WORDS)
    scale = family.feature_scale(points)
    n_small = min(count_distinct(points, 3 * n_topics), 3 * n_topics)
    if n_small < n_topics:  # fewer different documents than topics: start from the prior
        return family.draw_topics(rng, n_topics).means
    # One OpenMP thread: k-means adds in the order in which its threads finish, and cannot be used after a fork.
    with _LOCK, threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        # Rows that differ by less than k-means can see make fewer clusters, which is fine here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = KMeans(n_small, n_init=1, random_state=int(rng.integers(2**31))).fit(points / scale)
    centres = clusters.cluster_centers_
    weights = np.bincount(clusters.labels_, minlength=n_small)
    # A cluster of a few stray words is no topic, unless there is nothing else to choose from.
    solid = np.argsort(-weights)[: max(n_topics, int((weights >= 0.25 * weights.mean()).sum()))]
    known = family.known_means
    if known is None:
        return farthest(centres[solid], centres[solid].mean(axis=0), n_topics) * scale
    free, means = np.isnan(known[:, 0]), known.copy()
    if free.any():
        means[free] = farthest(centres[solid], known[~free] / scale, int(free.sum())) * scale
    return means


def first_means(
    rng: np.random.Generator, checked: Checked, documents: Documents, family: Family, given: FloatArray | None
) -> FloatArray:
    """(K, p) means that the user gave, drawn from the prior, or found in the words, as was asked for.

    Labels number them, and move those that they have examples of, unless the user fixed them. Known topics start where
    they are known to be.
    """
    if given is not None and "topics" in checked.fixed_values:
        return family.nearest(given)  # which differ from those that were checked by rounding alone
    known = family.known_means
    if given is not None:
        means = given
    elif checked.init == "prior":
        means = family.draw_topics(rng, checked.n_topics).means
    else:
        means = start_means(rng, documents, family, checked.n_topics)
    means = means_from_labels(means, documents, family)
    return family.nearest(means if known is None or given is not None else np.where(np.isnan(known), means, known))


def farthest(points: FloatArray, first: FloatArray, n: int) -> FloatArray:
    """n of the points: always the farthest from those chosen before.

    first : (p,) a centre, which only the first is chosen by, or (m, p) points that were chosen before all

    >>> farthest(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([3.0]), 3).ravel().tolist()
    [9.0, 0.0, 2.0]
    >>> farthest(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([[8.0], [3.0]]), 2).ravel().tolist()
    [0.0, 1.0]
    """
    before = first if first.ndim == 2 else np.empty((0, len(first)))
    chosen: list[int] = []
    for _ in range(n):
        others = np.concatenate([before, points[chosen]]) if chosen or len(before) else first[None]
        gaps = ((points[:, None] - others) ** 2).sum(axis=2).min(axis=1)
        gaps[chosen] = -1.0
        chosen.append(int(np.argmax(gaps)))
    return points[chosen]


def start_spread(
    rng: np.random.Generator, words: NDArray[np.floating], family: Family, means: FloatArray, part: float
) -> Topics:
    """Topics with these means, and part of the spread they would have if every word belonged to all of them alike.

    A small part holds topics where they start, all of it lets them go: starts of both kinds compete.
    """
    rows = np.sort(rng.choice(len(words), min(len(words), SPREAD_WORDS), replace=False))
    even = np.full((len(rows), len(means)), 1.0 / len(means))
    topics = family.estimate(as_floats(words[rows]), even, means)
    return topics._replace(spread=part * topics.spread)


def start_topics(rng: np.random.Generator, words: NDArray[np.floating], family: Family, means: FloatArray) -> Topics:
    """Topics with these means, and a spread that fits words spread evenly between them."""
    rows = np.sort(rng.choice(len(words), min(len(words), SPREAD_WORDS), replace=False))
    sample = as_floats(words[rows])
    even = np.full((len(sample), len(means)), 1.0 / len(means))
    topics = family.estimate(sample, even, means)
    with Workers(1) as workers:
        for _ in range(SPREAD_PASSES):  # each finds smaller residuals, so a smaller spread
            topics = family.estimate(sample, even_prior(rng, sample, family, topics, workers), topics.means)
    return topics


def even_prior(
    rng: np.random.Generator, words: NDArray[np.floating], family: Family, topics: Topics, workers: Workers
) -> FloatArray:
    """(N, K) memberships under a uniform prior."""
    n_topics = len(topics.means)
    nodes = draw_nodes(
        rng, np.full((1, n_topics), 1.0 / n_topics), np.full(1, float(n_topics)), np.ones(1, np.int64), SAMPLE_NODES
    )
    return weigh_words(words, topics, family, nodes, workers).memberships


def start_latents(
    rng: np.random.Generator, documents: Documents, family: Family, topics: Topics, scale_rate: float, workers: Workers
) -> Latents:
    """Memberships under a uniform prior, proportions their averages, scales at their prior mean."""
    z = np.maximum(even_prior(rng, documents.words, family, topics, workers), 1e-6)
    if documents.told is not None:
        z += documents.told.counts[documents.told.row]
    z /= z.sum(axis=1, keepdims=True)
    proportions = np.add.reduceat(z, documents.starts[:-1], axis=0) / documents.sizes[:, None]
    scales = np.full(len(documents.sizes), 1.0 / scale_rate)
    return Latents(z, np.log(z), np.log(proportions), scales)
