"""Blending: each document's proportions and scale → a smooth field → memberships without jumps at documents' borders.

A document with a large scale pulls all of its words towards its own proportions, so that neighbouring documents show
as tiles. Here every pixel takes its prior from a weighted mean of the documents around it instead (in ln sπ, weights
falling off like a Gaussian), topics as they were learnt.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.estimator import PMLDA
from pmlda.types import DocumentPosterior, FloatArray, Image, IntArray

# Pixels of a square tile share one prior: a quarter of the field's own width, over which it hardly changes, and at most
# eight pixels, because 64 words fill a block of the kernels.
WIDEST_TILE = 8
# ln a below this is a topic that is absent; how absent it is must not reach into the neighbours.
LEAST_CONCENTRATION = 1e-3


def blend(
    model: PMLDA,
    words: NDArray[np.floating],
    labels: list[IntArray],
    images: list[Image],
    found: DocumentPosterior,
    width: float,
) -> DocumentPosterior:
    """Memberships under the blended field, and their uncertainty; width is in units of a document's own width."""
    a = np.maximum(found.proportions * found.scales[:, None], LEAST_CONCENTRATION)
    groups, priors = [], []
    first_document = first_tile = 0
    for each, image in zip(labels, images, strict=True):
        n_documents = int(each.max()) + 1
        sigma = width * float(np.sqrt(image.valid.sum() / n_documents))
        side = int(np.clip(sigma / 4.0, 1.0, WIDEST_TILE))
        field = smooth_field(np.log(a[first_document : first_document + n_documents]), each, sigma / side, side)
        used, tiles = np.unique(tile_numbers(each.shape, side)[image.valid], return_inverse=True)
        priors.append(field[used])
        groups.append(tiles + first_tile)
        first_document += n_documents
        first_tile += len(used)
    blended = np.exp(np.concatenate(priors))
    scales = blended.sum(axis=1)
    held = {"topics": model.topic_means_, "proportions": blended / scales[:, None], "scales": scales}
    if hasattr(model, "noise_variance_"):
        held["covariance"] = model.noise_variance_
    settings = model.get_params(deep=False) | {"fixed": held, "verbose": 0}
    seen = PMLDA(**settings).fit(words, groups=np.concatenate(groups))
    return found._replace(memberships=seen.memberships_, std=seen.membership_std_)


def smooth_field(log_a: FloatArray, labels: IntArray, sigma: float, side: int) -> FloatArray:
    """(tiles, K) ln a of the documents, averaged over pixels with data: Gaussian weights, sigma in tiles."""
    from scipy.ndimage import gaussian_filter

    tiles = tile_numbers(labels.shape, side)
    grid = (-(-labels.shape[0] // side), -(-labels.shape[1] // side))
    valid = labels >= 0
    inside, documents = tiles[valid], labels[valid]
    n_tiles = grid[0] * grid[1]

    def blurred(weights: FloatArray | None) -> FloatArray:
        sums = np.bincount(inside, weights, minlength=n_tiles).astype(np.float64)
        return np.asarray(gaussian_filter(sums.reshape(grid), sigma, mode="nearest").ravel())

    count = np.maximum(blurred(None), 1e-12)
    return np.stack([blurred(values[documents]) / count for values in log_a.T], axis=1)


def tile_numbers(shape: tuple[int, ...], side: int) -> IntArray:
    """(H, W) the tile of each pixel, row by row.

    >>> tile_numbers((2, 5), 2).tolist()
    [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2]]
    """
    rows, columns = np.arange(shape[0])[:, None] // side, np.arange(shape[1]) // side
    return rows * (-(-shape[1] // side)) + columns
