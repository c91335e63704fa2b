"""How well labels agree with the data: memberships that the pixels of strokes have without their labels → a judgement.

A stroke that says water, on pixels that look like sky by their features and their document, is a slip of the hand, or
tells of something that the topics cannot express. Either way its user wants to know.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray

# A stroke contradicts its pixels if they have less of what it says, and clearly less than half of it: by so many
# standard deviations.
LEAST_OVERLAP, CLEAR_BELOW, CLEARLY = 0.2, 0.5, 2.0
# A label image may have any number of regions: so many are kept in a record, and so many are told in sentences.
MOST_KEPT, MOST_TOLD = 1000, 5


class Under(NamedTuple):
    """What the pixels of each stroke have without their labels, as sums, so that tiles can be added up.

    n_pixels : (S,)
    memberships, std : (S, K) sums of memberships and of their standard deviations
    """

    n_pixels: FloatArray
    memberships: FloatArray
    std: FloatArray


def found_under(
    stroke: IntArray, memberships: NDArray[np.floating], std: NDArray[np.floating], n_strokes: int
) -> Under:
    """What is found under strokes. stroke : (M,) the stroke of each pixel; memberships, std : (M, K) of these pixels"""
    n_pixels = np.bincount(stroke, minlength=n_strokes).astype(np.float64)
    sums = [np.zeros((n_strokes, memberships.shape[1])) for _ in range(2)]
    for total, values in zip(sums, (memberships, std), strict=True):
        np.add.at(total, stroke, values)
    return Under(n_pixels, *sums)


class Agreement(NamedTuple):
    """What a stroke says, and what its pixels would be without it.

    stroke : its number, from 1
    said : in words, "water", "0.6 water and 0.4 sky" or "water or sky"
    found : (K,) mean membership of its pixels in each topic, by topics and documents alone
    std : (K,) their mean standard deviation, which pixels of a stroke have in common
    overlap : from 0 to 1, how much of what was said is found: Σ_k min(said_k, found_k), or the sum over what it may be
    contradiction : a sentence, if the pixels contradict the stroke; otherwise nothing
    """

    stroke: int
    said: str
    found: FloatArray
    std: FloatArray
    overlap: float
    contradiction: str = ""

    def to_table(self) -> dict[str, Any]:
        """Numbers and texts for run.json."""
        return self._asdict() | {"found": self.found.round(4).tolist(), "std": self.std.round(4).tolist()}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Agreement":
        """What to_table made."""
        return cls(**table | {name: np.array(table[name], np.float64) for name in ("found", "std")})


def judge(shares: FloatArray, any_of: FloatArray, under: Under, names: Sequence[str]) -> list[Agreement]:
    """An entry for each stroke that has pixels with data.

    shares : (S, K) what each stroke says, zero where it says "one of these"; any_of : (S, K) 1 for each of these
    names : of topics

    >>> under = found_under(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.8, 0.2], [0.05, 0.95]]), np.zeros((3, 2)), 2)
    >>> first, second = judge(np.array([[1.0, 0.0], [1.0, 0.0]]), np.zeros((2, 2)), under, ["water", "sky"])
    >>> first.said, round(first.overlap, 2), first.contradiction
    ('water', 0.85, '')
    >>> second.contradiction
    'Stroke 2 says water, but without it its pixel is 0.05 ± 0.00 water and 0.95 sky. Check it, or ask for more topics.'
    """
    entries = []
    for number in np.flatnonzero(under.n_pixels > 0).tolist():
        said = shares[number] if shares[number].any() else any_of[number]
        found, std = (sums[number] / under.n_pixels[number] for sums in (under.memberships, under.std))
        overlap = float(np.minimum(said, found).sum())
        # Σ over the rest is as uncertain as Σ over what was said: they add up to one.
        doubt = float(np.sqrt(min((std[said > 0] ** 2).sum(), (std[said == 0] ** 2).sum() or np.inf)))
        entry = Agreement(number + 1, in_words(shares[number], any_of[number], names), found, std, overlap)
        if overlap < LEAST_OVERLAP and overlap + CLEARLY * doubt < CLEAR_BELOW:
            pixels = "its pixel is" if under.n_pixels[number] == 1 else f"its {under.n_pixels[number]:,.0f} pixels are"
            most = names[int(found.argmax())]
            entry = entry._replace(
                contradiction=f"Stroke {number + 1} says {entry.said}, but without it {pixels} {overlap:.2f} ± "
                f"{doubt:.2f} {'that' if (said > 0).sum() > 1 else entry.said} and {found.max():.2f} {most}. Check it, "
                "or ask for more topics."
            )
        entries.append(entry)
    return entries


def least_agreeing(entries: Sequence[Agreement], most: int = MOST_KEPT) -> list[Agreement]:
    """At most so many, in the order of strokes."""
    worst = sorted(entries, key=lambda each: (not each.contradiction, each.overlap))[:most]
    return sorted(worst, key=lambda each: each.stroke)


def contradictions(entries: Sequence[Agreement]) -> tuple[str, ...]:
    """Sentences on strokes that contradict their pixels, not too many."""
    found = [each.contradiction for each in entries if each.contradiction]
    more = len(found) - MOST_TOLD
    return tuple(found) if more <= 0 else (*found[:MOST_TOLD], f"{more} more strokes contradict their pixels.")


def in_words(shares: FloatArray, any_of: FloatArray, names: Sequence[str]) -> str:
    """What a stroke says.

    >>> in_words(np.array([0.6, 0.4]), np.zeros(2), ["water", "sky"]), in_words(np.zeros(2), np.ones(2), ["a", "b"])
    ('0.6 water and 0.4 sky', 'a or b')
    """
    told = [(share, name) for share, name in zip(shares.tolist(), names, strict=True) if share > 0]
    if told:
        return told[0][1] if len(told) == 1 else " and ".join(f"{share:.2g} {name}" for share, name in told)
    return " or ".join(name for may_be, name in zip(any_of.tolist(), names, strict=True) if may_be)
