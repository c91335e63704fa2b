"""Image → share of the local variance that is a wave of one direction: sand ripples, ploughed fields, fabric."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between
from pmlda.features.filters import Plane, average, equal_window, filter_radius, variance
from pmlda.features.pixels import mean_to_unit
from pmlda.types import FloatArray, Image
from pmlda.validate import require

WAVELENGTHS = (6.0, 12.0, 24.0)
N_ORIENTATIONS = 8
# In units of the intensity (0 to 1): rounding to 8 bits leaves this much, and it has no direction worth reporting.
LEAST_DEVIATION = 1.0 / 255.0
# Shares are rounded to this, far below their noise: a Fourier transform leaves other digits in a part of a picture than
# in the whole, and a fit may tell them apart.
FINEST_SHARE = 2.0**-14


class Ripple(RangedFeature):
    """Energy of Gabor filters over 8 directions and 3 wavelengths, in the strongest direction, over local variance.

    A plane wave of one of the wavelengths gives about 1, noise a small fraction, a flat region 0.
    """

    name = "ripple"
    summary = "oriented waves of 6, 12 and 24 pixels: their share of the local variance (sand ripples)"
    stretch = True
    options = ("wavelengths (in pixels, as in ripple:8,16)",)

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        parts = option.split(",") if option else []
        right = all(part.strip().isdecimal() and 3 <= int(part) <= 512 for part in parts)
        require(
            right,
            f"features={self.spec!r}: give wavelengths in whole pixels from 3 to 512, as in 'ripple:8,16'.",
        )
        self.wavelengths = tuple(float(part) for part in parts) or WAVELENGTHS
        self.reach = gabor_radius(self.wavelengths) + filter_radius(max(self.wavelengths) / 2.0)
        self.footprint = equal_window(max(self.wavelengths) / 2.0)

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("ripple",)

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"ripple": (0.0, np.inf)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        plane = mean_to_unit(image, learnt["range"], stretch=True)
        wide = max(self.wavelengths) / 2.0
        strongest = np.zeros(plane.shape)
        for energy in wave_energies(plane, self.wavelengths):
            np.maximum(strongest, average(energy, wide), out=strongest)
        share: FloatArray = strongest / (variance(plane, wide) + LEAST_DEVIATION**2)
        return (np.round(share / FINEST_SHARE) * FINEST_SHARE)[:, :, None]


def gabor_radius(wavelengths: Sequence[float]) -> int:
    """How far the longest filter reaches. It has no end, but beyond 8σ, four wavelengths, it is 1e-14 of its middle."""
    return int(np.ceil(4.0 * max(wavelengths)))


def wave_energies(plane: Plane, wavelengths: Sequence[float]) -> Iterator[FloatArray]:
    """One plane for each direction: the variance that waves of these lengths carry."""
    from scipy.fft import fft2, ifft2, next_fast_len

    height, width = plane.shape
    border = gabor_radius(wavelengths)  # what wraps around stays outside
    size = [next_fast_len(length + 2 * border) for length in plane.shape]
    after = [total - length - border for total, length in zip(size, plane.shape, strict=True)]
    # All in float64: the rounding of float32 would depend on how much of the picture is seen.
    centred = plane.astype(np.float64) - plane.mean(dtype=np.float64)
    padded = np.pad(centred, [(border, after[0]), (border, after[1])], mode="symmetric")
    spectrum = fft2(padded)
    inside = np.s_[border : border + height, border : border + width]
    for k in range(N_ORIENTATIONS):
        energy = np.zeros(plane.shape)
        for wavelength in wavelengths:
            response = ifft2(spectrum * gabor(size, wavelength, np.pi * k / N_ORIENTATIONS))[inside]
            energy += 2.0 * np.abs(response) ** 2
        yield energy


def gabor(size: Sequence[int], wavelength: float, angle: float) -> FloatArray:
    """The spectrum of a complex wave under a Gaussian of σ = wavelength / 2, with nothing at frequency 0."""
    sigma = wavelength / 2.0
    down, right = np.fft.fftfreq(size[0]), np.fft.fftfreq(size[1])
    f_down, f_right = np.sin(angle) / wavelength, np.cos(angle) / wavelength
    bump = np.outer(_bell(down - f_down, sigma), _bell(right - f_right, sigma))
    leak = float(np.exp(-2.0 * (np.pi * sigma / wavelength) ** 2))
    centre = np.outer(_bell(down, sigma), _bell(right, sigma))
    return np.asarray(bump - leak * centre)


def _bell(frequency: NDArray[np.floating], sigma: float) -> FloatArray:
    bell: FloatArray = np.exp(-2.0 * (np.pi * sigma * frequency) ** 2)
    return bell
