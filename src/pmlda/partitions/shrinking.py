"""Large pictures are cut as smaller ones: means of square blocks in, labels of those blocks out.

Superpixels of thousands of pixels need no borders that are exact to the pixel, and cutting is the slowest step.
"""

import numpy as np

from pmlda.types import Image, IntArray

# Pictures up to this size are cut as they are.
LARGE = 700_000
# Pixels that a region keeps on average, so that it can still follow edges.
REGION_PIXELS = 400


def shrink(image: Image, n_regions: int) -> tuple[Image, int]:
    """The picture, or the means of its blocks of step × step pixels, and the step."""
    enough = max(LARGE, REGION_PIXELS * n_regions)
    step = int(np.ceil(np.sqrt(image.valid.size / enough)))
    if step == 1:
        return image, 1
    height, width = image.valid.shape
    shape = (-(-height // step), -(-width // step))
    sums, counts = np.zeros((*shape, image.pixels.shape[2])), np.zeros(shape)
    for row in range(step):
        for column in range(step):
            used = image.valid[row::step, column::step]
            here = np.s_[: used.shape[0], : used.shape[1]]
            sums[here] += np.where(used[..., None], image.pixels[row::step, column::step], 0)
            counts[here] += used
    means = sums / np.maximum(counts, 1)[..., None]
    return image._replace(pixels=means, valid=counts > 0), step


def enlarge(labels: IntArray, step: int, shape: tuple[int, ...]) -> IntArray:
    """Labels of blocks → labels of pixels.

    >>> enlarge(np.array([[0, 1]]), 2, (2, 3)).tolist()
    [[0, 0, 1], [0, 0, 1]]
    """
    if step == 1:
        return labels
    return labels.repeat(step, axis=0).repeat(step, axis=1)[: shape[0], : shape[1]]
