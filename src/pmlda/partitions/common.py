"""What every kind of partition needs: its spellings, numbers in them, labels without gaps."""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import Image, IntArray
from pmlda.validate import require

# More ways to cut one picture than this hide no more borders, but each of them costs a run over all pixels.
MOST_PARTITIONS = 64
UNUSED = -1

Seed = int | np.random.RandomState | None


class Kind(NamedTuple):
    """One kind of partition.

    cut : spec, what stands after its colon, picture, seed → labels, one array for each way to cut
    spellings : each with what it does; the first is the example in messages
    """

    cut: Callable[[str, str, Image, Seed], list[IntArray]]
    spellings: list[tuple[str, str]]


def number(text: str, spec: str, example: str) -> int:
    """A whole number above zero, from one piece of a spec."""
    require(
        re.fullmatch(r"[+-]?[0-9]+", text.strip()) is not None,
        f"partition {spec!r} has {text!r} where a whole number was expected: write it like {example!r}.",
    )
    found = int(text)
    require(
        found > 0, f"partition {spec!r} has {found} where a number above 0 was expected: write it like {example!r}."
    )
    return found


def renumber(labels: NDArray[np.integer], valid: NDArray[np.bool_]) -> IntArray:
    """Labels 0 … n−1 in the same order without gaps on the valid pixels, −1 elsewhere."""
    result, inside = np.full(valid.shape, UNUSED, np.int64), labels[valid].astype(np.int64, copy=False)
    least, most = int(inside.min(initial=0)), int(inside.max(initial=0))
    if most - least > inside.size:
        result[valid] = np.unique(inside, return_inverse=True)[1].ravel()
        return result
    taken = np.zeros(most - least + 1, np.int64)  # a table takes a tenth of the time and memory of sorting
    inside -= least
    taken[inside] = 1
    result[valid] = (np.cumsum(taken) - 1)[inside]
    return result


def require_pixels(count: int, spec: str, image: Image) -> None:
    n_valid = int(image.valid.sum())
    require(
        count <= n_valid,
        f"partition {spec!r} wants {count} regions but the picture has {n_valid} valid pixels: ask for fewer regions.",
    )
