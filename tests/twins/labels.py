"""What a label says of memberships, straight from p(label | z) = Π_k z_k^counts[k] · (Σ_k any_of[k] z_k)^strength.

Twins multiply it into every density as one more factor, where kernels join what they can to Dirichlet priors.
"""

import numpy as np
from scipy.special import digamma, logsumexp, polygamma

from pmlda.types import FloatArray, Labels


def row_of(labels: Labels, n: int) -> int:
    """The label of a word or a document; the empty one where there are no labels at all."""
    return int(labels.row[n]) if len(labels.row) else 0


def log_label(labels: Labels, row: int, log_z: FloatArray) -> FloatArray:
    """ln p(label | z) for ln z (…, K)."""
    value = (labels.counts[row] * log_z).sum(axis=-1)
    if labels.strength[row] > 0.0:
        value = value + labels.strength[row] * logsumexp(log_z[..., labels.any_of[row] == 1.0], axis=-1)
    return np.asarray(value)


def expected_label(labels: Labels, row: int, gamma: FloatArray) -> FloatArray:
    """(N,) E[ln p(label | z)] under Dir(γ_n): a sum of Dirichlet memberships is Beta(its γ, the other γ)."""
    of_all = digamma(gamma.sum(axis=1))
    value = (digamma(gamma) - of_all[:, None]) @ labels.counts[row]
    if labels.strength[row] > 0.0:
        value += labels.strength[row] * (digamma(gamma @ labels.any_of[row]) - of_all)
    return np.asarray(value)


def label_slopes(labels: Labels, row: int, gamma: FloatArray) -> FloatArray:
    """(N, K) slopes of expected_label along γ."""
    of_all = polygamma(1, gamma.sum(axis=1, keepdims=True))
    counts = labels.counts[row]
    slopes = counts * polygamma(1, gamma) - counts.sum() * of_all
    if labels.strength[row] > 0.0:
        inside = polygamma(1, (gamma @ labels.any_of[row])[:, None])
        slopes += labels.strength[row] * (labels.any_of[row] * inside - of_all)
    return np.asarray(slopes)
