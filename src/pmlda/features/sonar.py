"""Image → mean and entropy of the intensity around every pixel: the paper's features of sonar imagery."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Learnt, RangedFeature, between, brightness_limits
from pmlda.features.filters import box_mean
from pmlda.features.pixels import mean_to_unit
from pmlda.parallel.threads import Workers, count_jobs
from pmlda.types import FloatArray, Image
from pmlda.validate import require

# The paper's window, and its factor that brings the mean to roughly the size of the entropy.
WINDOW = 21
MEAN_FACTOR = 10.0
N_LEVELS = 256
# Larger windows describe no texture any more; the kernel's 64-bit sums would hold for several times as much.
LARGEST_WINDOW = 501


class Sonar(RangedFeature):
    """Mean intensity (0 to 1) times 10, and entropy in bits of the intensity in 256 levels, in a square window."""

    name = "sonar"
    summary = "local mean × 10 and local entropy in bits, in a 21 × 21 window (the paper's sonar features)"
    stretch = True
    options = ("W (an odd window, as in sonar:11)",)

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        is_window = option == "" or (option.isdecimal() and int(option) % 2 == 1 and 3 <= int(option) <= LARGEST_WINDOW)
        require(
            is_window,
            f"features={self.spec!r}: the window must be an odd number of pixels from 3 to {LARGEST_WINDOW}, "
            "as in 'sonar:11'.",
        )
        self.window = int(option) if option else WINDOW
        self.reach, self.footprint = self.window // 2, self.window

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        return ("mean", "entropy")

    def possible(self, names: tuple[str, ...], learnt: Learnt) -> FloatArray:
        most_bits = float(np.log2(min(N_LEVELS, self.window**2)))
        return between(names, {"mean": brightness_limits(learnt, MEAN_FACTOR), "entropy": (0.0, most_bits)})

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        unit = mean_to_unit(image, learnt["range"], stretch=True)
        mean = box_mean(unit, self.window)
        return np.stack([MEAN_FACTOR * mean, local_entropy(quantise(unit), self.window)], axis=2)


def quantise(unit: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Intensity from 0 to 1 → 256 levels; an 8-bit image gets its own numbers back."""
    levels: NDArray[np.uint8] = np.rint(np.clip(unit, 0.0, 1.0) * 255.0).astype(np.uint8)
    return levels


def local_entropy(levels: NDArray[np.uint8], window: int, n_jobs: int | None = None) -> FloatArray:
    """(H, W) entropy, in bits, of the levels in the window around every pixel; the border is reflected.

    >>> board = np.indices((6, 6)).sum(axis=0) % 2
    >>> float(local_entropy(board.astype(np.uint8), 3)[2, 2].round(4))  # of 9 pixels, 5 are of one level
    0.9911
    """
    from pmlda.kernels.entropy import entropy_rows, plogp_table

    padded = np.pad(levels, window // 2, mode="symmetric")
    table = plogp_table(window * window)
    out = np.empty(levels.shape)
    edges = np.linspace(0, len(levels), min(count_jobs(n_jobs), len(levels)) + 1).astype(int).tolist()
    with Workers(n_jobs) as workers:
        workers.map(lambda rows: entropy_rows(padded, window, table, *rows, out), pairwise(edges), levels.size)
    return out
