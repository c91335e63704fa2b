"""Lines and rings in coordinates of pixels → runs of pixels: what a brush of some radius touches, what rings enclose.

x is a column and y a row, and the centres of pixels are at whole numbers. A run is two flat indices (row · width +
column): of its first pixel, and of the one after its last. Runs of one shape are ascending and do not overlap, so that
strokes in a very large picture need memory for the rows that they cross, not for the picture.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pmlda.types import FloatArray, IntArray

Shape = tuple[int, int]
# Pixels at the edge of a brush are inside, whatever rounding says.
ROUNDING = 1e-9
# Pairs of a segment and a row that are worked on at once.
AT_ONCE = 2**20


def brush(lines: Sequence[FloatArray], radius: float, shape: Shape) -> IntArray:
    """(n, 2) runs of pixels whose centre is within the radius of a line; a line of one point is a disc.

    lines : each (m, 2) points x, y

    >>> brush([np.array([[1.0, 0.0], [3.0, 0.0]])], 0.5, (2, 5)).tolist()
    [[1, 4]]
    """
    reach = radius + ROUNDING
    starts = np.concatenate([line[:-1] if len(line) > 1 else line for line in lines])
    stops = np.concatenate([line[1:] if len(line) > 1 else line for line in lines])
    first = np.ceil(np.minimum(starts, stops)[:, 1] - reach)
    last = np.floor(np.maximum(starts, stops)[:, 1] + reach)
    found = [np.empty((0, 2), np.int64)]
    for of, y in _rows_crossed(first, last, shape[0]):
        left, right = _brush_spans(starts[of], stops[of], y, reach)
        found.append(_to_runs(y, np.ceil(left), np.floor(right), shape[1]))
    return np.concatenate(found)


def enclosed(rings: Sequence[FloatArray], shape: Shape) -> IntArray:
    """(n, 2) runs of pixels whose centre is inside an odd number of rings, so that a ring in a ring is a hole.

    A centre on a border belongs to the shape on its right or below, so that shapes side by side share no pixel.

    rings : each (m, 2) points x, y; the last one is joined to the first

    >>> enclosed([np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])], (3, 3)).tolist()
    [[0, 2], [3, 5]]
    """
    starts, stops = np.concatenate(rings), np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    rising = (starts[:, 1] > stops[:, 1])[:, None]
    top, bottom = np.where(rising, stops, starts), np.where(rising, starts, stops)
    found = [np.empty((0, 2), np.int64)]
    for of, y in _rows_crossed(np.ceil(top[:, 1]), np.ceil(bottom[:, 1]) - 1.0, shape[0]):
        slope = (bottom[of, 0] - top[of, 0]) / (bottom[of, 1] - top[of, 1])
        x = top[of, 0] + (y - top[of, 1]) * slope
        # Every row crosses rings an even number of times; between an odd and an even crossing it is inside.
        order = np.lexsort((x, y))
        x, y = x[order], y[order]
        found.append(_to_runs(y[::2], np.ceil(x[::2]), np.ceil(x[1::2]) - 1.0, shape[1]))
    return np.concatenate(found)


def pixels_of(runs: IntArray) -> IntArray:
    """(n,) ascending flat indices of the pixels of runs.

    >>> pixels_of(np.array([[1, 3], [7, 8]])).tolist()
    [1, 2, 7]
    """
    lengths = runs[:, 1] - runs[:, 0]
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(runs[:, 0] - before, lengths) + np.arange(int(lengths.sum())))


def _rows_crossed(first: FloatArray, last: FloatArray, height: int) -> Iterator[tuple[IntArray, FloatArray]]:
    """All pairs of a segment's number and a row from its first to its last, strip by strip of the picture."""
    first, last = np.maximum(first, 0.0), np.minimum(last, height - 1.0)
    if not (first <= last).any():
        return
    step = max(1, AT_ONCE // len(first))
    for top in range(int(first.min()), int(min(last.max(), height - 1)) + 1, step):
        low, high = np.maximum(first, top), np.minimum(last, top + step - 1.0)
        counts = np.maximum(high - low + 1.0, 0.0).astype(np.int64)
        of = np.repeat(np.arange(len(first)), counts)
        before = np.cumsum(counts) - counts
        yield of, low[of] + (np.arange(len(of)) - before[of])


def _brush_spans(start: FloatArray, stop: FloatArray, y: FloatArray, reach: float) -> tuple[FloatArray, FloatArray]:
    """From which x to which x each row lies within reach of its segment: two discs and a rectangle, which is convex."""
    left, right = np.full(len(y), np.inf), np.full(len(y), -np.inf)
    for centre in (start, stop):
        away = y - centre[:, 1]
        half = np.sqrt(np.maximum(reach**2 - away**2, 0.0))
        inside = np.abs(away) <= reach
        left = np.where(inside, np.minimum(left, centre[:, 0] - half), left)
        right = np.where(inside, np.maximum(right, centre[:, 0] + half), right)
    dx, dy, rise = stop[:, 0] - start[:, 0], stop[:, 1] - start[:, 1], y - start[:, 1]
    length = np.hypot(dx, dy)
    # 0 ≤ (x − x₀) dx + (y − y₀) dy ≤ length² and |(x − x₀) dy − (y − y₀) dx| ≤ reach · length
    ends = _between(dx, rise * dy, np.zeros(len(y)), length**2)
    sides = _between(dy, -rise * dx, -reach * length, reach * length)
    low, high = start[:, 0] + np.maximum(ends[0], sides[0]), start[:, 0] + np.minimum(ends[1], sides[1])
    inside = (length > 0) & (low <= high)
    return np.where(inside, np.minimum(left, low), left), np.where(inside, np.maximum(right, high), right)


def _between(
    slope: FloatArray, at_zero: FloatArray, least: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """From which t to which t slope · t + at_zero lies between least and most; none where the first is the larger."""
    flat = slope == 0.0
    divisor = np.where(flat, 1.0, slope)
    one, other = (least - at_zero) / divisor, (most - at_zero) / divisor
    everywhere = np.where((least <= at_zero) & (at_zero <= most), np.inf, -np.inf)
    return (
        np.where(flat, -everywhere, np.minimum(one, other)),
        np.where(flat, everywhere, np.maximum(one, other)),
    )


def _to_runs(y: FloatArray, first: FloatArray, last: FloatArray, width: int) -> IntArray:
    """Runs from column first to column last of every row y, clipped to the picture, ascending without overlaps."""
    first, last = np.maximum(first, 0.0), np.minimum(last, width - 1.0)
    inside = first <= last
    row = y[inside].astype(np.int64) * width
    start, stop = row + first[inside].astype(np.int64), row + last[inside].astype(np.int64) + 1
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    begins = np.concatenate([np.ones(min(len(start), 1), bool), start[1:] > stop[:-1]])
    ends = np.append(np.flatnonzero(begins)[1:] - 1, len(start) - 1) if len(start) else order
    return np.stack([start[begins], stop[ends]], axis=1)
