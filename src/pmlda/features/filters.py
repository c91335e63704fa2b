"""Plane (H, W) → the same size, filtered: Gaussians and their derivatives, with reflection at the borders.

Derivatives add up to exactly nothing, also where they are cut off, so that flat regions give 0 whatever their
brightness. All responses are multiplied by σ (first derivative) or σ² (second), so scales are comparable.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray

Plane = NDArray[np.float32]


def equal_window(sigma: float) -> int:
    """The odd side of a square window that averages as widely as a Gaussian: with the same variance.

    >>> equal_window(6.0)
    21
    """
    return 2 * int(sigma * np.sqrt(3.0)) + 1


def filter_radius(sigma: float) -> int:
    """How far a Gaussian of this width reaches before it is cut off."""
    return int(np.ceil(4.0 * sigma))


def gaussian_weights(sigma: float, radius: int | None = None) -> FloatArray:
    """(2·radius + 1,) a Gaussian that adds up to 1; cut off at 4σ unless told otherwise."""
    x = _positions(sigma, radius)
    weights: FloatArray = np.exp(-0.5 * (x / sigma) ** 2)
    weights /= weights.sum()
    return weights


def smooth(plane: Plane, sigma: float, radius: int | None = None) -> Plane:
    """Average with Gaussian weights."""
    return average(plane, sigma, radius).astype(np.float32)


def average(plane: NDArray[np.floating], sigma: float, radius: int | None = None) -> FloatArray:
    """smooth() in float64."""
    weights = gaussian_weights(sigma, radius)
    return _correlate(plane, weights, weights)


def slope(plane: Plane, sigma: float, axis: int, radius: int | None = None) -> Plane:
    """σ times the first derivative along axis 0 (down) or 1 (right); positive where the image grows brighter.

    >>> ramp = np.tile(np.arange(40, dtype=np.float32), (40, 1))
    >>> round(float(slope(ramp, 2.0, axis=1)[20, 20]), 3), round(float(slope(ramp, 2.0, axis=0)[20, 20]), 3)
    (2.0, 0.0)
    """
    weights, x = gaussian_weights(sigma, radius), _positions(sigma, radius)
    along = sigma * x * weights / (x * x * weights).sum()  # exactly σ on a ramp, also where cut off
    return separable(plane, along, weights) if axis == 0 else separable(plane, weights, along)


def blob(plane: Plane, sigma: float, radius: int | None = None) -> Plane:
    """σ² times the Laplacian of Gaussian; negative on bright blobs."""
    weights, x = gaussian_weights(sigma, radius), _positions(sigma, radius)
    second = (x * x / sigma**2 - 1.0) * weights
    flat = np.full(len(x), 1.0 / len(x))
    excess = 2.0 * second.sum()  # what the cut-off leaves: taken off evenly over the window
    flat_part = separable(plane, flat, flat) * np.float32(excess)
    return separable(plane, second, weights) + separable(plane, weights, second) - flat_part


def separable(plane: Plane, down: FloatArray, right: FloatArray) -> Plane:
    """Correlation with the outer product of two lists of weights."""
    return _correlate(plane, down, right).astype(np.float32)


def box_mean(plane: Plane, window: int) -> FloatArray:
    """The mean in a square window. Sums that slide along a row would depend on where the row begins."""
    weights = np.full(window, 1.0 / window)
    return _correlate(plane, weights, weights)


def deviation(plane: Plane, sigma: float) -> Plane:
    """Standard deviation in a Gaussian window."""
    root: Plane = np.sqrt(variance(plane, sigma)).astype(np.float32)
    return root


def variance(plane: Plane, sigma: float) -> FloatArray:
    """Variance in a Gaussian window."""
    centred = plane - plane.mean(dtype=np.float64)  # less cancellation in the difference below
    found: FloatArray = np.maximum(average(centred**2, sigma) - average(centred, sigma) ** 2, 0.0)
    return found


def _correlate(plane: NDArray[np.floating], down: FloatArray, right: FloatArray) -> FloatArray:
    """separable() in float64: float32 would leave a trace of flat regions in derivatives and deviations."""
    from scipy.ndimage import correlate1d

    halfway = correlate1d(plane.astype(np.float64), down, axis=0, mode="reflect")
    filtered: FloatArray = correlate1d(halfway, right, axis=1, mode="reflect")
    return filtered


def _positions(sigma: float, radius: int | None) -> FloatArray:
    reach = filter_radius(sigma) if radius is None else radius
    return np.arange(-reach, reach + 1, dtype=np.float64)
