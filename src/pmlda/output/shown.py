"""A segmentation in memory → one of its pictures at a displayable size, for its figure and its report."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from pmlda.segmentation import Segmentation

# About so many pixels of the longer side are shown: as many as the page of a report holds.
SHOWN_SIDE = 900


def at_displayable_size(segmentation: Segmentation, index: int) -> Segmentation:
    """Every so many rows and columns of one of the pictures; the others, and pictures that are small, stay as they are.

    Maps are sampled, not averaged: every number is that of a pixel that exists.
    """
    image = segmentation.images[index]
    step = max(image.valid.shape) // SHOWN_SIDE
    if step <= 1:
        return segmentation

    def sampled(maps: Any) -> Any:
        small = list(maps)
        if small:
            small[index] = np.ascontiguousarray(small[index][::step, ::step])
        return type(maps)(small)

    named = (each.name for each in fields(segmentation) if each.name.endswith("_maps"))
    images = list(segmentation.images)
    images[index] = image._replace(pixels=image.pixels[::step, ::step], valid=image.valid[::step, ::step])
    record = {"shape": list(image.pixels.shape), "pixels_with_data": int(image.valid.sum())}
    small = {name: sampled(getattr(segmentation, name)) for name in named}
    return replace(segmentation, images=images, record=segmentation.record | record, **small)
