"""Image → brightness and gradients at several scales, each averaged over a wide window: they mix as materials do.

Where one material covers a share z of the window and another the rest, the average of any local quantity is z times
that of the one plus 1 − z times that of the other. The window must be wide enough for the averages to settle: several
blades, stones or bricks.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between
from pmlda.features.filters import Plane, equal_window, filter_radius, slope, smooth
from pmlda.features.pixels import lightness
from pmlda.types import FloatArray, Image
from pmlda.validate import require

SCALES = (1, 2, 4)
# σ of the Gaussian window, in pixels; it weighs pixels as far as twice that.
WINDOW, LARGEST_WINDOW = 24, 200


class Grain(RangedFeature):
    """Mean brightness, and the mean length of the gradient at σ = 1, 2 and 4 pixels, in a Gaussian window.

    With "root" the square root of the length is averaged, so that a few strong edges do not outweigh everything between
    them. It suits materials that shine through each other, better than materials side by side: these meet in edges,
    which the root makes too much of.
    """

    name = "grain"
    summary = "mean brightness and mean gradient at three scales, in a Gaussian window of σ = 24 pixels"
    options = ("σ (of the window, as in grain:12)", "root (of the gradients, as in grain:12,root)")

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        parts = option.split(",") if option else []
        self.root = "root" in parts
        numbers = [part for part in parts if part != "root"]
        is_window = all(part.isdecimal() and 1 <= int(part) <= LARGEST_WINDOW for part in numbers)
        require(
            is_window and len(numbers) <= 1 and len(parts) - len(numbers) <= 1,
            f"features={self.spec!r}: give the width σ of the window, from 1 to {LARGEST_WINDOW} pixels, and 'root' or "
            "not, as in 'grain:12' or 'grain:12,root'.",
        )
        self.window = int(numbers[0]) if numbers else WINDOW
        self.reach = filter_radius(SCALES[-1]) + filter_radius(self.window)
        self.footprint = equal_window(self.window)

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("brightness", *(f"gradient_{sigma}" for sigma in SCALES))

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        return between(names, {"gradient": (0.0, np.inf)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        light = lightness(image, learnt["range"])[:, :, 0]
        planes = [light, *(self._length(light, sigma) for sigma in SCALES)]
        return np.stack([smooth(plane, self.window) for plane in planes], axis=2)

    def _length(self, light: Plane, sigma: float) -> Plane:
        """Of the gradient, or its root."""
        length: Plane = np.hypot(slope(light, sigma, axis=1), slope(light, sigma, axis=0))
        return np.sqrt(length) if self.root else length
