"""What does a picture cost, from file to folder? Seconds by stage beside fuzzy c-means on the same features; memory."""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from common import spread, where
from PIL import Image as Pillow
from skimage.data import retina
from skimage.transform import resize
from speed import fuzzy

from pmlda import segment

FIT = ("fit", "proportions", "maps")


def photograph(megapixels, path):
    """Write a fundus photograph (scikit-image, CC0), enlarged or reduced to so many megapixels."""
    side = round(1000 * np.sqrt(megapixels))
    Pillow.fromarray((255 * resize(retina(), (side, side), anti_aliasing=True)).astype(np.uint8)).save(path)


def stages(path, folder, features="auto"):
    """The segmentation, and seconds of each stage from file to folder."""
    start = time.perf_counter()
    found = segment(path, features=features)
    saving = time.perf_counter()
    found.save(folder, overwrite=True)
    end = time.perf_counter()
    return found, found.timings | {"writing": end - saving, "all": end - start}


def rival(found):
    """Seconds that fuzzy c-means needs for the memberships of the same words."""
    recipe, image = found.recipe, found.images[0]
    words = recipe.scaling.apply(recipe.features.compute(image).values[image.valid]).astype(np.float64)
    start = time.perf_counter()
    fuzzy(words)
    return time.perf_counter() - start


def split(rounds, features):
    with tempfile.TemporaryDirectory() as place:
        path, folder = Path(place) / "photograph.png", Path(place) / "out"
        photograph(1.0, path)
        stages(path, folder, features)  # compile
        rows = []
        for _ in range(rounds):
            found, seconds = stages(path, folder, features)
            fuzzy_seconds = rival(found)  # in the same round, so that noise hits both
            rows.append(seconds | {"fit and maps": sum(seconds[name] for name in FIT), "fuzzy": fuzzy_seconds})
    print(f"\n## One megapixel, features {features}, all outputs, {rounds} rounds\n")
    print("| stage | seconds | divided by fuzzy c-means |\n|---|---|---|")
    for name in rows[0]:
        title = "fuzzy c-means (scikit-fuzzy, m = 1.5), fit and memberships" if name == "fuzzy" else name
        ratios = [row[name] / row["fuzzy"] for row in rows]
        print(f"| {title} | {spread([row[name] for row in rows], 2)} | {spread(ratios, 2)} |")


def peak(path, small):
    """Print the peak memory of this process, bytes, and seconds; small is a picture to compile on."""
    with tempfile.TemporaryDirectory() as place:
        stages(small, Path(place) / "small")
        seconds = stages(path, Path(place) / "out")[1]
    unit = 1 if sys.platform == "darwin" else 1024
    print(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *(round(value, 1) for value in seconds.values()))
    print(" ".join(seconds))


def memory(sizes):
    with tempfile.TemporaryDirectory() as place:
        small = Path(place) / "small.png"
        photograph(0.05, small)
        for i, megapixels in enumerate(sizes):
            path = Path(place) / f"{megapixels:g}.png"
            photograph(megapixels, path)
            command = [sys.executable, __file__, "--peak", str(path), str(small)]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            (largest, *seconds), names = out[-2].split(), out[-1].split()
            if i == 0:
                print("\n## Peak memory of the whole process, and seconds\n")
                print("| megapixels | GB |", " | ".join(names), "|")
                print("|---" * (2 + len(names)) + "|")
            print(f"| {megapixels:g} | {float(largest) / 1e9:.2f} |", " | ".join(seconds), "|", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--features", nargs="+", default=["color", "color+texture"], help="which to time")
    parser.add_argument("--sizes", type=float, nargs="*", default=[1.0, 25.0], help="megapixels, for memory")
    parser.add_argument("--peak", nargs=2, metavar=("PICTURE", "SMALL"), help="only print the peak memory for a file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peak:
        peak(*arguments.peak)
    else:
        print(f"# Pictures\n\n{where()}")
        for features in arguments.features:
            split(arguments.rounds, features)
        memory(arguments.sizes)
