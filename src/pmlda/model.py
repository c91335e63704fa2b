"""PM-LDA once, in plain NumPy: simulate() and log_joint(), the truth that all tests use.

π^d ~ Dir(α),  s^d ~ Exp(λ),  z_n ~ Dir(s^d π^d),  x_n ~ ExpFam(Σ_k z_nk η_k)

Somebody who knows some memberships has observed them: p(label_n | z_n) = Π_k z_nk^counts · (Σ_k any_of z_nk)^strength.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from pmlda.families.base import Family
from pmlda.types import FloatArray, IntArray, Labels, Latents, Topics


def simulate(
    rng: np.random.Generator,
    family: Family,
    topics: Topics,
    sizes: ArrayLike,
    *,
    alpha: ArrayLike = 1.0,
    scale_rate: float = 0.5,
    scales: ArrayLike | None = None,
    proportions: ArrayLike | None = None,
) -> tuple[FloatArray, IntArray, Latents]:
    """Draw documents of the given sizes: words (N, p), the document of each word (N,), and what is hidden.

    scales (D,) and proportions (D, K), or one value for all documents, are drawn from their priors by default.

    >>> from pmlda.families import Gaussian
    >>> topics = Topics(np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]), np.array(1.0))
    >>> words, document, latents = simulate(np.random.default_rng(0), Gaussian(), topics, [200, 300])
    >>> words.shape, latents.memberships.shape, bool(np.allclose(latents.memberships.sum(axis=1), 1))
    ((500, 2), (500, 3), True)
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    n_documents, n_topics = len(sizes), len(topics.means)
    document = np.repeat(np.arange(n_documents), sizes)
    if proportions is None:
        log_pi = draw_log_dirichlet(rng, np.broadcast_to(np.asarray(alpha, float), (n_documents, n_topics)))
    else:
        log_pi = np.log(np.broadcast_to(np.asarray(proportions, float), (n_documents, n_topics)))
    if scales is None:
        s = rng.exponential(1.0 / scale_rate, n_documents)
    else:
        s = np.broadcast_to(np.asarray(scales, float), (n_documents,)).copy()
    log_z = draw_log_dirichlet(rng, (s[:, None] * np.exp(log_pi))[document])
    latents = Latents(np.exp(log_z), log_z, np.array(log_pi), s)
    return draw_words(rng, family, topics, latents.memberships), document, latents


def draw_words(rng: np.random.Generator, family: Family, topics: Topics, memberships: FloatArray) -> FloatArray:
    """(N, p) words x_n ~ ExpFam(Σ_k z_nk η_k)."""
    return family.draw_words(rng, memberships @ family.natural(topics), topics)


def draw_log_dirichlet(rng: np.random.Generator, concentration: FloatArray) -> FloatArray:
    """ln of Dirichlet draws, one for each row of concentration; exact however small the concentration.

    A gamma draw of shape a is one of shape a + 1 times u^{1/a}; in logarithms nothing underflows.
    """
    a = np.maximum(concentration, 1e-300)
    log_g = np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential(a.shape) / a
    return np.asarray(log_g - logsumexp(log_g, axis=-1, keepdims=True))


def log_dirichlet(
    log_x: FloatArray, concentration: FloatArray, log_concentration: FloatArray | None = None
) -> FloatArray:
    """ln Dir(x; concentration), one value per row."""
    a = concentration
    log_a = np.log(a) if log_concentration is None else log_concentration
    # Below 1e-10, ln Γ(a) is −ln a to machine precision; the logarithm is known even where a itself underflowed.
    log_gamma = np.where(log_a > -23.0, gammaln(np.maximum(a, 1e-300)), -log_a)
    return np.asarray(gammaln(a.sum(axis=-1)) - log_gamma.sum(axis=-1) + ((a - 1.0) * log_x).sum(axis=-1))


def log_labels(labels: Labels, log_memberships: FloatArray) -> FloatArray:
    """(N,) ln p(label_n | z_n), from ln z (N, K); or of documents, from ln π (D, K).

    >>> half = Labels(np.array([1]), np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2)), np.zeros(2))
    >>> np.exp(log_labels(half, np.log([[0.5, 0.5]]))).tolist()
    [0.25]
    """
    row = labels.row
    value = (labels.counts[row] * log_memberships).sum(axis=1)
    any_of = labels.strength[row] > 0.0
    chosen = row[any_of]
    inside = logsumexp(log_memberships[any_of], axis=1, b=labels.any_of[chosen])
    value[any_of] += labels.strength[chosen] * inside
    return np.asarray(value)


def draw_labels(
    rng: np.random.Generator, memberships: FloatArray, strength: int, told: float = 0.5, vague: float = 0.0
) -> Labels:
    """Labels as an observer gives them who draws topics from memberships (N, K), or from proportions (D, K).

    Of a share `told` of the rows something is said: how often each topic came in `strength` draws; of a part `vague` of
    these only how often one topic came, chosen at random: the other draws were one of the others.

    >>> labels = draw_labels(np.random.default_rng(0), np.array([[0.0, 1.0, 0.0]]), 4, told=1.0)
    >>> labels.counts[labels.row].tolist()
    [[0.0, 4.0, 0.0]]
    """
    n, n_topics = memberships.shape
    counts = rng.multinomial(strength, memberships / memberships.sum(axis=1, keepdims=True)).astype(np.float64)
    chosen = np.flatnonzero(rng.random(n) < told)
    is_one = np.eye(n_topics)[rng.integers(n_topics, size=n)]
    is_vague = rng.random(n) < vague
    counts[is_vague] *= is_one[is_vague]
    left = np.where(is_vague, strength - counts.sum(axis=1), 0.0)
    any_of = np.where((left > 0.0)[:, None], 1.0 - is_one, 0.0)
    row = np.zeros(n, np.int64)
    row[chosen] = 1 + np.arange(len(chosen))
    counts, any_of = (np.vstack([np.zeros((1, n_topics)), each[chosen]]) for each in (counts, any_of))
    return Labels(row, counts, any_of, np.append(0.0, left[chosen]))


def log_words(words: NDArray[np.floating], memberships: FloatArray, topics: Topics, family: Family) -> FloatArray:
    """(N,) ln p(x_n | z_n) = z·ℓ(x) − A(Σ z_k η_k) + ln h(x)."""
    mixed = memberships @ family.natural(topics)
    fit = (family.statistic(words) * mixed).sum(axis=1)
    return np.asarray(fit - family.partitions(words, mixed, topics) + family.log_base(words, topics))


def log_documents(
    words: NDArray[np.floating],
    document: IntArray,
    latents: Latents,
    topics: Topics,
    family: Family,
    alpha: ArrayLike,
    scale_rate: float,
) -> FloatArray:
    """(D,) the paper's log joint density of one document: π, s, its memberships and its words."""
    n_documents, n_topics = latents.log_proportions.shape
    alpha = np.broadcast_to(np.asarray(alpha, float), (n_topics,))
    pi = np.exp(latents.log_proportions)
    log_a = np.log(latents.scales)[:, None] + latents.log_proportions
    a = latents.scales[:, None] * pi
    per_word = log_words(words, latents.memberships, topics, family)
    per_word = per_word + log_dirichlet(latents.log_memberships, a[document], log_a[document])
    return np.asarray(
        log_dirichlet(latents.log_proportions, np.broadcast_to(alpha, pi.shape))
        + np.log(scale_rate)
        - scale_rate * latents.scales
        + np.bincount(document, per_word, minlength=n_documents)
    )


def log_joint(
    words: NDArray[np.floating],
    document: IntArray,
    latents: Latents,
    topics: Topics,
    family: Family,
    alpha: ArrayLike,
    scale_rate: float,
    told: Labels | None = None,
    told_documents: Labels | None = None,
) -> float:
    """ln p(topics, π, s, Z, X, labels): the paper's equation summed over documents, the prior of topics, and labels."""
    total = log_documents(words, document, latents, topics, family, alpha, scale_rate).sum()
    for labels, logs in ((told, latents.log_memberships), (told_documents, latents.log_proportions)):
        total += 0.0 if labels is None else log_labels(labels, logs).sum()
    return float(total + family.log_prior(topics).total)
