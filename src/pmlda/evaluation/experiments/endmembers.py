"""Spectra → the materials that they mix, and how much of each: vertex component analysis, constrained least squares.

What hyperspectral unmixing compares with. Written from the formulas of Nascimento and Dias (2005) for the first, and of
the problem itself for the second.
"""

from itertools import combinations

import numpy as np

from pmlda.types import FloatArray
from pmlda.validate import require

# Abundances of up to this many materials are found by trying every subset of them.
MOST_MATERIALS = 10
# A subset's answer may be so far below zero by rounding.
ROUNDING = 1e-12


def vertex_components(
    spectra: FloatArray, n_materials: int, n_starts: int = 1, *, affine: bool | None = None
) -> list[FloatArray]:
    """For each start (K, B) the spectra of the pixels at the corners of (N, B), freed from noise outside K dimensions.

    Corners are found one by one: each is the pixel farthest along a random direction that is orthogonal to the corners
    before it. It takes for granted that every material has a pure pixel.

    affine : look for corners in K − 1 principal components, or else on a plane, onto which brightness is projected
        out; None decides by the noise, as the authors do

    >>> corners = np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.2], [0.3, 0.3, 1.0]])
    >>> shares = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 50)
    >>> (found,) = vertex_components(np.vstack([corners, shares @ corners]), 3)
    >>> (found[np.argsort(-found[:, 0])].round(6) + 0.0).tolist()
    [[1.0, 0.0, 0.2], [0.3, 0.3, 1.0], [0.0, 1.0, 0.2]]
    """
    n_pixels, n_bands = spectra.shape
    require(
        1 <= n_materials <= min(n_pixels, n_bands),
        f"{n_materials} materials were asked for in {n_pixels} spectra of {n_bands} bands. Ask for at least 1, and for "
        "no more than there are spectra or bands.",
    )
    cloud, clean = _projected(np.asarray(spectra, np.float64), n_materials, affine)
    return [np.asarray(clean[_corners(cloud, np.random.default_rng(start))]) for start in range(n_starts)]


def _corners(cloud: FloatArray, rng: np.random.Generator) -> list[int]:
    """Which K of the pixels (N, K) are corners."""
    K = cloud.shape[1]
    found = np.zeros((K, K))
    found[0, -1] = 1.0  # the first direction is orthogonal to the axis along which all pixels are alike
    chosen = []
    for k in range(K):
        direction = np.asarray(rng.normal(size=K))
        direction = direction - np.linalg.pinv(found) @ (found @ direction)
        chosen.append(int(np.abs(cloud @ direction).argmax()))
        found[k] = cloud[chosen[-1]]
    return chosen


def _projected(spectra: FloatArray, n_materials: int, affine: bool | None) -> tuple[FloatArray, FloatArray]:
    """(N, K) where corners are looked for, and (N, B) the spectra within the space of the materials."""
    mean = spectra.mean(axis=0)
    axes = _leading(spectra - mean, n_materials)
    if affine is None:
        affine = _decibels(spectra, mean, axes) <= 15.0 + 10.0 * np.log10(n_materials)
    if affine:
        axes = axes[: n_materials - 1]
        x = (spectra - mean) @ axes.T
        farthest = np.linalg.norm(x, axis=1).max()
        return np.column_stack([x, np.full(len(x), farthest)]), x @ axes + mean
    axes = _leading(spectra, n_materials)
    x = spectra @ axes.T
    along = x @ x.mean(axis=0)
    return x / np.where(along > 0, along, np.inf)[:, None], x @ axes  # a pixel without light is no corner


def _leading(spectra: FloatArray, n: int) -> FloatArray:
    """(n, B) orthonormal axes of the largest second moments."""
    return np.asarray(np.linalg.eigh(spectra.T @ spectra)[1][:, ::-1].T[:n])


def _decibels(spectra: FloatArray, mean: FloatArray, axes: FloatArray) -> float:
    """The signal to noise ratio, noise being what is outside the axes and its like within."""
    total = float((spectra**2).sum(axis=1).mean())
    kept = float((((spectra - mean) @ axes.T) ** 2).sum(axis=1).mean() + mean @ mean)
    noise, signal = total - kept, kept - len(axes) / spectra.shape[1] * total
    if noise <= 1e-15 * total:
        return float("inf")
    return float(10.0 * np.log10(signal / noise)) if signal > 0 else float("-inf")


def constrained_least_squares(spectra: FloatArray, endmembers: FloatArray) -> FloatArray:
    """(N, K) abundances of at least 0 that sum to 1 and leave the least squared error of (N, B).

    Exact: at the optimum some materials are absent and the others solve a problem without inequalities, so every subset
    is tried for all pixels at once and the best allowed answer taken.

    >>> constrained_least_squares(np.array([[0.25, 0.75], [2.0, -1.0]]), np.eye(2)).round(6).tolist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    x, E = np.asarray(spectra, np.float64), np.asarray(endmembers, np.float64)
    K = len(E)
    require(
        1 <= K <= MOST_MATERIALS and x.ndim == 2 and E.ndim == 2 and x.shape[1] == E.shape[1],
        f"spectra have shape {x.shape} and endmembers {E.shape}. Give (N, bands) and (K, bands), K at most "
        f"{MOST_MATERIALS}.",
    )
    gram, products = E @ E.T, x @ E.T
    best, least = np.zeros((len(x), K)), np.full(len(x), np.inf)
    for size in range(1, K + 1):
        for present in map(list, combinations(range(K), size)):
            a = _summing_to_one(gram[np.ix_(present, present)], products[:, present])
            error = ((a @ gram[np.ix_(present, present)] - 2.0 * products[:, present]) * a).sum(axis=1)
            better = (a >= -ROUNDING).all(axis=1) & (error < least)
            least[better] = error[better]
            best[better] = 0.0
            best[np.ix_(better, present)] = np.maximum(a[better], 0.0)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def _summing_to_one(gram: FloatArray, products: FloatArray) -> FloatArray:
    """(N, S) least squares with sum one, by a multiplier; alike materials share evenly."""
    size = len(gram)
    scale = max(float(np.trace(gram)) / size, np.finfo(float).tiny)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = gram / scale
    system[size, size] = 0.0
    right = np.column_stack([products / scale, np.ones(len(products))])
    return np.asarray((right @ np.linalg.pinv(system, hermitian=True))[:, :size])
