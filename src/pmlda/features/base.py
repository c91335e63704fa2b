"""The interface of features: images → what must be fixed once; one image + that → feature stack."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pmlda.features.pixels import join_ranges, settle_range, survey_range, unit_range
from pmlda.types import FeatureStack, FloatArray, Image
from pmlda.validate import real_array, require

Learnt = dict[str, FloatArray]
"""What a feature fixed once, by name. Empty for most."""
POSSIBLE = "possible"
"""Its key for (least, greatest) possible brightness, in the feature's units, where the type of the images says it."""


class Feature(ABC):
    """One way to describe pixels. It holds its option and nothing else, so it may serve any number of images."""

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    """What may follow the colon."""
    reach: int = 0
    """How far away, in pixels, what decides on the values of a pixel may lie."""
    footprint: int = 1
    """Side of the square window, in pixels, over which values are averaged: an odd number."""
    is_brightness: bool = False
    """Whether the mean of the values is how bright a pixel is."""
    has_noise: bool = False
    """Whether the last value is no feature but the size of the noise, see Scaling."""

    def __init__(self, option: str = "") -> None:
        self.option = option
        require(
            not option or bool(self.options),
            f"features={self.spec!r}: {self.name} has no options. Write features={self.name!r}.",
        )

    @property
    def spec(self) -> str:
        """How a user writes it."""
        return f"{self.name}:{self.option}" if self.option else self.name

    @property
    def one_unit(self) -> bool:
        """Whether all values have the same unit and much the same noise, so that they need no scaling."""
        return False

    def check(self, image: Image) -> None:  # noqa: B027 (most features take any image)
        """Raise ValueError where the image has bands that the feature cannot use."""

    def survey(self, image: Image) -> Learnt:
        """What settle() needs of one image, or of one block of an image."""
        return {}

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        """What must stay the same for all images, from the surveys of all of them."""
        return {}

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        """What learn() returned, from a file that may be untrusted: checked."""
        return {}

    @abstractmethod
    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        """What compute(image, learnt) will return, by name."""

    @abstractmethod
    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        """(H, W, p) values. Pixels without data are already filled."""

    def notes(self, learnt: Learnt) -> tuple[str, ...]:
        """Sentences on what was found out about the images, for the user."""
        return ()

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        """(2, p) the least and the greatest that values of these names can be, infinite where nothing is known."""
        return np.array([np.full(len(names), -np.inf), np.full(len(names), np.inf)])

    def undo(self, values: FloatArray, learnt: Learnt) -> FloatArray:
        """(n, q) what a person reads instead of values (n, p): spectra for their components. Most stay as they are."""
        return values

    def undone_names(self, bands: tuple[str, ...], learnt: Learnt) -> tuple[str, ...] | None:
        """(q,) what undo() returns by name, if it differs from compute(), given the names of the bands."""
        return None

    def share_weights(self, values: FloatArray, learnt: Learnt) -> FloatArray | None:
        """(K,) what memberships in topics with these values (K, p) are multiplied by to become shares; None if 1."""
        return None

    def stack(self, image: Image, learnt: Learnt) -> FeatureStack:
        """compute() and names(), as float32."""
        self.check(image)
        values = self.compute(image, learnt).astype(np.float32, copy=False)
        return FeatureStack(values, self.names(image, learnt))


class RangedFeature(Feature):
    """A feature that learns the range of brightness; see pixels.settle_range."""

    stretch: ClassVar[bool] = False

    def survey(self, image: Image) -> Learnt:
        possible = join_ranges(POSSIBLE, [unit_range(image, stretch=self.stretch)])
        return {"limits": survey_range(image, stretch=self.stretch)} | possible

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        limits = settle_range([each["limits"] for each in surveys], stretch=self.stretch)
        return {"range": limits} | join_ranges(POSSIBLE, [each.get(POSSIBLE) for each in surveys])

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        limits = real_array("range", saved["range"], (3,))
        require(limits[1] > limits[0], f"The range of {self.spec} is empty: from {limits[0]:g} to {limits[1]:g}.")
        return {"range": limits} | recall_possible(saved)


def recall_possible(saved: Mapping[str, Any]) -> Learnt:
    """The range of possible brightness, if it is known."""
    return {POSSIBLE: real_array(POSSIBLE, saved[POSSIBLE], (2,))} if POSSIBLE in saved else {}


def between(names: tuple[str, ...], limits: Mapping[str, tuple[float, float]]) -> FloatArray:
    """(2, p) limits of the values whose names begin with these texts; others have none.

    >>> between(("mean", "blob_1"), {"blob": (0.0, np.inf)}).tolist()
    [[-inf, 0.0], [inf, inf]]
    """
    anything = (-np.inf, np.inf)
    found = [next((pair for start, pair in limits.items() if name.startswith(start)), anything) for name in names]
    return np.array(found, dtype=np.float64).T


def brightness_limits(learnt: Learnt, factor: float = 1.0) -> tuple[float, float]:
    """Possible brightness, times a factor; none where it is not known."""
    low, high = learnt.get(POSSIBLE, np.array([-np.inf, np.inf])).tolist()
    return factor * low, factor * high


def require_colour(feature: Feature, image: Image) -> None:
    """Three bands, or a sentence on what to use instead."""
    n_bands = image.pixels.shape[2]
    instead = {1: "'intensity', 'sonar' or 'texture'", 2: "'spectral'"}.get(
        n_bands, "'spectral' or 'spectral:unit,pca5'"
    )
    require(
        n_bands == 3,
        f"features={feature.spec!r} needs 3 bands (red, green, blue), but {image.name} has {n_bands}: "
        f"use features={instead}.",
    )
