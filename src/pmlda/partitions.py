"""Partitions: picture + how to cut it → label arrays, one for each way to cut: which pixels form one document.

Several partitions of one picture mean that memberships are computed under each and averaged, so that the border of
a document in one of them is hidden by the others.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.types import FloatArray, Image, IntArray
from pmlda.validate import nearest, require

# More ways to cut one picture than this hide no more borders, but each of them costs a run over all pixels.
MOST_PARTITIONS = 64
# Colours are brought to the units of Lab, where black and white are 100 apart and 10 is clearly another colour.
COMPACTNESS = 10.0
LABEL_FILES = (".npy", ".png", ".tif", ".tiff")
UNUSED = -1

Spec = str | Path | ArrayLike
Seed = int | np.random.RandomState | None


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
        return [_from_labels(np.asarray(spec), image, "the label array")]
    if isinstance(spec, Path) or spec.lower().endswith(LABEL_FILES):
        return [_from_labels(_read_labels(Path(spec)), image, f"label image {str(spec)!r}")]
    name, _, argument = spec.strip().lower().partition(":")
    cut, _, _ = _KINDS[_known(name, spec)]
    seed = 0 if random_state is None else random_state
    return [_renumber(labels, image.valid) for labels in cut(spec, argument, image, seed)]


def describe_partitions() -> list[tuple[str, str]]:
    """Each spelling and what it does, for a help text.

    >>> describe_partitions()[0]
    ('whole', 'the whole picture is one document')
    """
    lines = [line for _, _, spellings in _KINDS.values() for line in spellings]
    files = ", ".join(LABEL_FILES)
    return [
        *lines,
        ("labels.png", f"labels from a file ({files}): one whole number for each pixel, negative = not used"),
    ]


# ── what every kind of partition needs ────────────────────────────────────────────────────────────────────────────


def _known(name: str, spec: str) -> str:
    """The name if there is a partition of that name."""
    examples = ", ".join(spelling for spelling, _ in describe_partitions())
    hint = nearest(name, list(_KINDS))
    require(name in _KINDS, f"partition {spec!r} is not known. {hint}There are: {examples}.")
    return name


def _number(text: str, spec: str) -> int:
    """A whole number above zero, from one piece of a spec."""
    name = spec.partition(":")[0].strip().lower()
    example = _KINDS[name][1]
    require(
        re.fullmatch(r"[+-]?[0-9]+", text.strip()) is not None,
        f"partition {spec!r} has {text!r} where a whole number was expected: write it like {example!r}.",
    )
    number = int(text)
    require(
        number > 0, f"partition {spec!r} has {number} where a number above 0 was expected: write it like {example!r}."
    )
    return number


def _renumber(labels: NDArray[np.integer], valid: NDArray[np.bool_]) -> IntArray:
    """Labels 0 … n−1 in the same order without gaps on the valid pixels, −1 elsewhere."""
    result = np.full(valid.shape, UNUSED, np.int64)
    result[valid] = np.unique(labels[valid], return_inverse=True)[1].ravel()
    return result


def _require_pixels(count: int, spec: str, image: Image) -> None:
    n_valid = int(image.valid.sum())
    require(
        count <= n_valid,
        f"partition {spec!r} wants {count} regions but the picture has {n_valid} valid pixels: ask for fewer regions.",
    )


# ── whole, windows ────────────────────────────────────────────────────────────────────────────────────────────────


def _whole(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    require(not argument, f"partition {spec!r} has {argument!r} where nothing was expected: write 'whole'.")
    return [np.zeros(image.valid.shape, np.int64)]


def _windows(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """One grid of windows, or all grids shifted by a stride."""
    size, slash, step = argument.partition("/")
    window = _rows_and_columns(size, spec)
    stride = _rows_and_columns(step, spec) if slash else window
    _check_windows(window, stride, spec, image)
    height, width = image.valid.shape
    return [
        _stripes(height, window[0], top)[:, None] * width + _stripes(width, window[1], left)
        for top, left in product(range(0, window[0], stride[0]), range(0, window[1], stride[1]))
    ]


def _rows_and_columns(text: str, spec: str) -> tuple[int, int]:
    """'64' or '64x128'."""
    rows, times, columns = text.partition("x")
    return _number(rows, spec), _number(columns if times else rows, spec)


def _check_windows(window: tuple[int, int], stride: tuple[int, int], spec: str, image: Image) -> None:
    size, step = (" × ".join(map(str, pair)) for pair in (window, stride))
    height, width = image.valid.shape
    require(
        window[0] <= height and window[1] <= width,
        f"partition {spec!r} has windows of {size} pixels but the picture has {height} × {width}: "
        "take smaller windows, or 'whole'.",
    )
    require(
        stride[0] <= window[0] and stride[1] <= window[1],
        f"partition {spec!r} has stride {step}, larger than its window {size}: take a stride that divides the window.",
    )
    require(
        window[0] % stride[0] == 0 and window[1] % stride[1] == 0,
        f"partition {spec!r} has stride {step}, which does not divide its window {size}: "
        "take a half or a quarter of the window.",
    )
    n_grids = (window[0] // stride[0]) * (window[1] // stride[1])
    require(
        n_grids <= MOST_PARTITIONS,
        f"partition {spec!r} makes {n_grids} shifted grids and at most {MOST_PARTITIONS} are allowed: "
        "take a larger stride.",
    )


def _stripes(length: int, window: int, first: int) -> IntArray:
    """(length,) the number of the stripe of each row or column, when the grid has a line at `first`."""
    edges = [0, *range(first or window, length, window), length]
    # A narrow strip would be a document of few pixels; it joins its neighbour.
    if len(edges) > 2 and 2 * (edges[1] - edges[0]) < window:
        del edges[1]
    if len(edges) > 2 and 2 * (edges[-1] - edges[-2]) < window:
        del edges[-2]
    return np.searchsorted(edges[1:-1], np.arange(length), side="right").astype(np.int64)


# ── superpixels ───────────────────────────────────────────────────────────────────────────────────────────────────


def _slic(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """One partition into superpixels, or several that differ in number, compactness and the start of their grid."""
    count_text, star, repeats_text = argument.partition("*")
    count = _number(count_text, spec)
    repeats = _number(repeats_text, spec) if star else 1
    _require_pixels(count, spec, image)
    require(
        repeats <= MOST_PARTITIONS,
        f"partition {spec!r} makes {repeats} partitions and at most {MOST_PARTITIONS} are allowed: take fewer.",
    )
    colours = smooth_colours(image)
    n_valid = int(image.valid.sum())
    return [
        superpixels(colours, image.valid, min(max(round(count * share), 1), n_valid), tightness, shift)
        for share, tightness, shift in _variants(repeats)
    ]


def _variants(repeats: int) -> Iterator[tuple[float, float, tuple[float, float]]]:
    """Share of the number wanted, how tight, and shift of the grid in half steps of the grid."""
    if repeats == 1:
        yield 1.0, 1.0, (0.0, 0.0)
        return
    for i, share in enumerate(np.linspace(0.8, 1.2, repeats)):
        # Loose and tight take turns, so that compactness does not go hand in hand with size.
        yield float(share), (1.0, 1.5)[i % 2], (i / repeats, 2 * i / repeats % 1)


def smooth_colours(image: Image) -> FloatArray:
    """(H, W, 1 to 3) colours, smoothed if there is speckle, which should not decide where borders run.

    A clean picture stays sharp: blurred edges become superpixels of their own.
    """
    from scipy.ndimage import gaussian_filter

    colours = _lab_like(image)
    if _noise(colours, image.valid) <= COMPACTNESS:
        return colours
    return np.asarray(gaussian_filter(colours, (1, 1, 0)), np.float64)


def _lab_like(image: Image) -> FloatArray:
    """(H, W, 1 to 3) colours in units like those of Lab, finite everywhere.

    Three bands are taken for red, green and blue. Other pictures are stretched to 0 … 100 band by band, and more than
    three bands are brought to three principal components.
    """
    bands = _fill(image)
    values = bands[image.valid]
    if bands.shape[2] == 3:
        from skimage.color import rgb2lab

        low, high = np.percentile(values, (1, 99))  # of all bands together: a stretch of each would change the hue
        return np.asarray(rgb2lab(_stretch(bands, low, high)), np.float64)
    low, high = np.percentile(values, (1, 99), axis=0)
    stretched = 100 * _stretch(bands, low, high)
    return stretched if bands.shape[2] < 3 else _principal(stretched, image.valid)


def _fill(image: Image) -> FloatArray:
    """The pixels; where there is no data, those of the nearest pixel with data, so that smoothing does no harm."""
    from scipy.ndimage import distance_transform_edt

    bands = image.pixels.astype(np.float64)
    usable = image.valid & np.isfinite(bands).all(axis=2)
    require(
        bool(usable.any()),
        f"picture {image.name!r} has no valid pixel with finite numbers in every band: check its mask or its bands.",
    )
    if usable.all():
        return bands
    rows, columns = distance_transform_edt(~usable, return_distances=False, return_indices=True)
    filled: FloatArray = bands[rows, columns]
    return filled


def _stretch(bands: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """low → 0, high → 1, clipped; a band without contrast becomes 0."""
    span = np.subtract(high, low)
    return np.clip((bands - low) / np.where(span > 0, span, np.inf), 0, 1)


def _principal(bands: FloatArray, valid: NDArray[np.bool_]) -> FloatArray:
    """(H, W, 3) the first three principal components, the first of them about 100 wide."""
    values = bands[valid]
    center = values.mean(axis=0)
    _, axes = np.linalg.eigh((values - center).T @ (values - center))
    components: FloatArray = (bands - center) @ axes[:, :-4:-1]
    low, high = np.percentile(components[valid][:, 0], (1, 99))
    return components * (100 / (high - low) if high > low else 1.0)


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
    compactness = tightness * max(COMPACTNESS, 1.5 * _noise(colours, valid))
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


def _noise(colours: FloatArray, valid: NDArray[np.bool_]) -> float:
    """How different pixels close to each other typically are: in speckle, superpixels must hold together more."""
    steps = [
        np.sqrt(((colours[a] - colours[b]) ** 2).sum(axis=2))[valid[a] & valid[b]]
        for a, b in (
            (np.s_[:-3, :], np.s_[3:, :]),
            (np.s_[:, :-3], np.s_[:, 3:]),
        )  # 3 apart: smoothing joins nearer ones
    ]
    together = np.concatenate(steps)
    return float(np.median(together)) if len(together) else 0.0


def _complete(labels: IntArray, valid: NDArray[np.bool_]) -> IntArray:
    """Valid pixels without a label get the nearest one: with a mask, slic drops small islands."""
    from scipy.ndimage import distance_transform_edt

    missing = labels <= 0
    if not (missing & valid).any() or missing.all():
        return labels
    rows, columns = distance_transform_edt(missing, return_distances=False, return_indices=True)
    return np.where(missing, labels[rows, columns], labels)


# ── normalized cuts ───────────────────────────────────────────────────────────────────────────────────────────────


def _ncuts(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """Small superpixels joined into exactly as many regions as asked for."""
    count = _number(argument, spec)
    _require_pixels(count, spec, image)
    if count == 1:
        return [np.zeros(image.valid.shape, np.int64)]
    colours = smooth_colours(image)
    pieces = _oversegment(colours, image.valid, count)
    joined = _join(pieces, colours, count, seed)
    return [np.where(image.valid, joined[pieces], UNUSED)]


def _oversegment(colours: FloatArray, valid: NDArray[np.bool_], count: int) -> IntArray:
    """Superpixels, ten for each region wanted and at least 200; single pixels where there are too few for that."""
    n_valid = int(valid.sum())
    wanted = max(10 * count, 200)
    while 2 * wanted < n_valid:
        pieces = _renumber(superpixels(colours, valid, wanted), valid)
        if pieces.max() + 1 >= 2 * count:
            return pieces
        wanted *= 2  # a ragged mask can leave far fewer than were asked for
    return _renumber(np.arange(valid.size).reshape(valid.shape), valid)


def _join(pieces: IntArray, colours: FloatArray, count: int, seed: Seed) -> IntArray:
    """(pieces,) the region of each piece, by normalized cuts of the graph of neighbouring pieces."""
    from sklearn.cluster import SpectralClustering

    used = pieces >= 0
    sizes = np.bincount(pieces[used])
    if len(sizes) == count:
        return np.arange(count)
    centers = np.stack([np.bincount(pieces[used], place) / sizes for place in np.nonzero(used)], axis=1)
    model = SpectralClustering(count, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    regions = model.fit_predict(_graph(pieces, colours, sizes, centers)).astype(np.int64)
    return _split_to(count, regions, sizes, centers)


def _graph(pieces: IntArray, colours: FloatArray, sizes: IntArray, centers: FloatArray) -> Any:
    """Sparse (n, n) affinity of neighbouring pieces, made connected."""
    from scipy.sparse import coo_array, csr_matrix

    n = len(sizes)
    used = pieces >= 0
    means = np.stack([np.bincount(pieces[used], band[used]) / sizes for band in np.moveaxis(colours, 2, 0)], axis=1)
    pairs, lengths, steps = _shared_borders(pieces, colours)
    # Two pieces belong together if their colours are alike and no edge runs between them.
    distances = ((means[pairs[:, 0]] - means[pairs[:, 1]]) ** 2).sum(axis=1) + steps**2
    typical = float(np.median(distances)) or float(distances.mean()) if len(distances) else 0.0
    alike = np.exp(-distances / (2 * typical)) if typical > 0 else np.ones(len(pairs))
    # As in a graph of pixels, a long border counts more. The floor keeps the eigenvalue problem well posed.
    weights = lengths * np.maximum(alike, 1e-4)
    upper = coo_array((weights, (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    bridges = _bridges(upper, centers)
    if len(bridges):
        # Weak, so that a cut between islands is cheap; a lone piece still stays with its neighbour.
        weak = np.full(len(bridges), 1e-2 * (np.median(weights) if len(weights) else 1.0))
        upper = upper + coo_array((weak, (bridges[:, 0], bridges[:, 1])), shape=(n, n)).tocsr()
    return csr_matrix(upper + upper.T)


def _shared_borders(pieces: IntArray, colours: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs of neighbouring pieces (n, 2), the length of their border, and the mean step of colour across it."""
    keys, steps = [], []
    n = int(pieces.max()) + 1
    for first, second in _NEIGHBOURS:
        a, b = pieces[first], pieces[second]
        apart = (a >= 0) & (b >= 0) & (a != b)
        keys.append((np.minimum(a, b) * n + np.maximum(a, b))[apart])
        steps.append(np.sqrt(((colours[first][apart] - colours[second][apart]) ** 2).sum(axis=1)))
    pairs, which, lengths = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    mean_step = np.bincount(which.ravel(), np.concatenate(steps), minlength=len(pairs)) / np.maximum(lengths, 1)
    return np.stack([pairs // n, pairs % n], axis=1), lengths, mean_step


def _bridges(graph: Any, centers: FloatArray) -> IntArray:
    """(b, 2) edges to nearest pieces that connect all parts of the graph; none if it is connected."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    n = len(centers)
    bridges = np.zeros((0, 2), np.int64)
    n_parts, part = connected_components(graph, directed=False)
    reach = 2
    while n_parts > 1:
        reach = min(2 * reach, n)
        nearest = np.asarray(cKDTree(centers).query(centers, k=reach)[1])
        edges = np.stack([np.repeat(np.arange(n), reach), nearest.ravel()], axis=1)
        bridges = np.unique(np.sort(edges[part[edges[:, 0]] != part[edges[:, 1]]], axis=1), axis=0)
        links = coo_array((np.ones(len(bridges)), (bridges[:, 0], bridges[:, 1])), shape=(n, n))
        n_parts = connected_components(graph + links.tocsr(), directed=False)[0]
    return bridges


def _split_to(count: int, regions: IntArray, sizes: IntArray, centers: FloatArray) -> IntArray:
    """Exactly `count` regions: cluster_qr can leave some empty, and then the largest are cut in two."""
    regions = np.unique(regions, return_inverse=True)[1].ravel().astype(np.int64)
    for new in range(int(regions.max()) + 1, count):
        pixels = np.bincount(regions, sizes)
        pixels[np.bincount(regions) < 2] = 0  # one piece cannot be cut
        members = np.flatnonzero(regions == pixels.argmax())
        along = centers[members][:, np.ptp(centers[members], axis=0).argmax()]
        order = members[np.argsort(along, kind="stable")]
        regions[order[len(order) // 2 :]] = new
    return regions


# ── given labels ──────────────────────────────────────────────────────────────────────────────────────────────────


def _read_labels(path: Path) -> NDArray[np.generic]:
    """The numbers in a label image as they are stored: a palette of colours is not applied."""
    suffix = path.suffix.lower()
    require(
        suffix in LABEL_FILES,
        f"label image {str(path)!r} ends in {suffix!r}, expected one of {', '.join(LABEL_FILES)}: convert it first.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"label image {str(path)!r} was not found: check the path.")
    try:
        if suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        if suffix == ".png":
            import PIL.Image

            with PIL.Image.open(path) as picture:
                return np.asarray(picture)
        import tifffile

        return np.asarray(tifffile.imread(path))
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"label image {str(path)!r} could not be read as {suffix} ({error}): write it again."
        ) from error


def _from_labels(labels: NDArray[np.generic], image: Image, what: str) -> IntArray:
    """Labels of the user, without gaps; pixels with a negative label are not used."""
    require(
        labels.shape == image.valid.shape,
        f"{what} has shape {labels.shape} but the picture has {image.valid.shape}: give one label for each pixel.",
    )
    require(
        labels.dtype.kind in "iu",
        f"{what} has numbers of type {labels.dtype}, expected integers: convert it with labels.astype(int).",
    )
    integers = labels.astype(np.int64)
    used = image.valid & (integers >= 0)
    require(
        bool(used.any()),
        f"{what} has no label of at least 0 on a valid pixel: give the pixels that should be used labels from 0.",
    )
    return _renumber(integers, used)


# ── where documents meet ──────────────────────────────────────────────────────────────────────────────────────────

# A pixel and the one below it; a pixel and the one to its right.
_NEIGHBOURS = ((np.s_[:-1, :], np.s_[1:, :]), (np.s_[:, :-1], np.s_[:, 1:]))


def borders(labels: IntArray) -> NDArray[np.bool_]:
    """(H, W) True where the pixel below or to the right is of another document: outlines one pixel wide.

    The rim of a region without data is no border.

    >>> borders(np.array([[0, 0, 1, -1], [0, 0, 1, -1]])).astype(int)
    array([[0, 1, 0, 0],
           [0, 1, 0, 0]])
    """
    result = np.zeros(labels.shape, bool)
    for first, second in _NEIGHBOURS:
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
    for first, second in _NEIGHBOURS:
        a, b = labels[first], labels[second]
        both = (a >= 0) & (b >= 0)
        jumps.append(np.abs(memberships[first][both] - memberships[second][both]).sum(axis=1, dtype=np.float64))
        crossing.append((a != b)[both])
    jump, across = np.concatenate(jumps), np.concatenate(crossing)
    return _mean(jump[across]), _mean(jump[~across])


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


# ── the kinds by name: how to cut, an example, and the lines of the help text ─────────────────────────────────────

_Cut = Callable[[str, str, Image, Seed], list[IntArray]]

_KINDS: dict[str, tuple[_Cut, str, list[tuple[str, str]]]] = {
    "whole": (_whole, "whole", [("whole", "the whole picture is one document")]),
    "windows": (
        _windows,
        "windows:64",
        [
            ("windows:64", "windows of 64 × 64 pixels; windows:64x128 for rows × columns"),
            ("windows:64/32", "the same, averaged over all grids shifted by multiples of 32 pixels"),
        ],
    ),
    "slic": (
        _slic,
        "slic:200",
        [
            ("slic:200", "about 200 superpixels that follow the edges of the picture"),
            ("slic:200*4", "the same, averaged over 4 partitions that differ in number, shape and place"),
        ],
    ),
    "ncuts": (_ncuts, "ncuts:40", [("ncuts:40", "exactly 40 regions, by normalized cuts")]),
}
