"""Does it bear large loads? CPU time and peak memory of each, in its own process, beside a smaller one of its kind.

What a load needs beyond a smaller one, per pixel or word, stands beside what is held of each: its data and its results.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import where

from pmlda import PMLDA, segment
from pmlda.evaluation.scenes import smooth_scene
from pmlda.segmentation import Segmentation

SMALL, WORDS_OF_ONE = 64, 10
TINY = 16 * SMALL**2
UNIT = 1 if sys.platform == "darwin" else 1024


class Load(NamedTuple):
    """One line of the table.

    title : what it is
    full, part : numbers of pixels or words, and of those of the smaller load
    make : writes data of so many pixels or words into a folder
    run : reads them and computes; bytes of data and results that are in memory at the end
    """

    title: str
    full: int
    part: int
    make: Callable[[Path, int], None]
    run: Callable[[Path], int]


# ── data ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def scene(height: int, width: int) -> np.ndarray:
    """(H, W, 3) a simulated picture of eight colours, repeated where it is larger than a megapixel."""
    picture = smooth_scene(min(height, 1000), min(width, 1000), n_topics=8, noise=0.04, seed=0)[0]
    return np.tile(picture, (-(-height // 1000), -(-width // 1000), 1))[:height, :width]


def make_picture(folder: Path, n: int) -> None:
    np.save(folder / "picture.npy", scene(round(np.sqrt(n)), round(np.sqrt(n))))


def make_survey(folder: Path, n: int) -> None:
    import zarr

    picture = scene(round(np.sqrt(n)), round(np.sqrt(n)))
    array = zarr.create_array(folder / "survey.zarr", shape=picture.shape, chunks=(1024, 1024, 3), dtype="uint8")
    array[:] = picture


def make_pictures(folder: Path, n: int) -> None:
    several = [smooth_scene(SMALL, SMALL, n_topics=3, noise=0.04, seed=i)[0] for i in range(n // SMALL**2)]
    np.save(folder / "pictures.npy", np.stack(several))


def make_cube(folder: Path, n: int) -> None:
    height, bands = n // 512, 300
    truth = smooth_scene(height, 512, n_topics=4, noise=0.0, seed=0)[1]
    wavelength = np.linspace(0.0, 1.0, bands)
    spectra = np.stack([0.5 + 0.4 * np.sin((2.0 + k) * wavelength + k) for k in range(4)]).astype(np.float32)
    cube = truth @ spectra
    rng = np.random.default_rng(0)
    for row in cube:  # row by row: noise in double precision of all bands is larger than the cube
        row += 0.02 * rng.standard_normal(row.shape, dtype=np.float32)
    np.save(folder / "picture.npy", cube)


def make_words(folder: Path, n: int) -> None:
    picture = smooth_scene(1000, n // 1000, n_topics=3, noise=0.04, seed=0)[0]
    np.save(folder / "words.npy", picture.reshape(-1, 3) / 255.0)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def held_by(found: Segmentation) -> int:
    """Bytes of maps, and of the copies of pictures that belong to them, that are in memory."""
    if found.path is not None:
        return 0
    maps = (*found.membership_maps, *found.uncertainty_maps, *found.document_maps)
    return sum(each.nbytes for each in maps) + sum(image.pixels.nbytes for image in found.images)


def run_picture(n_topics: int) -> Callable[[Path], int]:
    def run(folder: Path) -> int:
        picture = np.load(folder / "picture.npy")
        return int(picture.nbytes) + held_by(segment(picture, n_topics, random_state=0))

    return run


def run_survey(folder: Path) -> int:
    return held_by(segment(folder / "survey.zarr", 3, out=folder / "maps.zarr", random_state=0, overwrite=True))


def run_pictures(folder: Path) -> int:
    pictures = np.load(folder / "pictures.npy")
    return int(pictures.nbytes) + held_by(segment(list(pictures), 3, random_state=0))


def run_words(words_of_each: int | None) -> Callable[[Path], int]:
    """Documents of n words each, or a single document."""

    def run(folder: Path) -> int:
        X = np.load(folder / "words.npy")
        groups = None if words_of_each is None else np.arange(len(X)) // words_of_each
        model = PMLDA(3, random_state=0).fit(X, groups=groups)
        fitted = [value for name, value in vars(model).items() if name.endswith("_")]
        arrays = [X, *([] if groups is None else [groups]), *(each for each in fitted if isinstance(each, np.ndarray))]
        return sum(each.nbytes for each in arrays)

    return run


LOADS = {
    "pictures": Load("1,000 pictures of 64 × 64", 1000 * SMALL**2, 250 * SMALL**2, make_pictures, run_pictures),
    "cube": Load("a cube of 512 × 512 × 300", 512 * 512, 256 * 512, make_cube, run_picture(4)),
    "topics": Load("20 topics, 1 megapixel", 10**6, 250_000, make_picture, run_picture(20)),
    "documents": Load("100,000 documents of 10 words", 10**6, 500_000, make_words, run_words(WORDS_OF_ONE)),
    "words": Load("one document of 1,000,000 words", 10**6, 500_000, make_words, run_words(None)),
    "tiles": Load("25 megapixels in tiles, from Zarr to Zarr", 25 * 10**6, 25 * 250_000, make_survey, run_survey),
    "plain": Load("25 megapixels in memory", 25 * 10**6, 25 * 250_000, make_picture, run_picture(3)),
}


# ── measuring ──────────────────────────────────────────────────────────────────────────────────────────────────────
def peak() -> int:
    """Bytes that this process had at most."""
    return UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(load: Load, folder: Path) -> dict[str, float]:
    """Seconds of CPU time, all threads together, peak memory before and after, and bytes held."""
    with tempfile.TemporaryDirectory() as place:  # modules are imported, and kernels read, on a tiny load
        load.make(Path(place), TINY)
        load.run(Path(place))
    before, start = peak(), time.process_time()
    held = load.run(folder)
    return {"seconds": time.process_time() - start, "before": before, "peak": peak(), "held": held}


def in_own_process(*arguments: str) -> str:
    """What this script prints. A process inherits the peak of its parent, so the parent must stay small."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def measure_apart(name: str, n: int) -> dict[str, Any]:
    """The same in a process of its own, with data from another."""
    with tempfile.TemporaryDirectory() as folder:
        in_own_process("--make", name, str(n), folder)
        found: dict[str, Any] = json.loads(in_own_process("--measure", name, folder).splitlines()[-1])
    return found


def line(name: str) -> str:
    """One line of the table."""
    load = LOADS[name]
    measure_apart(name, TINY)  # compiles kernels, which takes memory too
    part, full = (measure_apart(name, n) for n in (load.part, load.full))
    more = load.full - load.part
    cells = [
        load.title,
        f"{load.full / load.part:g}",
        f"{full['seconds']:.1f}",
        f"{full['seconds'] / part['seconds']:.1f}",
        f"{full['peak'] / 1e6:.0f}",
        f"{full['peak'] / part['peak']:.2f}",
        f"{(full['peak'] - part['peak']) / more:.0f}",
        f"{(full['held'] - part['held']) / more:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(LOADS), help=f"which of {', '.join(LOADS)}")
    parser.add_argument("--make", nargs=3, metavar=("NAME", "N", "FOLDER"), help="only write the data")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FOLDER"), help="only print what a run takes")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.make:
        name, n, folder = arguments.make
        LOADS[name].make(Path(folder), int(n))
    elif arguments.measure:
        name, folder = arguments.measure
        print(json.dumps(measure(LOADS[name], Path(folder))))
    else:
        print(f"# Load\n\n{where()}\n")
        print("| load | times the smaller | CPU s | times its CPU s | peak, MB | times its peak | bytes | held |")
        print("|---" * 8 + "|")
        for name in arguments.names:
            print(line(name), flush=True)
