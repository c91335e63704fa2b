"""Image → filter bank of Winn, Criminisi and Minka (2005): the paper's features of photographs."""

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between
from pmlda.features.filters import Plane, blob, slope, smooth
from pmlda.features.pixels import lightness
from pmlda.types import FloatArray, Image
from pmlda.validate import require

GAUSSIANS = (1, 2, 4)
LAPLACIANS = (1, 2, 4, 8)
DERIVATIVES = (2, 4)
# The paper's window is 15 × 15, so filters end 7 pixels from their centre.
RADIUS = 7


class Winn(RangedFeature):
    """Gaussians on L, a, b (or the one band); Laplacians of Gaussian and first derivatives on L; window 15 × 15.

    Band-pass responses come as log(1 + |response|): where two materials mix, signed ones cancel instead of averaging.
    "winn:energy" also averages their squares with Gaussian weights as wide as the filter before it takes root and
    logarithm: a response that crosses zero within a texture is no gap in the texture.
    """

    name = "winn"
    summary = "Gaussians, Laplacians of Gaussian and derivatives in a 15 × 15 window (the paper's bank)"
    options = ("signed", "energy")

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        known = option in ("", *self.options)
        require(known, f"features={self.spec!r} is not known. Write 'winn', 'winn:signed' or 'winn:energy'.")
        self.reach = 2 * RADIUS if option == "energy" else RADIUS

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        channels = ("L", "a", "b") if image.pixels.shape[2] == 3 else ("L",)
        gaussians = [f"gaussian_{sigma}_{channel}" for sigma in GAUSSIANS for channel in channels]
        laplacians = [f"laplacian_{sigma}" for sigma in LAPLACIANS]
        derivatives = [f"derivative_{sigma}_{axis}" for sigma in DERIVATIVES for axis in ("x", "y")]
        return (*gaussians, *laplacians, *derivatives)

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        sizes = () if self.option == "signed" else ("laplacian", "derivative")
        return between(names, dict.fromkeys(sizes, (0.0, np.inf)))

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        channels = lightness(image, learnt["range"])
        light = channels[:, :, 0]
        low = [smooth(channel, sigma, RADIUS) for sigma in GAUSSIANS for channel in np.moveaxis(channels, 2, 0)]
        blobs = [self._rectified(blob(light, sigma, RADIUS), sigma) for sigma in LAPLACIANS]
        slopes = [self._rectified(slope(light, s, axis, RADIUS), s) for s in DERIVATIVES for axis in (1, 0)]
        return np.stack([*low, *blobs, *slopes], axis=2)

    def _rectified(self, response: Plane, sigma: float) -> Plane:
        if self.option == "signed":
            return response
        size = np.sqrt(smooth(response**2, sigma, RADIUS)) if self.option == "energy" else np.abs(response)
        return np.asarray(np.log1p(size))
