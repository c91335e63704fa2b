"""Image → energies of gradients, blobs and contrast at several scales, each averaged over its surroundings."""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between
from pmlda.features.filters import Plane, blob, deviation, filter_radius, slope, smooth
from pmlda.features.pixels import lightness
from pmlda.types import FloatArray, Image

SCALES = (1, 2, 4)
# Energies are averaged over this many σ: enough for a texture to look the same in its troughs and on its crests.
SURROUNDINGS = 2.0
# In units of L² (0 to 100): below the energy of rounding to 8 bits no direction is worth reporting.
LEAST_ENERGY = 0.1


class Texture(RangedFeature):
    """At σ = 1, 2 and 4 pixels: gradient energy and coherence of the structure tensor, blob energy, deviation."""

    name = "texture"
    summary = "gradient energy, coherence, blob energy and contrast at three scales"
    reach = filter_radius(SCALES[-1]) + filter_radius(SURROUNDINGS * SCALES[-1])

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return tuple(f"{kind}_{sigma}" for sigma in SCALES for kind in ("gradient", "coherence", "blob", "contrast"))

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"coherence": (0.0, 1.0), "": (0.0, np.inf)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        light = lightness(image, learnt["range"])[:, :, 0]
        return np.stack([plane for sigma in SCALES for plane in _at_scale(light, sigma)], axis=2)


def _at_scale(light: Plane, sigma: float) -> list[Plane]:
    """Gradient energy, coherence, blob energy and contrast."""
    wide = SURROUNDINGS * sigma
    across, down = slope(light, sigma, axis=1), slope(light, sigma, axis=0)
    xx, yy, xy = smooth(across**2, wide), smooth(down**2, wide), smooth(across * down, wide)
    energy = xx + yy  # the sum of the structure tensor's eigenvalues; the root below is their difference
    coherence = np.sqrt((xx - yy) ** 2 + 4.0 * xy**2) / (energy + np.float32(LEAST_ENERGY))
    blobs = smooth(blob(light, sigma) ** 2, wide)
    return [np.log1p(energy), coherence, np.log1p(blobs), deviation(light, wide)]
