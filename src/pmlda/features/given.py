"""A function of the user's → a feature: pixels (H, W, B) → (H, W) or (H, W, p), checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Feature, Learnt
from pmlda.features.pixels import fill_values
from pmlda.types import FeatureStack, Image
from pmlda.validate import require

Function = Callable[[NDArray[Any]], Any]


class Given(Feature):
    """Whatever the function returns. It sees pixels as they were read, those without data already filled."""

    name = "a function"
    summary = "a function of yours"

    def __init__(self, function: Function) -> None:
        self.function = function
        super().__init__()

    @property
    def spec(self) -> str:
        """The function's own name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return self._label(self.compute(image, learnt).shape[2])

    def stack(self, image: Image, learnt: Learnt) -> FeatureStack:
        """The base's would call the function a second time for the names."""
        values = self.compute(image, learnt)
        return FeatureStack(values.astype(np.float32), self._label(values.shape[2]))

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        values = np.asarray(self.function(image.pixels.copy()))
        height, width = image.valid.shape
        right = values.shape[:2] == (height, width) and values.ndim in (2, 3) and values.size > 0
        require(
            right,
            f"The feature function {self.spec} returned shape {values.shape}. "
            f"Return ({height}, {width}) or ({height}, {width}, p).",
        )
        require(
            values.dtype.kind in "biuf",
            f"The feature function {self.spec} returned numbers of type {values.dtype}. Return real numbers.",
        )
        return self._finite(values.reshape(height, width, -1), image)

    def _finite(self, values: NDArray[Any], image: Image) -> NDArray[np.floating]:
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        bad = int((~np.isfinite(single[image.valid])).any(axis=1).sum())
        require(
            bad == 0,
            f"The feature function {self.spec} returned NaN, infinity or numbers too large for float32 "
            f"on {bad} of {int(image.valid.sum())} valid pixels. Return finite numbers.",
        )
        finite: NDArray[np.floating] = single if np.isfinite(single).all() else fill_values(single, image.valid)  # type: ignore[assignment]
        return finite

    def _label(self, count: int) -> tuple[str, ...]:
        return (self.spec,) if count == 1 else tuple(f"{self.spec}_{i + 1}" for i in range(count))
