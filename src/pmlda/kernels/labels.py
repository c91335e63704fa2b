"""Labels: what somebody said of a membership, or of proportions, multiplies their density.

p(label | z) = Π_k z_k^counts[k] · (Σ_k any_of[k] z_k)^strength. The first factor joins the Dirichlet prior, whose
parameters it raises; the second, which only labels that say "one of these" have, stays apart.
"""

import math

import numpy as np

from pmlda.kernels.arguments import LabelledPrior
from pmlda.kernels.jit import inner
from pmlda.types import FloatArray, Labels


@inner
def labelled_prior(concentration: FloatArray, labels: Labels, row: int) -> LabelledPrior:
    """Dir(concentration) with a label."""
    own = np.empty(len(concentration))
    for k in range(len(own)):
        own[k] = concentration[k] + labels.counts[row, k]
    return LabelledPrior(own, labels.any_of[row], labels.strength[row])


@inner
def row_of(labels: Labels, n: int) -> int:
    """The label of a word or a document; 0 if there are no labels at all."""
    return labels.row[n] if len(labels.row) > 0 else 0


@inner
def log_any_of(any_of: FloatArray, log_z: FloatArray) -> float:
    """ln Σ_k any_of[k] z_k, from ln z (K,)."""
    top = -np.inf
    for k in range(len(any_of)):
        if any_of[k] > 0.0:
            top = max(top, log_z[k])
    total = 0.0
    for k in range(len(any_of)):
        if any_of[k] > 0.0:
            total += math.exp(log_z[k] - top)
    return top + math.log(total)


@inner
def log_label(labels: Labels, row: int, log_z: FloatArray) -> float:
    """ln p(label | z), from ln z (K,)."""
    value = 0.0
    for k in range(len(log_z)):
        value += labels.counts[row, k] * log_z[k]
    if labels.strength[row] > 0.0:
        value += labels.strength[row] * log_any_of(labels.any_of[row], log_z)
    return value


@inner
def add_any_of(prior: LabelledPrior, log_z: FloatArray, n_words: int, sign: float, out: FloatArray) -> None:
    """out[j] += sign · strength · ln Σ_k any_of[k] z_k, for a block of words with ln z (K, B)."""
    if prior.strength > 0.0:
        for j in range(n_words):
            out[j] += sign * prior.strength * log_any_of(prior.any_of, log_z[:, j])
