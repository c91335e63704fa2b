"""What does `pmlda segment` cost, from Enter to the last file, by stage and by core? Beside fuzzy c-means' fit alone.

Each run is a process of its own, warm (kernels compiled), that writes everything. Fuzzy c-means has the colours of the
pixels of one megapixel in memory already, and writes nothing. Runs take turns, and ratios are those of one round.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from common import PROGRAM, spread, where
from mosaic import survey
from PIL import Image as Pillow
from skimage.data import retina
from speed import fuzzy

HERE = Path(__file__).parent.parent / "src"
HERTZ = os.sysconf("SC_CLK_TCK")
NOISE = 4.0  # of the camera, in grey levels: enlarging leaves none


def photograph(megapixels, path):
    """Write a fundus photograph (scikit-image, CC0), enlarged or reduced to so many megapixels, with noise."""
    side = round(1000 * np.sqrt(megapixels))
    pixels = np.asarray(Pillow.fromarray(retina()).resize((side, side), Pillow.Resampling.BICUBIC), np.float32)
    pixels = pixels + NOISE * np.random.default_rng(0).standard_normal(pixels.shape, dtype=np.float32)
    Pillow.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path, compress_level=1)
    return path


def cpu_seconds(process):
    """CPU seconds that a running process has used so far (Linux)."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def from_enter(path, out, source=HERE, options=()):
    """{stage: (seconds, CPU seconds)} of the command, and its peak of memory in GB. source : where the package lies"""
    shutil.rmtree(out, ignore_errors=True)
    command = [*PROGRAM, "segment", str(path), "--topics", "3", "--out", str(out), *options]
    place, start = os.environ | {"PYTHONPATH": str(source)}, time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=place)
    marks, said = [("start", start, 0.0)], []
    for line in process.stderr:
        said.append(line)
        if line.rstrip().endswith("…"):  # a stage begins
            marks += [(line.split()[0], time.perf_counter(), cpu_seconds(process.pid))]
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("".join(said))
    marks.append(("", time.perf_counter(), used.ru_utime + used.ru_stime))
    stages = {name: (after[0] - begun[0], after[1] - begun[1]) for (name, *begun), (_, *after) in pairwise(marks)}
    return stages | {"all": (marks[-1][1] - start, marks[-1][2])}, 1024 * used.ru_maxrss / 1e9


def rival(path):
    """Seconds and CPU seconds of fuzzy c-means on the colours of a picture, standardised."""
    words = np.asarray(Pillow.open(path), np.float64).reshape(-1, 3)
    words = (words - words.mean(axis=0)) / words.std(axis=0)
    start, cpu = time.perf_counter(), time.process_time()
    fuzzy(words)
    return time.perf_counter() - start, time.process_time() - cpu


def photographs(folder, sizes, rounds, before):
    """Photographs of these sizes beside fuzzy c-means on one megapixel, and beside another version of the package."""
    small = photograph(1.0, folder / "1.png")
    paths = {size: photograph(size, folder / f"{size:g}.png") for size in sizes}
    sources = {"now": HERE} | ({"before": before} if before else {})
    for source in sources.values():
        from_enter(small, folder / "out", source)  # compile
    runs, fuzzies = {(size, name): [] for size in sizes for name in sources}, []
    for _ in range(rounds):
        # In a process of its own: Linux counts what its parent holds as memory of a command that it starts.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            fuzzies.append(pool.submit(rival, small).result())
        for size, name in runs:
            runs[size, name].append(from_enter(paths[size], folder / "out", sources[name]))
    print(f"fuzzy c-means, 1 megapixel: {spread([s for s, _ in fuzzies])} s, {spread([c for _, c in fuzzies])} CPU s")
    print("\n| megapixels | | s | CPU s | CPU / s | GB | / fuzzy | CPU / CPU of fuzzy | s and CPU s of stages |")
    print("|---" * 9 + "|")
    for (size, name), found in runs.items():
        totals = [stages["all"] for stages, _ in found]
        seconds, cpu = (np.array(each) for each in zip(*totals, strict=True))
        beside, cpu_beside = (np.array(each) for each in zip(*fuzzies, strict=True))
        medians = {s: np.median([stages[s] for stages, _ in found], axis=0) for s in found[0][0] if s != "all"}
        parts = ", ".join(f"{stage} {wall:.1f} {used:.1f}" for stage, (wall, used) in medians.items())
        row = [f"{size:g}", name, spread(seconds), spread(cpu), spread(cpu / seconds, 2)]
        row += [f"{max(gigabytes for _, gigabytes in found):.2f}", spread(seconds / beside, 2)]
        print(f"| {' | '.join([*row, spread(cpu / cpu_beside, 2), parts])} |", flush=True)


def blocks(folder, size, rounds, before):
    """A Zarr in blocks on two threads, now and before."""
    path, ratios = survey(size, folder / "survey.zarr"), []
    for _ in range(rounds):
        now, earlier = (from_enter(path, folder / "maps.zarr", source)[0]["all"] for source in (HERE, before))
        ratios.append((now[0] / earlier[0], now[1] / earlier[1]))
    seconds, cpu = zip(*ratios, strict=True)
    print(f"\n{size:g} megapixels in blocks, now relative to before: {spread(seconds, 2)} s, {spread(cpu, 2)} CPU s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1.0, 25.0], help="megapixels of photographs")
    parser.add_argument("--blocks", type=float, default=0.0, help="megapixels of a Zarr in blocks; needs --before")
    parser.add_argument("--before", type=Path, help="folder src of another version of the package")
    arguments = parser.parse_args()
    print(f"# From Enter to the last file\n\n{where()}\n")
    with tempfile.TemporaryDirectory() as place:
        if arguments.sizes:
            photographs(Path(place), arguments.sizes, arguments.rounds, arguments.before)
        if arguments.blocks and arguments.before:
            blocks(Path(place), arguments.blocks, arguments.rounds, arguments.before)
