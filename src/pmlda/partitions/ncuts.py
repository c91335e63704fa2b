"""Normalized cuts: small superpixels joined into exactly as many regions as asked for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.partitions.borders import NEIGHBOURS
from pmlda.partitions.colours import smooth_colours
from pmlda.partitions.common import UNUSED, Kind, Seed, number, renumber, require_pixels
from pmlda.partitions.shrinking import enlarge, shrink
from pmlda.partitions.slic import superpixels
from pmlda.types import FloatArray, Image, IntArray

EXAMPLE = "ncuts:40"
PIECES_EACH = 10


def _ncuts(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """Small superpixels joined into exactly as many regions as asked for."""
    count = number(argument, spec, EXAMPLE)
    require_pixels(count, spec, image)
    if count == 1:
        return [np.zeros(image.valid.shape, np.int64)]
    small, step = shrink(image, PIECES_EACH * count)
    colours = smooth_colours(small)
    pieces = _oversegment(colours, small.valid, count)
    joined = _join(pieces, colours, count, seed)
    return [enlarge(np.where(small.valid, joined[pieces], UNUSED), step, image.valid.shape)]


def _oversegment(colours: FloatArray, valid: NDArray[np.bool_], count: int) -> IntArray:
    """Superpixels, several for each region wanted and at least 200; single pixels where there are too few for that."""
    n_valid = int(valid.sum())
    wanted = max(PIECES_EACH * count, 200)
    while 2 * wanted < n_valid:
        pieces = renumber(superpixels(colours, valid, wanted), valid)
        if pieces.max() + 1 >= 2 * count:
            return pieces
        wanted *= 2  # a ragged mask can leave far fewer than were asked for
    return renumber(np.arange(valid.size).reshape(valid.shape), valid)


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
    for first, second in NEIGHBOURS:
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


NCUTS = Kind(_ncuts, [(EXAMPLE, "exactly 40 regions, by normalized cuts")])
