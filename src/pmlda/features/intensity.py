"""Image → brightness: one band as it is, several by their mean."""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Feature, Learnt
from pmlda.types import Image


class Intensity(Feature):
    """The number of the one band, or the mean of several, in the image's own units."""

    name = "intensity"
    summary = "brightness: one band as it is, the mean of several"

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("intensity",)

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        mean: NDArray[np.floating] = image.pixels.mean(axis=2, keepdims=True, dtype=np.float64)
        return mean
