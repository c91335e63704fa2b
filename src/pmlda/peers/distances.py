"""Words and centres → squared distances, of which the small ones keep their digits, and the nearest centre."""

from collections.abc import Iterator

import numpy as np

from pmlda.types import FloatArray, IntArray

# Words are taken in blocks that stay in the processor's cache.
BLOCK = 4096
# ‖x‖² − 2x·c + ‖c‖² loses digits where a word is near a centre; below this share of ‖x‖² + ‖c‖² it is done again.
CANCELLED = 1e-4


def blocks(n_words: int) -> Iterator[slice]:
    """Slices of at most BLOCK words.

    >>> [at.stop for at in blocks(5000)]
    [4096, 8192]
    """
    return (slice(first, first + BLOCK) for first in range(0, n_words, BLOCK))


def squared_lengths(words: FloatArray) -> FloatArray:
    """(N,) ‖x‖²."""
    return np.asarray(np.einsum("np,np->n", words, words))


def squared_distances(words: FloatArray, lengths: FloatArray, centres: FloatArray) -> FloatArray:
    """(K, N) squared distances: one matrix product, and those that are small again, from differences."""
    sizes = lengths + squared_lengths(centres)[:, None]
    d2 = sizes - 2.0 * (centres @ words.T)
    k, n = np.nonzero(d2 < CANCELLED * sizes)
    d2[k, n] = squared_lengths(words[n] - centres[k])
    return np.asarray(d2)


def nearest_centre(words: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """(N,) which centre is nearest to each word, and the squared distance from it."""
    which, least = np.empty(len(words), np.int64), np.empty(len(words))
    for at in blocks(len(words)):
        d2 = squared_distances(words[at], squared_lengths(words[at]), centres)
        which[at], least[at] = d2.argmin(axis=0), d2.min(axis=0)
    return which, least
