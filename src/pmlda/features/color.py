"""Colour image → red, green and blue from 0 to 1, or CIE Lab; of a grey picture saved in colour, its intensity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between, brightness_limits, require_colour
from pmlda.features.pixels import mean_to_unit, to_lab, to_unit
from pmlda.types import FloatArray, Image
from pmlda.validate import real_array, require

GREY = "grey"
"""The key for whether red, green and blue are the same in all pixels of all images."""


class Color(RangedFeature):
    """Red, green and blue from 0 to 1; with option lab, CIE L, a, b divided by 100.

    Where all images are grey, three times the same number would be one feature with a singular covariance: then it is
    the intensity alone, or L. That is learnt from all images, like the range, and holds for other images too.
    """

    name = "color"
    summary = "red, green and blue from 0 to 1; lab: CIE L, a, b"
    options = ("lab",)

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        require(option in ("", "lab"), f"features={self.spec!r} is not known. Write 'color' or 'color:lab'.")
        self.is_brightness = option == ""

    def check(self, image: Image) -> None:
        require_colour(self, image)

    def survey(self, image: Image) -> Learnt:
        return super().survey(image) | {GREY: np.array([float(_is_grey(image))])}

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        return super().settle(surveys) | {GREY: np.array([min(float(each[GREY][0]) for each in surveys)])}

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        return super().recall(saved) | {GREY: real_array(GREY, saved.get(GREY, [0.0]), (1,))}

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        if learnt[GREY][0]:
            return ("L",) if self.option else ("intensity",)
        return ("L", "a", "b") if self.option else ("red", "green", "blue")

    def notes(self, learnt: Learnt) -> tuple[str, ...]:
        same = "Red, green and blue are the same everywhere, so the picture was taken as grey: its feature is"
        return (f"{same} {'L' if self.option else 'the intensity'}.",) if learnt[GREY][0] else ()

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"L": (0.0, 1.0)} if self.option else {"": brightness_limits(learnt)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        if learnt[GREY][0] and not self.option:
            return mean_to_unit(image, learnt["range"])[:, :, None]
        rgb = to_unit(image, learnt["range"])
        values = to_lab(rgb) / 100.0 if self.option else rgb
        return values[:, :, :1] if learnt[GREY][0] else values


def _is_grey(image: Image) -> bool:
    """Whether all bands are the same where there is data."""
    first, *others = (image.pixels[:, :, band] for band in range(image.pixels.shape[2]))
    return all(bool(np.all((band == first) | ~image.valid)) for band in others)
