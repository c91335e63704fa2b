"""What does a picture cost, from file to folder? Seconds by stage, peak memory; fuzzy c-means on the same features."""

import argparse
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
from speed import fuzzy, status

from pmlda import read_image, segment
from pmlda.features import compute_features


def photograph(megapixels):
    """A fundus photograph (scikit-image, CC0), enlarged or reduced to so many megapixels."""
    side = round(1000 * np.sqrt(megapixels))
    return (255 * resize(retina(), (side, side), anti_aliasing=True)).astype(np.uint8)


def stages(path, folder):
    """Seconds of each stage, from file to folder."""
    start = time.perf_counter()
    found = segment(path)
    saving = time.perf_counter()
    found.save(folder, overwrite=True)
    end = time.perf_counter()
    return found.timings | {"writing": end - saving, "all": end - start}


def split(rounds):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "photograph.png"
        Pillow.fromarray(photograph(1.0)).save(path)
        stages(path, Path(place) / "out")  # compile
        rows, rival = [], []
        for _ in range(rounds):
            rows.append(stages(path, Path(place) / "out"))
            words = compute_features("color", read_image(path)).values.reshape(-1, 3).astype(np.float64)
            start = time.perf_counter()
            fuzzy(words)
            rival.append(time.perf_counter() - start)
    print(f"\n## One megapixel, default settings, all outputs, {rounds} rounds\n\n| stage | seconds |\n|---|---|")
    for name in rows[0]:
        print(f"| {name} | {spread([row[name] for row in rows], 2)} |")
    print(f"| fuzzy c-means (scikit-fuzzy, m = 1.5) on the same features, memberships alone | {spread(rival, 2)} |")


def peak(megapixels):
    """Print the peak memory of this process, bytes, while it segments and writes a picture."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "photograph.png"
        small = Path(place) / "small.png"
        Pillow.fromarray(photograph(megapixels)).save(path)
        Pillow.fromarray(photograph(0.05)).save(small)
        stages(small, Path(place) / "out")  # compile
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        start = time.perf_counter()
        stages(path, Path(place) / "out")
        print(status("VmHWM"), time.perf_counter() - start)


def memory():
    print("\n## Peak memory of the whole process\n\n| megapixels | GB | seconds |\n|---|---|---|")
    for megapixels in (1.0, 25.0):
        command = [sys.executable, __file__, "--peak", str(megapixels)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"| {megapixels:g} | {float(out[-2]) / 1e9:.2f} | {float(out[-1]):.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", type=float, help="only print the peak memory for so many megapixels")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peak:
        peak(arguments.peak)
    else:
        print(f"# Pictures\n\n{where()}")
        split(arguments.rounds)
        memory()
