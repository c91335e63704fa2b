"""Small problems with proper priors, one for each family: large enough to see a sampler go wrong, and quick."""

from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from pmlda.families import (
    AdditivePoisson,
    Bernoulli,
    Categorical,
    DiagonalNoise,
    Family,
    FullNoise,
    Gamma,
    Gaussian,
    IsotropicNoise,
    NormalMeans,
    Poisson,
    TopicDiagonalGaussian,
    TopicFullGaussian,
)
from pmlda.model import draw_labels, simulate
from pmlda.types import Documents, FloatArray, Latents, Topics


class Observer(NamedTuple):
    """Somebody who labels, as model.draw_labels has it."""

    strength: int = 3
    told: float = 0.6
    vague: float = 0.4


class Problem(NamedTuple):
    """A family with its prior, and the shape of a corpus; who labels its words and its documents, if somebody does."""

    family: Family
    sizes: tuple[int, ...] = (3, 2)
    n_topics: int = 2
    alpha: tuple[float, ...] = (1.5, 1.5)
    scale_rate: float = 0.5
    of_words: Observer | None = None
    of_documents: Observer | None = None

    def labelled(self) -> "Problem":
        """The same problem with labels of words and of documents."""
        return self._replace(of_words=Observer(), of_documents=Observer())


def means(p: int) -> NormalMeans:
    """Means with a proper prior; their proposals are left to the data, as in real use."""
    return NormalMeans(mean=np.zeros(p), covariance=4.0 * np.eye(p))


def bounded_means() -> NormalMeans:
    """Correlated means in a box that holds a sixth of their prior, with one side open."""
    return NormalMeans(
        mean=np.array([0.5, 0.0]),
        covariance=np.array([[4.0, 2.0], [2.0, 3.0]]),
        low=np.array([-0.6, -np.inf]),
        high=np.array([0.5, 0.8]),
    )


def known_means(*rows: str, box: bool = False) -> NormalMeans:
    """Means of which some are known: "exact", "roughly", or "free"."""
    nothing = np.full(2, np.nan)
    known = {"exact": ([-0.5, 0.5], 0.0), "roughly": ([0.2, -0.8], [0.6, 0.9]), "free": (nothing, 0.0)}
    means = NormalMeans(
        known=np.array([known[row][0] for row in rows]),
        known_spread=np.array([np.broadcast_to(known[row][1], 2) for row in rows]),
        mean=np.zeros(2),
        covariance=np.array([[4.0, 1.0], [1.0, 3.0]]),
    )
    return replace(means, low=np.array([-0.6, -np.inf]), high=np.array([0.5, 0.8])) if box else means


def with_means(problem: "Problem", kind: type[NormalMeans]) -> "Problem":
    """The same problem with means of another kind."""
    settings = {field.name: getattr(problem.family.means, field.name) for field in fields(NormalMeans)}
    return problem._replace(family=replace(problem.family, means=kind(**settings)))


PROBLEMS = {
    "gaussian isotropic": Problem(Gaussian(IsotropicNoise(np.array(4.0)), means(2))),
    "gaussian diagonal": Problem(Gaussian(DiagonalNoise(np.array([4.0, 2.0])), means(2))),
    "gaussian full": Problem(Gaussian(FullNoise(5.0, np.array([[2.0, 0.5], [0.5, 1.0]])), means(2))),
    "gaussian bounded": Problem(Gaussian(DiagonalNoise(np.array([4.0, 2.0])), bounded_means())),
    "gaussian per topic, diagonal": Problem(TopicDiagonalGaussian(3.0, np.array([2.0, 1.0]), means(2))),
    "gaussian per topic, full": Problem(TopicFullGaussian(6.0, np.array([[2.0, 0.5], [0.5, 1.0]]), means(2))),
    "poisson": Problem(Poisson(2.0, np.array([0.5, 1.0]))),
    "additive poisson": Problem(AdditivePoisson(2.0, np.array([0.5, 1.0]))),
    "bernoulli": Problem(Bernoulli(1.5, 1.0, 3)),
    "gamma": Problem(Gamma(2.0, 3.0, np.array([2.0, 1.0]))),
    "categorical": Problem(Categorical(0.8, 4)),
}


THREE = {"n_topics": 3, "alpha": (1.5, 1.5, 1.5)}
KNOWN = {
    "known": Problem(Gaussian(IsotropicNoise(np.array(4.0)), known_means("roughly", "free", "exact")), **THREE),
    "known, full": Problem(
        Gaussian(FullNoise(5.0, np.array([[2.0, 0.5], [0.5, 1.0]])), known_means("roughly", "free", "exact")), **THREE
    ),
    "known, bounded": Problem(
        Gaussian(DiagonalNoise(np.array([4.0, 2.0])), known_means("roughly", "free", "exact", box=True)), **THREE
    ),
    "known, per topic": Problem(
        TopicDiagonalGaussian(3.0, np.array([2.0, 1.0]), known_means("roughly", "free", "exact")), **THREE
    ),
}
"""Problems with a topic that is roughly known, one that is free, and one that is known exactly."""


def draw_all(rng: np.random.Generator, problem: Problem) -> tuple[Topics, Documents, Latents]:
    """Topics, documents with their labels and what is hidden, all from the prior."""
    topics = problem.family.draw_topics(rng, problem.n_topics)
    words, document, latents = simulate(
        rng, problem.family, topics, problem.sizes, alpha=problem.alpha, scale_rate=problem.scale_rate
    )
    starts = np.concatenate([[0], np.cumsum(problem.sizes)])
    documents = Documents(words, document, starts, np.arange(len(problem.sizes)), np.arange(len(words)))
    return topics, observe(rng, problem, documents, latents), latents


def observe(rng: np.random.Generator, problem: Problem, documents: Documents, latents: Latents) -> Documents:
    """Documents with fresh labels, given what is hidden."""
    if problem.of_words is not None:
        documents = documents._replace(told=draw_labels(rng, latents.memberships, *problem.of_words))
    if problem.of_documents is not None:
        proportions = np.exp(latents.log_proportions)
        documents = documents._replace(told_documents=draw_labels(rng, proportions, *problem.of_documents))
    return documents


def random_corpus(
    family: Family, topics: Topics, sizes: list[int], seed: int = 0, **settings: float
) -> tuple[FloatArray, np.ndarray, Latents]:
    """Words, the document of each, and what is hidden."""
    return simulate(np.random.default_rng(seed), family, topics, sizes, **settings)


def triangle(side: float = 8.0, variance: float = 1.0) -> Topics:
    """Three well-separated Gaussian topics in three dimensions."""
    return Topics(side * np.eye(3), np.array(variance))
