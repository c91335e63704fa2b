"""Features of a window tell of the window: what follows for the memberships of the pixel in its middle.

A feature averaged over a window of W × W pixels is the same, but for noise, for a pixel and its neighbours, and the
memberships that it leads to are those of the window. The pixel's own may be any of those in the window, so their spread
over the window is added to the uncertainty. Memberships are averaged over half the window, within which nothing but
noise makes them differ. docs/pictures.md has the measurements.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray


class Footprint(NamedTuple):
    """The window of the features: its side in pixels, an odd number, 1 for features of single pixels."""

    side: int

    @property
    def margin(self) -> int:
        """How far around a pixel memberships are needed."""
        return self.side // 2 + self.side // 4 if self.side > 1 else 0

    def spread(
        self, memberships: NDArray[np.floating], std: NDArray[np.floating], valid: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """(N, K) memberships and standard deviations of the valid pixels of a region (H, W), of single pixels."""
        maps = np.zeros((*valid.shape, memberships.shape[1]))
        maps[valid] = memberships
        half = 2 * (self.side // 4) + 1
        smooth, means, squares = (
            _mean(each, valid, side) for each, side in ((maps, half), (maps, self.side), (maps**2, self.side))
        )
        variance = np.maximum(squares - means**2, 0.0)[valid]
        return smooth[valid], np.sqrt(np.asarray(std, np.float64) ** 2 + variance)


def _mean(maps: FloatArray, valid: NDArray[np.bool_], side: int) -> FloatArray:
    """(H, W, K) means over the valid pixels of a square window."""
    from scipy.ndimage import uniform_filter

    total = uniform_filter(maps, (side, side, 1), mode="constant")
    share = uniform_filter(valid.astype(np.float64), side, mode="constant")
    return np.asarray(total / np.maximum(share, 0.5 / side**2)[..., None])
