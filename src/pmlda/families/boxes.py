"""Boxes of possible means: a normal density and a box → its best point inside, and draws of what is left of it inside.

A density is given by its curvature H and its pull b, ½ xᵀHx − b·x being minus its logarithm, or by mean and root.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from pmlda.errors import InputError
from pmlda.types import FloatArray
from pmlda.validate import brief, require

# Steps towards the best point for each coordinate, at most; a handful for all of them is usual. A coordinate that would
# move by less than the second, in standard deviations of its own, has nothing left to gain.
STEPS_EACH, SETTLED = 20, 1e-9
# Draws at a time, and batches of them for each that is asked for, before a box is declared out of reach.
BATCH, MOST_BATCHES = 256, 400


class Box(NamedTuple):
    """All x with low ≤ x ≤ high, (p,) each; infinite where there is no limit."""

    low: FloatArray
    high: FloatArray

    def holds(self, means: FloatArray, slack: FloatArray | float = 0.0) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(K,) which of the means lie inside, or at most so far outside."""
        return np.asarray(((means >= self.low - slack) & (means <= self.high + slack)).all(axis=1))

    def nearest(self, means: FloatArray) -> FloatArray:
        """(K, p) means moved into the box, feature by feature."""
        return np.clip(means, self.low, self.high)


def as_limit(name: str, value: Any, shape: tuple[int, ...] | None = None) -> FloatArray | None:
    """A limit in the shape (p,), or in its own; numbers may be infinite, and None stays None."""
    if value is None:
        return None
    try:
        limit = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"The {name} bound of topic means is {value!r}: give a number, or one per feature.") from None
    require(np.asarray(value).dtype.kind in "biuf", f"The {name} bound of topic means is {brief(value)}: give numbers.")
    right = limit.ndim <= 1 if shape is None else limit.shape in ((), shape)
    expected = "a number, or one per feature" if shape is None else f"a number or shape {shape}"
    require(right, f"The {name} bound of topic means has shape {limit.shape}, expected {expected}.")
    require(not np.isnan(limit).any(), f"The {name} bound of topic means contains NaN. Give numbers; inf is allowed.")
    return limit if shape is None else np.broadcast_to(limit, shape).copy()


def require_room(low: FloatArray | None, high: FloatArray | None) -> None:
    """Refuse bounds with nothing between them, or of different shapes."""
    if low is None or high is None:
        return
    fit = low.shape == high.shape or () in (low.shape, high.shape)
    require(
        fit, f"The bounds of topic means have shapes {low.shape} and {high.shape}. Give both for the same features."
    )
    least, most = np.atleast_1d(*np.broadcast_arrays(low, high))
    for a, b in zip(least, most, strict=True):
        require(bool(a < b), f"The bounds of topic means leave nothing between {a:g} and {b:g}: give a low below high.")


def best_inside(
    curvature: FloatArray, pull: FloatArray, low: FloatArray, high: FloatArray, x: FloatArray
) -> FloatArray:
    """(n,) the x between low and high where ½ xᵀHx − b·x is least, sought from an x that lies there.

    An active-set method: coordinates at a limit are held, the others go to where they are best together, or to the
    first limit on the way, which is held from then on. There, the coordinate that gains most is let go. Every step
    leads down, so that no set of held coordinates comes twice, and even an early end is no loss.
    """
    x, held, own = x.copy(), (x <= low) | (x >= high), np.diag(curvature)
    for _ in range(STEPS_EACH * len(x)):
        step = np.zeros_like(x)
        step[~held] = np.linalg.solve(curvature[np.ix_(~held, ~held)], (pull - curvature @ x)[~held])
        ahead = np.where(step > 0, high, low) - x
        room = np.divide(ahead, step, out=np.full(len(x), np.inf), where=step != 0)
        first = int(np.argmin(room))
        if room[first] < 1.0:
            x = np.clip(x + room[first] * step, low, high)
            x[first], held[first] = (high if step[first] > 0 else low)[first], True
            continue
        x = np.clip(x + step, low, high)
        slope = curvature @ x - pull
        gain = np.where(held & np.where(x <= low, slope < 0, slope > 0), np.abs(slope), 0.0) / np.sqrt(own)
        best = int(np.argmax(gain))
        rounding = 1e-14 * (np.abs(curvature[best]) @ np.abs(x) + np.abs(pull[best])) / np.sqrt(own[best])
        if gain[best] <= max(SETTLED, rounding):
            break
        held[best] = False
    return x


def redraw_inside(
    rng: np.random.Generator,
    curvature: FloatArray,
    pull: FloatArray,
    low: FloatArray,
    high: FloatArray,
    x: FloatArray,
) -> FloatArray:
    """(n,) every coordinate drawn given the others, from first to last and back: Gibbs sampling inside the box.

    There and back makes the step reversible.
    """
    x = x.copy()
    deviation = 1.0 / np.sqrt(np.diag(curvature))
    order = np.arange(len(x))
    for i in np.concatenate([order, order[::-1]]):
        centre = x[i] + (pull[i] - curvature[i] @ x) * deviation[i] ** 2
        white = draw_between(rng, (low[i] - centre) / deviation[i], (high[i] - centre) / deviation[i])
        x[i] = np.clip(centre + deviation[i] * white, low[i], high[i])
    return x


def draw_between(rng: np.random.Generator, low: Any, high: Any) -> FloatArray:
    """Standard normal numbers between low and high, of their shape: Φ⁻¹ of uniform ones, all in logarithms."""
    turned = np.asarray(low) > 0  # logarithms of Φ are accurate far below zero
    least, most = np.where(turned, -high, low), np.where(turned, -low, high)
    u = np.maximum(rng.random(np.shape(least)), 2.0**-54)
    x = ndtri_exp(np.logaddexp(log_ndtr(least) + np.log1p(-u), log_ndtr(most) + np.log(u)))
    return np.asarray(np.clip(np.where(turned, -x, x), low, high))


def draw_inside(rng: np.random.Generator, mean: FloatArray, root: FloatArray, box: Box, n: int) -> FloatArray:
    """(n, p) independent draws of N(mean, root·rootᵀ) inside the box, exact; root is lower triangular.

    Coordinates are drawn in turn, each between its limits given those before, and the lot is accepted with the product
    of the probabilities between limits, each divided by the largest that it can be. So it is nearly always accepted
    where the box is narrow, and as often as a draw of the normal itself is inside where it is wide.
    """
    own = np.diag(root)
    widest = ndtr(0.5 * (box.high - box.low) / own) - ndtr(-0.5 * (box.high - box.low) / own)
    found: list[FloatArray] = []
    for _ in range(n * MOST_BATCHES):
        white, log_share = np.zeros((BATCH, len(mean))), np.zeros(BATCH)
        for j in range(len(mean)):
            centre = mean[j] + white @ root[j]
            low, high = (box.low[j] - centre) / own[j], (box.high[j] - centre) / own[j]
            turned = low > 0
            share = ndtr(np.where(turned, -low, high)) - ndtr(np.where(turned, -high, low))
            with np.errstate(divide="ignore"):
                log_share += np.log(share) - np.log(widest[j])
            white[:, j] = draw_between(rng, low, high)
        accepted = np.log(np.maximum(rng.random(BATCH), 2.0**-54)) < log_share
        found.extend(white[accepted])
        if len(found) >= n:
            return box.nearest(mean + np.array(found[:n]) @ root.T)
    raise InputError(
        "The prior of topic means hardly reaches between their bounds, so nothing can be drawn from it. Give bounds "
        "that contain the data, or another init."
    )
