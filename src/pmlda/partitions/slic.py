"""SLIC superpixels: patches of one colour that follow the edges of the picture."""

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pmlda.partitions.colours import CLEARLY_APART, roughness, smooth_colours
from pmlda.partitions.common import MOST_PARTITIONS, Kind, Seed, number, require_pixels
from pmlda.partitions.shrinking import enlarge, shrink
from pmlda.types import FloatArray, Image, IntArray
from pmlda.validate import require

EXAMPLE = "slic:200"


def _slic(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """One partition into superpixels, or several that differ in number, compactness and the start of their grid."""
    count_text, star, repeats_text = argument.partition("*")
    count = number(count_text, spec, EXAMPLE)
    repeats = number(repeats_text, spec, EXAMPLE) if star else 1
    require_pixels(count, spec, image)
    require(
        repeats <= MOST_PARTITIONS,
        f"partition {spec!r} makes {repeats} partitions and at most {MOST_PARTITIONS} are allowed: take fewer.",
    )
    small, step = shrink(image, count)
    colours = smooth_colours(small)
    n_valid = int(small.valid.sum())
    ways = (
        superpixels(colours, small.valid, min(max(round(count * share), 1), n_valid), tightness, shift)
        for share, tightness, shift in _variants(repeats)
    )
    return [enlarge(labels, step, image.valid.shape) for labels in ways]


def _variants(repeats: int) -> Iterator[tuple[float, float, tuple[float, float]]]:
    """Share of the number wanted, how tight, and shift of the grid in half steps of the grid."""
    if repeats == 1:
        yield 1.0, 1.0, (0.0, 0.0)
        return
    for i, share in enumerate(np.linspace(0.8, 1.2, repeats)):
        # Loose and tight take turns, so that compactness does not go hand in hand with size.
        yield float(share), (1.0, 1.5)[i % 2], (i / repeats, 2 * i / repeats % 1)


def superpixels(
    colours: FloatArray,
    valid: NDArray[np.bool_],
    count: int,
    tightness: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
) -> IntArray:
    """(H, W) labels of about `count` superpixels; those of pixels that are not valid mean nothing.

    tightness : above 1 for rounder superpixels, below 1 for those that follow the colours more closely
    shift : how far the grid of their starting points moves up and left, in half steps of the grid
    """
    from skimage.segmentation import slic

    if count == 1:
        return np.zeros(valid.shape, np.int64)
    half_step = np.sqrt(valid.sum() / count) / 2
    top, left = (round(half_step * part) for part in shift)
    # A margin moves the grid. It is at most half a step, so every starting point stays inside the picture.
    padded = np.pad(colours, ((top, 0), (left, 0), (0, 0)), mode="edge").astype(np.float32)
    mask = np.pad(_close_holes(valid, half_step / 2), ((top, 0), (left, 0)), mode="edge")
    inside = padded[mask]
    # slic divides colours by this span, and so the compactness.
    span = float(inside.max() - inside.min()) or 1.0
    compactness = tightness * max(CLEARLY_APART, 1.5 * roughness(colours, valid))
    with warnings.catch_warnings():
        # With a mask, k-means places the starting points; it warns of points that it could not use.
        warnings.filterwarnings("ignore", message="One of the clusters is empty", category=UserWarning)
        labels = slic(
            padded,
            n_segments=count,
            compactness=compactness / span,
            convert2lab=False,
            enforce_connectivity=True,
            start_label=1,
            mask=None if mask.all() else mask,
            channel_axis=-1,
        )
    return _complete(np.asarray(labels, np.int64)[top:, left:], valid)


def _close_holes(valid: NDArray[np.bool_], radius: float) -> NDArray[np.bool_]:
    """The valid pixels and the gaps between them that are narrower than twice the radius.

    Scattered pixels without data would tear superpixels apart, and slic would join what is left to a few giants.
    """
    from scipy.ndimage import distance_transform_edt

    if valid.all():
        return valid
    near = distance_transform_edt(~valid) <= radius
    if near.all():
        return near
    return np.asarray(distance_transform_edt(near) > radius) | valid


def _complete(labels: IntArray, valid: NDArray[np.bool_]) -> IntArray:
    """Valid pixels without a label get the nearest one: with a mask, slic drops small islands."""
    from scipy.ndimage import distance_transform_edt

    missing = labels <= 0
    if not (missing & valid).any() or missing.all():
        return labels
    rows, columns = distance_transform_edt(missing, return_distances=False, return_indices=True)
    return np.where(missing, labels[rows, columns], labels)


SLIC = Kind(
    _slic,
    [
        (EXAMPLE, "about 200 superpixels that follow the edges of the picture"),
        ("slic:200*4", "the same, averaged over 4 partitions that differ in number, shape and place"),
    ],
)
