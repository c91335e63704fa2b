"""Colour image → red, green and blue from 0 to 1, or CIE Lab."""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between, brightness_limits, require_colour
from pmlda.features.pixels import to_lab, to_unit
from pmlda.types import FloatArray, Image
from pmlda.validate import require


class Color(RangedFeature):
    """Red, green and blue from 0 to 1; with option lab, CIE L, a, b divided by 100."""

    name = "color"
    summary = "red, green and blue from 0 to 1; lab: CIE L, a, b"
    options = ("lab",)

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        require(option in ("", "lab"), f"features={self.spec!r} is not known. Write 'color' or 'color:lab'.")
        self.is_brightness = option == ""

    def check(self, image: Image) -> None:
        require_colour(self, image)

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("L", "a", "b") if self.option else ("red", "green", "blue")

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"L": (0.0, 1.0)} if self.option else {"": brightness_limits(learnt)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        rgb = to_unit(image, learnt["range"])
        return to_lab(rgb) / 100.0 if self.option else rgb
