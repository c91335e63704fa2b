"""Maps against truth: ROC, membership error after matching topics, overlap, calibration of intervals.

Scores, truths and labels may be maps (H, W) or rows (N,), memberships (H, W, K) or (N, K): each pixel counts alike.
NaN is refused, unless `mask`, True where a pixel counts, leaves its pixel out.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.types import FloatArray, IntArray
from pmlda.validate import choice, require

# A point of a curve, computed in another order, may land this far below it.
ROUNDING = 1e-12


# ── detection ─────────────────────────────────────────────────────────────────────────────────────────────────────


def roc(
    score: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """False positive rates, true positive rates and thresholds; the first threshold is infinity, nothing detected.

    >>> false_positives, true_positives, _ = roc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    >>> false_positives.tolist(), true_positives.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    from sklearn.metrics import roc_curve

    scores, positive = _scores(score, truth, mask)
    false_positives, true_positives, thresholds = roc_curve(positive, scores)
    return false_positives, true_positives, thresholds


def auc(score: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None) -> float:
    """The area under the ROC curve: how often a random positive pixel scores above a random negative one.

    >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    from sklearn.metrics import roc_auc_score

    scores, positive = _scores(score, truth, mask)
    return float(roc_auc_score(positive, scores))


def operating_point(predicted: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None) -> tuple[float, float]:
    """The false and the true positive rate of a crisp method, which has one point where others have a curve.

    >>> operating_point([True, False, True, True], [False, False, True, True])
    (0.5, 1.0)
    """
    detected = _boolean("predicted", predicted)
    kept, positive = _scores(detected.astype(np.float64), truth, mask, name="predicted")
    return float(kept[~positive].mean()), float(kept[positive].mean())


def below_curve(point: tuple[float, float], false_positives: ArrayLike, true_positives: ArrayLike) -> bool:
    """Whether the curve of `roc`, at the point's false positive rate, detects more than the point does.

    Where the curve rises vertically, its upper end counts: only a point there or above is not below the curve.

    >>> below_curve((0.5, 0.9), [0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    True
    >>> below_curve((0.5, 1.0), [0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    False
    """
    x, y = np.asarray(false_positives, np.float64), np.asarray(true_positives, np.float64)
    right = x.ndim == 1 and x.shape == y.shape and len(x) > 1 and bool((np.diff(x) >= 0).all())
    require(
        right, "The curve needs its false and its true positive rates as two equally long lists that rise, as from roc."
    )
    inside = all(0.0 <= rate <= 1.0 for rate in point)
    require(inside, f"point={point!r}: give a false and a true positive rate, both between 0 and 1.")
    # Of equal rates, np.interp takes the last one, which is the highest: the curve rises.
    return bool(point[1] < np.interp(point[0], x, y) - ROUNDING)


# ── memberships ───────────────────────────────────────────────────────────────────────────────────────────────────


def match_topics(found: ArrayLike, truth: ArrayLike, *, by: str = "error", mask: ArrayLike | None = None) -> IntArray:
    """(K true,) which found topic stands for each true one: found[..., order] pairs with truth.

    by : "error" makes the sum of squared differences least; "correlation" makes the sum of correlations largest,
        which does not mind maps that are right in shape but weak in contrast

    There may be more topics found than true ones: those that match worst are left out, so that found[..., order] no
    longer sums to one, and what went into them counts as error. Fewer topics than true ones are refused.

    >>> match_topics([[0.1, 0.9], [0.8, 0.2]], [[1.0, 0.0], [0.0, 1.0]]).tolist()
    [1, 0]
    """
    return _match(*_memberships(found, truth, mask), by)


def membership_rmse(found: ArrayLike, truth: ArrayLike, *, by: str = "error", mask: ArrayLike | None = None) -> float:
    """The root of the mean squared error over all pixels and all true topics, after match_topics.

    by="correlation" is the custom for abundances of materials.

    >>> round(membership_rmse([[0.1, 0.9], [0.8, 0.2]], [[1.0, 0.0], [0.0, 1.0]]), 4)
    0.1581
    """
    ours, true = _memberships(found, truth, mask)
    return float(np.sqrt(np.mean((ours[:, _match(ours, true, by)] - true) ** 2)))


def spectral_angle(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """(K,) the angle between each pair of rows, in radians; brightness does not matter.

    >>> spectral_angle([[1.0, 0.0], [2.0, 2.0]], [[0.0, 3.0], [1.0, 1.0]]).round(4).tolist()
    [1.5708, 0.0]
    """
    one, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    same = one.ndim == 2 and one.shape == other.shape
    require(same, f"The spectra have shapes {one.shape} and {other.shape}. Give two of the same shape (K, bands).")
    require(bool(np.isfinite(one).all() and np.isfinite(other).all()), "The spectra contain NaN or infinity.")
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    require(bool((np.minimum(*lengths) > 0).all()), "A spectrum of zeros has no direction, so no angle to another.")
    one, other = one / lengths[0][:, None], other / lengths[1][:, None]
    # Half the angle from the chords: exact for small angles, where an arc cosine is not.
    chords = np.linalg.norm(one - other, axis=1), np.linalg.norm(one + other, axis=1)
    return np.asarray(2.0 * np.arctan2(*chords))


# ── overlap ───────────────────────────────────────────────────────────────────────────────────────────────────────


def soft_iou(found: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None) -> FloatArray:
    """(K true,) Σ min / Σ max of each pair of maps, matched so that the sum over pairs is largest.

    Of more topics than true ones, the rest is left out. A true topic that is nowhere has 0.

    >>> soft_iou([[0.25, 0.75], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]).tolist()
    [0.8, 0.75]
    """
    ours, true = _memberships(found, truth, mask)
    require(bool((ours >= 0).all() and (true >= 0).all()), "Overlap needs memberships of at least 0.")
    overlap = np.array([[_ratio(np.minimum(z, t).sum(), np.maximum(z, t).sum()) for t in true.T] for z in ours.T])
    return _best(overlap)


def crisp_iou(found: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None) -> FloatArray:
    """(labels in truth,) intersection over union of each true label, ascending, matched for the largest sum.

    The two need not have equally many labels: what is left over in found counts for nothing, what is left over in
    truth has 0.

    >>> crisp_iou([5, 5, 2, 2], [0, 0, 0, 1]).round(4).tolist()
    [0.6667, 0.5]
    """
    from sklearn.metrics.cluster import contingency_matrix

    ours, true = _labels("found", found), _labels("truth", truth)
    keep = _kept({"found": ours, "truth": true}, mask, 0)
    shared = contingency_matrix(true.ravel()[keep], ours.ravel()[keep]).T.astype(np.float64)
    return _best(shared / (shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared))


# ── calibration ───────────────────────────────────────────────────────────────────────────────────────────────────


def interval_coverage(low: ArrayLike, high: ArrayLike, truth: ArrayLike, *, mask: ArrayLike | None = None) -> float:
    """The share of truths within their intervals, ends included. The topics must have been matched before.

    >>> interval_coverage([0.1, 0.2], [0.3, 0.4], [0.3, 0.5])
    0.5
    """
    arrays = {name: np.asarray(a, np.float64) for name, a in (("low", low), ("high", high), ("truth", truth))}
    dimensions = 0 if mask is None else arrays["truth"].ndim - np.ndim(mask)
    keep = _kept(arrays, mask, dimensions)
    lower, upper, value = (_rows(array, dimensions)[keep] for array in arrays.values())
    require(all(np.isfinite(part).all() for part in (lower, upper, value)), _nan("low, high or truth"))
    require(bool((lower <= upper).all()), "Some intervals end below where they begin: give low first, then high.")
    return float(np.mean((lower <= value) & (value <= upper)))


def calibration(
    interval: Callable[[float], tuple[ArrayLike, ArrayLike]],
    truth: ArrayLike,
    levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
    *,
    mask: ArrayLike | None = None,
) -> list[dict[str, float]]:
    """How often intervals of each nominal level hold the truth; interval(level) gives their low and high ends.

    >>> truth = np.random.default_rng(0).uniform(size=(5000, 3))
    >>> middle = np.full(truth.shape, 0.5)
    >>> table = calibration(lambda level: (middle - level / 2, middle + level / 2), truth, [0.5, 0.9])
    >>> [(row["nominal"], round(row["actual"], 2)) for row in table]
    [(0.5, 0.5), (0.9, 0.9)]
    """
    return [{"nominal": level, "actual": interval_coverage(*interval(level), truth, mask=mask)} for level in levels]


# ── checks and matching ───────────────────────────────────────────────────────────────────────────────────────────


def _match(found: FloatArray, truth: FloatArray, by: str) -> IntArray:
    """For each column of truth the column of found that was assigned to it."""
    choice("by", by, ("error", "correlation"))
    if by == "error":
        cost = (found**2).sum(axis=0)[:, None] + (truth**2).sum(axis=0) - 2.0 * found.T @ truth
    else:
        cost = -_standardised(found).T @ _standardised(truth)
    return _assign(cost)


def _assign(cost: FloatArray) -> IntArray:
    """(J,) the row assigned to each column, rows at least as many as columns."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    return np.asarray(rows[np.argsort(columns)], np.int64)


def _best(overlap: FloatArray) -> FloatArray:
    """(J,) what each column has with the row assigned to it, 0 without a row."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(overlap, maximize=True)
    best = np.zeros(overlap.shape[1])
    best[columns] = overlap[rows, columns]
    return best


def _standardised(values: FloatArray) -> FloatArray:
    """Columns of mean 0 and length 1; a constant column has no correlation with anything."""
    centred = values - values.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(length > 0, length, 1.0))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _scores(
    score: ArrayLike, truth: ArrayLike, mask: ArrayLike | None, name: str = "score"
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """(n,) scores and truths of the pixels that count; both classes are there."""
    scores, positive = np.asarray(score, np.float64), _boolean("truth", truth)
    keep = _kept({name: scores, "truth": positive}, mask, 0)
    scores, positive = scores.ravel()[keep], positive.ravel()[keep]
    require(bool(np.isfinite(scores).all()), _nan(name))
    n_positive = int(positive.sum())
    require(
        0 < n_positive < len(positive),
        f"truth is {bool(n_positive)} at all {len(positive)} pixels that count, so one of its two classes is absent "
        "and rates are undefined. Give pixels of both classes.",
    )
    return scores, positive


def _memberships(found: ArrayLike, truth: ArrayLike, mask: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """(n, K found) and (n, K true) of the pixels that count."""
    ours, true = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    same = ours.ndim >= 2 and ours.shape[:-1] == true.shape[:-1]
    require(
        same,
        f"found has shape {ours.shape} and truth {true.shape}. Give memberships of the same pixels, the topics last.",
    )
    require(
        ours.shape[-1] >= true.shape[-1] > 0,
        f"{ours.shape[-1]} topics were found, but truth has {true.shape[-1]}. Match at least as many as there are.",
    )
    keep = _kept({"found": ours[..., 0], "truth": true[..., 0]}, mask, 0)
    ours, true = _rows(ours, 1)[keep], _rows(true, 1)[keep]
    for name, array in (("found", ours), ("truth", true)):
        require(bool(np.isfinite(array).all()), _nan(name))
    return ours, true


def _kept(arrays: Mapping[str, NDArray[np.generic]], mask: ArrayLike | None, trailing: int) -> NDArray[np.bool_]:
    """(n,) which pixels count; the arrays have the same shape, and the mask theirs without the trailing dimensions."""
    shapes = {name: array.shape for name, array in arrays.items()}
    told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    require(len(set(shapes.values())) == 1, f"The sizes differ: {told}. Give the same pixels in each.")
    shape = next(iter(shapes.values()))
    pixels = shape[: len(shape) - trailing]
    keep = np.ones(pixels, bool) if mask is None else _boolean("mask", mask)
    require(keep.shape == pixels, f"mask has shape {keep.shape}, but the pixels have {pixels}: {told}.")
    require(bool(keep.any()), "No pixel counts: the mask leaves out all of them, or there are none.")
    return keep.ravel()


def _rows(array: NDArray[np.float64], trailing: int) -> FloatArray:
    """All pixels in one dimension, before the trailing ones."""
    return array.reshape(-1, *array.shape[array.ndim - trailing :]) if trailing else array.ravel()


def _boolean(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    """True and false, or 0 and 1."""
    array = np.asarray(value)
    right = array.dtype.kind in "biuf" and bool(((array == 0) | (array == 1)).all())
    require(right, f"{name} has values other than True and False (or 0 and 1). Compare it first, like {name} == 4.")
    return array.astype(bool)


def _labels(name: str, value: ArrayLike) -> IntArray:
    array = np.asarray(value)
    require(array.dtype.kind in "biu", f"{name} has type {array.dtype}: give whole numbers, one label for each pixel.")
    return array.astype(np.int64)


def _nan(name: str) -> str:
    return f"{name} contains NaN or infinity. Give mask=, True where a pixel counts, to leave out pixels without data."
