"""Colour image → vertical gradient, red and blue: the paper's features of sunsets."""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between, brightness_limits, require_colour
from pmlda.features.filters import filter_radius, slope
from pmlda.features.pixels import LUMINANCE, to_unit
from pmlda.types import FloatArray, Image

SIGMA = 2.0


class Sunset(RangedFeature):
    """First-order Gaussian derivative of the luminance down the image, σ = 2, with the red and blue channels."""

    name = "sunset"
    summary = "vertical Gaussian gradient (σ = 2) of the luminance, red and blue (the paper's sunset features)"
    reach = filter_radius(SIGMA)

    def check(self, image: Image) -> None:
        require_colour(self, image)

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("gradient_y", "red", "blue")

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, dict.fromkeys(("red", "blue"), brightness_limits(learnt)))

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        rgb = to_unit(image, learnt["range"])
        gradient = slope(rgb @ LUMINANCE, SIGMA, axis=0) / SIGMA  # per pixel, as in the paper
        return np.stack([gradient, rgb[:, :, 0], rgb[:, :, 2]], axis=2)
