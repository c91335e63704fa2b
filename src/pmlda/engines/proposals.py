"""Where the candidates of engine "gibbs" come from: a distribution for every word, learnt while warming up."""

from typing import NamedTuple

import numpy as np

from pmlda.engines import gibbs_tuning
from pmlda.storage.archive import register
from pmlda.types import FloatArray


@register
class Proposals(NamedTuple):
    """The distributions q_n that make candidates, and what they are learnt from. Updated in place.

    shapes, rates : (N, K) of the gamma variables behind each candidate; rates of one are a Dirichlet distribution
    seen : (2, N, K) sums of memberships and of their squares since the last time
    """

    shapes: FloatArray
    rates: FloatArray
    seen: FloatArray


def make_proposals(gamma: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shapes and rates of candidates for words whose memberships are about Dir(gamma), in documents with a = sπ.

    gamma, a : (N, K)
    """
    # Where the data suppress a membership, its prior's shape with a smaller scale; elsewhere Dir(gamma) itself.
    shapes = np.maximum(gamma, 0.8 * np.maximum(a, 1e-3))
    return shapes, shapes / gamma


def learn_proposals(proposals: Proposals, z: FloatArray, a: FloatArray, sweep: int, warm_up: int) -> None:
    """Note where memberships are, and at certain times of the warm-up make candidates there, in place.

    The variational fit, from which chains start, may have topics far from where the posterior has them. Candidates are
    a little wider than what was seen, and never much narrower than before: a word that has not moved yet tells nothing.

    z, a : (N, K) memberships, and sπ of each word's document
    """
    times = [0, *(int(part * warm_up) for part in gibbs_tuning.LEARNING_TIMES)]
    total, squares = proposals.seen
    if sweep in times[1:] and (n := sweep - times[times.index(sweep) - 1]) >= gibbs_tuning.LEAST_LEARNT_FROM:
        mean = total / n
        variance = np.maximum(squares / n - mean * mean, 0.0).sum(axis=1)
        evenness = (mean * (1.0 - mean)).sum(axis=1)
        before = (proposals.shapes / proposals.rates).sum(axis=1)
        concentration = np.minimum(0.8 * (evenness / np.maximum(variance, 1e-300) - 1.0), 1.25 * before)
        gamma = np.maximum(np.maximum(concentration, 0.5)[:, None] * mean, 1e-8)
        proposals.shapes[:], proposals.rates[:] = make_proposals(gamma, a)
    if sweep in times:
        proposals.seen[:] = 0.0
    total += z
    squares += z**2
