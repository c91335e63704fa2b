"""Colours of a picture in units like those of Lab, where distances mean what they seem; what superpixels follow."""

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, Image
from pmlda.validate import require

# Black and white are 100 apart in Lab, and 10 is clearly another colour.
CLEARLY_APART = 10.0


def smooth_colours(image: Image) -> FloatArray:
    """(H, W, 1 to 3) colours, smoothed if there is speckle, which should not decide where borders run.

    A clean picture stays sharp: blurred edges become superpixels of their own.
    """
    from scipy.ndimage import gaussian_filter

    colours = _lab_like(image)
    if roughness(colours, image.valid) <= CLEARLY_APART:
        return colours
    return np.asarray(gaussian_filter(colours, (1, 1, 0)), np.float64)


def _lab_like(image: Image) -> FloatArray:
    """(H, W, 1 to 3) colours in units like those of Lab, finite everywhere.

    Three bands are taken for red, green and blue. Other pictures are stretched to 0 … 100 band by band, and more than
    three bands are brought to three principal components.
    """
    bands = _fill(image)
    values = bands[image.valid]
    if bands.shape[2] == 3:
        from skimage.color import rgb2lab

        low, high = np.percentile(values, (1, 99))  # of all bands together: a stretch of each would change the hue
        return np.asarray(rgb2lab(_stretch(bands, low, high)), np.float64)
    low, high = np.percentile(values, (1, 99), axis=0)
    stretched = 100 * _stretch(bands, low, high)
    return stretched if bands.shape[2] < 3 else _principal(stretched, image.valid)


def _fill(image: Image) -> FloatArray:
    """The pixels; where there is no data, those of the nearest pixel with data, so that smoothing does no harm."""
    from scipy.ndimage import distance_transform_edt

    bands = image.pixels.astype(np.float64)
    usable = image.valid & np.isfinite(bands).all(axis=2)
    require(
        bool(usable.any()),
        f"picture {image.name!r} has no valid pixel with finite numbers in every band: check its mask or its bands.",
    )
    if usable.all():
        return bands
    rows, columns = distance_transform_edt(~usable, return_distances=False, return_indices=True)
    filled: FloatArray = bands[rows, columns]
    return filled


def _stretch(bands: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """low → 0, high → 1, clipped; a band without contrast becomes 0."""
    span = np.subtract(high, low)
    return np.clip((bands - low) / np.where(span > 0, span, np.inf), 0, 1)


def _principal(bands: FloatArray, valid: NDArray[np.bool_]) -> FloatArray:
    """(H, W, 3) the first three principal components, the first of them about 100 wide."""
    values = bands[valid]
    center = values.mean(axis=0)
    _, axes = np.linalg.eigh((values - center).T @ (values - center))
    components: FloatArray = (bands - center) @ axes[:, :-4:-1]
    low, high = np.percentile(components[valid][:, 0], (1, 99))
    return components * (100 / (high - low) if high > low else 1.0)


def roughness(colours: FloatArray, valid: NDArray[np.bool_]) -> float:
    """How different pixels close to each other typically are: in speckle, superpixels must hold together more."""
    steps = [
        np.sqrt(((colours[a] - colours[b]) ** 2).sum(axis=2))[valid[a] & valid[b]]
        for a, b in (
            (np.s_[:-3, :], np.s_[3:, :]),
            (np.s_[:, :-3], np.s_[:, 3:]),
        )  # 3 apart: smoothing joins nearer ones
    ]
    together = np.concatenate(steps)
    return float(np.median(together)) if len(together) else 0.0
