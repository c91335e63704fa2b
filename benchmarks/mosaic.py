"""What do runs in tiles cost? From 1 to 100 megapixels on workers; two against one; beside a run in memory."""

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from common import spread, where

from pmlda import segment
from pmlda.images import zarrs
from pmlda.parallel.dask_cluster import local_cluster

COLOURS = np.array([[0.15, 0.2, 0.5], [0.3, 0.55, 0.2], [0.9, 0.8, 0.6]])
CHUNK = 1024


def survey(megapixels, path):
    """Write a Zarr array of three smoothly mixed colours with noise, chunk by chunk."""
    import zarr

    side = round(1000 * np.sqrt(megapixels))
    array = zarr.create_array(path, shape=(side, side, 3), chunks=(CHUNK, CHUNK, 3), dtype="uint8")
    for top in range(0, side, CHUNK):
        for left in range(0, side, CHUNK):
            rows, columns = np.arange(top, min(top + CHUNK, side)), np.arange(left, min(left + CHUNK, side))
            y, x = rows[:, None] / 700.0, columns[None] / 700.0
            fields = [np.sin(1.3 * x + 2 * np.sin(0.7 * y)), np.sin(1.1 * y + 1.7 * np.cos(0.9 * x)), np.cos(x + y)]
            shares = np.exp(3.0 * np.stack(np.broadcast_arrays(*fields), axis=2))
            shares /= shares.sum(axis=2, keepdims=True)
            rng = np.random.default_rng([top, left])
            picture = shares @ COLOURS + 0.05 * rng.standard_normal((*shares.shape[:2], 3))
            array[top : rows[-1] + 1, left : columns[-1] + 1] = np.clip(255 * picture, 0, 255).astype(np.uint8)
    return path


def on_workers(path, out, client, **settings):
    """Seconds of a whole run, and of its stages."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    found = segment(path, 3, out=out, client=client, **settings)
    return time.perf_counter() - start, found.timings


def plainly(path, out):
    """Seconds of the plain way: the picture in memory, two threads, maps to the same kind of Zarr group."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    height, width, _ = shape = segment_shape(path)
    found = segment(path, documents=f"slic:{round(height * width / 5000)}")
    zarrs.create_maps(out, (height, width, 3), CHUNK, found.topic_names)
    for top in range(0, height, CHUNK):
        for left in range(0, width, CHUNK):
            here = slice(top, min(top + CHUNK, height)), slice(left, min(left + CHUNK, width))
            maps = {name: getattr(found, name) for name in ("memberships", "uncertainty", "documents")}
            maps["dominant"] = found.labels
            zarrs.write_block(out, *here, **{name: values[here] for name, values in maps.items()})
    zarrs.build_pyramid(out)
    return time.perf_counter() - start, shape


def segment_shape(path):
    import zarr

    return zarr.open_array(path, mode="r").shape


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def growth(folder, sizes, n_workers):
    """Time and memory from the smallest picture to the largest, in the same way."""
    print(f"\n## {n_workers} workers of one thread each, 3 bands, K = 3\n")
    print("| megapixels | seconds | times the smallest | largest worker, MB | seconds by stage |")
    print("|---|---|---|---|---|")
    first = None
    for size in sizes:
        path = survey(size, folder / f"{size}.zarr")
        with local_cluster(n_workers) as client:
            warm(folder, client)
            seconds, stages = on_workers(path, folder / "out.zarr", client)
            memory = max(client.run(peak).values()) / 1e6
        first = first or seconds
        parts = ", ".join(f"{name} {value:.1f}" for name, value in stages.items())
        print(f"| {size:g} | {seconds:.1f} | {seconds / first:.1f} | {memory:.0f} | {parts} |", flush=True)
        shutil.rmtree(path)


def warm(folder, client):
    """Kernels compiled and loaded in every worker before anything is timed."""
    path = folder / "warm.zarr"
    if not path.exists():
        survey(0.1, path)
    on_workers(path, folder / "warm-out.zarr", client, block=128)


def workers(folder, size, rounds):
    """One worker against two, turn by turn."""
    path = survey(size, folder / f"{size}.zarr")
    ratios = []
    for _ in range(rounds):
        seconds = []
        for n_workers in (1, 2):
            with local_cluster(n_workers) as client:  # one at a time: an idle cluster takes its share of two cores
                warm(folder, client)
                seconds.append(on_workers(path, folder / "out.zarr", client)[0])
        ratios.append(seconds[0] / seconds[1])
        print(f"  one worker {seconds[0]:.1f} s, two workers {seconds[1]:.1f} s", flush=True)
    print(f"\n## {size:g} megapixels, two workers against one, {rounds} rounds: {spread(ratios, 2)} times as fast")
    shutil.rmtree(path)


def beside(folder, size, rounds):
    """Two workers beside two threads that hold the whole picture."""
    path = survey(size, folder / f"{size}.zarr")
    ratios = []
    with local_cluster(2) as client:
        warm(folder, client)
        plainly(folder / "warm.zarr", folder / "plain.zarr")
        for _ in range(rounds):
            plain, _ = plainly(path, folder / "plain.zarr")
            dask, _ = on_workers(path, folder / "dask.zarr", client)
            ratios.append(dask / plain)
            print(f"  plain {plain:.1f} s, two workers {dask:.1f} s", flush=True)
    print(f"\n## {size:g} megapixels, two workers beside the plain way: {spread(ratios, 2)} times its time")
    shutil.rmtree(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1, 4, 16, 100], help="megapixels")
    parser.add_argument("--size", type=float, default=16, help="megapixels of the comparisons; 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(where())
    with tempfile.TemporaryDirectory() as place:
        if arguments.sizes:
            growth(Path(place), arguments.sizes, 2)
        if arguments.size:
            workers(Path(place), arguments.size, arguments.rounds)
            beside(Path(place), arguments.size, arguments.rounds)
