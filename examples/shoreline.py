"""A made-up shoreline with known mixtures → soft maps, beside what a Gaussian mixture and fuzzy c-means make of it.

Run `python examples/shoreline.py FOLDER`. Writes FOLDER/shoreline.png and prints the errors.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.mixture import GaussianMixture

from pmlda import PMLDA
from pmlda.engines.collect import match_topics
from pmlda.types import Topics

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SHAPE = (96, 128)
NAMES = ("water", "sand", "grass")
COLOURS = np.array([[0.16, 0.33, 0.52], [0.86, 0.77, 0.55], [0.32, 0.47, 0.20]])
NOISE = 0.06
SIDE = 8  # a document is a window of SIDE × SIDE pixels


def make_scene(rng):
    """True memberships (H, W, 3) with slow and fast transitions, and the noisy picture they make."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]] / SHAPE[0]
    wave = 0.06 * np.sin(7 * x) + 0.03 * gaussian_filter(rng.normal(size=SHAPE), 6) * 20
    wet = 1 / (1 + np.exp((y - 0.38 - wave) / (0.02 + 0.11 * x / x.max())))  # crisp on the left, gradual on the right
    green = 1 / (1 + np.exp(-(y - 0.72 - 0.5 * wave) / (0.015 + 0.06 * (1 - x / x.max()))))
    truth = np.stack([wet, (1 - wet) * (1 - green), (1 - wet) * green], axis=-1)
    return truth, truth @ COLOURS + NOISE * rng.normal(size=(*SHAPE, 3))


def windows():
    """The document of each pixel: which window it lies in."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return (y // SIDE) * (SHAPE[1] // SIDE) + x // SIDE


def fuzzy_c_means(X, centres, m, tolerance=1e-4):
    """Memberships by Bezdek's algorithm with fuzzifier m, from the given centres."""
    while True:
        squares = np.maximum(((X[:, None] - centres) ** 2).sum(axis=2), 1e-12)
        memberships = squares ** (-1 / (m - 1))
        memberships /= memberships.sum(axis=1, keepdims=True)
        weights = memberships**m
        moved = weights.T @ X / weights.sum(axis=0)[:, None]
        if np.abs(moved - centres).max() < tolerance:
            return memberships, moved
        centres = moved


def in_true_order(maps, means):
    """Maps with their topics in the order of NAMES."""
    order = match_topics(Topics(COLOURS, np.empty(0)), Topics(means, np.empty(0)))
    return maps[:, order].reshape(*SHAPE, 3)


def draw(path, picture, truth, maps, doubt, deviation):
    """One row per material, one column per answer; below, what only a posterior can tell."""
    columns = {"true share": truth, **maps}
    rows = len(NAMES)
    figure, axes = plt.subplots(rows, len(columns) + 1, figsize=(2.5 * (len(columns) + 1), 1.95 * rows + 0.5))
    for row, name in enumerate(NAMES):
        for axis, (title, values) in zip(axes[row, 1:], columns.items(), strict=True):
            image = axis.imshow(values[:, :, row], cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            if row == 0:
                error = np.sqrt(((values - truth) ** 2).mean())
                axis.set_title(title if title == "true share" else f"{title}\nerror {error:.3f}", fontsize=10)
        axes[row, 1].set_ylabel(name, fontsize=10)
    for axis in axes[:, 0]:
        axis.set(xticks=[], yticks=[])
    axes[0, 0].imshow(np.clip(picture, 0, 1), interpolation="nearest")
    axes[0, 0].set_title("the picture", fontsize=10)
    axes[1, 0].imshow(deviation, cmap="magma", vmin=0, interpolation="nearest")
    axes[1, 0].set_title(f"PM-LDA: uncertainty, up to {deviation.max():.2f}", fontsize=9)
    axes[2, 0].imshow(doubt, cmap="magma", vmin=0, vmax=0.6, interpolation="nearest")
    axes[2, 0].set_title("PM-LDA: doubt which dominates", fontsize=9)
    figure.subplots_adjust(left=0.01, right=0.93, top=0.9, bottom=0.02, wspace=0.09, hspace=0.16)
    bar = figure.add_axes((0.94, 0.02, 0.012, 0.88))
    figure.colorbar(image, cax=bar, label="share of the material")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo-output"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    truth, picture = make_scene(np.random.default_rng(7))
    X, groups = picture.reshape(-1, 3), windows().ravel()

    start = time.perf_counter()
    model = PMLDA(n_components=3, random_state=0).fit(X, groups=groups)
    seconds = time.perf_counter() - start

    mixture = GaussianMixture(3, n_init=5, random_state=0).fit(X)
    # The rival chooses its fuzzifier with the truth in hand.
    fuzzy = {m: in_true_order(*fuzzy_c_means(X, mixture.means_, m)) for m in (1.25, 1.5, 2.0, 2.5, 3.0)}
    m = min(fuzzy, key=lambda m: ((fuzzy[m] - truth) ** 2).mean())
    maps = {
        "mixture: doubt": in_true_order(mixture.predict_proba(X), mixture.means_),
        f"fuzzy c-means, best m ({m:g})": fuzzy[m],
        "PM-LDA: degree": in_true_order(model.memberships_, model.topic_means_),
    }
    dominance = model.predict_proba(X, groups=groups)
    deviation = model.membership_std_.mean(axis=1).reshape(SHAPE)
    draw(folder / "shoreline.png", picture, truth, maps, 1 - dominance.max(axis=1).reshape(SHAPE), deviation)

    print(f"{len(X)} pixels in {len(model.documents_)} documents, {model.n_iter_} sweeps in {seconds:.1f} s")
    print("root mean square error of the shares:")
    for name, values in maps.items():
        print(f"  {name:28} {np.sqrt(((values - truth) ** 2).mean()):.3f}")
    print(f"picture: {folder / 'shoreline.png'}")


if __name__ == "__main__":
    main()
