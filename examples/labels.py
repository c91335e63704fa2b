"""A photograph of a cup of coffee, in which four strokes say what wood, china, milk and shadow are, beside no strokes.

Run `python examples/labels.py FOLDER`. Writes FOLDER/labels.jpg and FOLDER/strokes.json. The photograph is the one of
scikit-image.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from skimage.data import coffee

from pmlda import segment

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = ("wood", "china", "milk", "shadow")
STROKES = (
    {"topic": "wood", "points": [[262, 105], [285, 160]], "radius": 3},
    {"topic": "wood", "points": [[60, 40], [25, 75]], "radius": 3},
    {"topic": "china", "points": [[55, 120], [75, 150]], "radius": 3},
    {"topic": "milk", "points": [[92, 48], [100, 68]], "radius": 2},
    {"topic": "shadow", "points": [[10, 8], [30, 10]], "radius": 3},
)
COLOURS = ("tab:orange", "tab:red", "white", "tab:cyan")


def main(folder):
    """Both segmentations, and what they look like."""
    picture = coffee()[::2, ::2]
    plain = segment(picture, len(NAMES))
    labelled = segment(picture, len(NAMES), labels=list(STROKES), names=list(NAMES))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strokes.json").write_text(json.dumps({"strokes": STROKES, "names": NAMES}, indent=1), encoding="utf-8")
    draw(picture, plain, labelled).savefig(folder / "labels.jpg", dpi=110)
    print(f"Largest difference of a topic's share of the picture: {difference(plain, labelled):.2f}")


def difference(plain, labelled):
    """How differently the picture is shared out."""
    shares = [np.sort(each.memberships.mean(axis=(0, 1))) for each in (plain, labelled)]
    return float(np.abs(shares[0] - shares[1]).max())


def draw(picture, plain, labelled):
    """The picture with its strokes, and the maps without and with them."""
    figure, axes = plt.subplots(2, 1 + len(NAMES), figsize=(12.5, 3.9), layout="constrained")
    for ax in axes.ravel():
        ax.set_xticks([])
        ax.set_yticks([])
    for row, found in enumerate((plain, labelled)):
        axes[row, 0].imshow(picture)
        for k, name in enumerate(found.topic_names):
            axes[row, 1 + k].imshow(found.memberships[..., k], vmin=0, vmax=1, cmap="cividis")
            axes[row, 1 + k].set_title(name, fontsize=10)
    axes[0, 0].set_title("no strokes", fontsize=10)
    axes[1, 0].set_title("five strokes", fontsize=10)
    for stroke in STROKES:
        x, y = np.array(stroke["points"], float).T
        colour = COLOURS[NAMES.index(stroke["topic"])]
        axes[1, 0].plot(x, y, color=colour, linewidth=4, solid_capstyle="round")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
