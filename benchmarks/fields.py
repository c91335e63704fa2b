"""Counts, speckle and saturated pixels: does the family that describes the noise win, and do topics survive clipping?

python benchmarks/fields.py [SEEDS [SIZE]]
"""

import sys
import time
import warnings

import numpy as np
from common import show, where
from scipy.optimize import linear_sum_assignment

from pmlda import segment
from pmlda.errors import PmldaError
from pmlda.evaluation.scenes import equal_shares, lambda_stack, photon_counts, smooth_field, speckle
from pmlda.families import find_family
from pmlda.metrics import membership_rmse

K, CLIPPED = 3, 0.03


def square_root(pixels):
    """Evens out the noise of counts."""
    return np.sqrt(pixels.astype(np.float64))


def logarithm(pixels):
    """Makes noise of speckle, which multiplies, add."""
    return np.log(pixels)


def error(picture, truth, **settings):
    """Root mean squared error of memberships, topics matched. Refits tell how sure they are and take the most time."""
    start = time.perf_counter()
    found = segment(picture, K, refits=0, **settings)
    print(f"    {settings}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return membership_rmse(found.memberships, truth)


# The Gaussian family, on whatever features suit it best. Documents are those of the other families, too.
SMALL = {"documents": "windows:8"}
GAUSSIAN_COUNTS = {
    "raw": {"features": "spectral:raw"},
    "components": {},
    "square roots": {"features": square_root},
}
GAUSSIAN_SPECKLE = {"logarithms": {"features": logarithm}}


def is_known(family):
    """Whether there is such a family in this version."""
    try:
        return find_family(family) is not None
    except PmldaError:
        return False


def compare(pictures, families, gaussian):
    """Mean errors over pictures of each family and of the Gaussian with each of its features."""
    scored = [
        [error(*each, **options) for options in (*families.values(), *(SMALL | more for more in gaussian.values()))]
        for each in pictures
    ]
    return np.mean(scored, axis=0)


def rows(cases, make, families_of, gaussian, seeds, size):
    """One row for each case: errors of families, and of the Gaussian at its best."""
    for case in cases:
        families = families_of(case)
        means = compare([make(size, *case, seed) for seed in range(seeds)], families, gaussian)
        own, others = means[: len(families)], means[len(families) :]
        best = list(gaussian)[int(np.argmin(others))]
        yield (*map(str, case), *(f"{each:.3f}" for each in own), f"{others.min():.3f} ({best})")


def relative_distances(topics, others):
    """‖topics − others‖ / ‖others‖ of matched topics: as they are, and scaled to length one, their shape."""
    return [_distance(topics, others), _distance(*(of_length_one(each) for each in (topics, others)))]


def of_length_one(topics):
    return topics / np.linalg.norm(topics, axis=1, keepdims=True)


def _distance(a, b):
    gaps = np.linalg.norm(a[:, None] - b[None], axis=2)
    return float(np.sqrt((gaps[linear_sum_assignment(gaps)] ** 2).sum()) / np.linalg.norm(b))


# Three stains in three channels under even light: the pixels that are clipped are the purest of the brightest stain.
STAINS = np.array([[300.0, 260.0, 280.0], [2600.0, 500.0, 350.0], [400.0, 900.0, 3900.0]])


def even_light(size, seed):
    """(H, W, 3) stains whose brightness differs by their shares alone."""
    rng = np.random.default_rng(seed)
    mean = equal_shares(np.stack([smooth_field(rng, size, 0.08 * size) for _ in STAINS], axis=-1)) @ STAINS
    return (mean + 60.0 * np.sqrt(mean / 1000.0) * rng.normal(size=mean.shape) + 0.5).clip(0).astype(np.uint16)


def saturation(picture):
    """Relative distances of topics of the clipped picture from those of the whole one: left out, and left in."""
    level = int(np.quantile(picture.max(axis=2), 1.0 - CLIPPED))
    clipped = np.minimum(picture, level)
    whole = segment(picture, K, refits=0).topics
    changes = ({"ignore_saturated": level}, {})
    return [
        each for more in changes for each in relative_distances(segment(clipped, K, refits=0, **more).topics, whole)
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    seeds, size = (int(each) for each in (*sys.argv[1:], *("3", "64")[len(sys.argv) - 1 :]))
    print(f"# Fields\n\n{where()}\n\nErrors of memberships, means of {seeds} pictures of {size} × {size} pixels.")
    counts = [name for name in ("poisson", "additive-poisson") if is_known(name)]
    show(
        ("photons in a pixel", "dyes mix", *counts, "gaussian at its best"),
        rows(
            [(mean, kind) for mean in (2, 5, 20) for kind in ("geometric", "arithmetic")],
            photon_counts,
            lambda case: {name: {"family": name} for name in counts},
            GAUSSIAN_COUNTS,
            seeds,
            size,
        ),
    )
    show(
        ("looks", "intensities mix", "gamma", "gaussian"),
        rows(
            [(looks, kind) for looks in (1, 4) for kind in ("harmonic", "arithmetic")],
            speckle,
            lambda case: {"gamma": {"family": "gamma", "looks": case[0]}},
            GAUSSIAN_SPECKLE,
            seeds,
            size,
        ),
    )
    scenes = {"lambda stack": lambda seed: lambda_stack(2 * size, seed)[0]}
    scenes |= {"even light": lambda seed: even_light(2 * size, seed)}
    show(
        ("3 % clipped", "left out: topics", "their shape", "left in: topics", "their shape"),
        (
            (f"{name}, picture {seed + 1}", *(f"{100 * each:.2f} %" for each in saturation(make(seed))))
            for name, make in scenes.items()
            for seed in range(seeds)
        ),
    )
