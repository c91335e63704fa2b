"""Partitions: picture + how to cut it → label arrays, one for each way to cut: which pixels form one document.

Several partitions of one picture mean that memberships are computed under each and averaged, so that the border of
a document in one of them is hidden by the others.
"""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pmlda.partitions.borders import border_jump, borders
from pmlda.partitions.common import Kind, Seed, renumber
from pmlda.partitions.given import LABEL_FILES, from_labels, read_labels
from pmlda.partitions.ncuts import NCUTS
from pmlda.partitions.parts import Cutting, cut_part, parse_cutting
from pmlda.partitions.slic import SLIC
from pmlda.partitions.windows import WHOLE, WINDOWS
from pmlda.types import Image, IntArray
from pmlda.validate import nearest, require

__all__ = [
    "Cutting",
    "border_jump",
    "borders",
    "cut_part",
    "describe_partitions",
    "parse_cutting",
    "partition",
    "read_labels",
]

Spec = str | Path | ArrayLike
KINDS: dict[str, Kind] = {"whole": WHOLE, "windows": WINDOWS, "slic": SLIC, "ncuts": NCUTS}


def partition(spec: Spec, image: Image, random_state: Seed = None) -> list[IntArray]:
    """Cut a picture into documents.

    Parameters
    ----------
    spec : text, path or (H, W) integers
        One of the spellings of `describe_partitions`, or labels of your own, where negative means not used.
    image : Image
    random_state : int, RandomState or None
        Start of the eigenvalue solver of "ncuts"; nothing else is random. None is the same as 0.

    Returns
    -------
    list of (H, W) int64 arrays
        Labels 0 … n−1, and −1 where the picture has no data. One array, or several to average over.

    >>> pixels = np.zeros((4, 6, 1))
    >>> picture = Image(pixels, np.ones((4, 6), bool), ("grey",), "nothing")
    >>> partition("windows:2x3", picture)[0]
    array([[0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1],
           [2, 2, 2, 3, 3, 3],
           [2, 2, 2, 3, 3, 3]])
    >>> len(partition("windows:2/1", picture))
    4
    """
    require(
        bool(image.valid.any()),
        f"picture {image.name!r} has no valid pixel, so there is nothing to cut: check its mask or its no-data value.",
    )
    if not isinstance(spec, str | Path):
        return [from_labels(np.asarray(spec), image, "the label array")]
    if isinstance(spec, Path) or spec.lower().endswith(LABEL_FILES):
        return [from_labels(read_labels(Path(spec), image.valid.shape), image, f"label image {str(spec)!r}")]
    name, _, argument = spec.strip().lower().partition(":")
    kind = KINDS[_known(name, spec)]
    seed = 0 if random_state is None else random_state
    return [renumber(labels, image.valid) for labels in kind.cut(spec, argument, image, seed)]


def describe_partitions() -> list[tuple[str, str]]:
    """Each spelling and what it does, for a help text.

    >>> describe_partitions()[0]
    ('whole', 'the whole picture is one document')
    """
    lines = [line for kind in KINDS.values() for line in kind.spellings]
    files = ", ".join(LABEL_FILES)
    return [
        *lines,
        ("labels.png", f"labels from a file ({files}): one whole number for each pixel, negative = not used"),
    ]


def _known(name: str, spec: str) -> str:
    """The name if there is a partition of that name."""
    examples = ", ".join(spelling for spelling, _ in describe_partitions())
    hint = nearest(name, list(KINDS))
    require(name in KINDS, f"partition {spec!r} is not known. {hint}There are: {examples}.")
    return name
