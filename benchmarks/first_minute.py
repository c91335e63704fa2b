"""How long until the first result on a new machine? Cold and warm runs of `pmlda segment`, imports, kernels.

    python benchmarks/first_minute.py --rounds 5
    python benchmarks/first_minute.py --before ../before/src     beside the sources of an earlier commit

Each round has a folder of kernels of its own, empty at first: one run into it, then another. Seconds of the processor
are those of the run and of what it starts; on a machine that is shared only ratios mean much.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import PROGRAM, show, spread, where
from PIL import Image

SHAPE = 820, 1230
SOURCES = Path(__file__).resolve().parent.parent / "src"
FIRST_STAGE = "reading"


def photograph(folder):
    """A megapixel: a photograph that comes with scikit-image, enlarged, with noise."""
    from skimage.data import rocket
    from skimage.transform import resize

    pixels = resize(rocket(), SHAPE, order=3) + 0.01 * np.random.default_rng(0).normal(size=(*SHAPE, 3))
    Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).astype(np.uint8)).save(folder / "photograph.png")
    return folder / "photograph.png"


def environment(sources, kernels):
    """Both names of the folder: earlier commits know numba's alone."""
    return os.environ | {"PYTHONPATH": str(sources), "PMLDA_CACHE_DIR": kernels, "NUMBA_CACHE_DIR": kernels}


def run(sources, kernels, picture, out):
    """Seconds until the first stage, until the end, and of the processor."""
    command = [*PROGRAM, "segment", picture, "--out", out, "--overwrite"]
    before, start, first = _processor(), time.perf_counter(), None
    with subprocess.Popen(
        command, env=environment(sources, kernels), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if first is None and line.startswith(FIRST_STAGE):
                first = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}.")
    return first, time.perf_counter() - start, _processor() - before


def _processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="the src of an earlier commit, to be measured beside this one")
    given = parser.parse_args()
    versions = {"now": SOURCES} | ({"before": given.before.resolve()} if given.before else {})
    found = {name: [] for name in versions}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        picture = photograph(folder)
        for number in range(given.rounds):
            for version in list(versions)[:: 1 if number % 2 else -1]:
                kernels = tempfile.mkdtemp(dir=folder)
                each = [run(versions[version], kernels, picture, folder / "maps") for _ in range(2)]
                found[version].append(np.array(each))
                print(f"{version}: {np.round(found[version][-1], 2).tolist()}", file=sys.stderr, flush=True)
    print(f"# The first minute\n\n{where()}\n\n{given.rounds} rounds, medians with quartiles in brackets, seconds.")
    rows = {
        "Enter to the first stage, warm": lambda x: x[:, 1, 0],
        "first run, nothing compiled": lambda x: x[:, 0, 1],
        "second run": lambda x: x[:, 1, 1],
        "first minus second": lambda x: x[:, 0, 1] - x[:, 1, 1],
        "first minus second, of the processor": lambda x: x[:, 0, 2] - x[:, 1, 2],
        "second run, of the processor": lambda x: x[:, 1, 2],
    }
    arrays = {name: np.array(values) for name, values in found.items()}
    header = ["pmlda segment, 1 megapixel", *versions, *(["ratio"] if "before" in versions else [])]
    table = []
    for name, read in rows.items():
        values = [read(array) for array in arrays.values()]
        ratio = [f"{np.median(values[0] / values[1]):.2f}"] if len(values) > 1 else []
        table.append([name, *(spread(each, 2) for each in values), *ratio])
    show(header, table)


if __name__ == "__main__":
    main()
