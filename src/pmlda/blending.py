"""Blending: each document's proportions and scale → a smooth field → memberships without jumps at documents' borders.

A document with a large scale pulls all of its words towards its own proportions, so that neighbouring documents show
as tiles. Here every pixel takes its prior from a weighted mean of the documents around it instead (in ln sπ, weights
falling off like a Gaussian), topics as they were learnt.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.estimator import PMLDA
from pmlda.types import DocumentPosterior, FloatArray, Image, IntArray

# Pixels of a square this wide share one prior; the field hardly changes over it.
TILE = 4
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
        field = smooth_field(np.log(a[first_document : first_document + n_documents]), each, width)
        tiles = tiles_of(image)
        counts = np.maximum(np.bincount(tiles), 1)
        priors.append(np.stack([np.bincount(tiles, band[image.valid]) / counts for band in field], axis=1))
        groups.append(tiles + first_tile)
        first_document += n_documents
        first_tile += len(counts)
    blended = np.exp(np.concatenate(priors))
    scales = blended.sum(axis=1)
    held = {"topics": model.topic_means_, "proportions": blended / scales[:, None], "scales": scales}
    if hasattr(model, "noise_variance_"):
        held["covariance"] = model.noise_variance_
    settings = model.get_params(deep=False) | {"fixed": held, "verbose": 0}
    seen = PMLDA(**settings).fit(words, groups=np.concatenate(groups))
    return found._replace(memberships=seen.memberships_, std=seen.membership_std_)


def smooth_field(log_a: FloatArray, labels: IntArray, width: float) -> list[FloatArray]:
    """K bands (H, W): ln a of the documents, averaged with Gaussian weights over pixels that have data."""
    from scipy.ndimage import gaussian_filter

    valid = labels >= 0
    sigma = width * np.sqrt(valid.sum() / len(log_a))
    weight = gaussian_filter(valid.astype(np.float64), sigma, mode="nearest")
    bands = []
    for values in log_a.T:
        band = np.where(valid, values[labels], 0.0)
        bands.append(gaussian_filter(band, sigma, mode="nearest") / np.maximum(weight, 1e-12))
    return bands


def tiles_of(image: Image) -> IntArray:
    """(N,) a number for each pixel with data: its tile, counted without gaps."""
    height, width = image.valid.shape
    rows, columns = np.arange(height)[:, None] // TILE, np.arange(width) // TILE
    tiles = rows * (-(-width // TILE)) + columns
    return np.unique(tiles[image.valid], return_inverse=True)[1]
