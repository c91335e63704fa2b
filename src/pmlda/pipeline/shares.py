"""Memberships of words that were projected → shares of what the topics stand for, with their standard deviations.

A projection keeps straight lines straight, but not what is half-way: Σ wₖ mₖ / hₖ stands for shares aₖ ∝ wₖ / hₖ.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.parallel.threads import each_in_turn
from pmlda.types import FloatArray, IntArray

# A membership nearer to one has no deviation that could be told.
LEAST_REST = 1e-9
ROWS_AT_ONCE = 2**16


class Found(NamedTuple):
    """(N, K) memberships and their standard deviations, topics in the order of the maps."""

    memberships: NDArray[np.floating]
    std: NDArray[np.floating]

    def for_maps(self, order: IntArray, weights: FloatArray | None, n_jobs: int | None) -> "Found":
        """In the order of the maps, as shares; these arrays are overwritten, some rows at a time.

        order : (K,) topic j of the maps is topic order[j] here
        """

        def of_rows(rows: slice) -> None:
            self.memberships[rows], self.std[rows] = Found(
                self.memberships[rows][:, order], self.std[rows][:, order]
            ).as_shares(weights)

        if weights is not None or (order != np.arange(len(order))).any():
            starts = range(0, len(self.std), ROWS_AT_ONCE)
            each_in_turn(of_rows, [slice(first, first + ROWS_AT_ONCE) for first in starts], n_jobs)
        return self

    def as_shares(self, weights: FloatArray | None) -> "Found":
        """The same in shares. weights : (K,) f, see Recipe.share_weights"""
        if weights is None:
            return self
        shares = to_shares(self.memberships, weights)
        return Found(shares, share_std(self.memberships, self.std, shares, weights))


def to_shares(memberships: NDArray[Any], weights: FloatArray | None) -> NDArray[Any]:
    """(N, K) shares aₖ ∝ fₖ wₖ.

    >>> to_shares(np.array([[0.5, 0.5]]), np.array([3.0, 1.0])).tolist()
    [[0.75, 0.25]]
    """
    if weights is None:
        return memberships
    weighted = memberships * weights.astype(memberships.dtype)
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))


def share_std(
    memberships: NDArray[np.floating], std: NDArray[np.floating], shares: NDArray[np.floating], weights: FloatArray
) -> NDArray[np.floating]:
    """(N, K) standard deviations of shares by the delta method.

    daₖ = (fₖ dwₖ − aₖ Σ fⱼ dwⱼ) / Σ fⱼ wⱼ, where memberships w are as correlated as those of a Dirichlet distribution,
    −vᵢ vⱼ with vᵢ² = wᵢ / (1 − wᵢ), so that sums over pairs are squares of sums.

    >>> w, std = np.array([[0.5, 0.5]]), np.array([[0.1, 0.1]])
    >>> share_std(w, std, to_shares(w, np.array([3.0, 1.0])), np.array([3.0, 1.0])).round(4).tolist()
    [[0.075, 0.075]]
    """
    w, a, f = memberships.astype(np.float64), shares.astype(np.float64), weights
    rest = np.maximum(1.0 - w, LEAST_REST)
    own, paired = std**2 / rest * f**2, std * np.sqrt(w / rest) * f
    variance = (1.0 - 2.0 * a) * own + a**2 * own.sum(axis=1, keepdims=True)
    variance -= (paired - a * paired.sum(axis=1, keepdims=True)) ** 2
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / (w @ f)[:, None], dtype=std.dtype)
