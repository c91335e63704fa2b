"""Image → brightness: one band as it is, several by their mean."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import POSSIBLE, Feature, Learnt, between, brightness_limits, recall_possible
from pmlda.features.pixels import join_ranges, type_range
from pmlda.types import FloatArray, Image


class Intensity(Feature):
    """The number of the one band, or the mean of several, in the image's own units."""

    name = "intensity"
    summary = "brightness: one band as it is, the mean of several"

    def survey(self, image: Image) -> Learnt:
        return join_ranges(POSSIBLE, [type_range(image)])

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        return join_ranges(POSSIBLE, [each.get(POSSIBLE) for each in surveys])

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        return recall_possible(saved)

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"": brightness_limits(learnt)})

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("intensity",)

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        mean: NDArray[np.floating] = image.pixels.mean(axis=2, keepdims=True, dtype=np.float64)
        return mean
