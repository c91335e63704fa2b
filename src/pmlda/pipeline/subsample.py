"""Deterministic subsampling: which pixels topics and documents are learnt from, independent of tiles and machines.

Every pixel has a number between 0 and 1 that depends only on the seed and on the place of the pixel.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray

# Minimum number of words per document in a subsample, enough to estimate its proportions and its scale.
LEAST_SAMPLED = 500
# More words than these per document, or of all documents together, do not improve proportions and scales.
DOCUMENT_WORDS, ALL_WORDS = 500, 50_000
# Minimum number of words per document where words that repeat each other are left out.
LEAST_THINNED = 8
# Approximate maximum number of documents from which topics are learnt: with 500 words each, 400,000 words.
MOST_DOCUMENTS = 800
AT_ONCE = 2**20
_OF_DOCUMENTS = 1  # the random numbers of documents


def uniform_by_place(places: IntArray, seed: int, stream: int = 0) -> FloatArray:
    """(n,) uniform numbers from 0 to 1, one for every place (SplitMix64, Steele et al. 2014).

    >>> uniform_by_place(np.array([5, 7, 5]), seed=0).round(3).tolist()
    [0.327, 0.772, 0.327]
    """
    out = np.empty(len(places))
    start = np.uint64((2 * seed + stream + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for first in range(0, len(places), AT_ONCE):
        x = places[first : first + AT_ONCE].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        out[first : first + AT_ONCE] = (x >> np.uint64(11)) * 2.0**-53
    return out


def words_each(n_documents: int, sample: int) -> float:
    """How many words of each document are used, for topics and for its proportions and scale; infinity is all of them.

    sample : approximate total number of words; 0 is all of them, for samplers and for models other than PM-LDA
    """
    if sample == 0:
        return np.inf
    n = max(n_documents, 1)
    return min(max(sample // n, LEAST_SAMPLED), max(DOCUMENT_WORDS, ALL_WORDS // n))


def keep_words(
    groups: IntArray, places: IntArray, sizes: IntArray, most: float | FloatArray, seed: int
) -> NDArray[np.bool_]:
    """(N,) which words are used: about `most` of every document, all words of smaller ones.

    groups, places : (N,) the document and the place of every word
    sizes : (D,) number of words of each document
    most : for all documents, or (D,) for each
    """
    shares = np.minimum(1.0, most / np.maximum(sizes, 1))
    if (shares == 1.0).all():
        return np.ones(len(groups), bool)
    kept = np.empty(len(groups), bool)
    for first in range(0, len(groups), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        kept[rows] = uniform_by_place(places[rows], seed) < shares[groups[rows]]
    return kept


def first_rows(groups: IntArray) -> IntArray:
    """(D,) where each document that has words comes first, documents in ascending order.

    >>> first_rows(np.array([2, 0, 2, 0])).tolist()
    [1, 0]
    """
    first = np.full(int(groups.max()) + 1, -1)
    for start in reversed(range(0, len(groups), AT_ONCE)):
        part = groups[start : start + AT_ONCE]
        first[part[::-1]] = np.arange(start + len(part) - 1, start - 1, -1)  # of several, the last one stays
    return first[first >= 0]


def thin_words(groups: IntArray, places: IntArray, sizes: IntArray, effect: float, seed: int) -> NDArray[np.bool_]:
    """(N,) which words remain if, of every document, about one pixel in `effect` is used, and at least LEAST_THINNED.

    They are among those that keep_words keeps, by the same numbers. No document is left without a word.

    groups, places, sizes : (N,) of every word, its document, its place, and the number of pixels of its document
    """
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    of_document = sizes[first]
    kept = keep_words(inverse, places, of_document, np.maximum(of_document / effect, LEAST_THINNED), seed)
    numbers, least = uniform_by_place(places, seed), np.ones(len(first))
    np.minimum.at(least, inverse, numbers)
    return np.asarray(kept | (numbers == least[inverse]))


def keep_documents(first_places: IntArray, n_documents: int, seed: int) -> NDArray[np.bool_]:
    """(D,) the documents from which topics are learnt.

    first_places : (D,) the place of the first word of each document
    n_documents : total number in the picture, of which these may be a part
    """
    if n_documents <= MOST_DOCUMENTS:
        return np.ones(len(first_places), bool)
    return uniform_by_place(first_places, seed, _OF_DOCUMENTS) < MOST_DOCUMENTS / n_documents
