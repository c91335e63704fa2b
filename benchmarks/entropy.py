"""How long does the local entropy of an image take? Beside scikit-image's rank filter, in the same run."""

import argparse

import numpy as np
import skimage
from common import race, spread, where
from skimage.filters import rank

from pmlda.features.sonar import local_entropy

PLEDGE = 1 / 3


def speckled(side, seed=0):
    """(side, side) 8-bit speckle over patches of different brightness, as sonar shows them."""
    rng = np.random.default_rng(seed)
    brightness = np.kron(rng.uniform(20, 120, (8, 8)), np.ones((-(-side // 8),) * 2))[:side, :side]
    return np.clip(brightness * rng.rayleigh(0.8, (side, side)), 0, 255).astype(np.uint8)


def measure(image, window, rounds):
    footprint = np.ones((window, window), np.uint8)
    inside = np.s_[window // 2 : -(window // 2), window // 2 : -(window // 2)]
    gap = np.abs(local_entropy(image, window)[inside] - rank.entropy(image, footprint)[inside]).max()
    runs = {
        "pmlda, all cores": lambda: local_entropy(image, window),
        "pmlda, one core": lambda: local_entropy(image, window, n_jobs=1),
        "skimage.filters.rank.entropy": lambda: rank.entropy(image, footprint),
    }
    times = race(list(runs.values()), rounds)
    print(f"\n## {image.shape[0]} × {image.shape[1]}, window {window}, {rounds} rounds\n")
    print("| method | seconds | its time divided by scikit-image's |\n|---|---|---|")
    for i, name in enumerate(runs):
        print(f"| {name} | {spread(times[:, i], 3)} | {spread(times[:, i] / times[:, 2], 3)} |")
    # scikit-image cuts windows at the border and we reflect them, so only the inside is the same question.
    print(f"\nLargest difference away from the border: {gap:.1e} bits.")
    ratio = float(np.median(times[:, 0] / times[:, 2]))
    print(f"Pledge: at most {PLEDGE:.2f}. Measured {ratio:.3f}: {'kept' if ratio <= PLEDGE else 'BROKEN'}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--window", type=int, default=21)
    given = parser.parse_args()
    print(f"# Local entropy\n\n{where()}, scikit-image {skimage.__version__}")
    measure(speckled(given.side), given.window, given.rounds)
