"""Where documents meet: outlines, and how much memberships jump across them."""

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray
from pmlda.validate import require

# A pixel and the one below it; a pixel and the one to its right.
NEIGHBOURS = ((np.s_[:-1, :], np.s_[1:, :]), (np.s_[:, :-1], np.s_[:, 1:]))


def borders(labels: IntArray) -> NDArray[np.bool_]:
    """(H, W) True where the pixel below or to the right is of another document: outlines one pixel wide.

    The rim of a region without data is no border.

    >>> borders(np.array([[0, 0, 1, -1], [0, 0, 1, -1]])).astype(int)
    array([[0, 1, 0, 0],
           [0, 1, 0, 0]])
    """
    result = np.zeros(labels.shape, bool)
    for first, second in NEIGHBOURS:
        a, b = labels[first], labels[second]
        result[first] |= (a >= 0) & (b >= 0) & (a != b)
    return result


def border_jump(memberships: NDArray[np.floating], labels: IntArray) -> tuple[float, float]:
    """How much memberships differ between neighbouring pixels, across borders of documents and inside documents.

    Absolute differences are added over topics and averaged over pairs of neighbours, above each other or side by
    side. Much more across than inside means that seams show. NaN where there is no such pair.

    >>> first_topic = np.array([[0.0, 0.1, 0.9, 1.0]])
    >>> across, inside = border_jump(np.stack([first_topic, 1 - first_topic], axis=2), np.array([[0, 0, 1, 1]]))
    >>> round(across, 6), round(inside, 6)
    (1.6, 0.2)
    """
    require(
        memberships.ndim == 3 and memberships.shape[:2] == labels.shape,
        f"memberships have shape {memberships.shape} and labels {labels.shape}: give (H, W, K) and (H, W).",
    )
    jumps, crossing = [], []
    for first, second in NEIGHBOURS:
        a, b = labels[first], labels[second]
        both = (a >= 0) & (b >= 0)
        jumps.append(np.abs(memberships[first][both] - memberships[second][both]).sum(axis=1, dtype=np.float64))
        crossing.append((a != b)[both])
    jump, across = np.concatenate(jumps), np.concatenate(crossing)
    return _mean(jump[across]), _mean(jump[~across])


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
