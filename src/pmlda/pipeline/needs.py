"""Upper estimates of the memory and the disk space that a run needs, before it starts."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.parallel.executor import Executor
from pmlda.parallel.memory import free_memory
from pmlda.pipeline.blending import Blur, strip_pixels
from pmlda.pipeline.job import Job
from pmlda.pipeline.learning import MAP_DRAWS, make_model, thins_words
from pmlda.pipeline.subsample import MOST_DOCUMENTS, words_each
from pmlda.pipeline.tiles import cutting_of
from pmlda.settings import Settings
from pmlda.validate import require

# Python, NumPy, numba, and LLVM while it compiles kernels for the first time.
BASE_MEMORY = 500 * 2**20
# Model, figure, report and other files that do not grow with the picture.
BASE_DISK = 16 * 2**20
# Number of features of a filter bank, before the features are fitted.
GUESSED_FEATURES = 12
CHAINS = 2
DRAWS_MEMORY = 2**28
# Fractions of the available memory and of the free disk space that a run may use.
MEMORY_SHARE, DISK_SHARE = 0.8, 0.95


class Needs(NamedTuple):
    """Bytes: memory of each worker, disk for the run and its result."""

    memory: int
    disk: int


def estimate_needs(job: Job, *, shards: bool, chains: bool = False) -> Needs:
    """From the sizes of the arrays that exist at the same time.

    shards : whether a sampler sweeps over the tiles
    chains : whether topics are learnt by a sampler, from whose draws the maps follow
    """
    height, width, n_bands = job.sources[0].shape
    largest = max(tile.n_pixels for tile in job.plan.tiles)
    seen = (int(np.sqrt(largest)) + 2 * job.reach) ** 2
    k, p = job.settings.topics, guess_features(n_bands, job.reach)
    reading = reading_memory(seen, n_bands, job.sources[0].dtype.itemsize, p)
    writing = writing_memory(largest, k, p)
    # Subsampled words, what is computed from them, and the state of the fit; nothing else is in memory meanwhile.
    learning = sampled_words(job) * 8 * (4 * k + 4 * p + 8)
    if chains:
        # States with their candidates, and the draws that are kept; then the blended prior of each cell in every draw.
        learning += sampled_words(job) * 8 * CHAINS * (9 * k + 1 + 4 * (2 * k + 3)) + DRAWS_MEMORY
        writing += cells_of(job, largest) * 8 * k * (1 + MAP_DRAWS) * 3
    # Maps, which hardly compress; labels of documents; subsampled words.
    bytes_each = (6 * k + 6) + 2 + p // 2
    if shards:
        # A state: memberships with their logarithms, adapted proposals, sums over draws; and the candidates.
        writing += largest * 8 * (9 * k + 1) * 2 + largest * 8 * (2 * k + 3) * 4
        bytes_each += CHAINS * 2 * 8 * (9 * k + 1) + 4 * p + 16
    return Needs(BASE_MEMORY + max(reading + writing, learning), BASE_DISK + height * width * bytes_each)


def reading_memory(n_pixels: int, n_bands: int, itemsize: int, p: int) -> int:
    """Pixels as they are stored and in float64; features, words and one more copy in float32; labels and places."""
    return n_pixels * (n_bands * (itemsize + 8) + 12 * p + 24)


def writing_memory(n_pixels: int, k: int, p: int) -> int:
    """Maps and their uncertainty as rows and as maps; a strip of words with everything computed from it."""
    return n_pixels * 22 * k + min(n_pixels, strip_pixels(k)) * 8 * (6 * k + 2 * p + 8)


def guess_features(n_bands: int, reach: int) -> int:
    """Number of features, before they are fitted; those that look around a pixel are a filter bank."""
    return max(n_bands, GUESSED_FEATURES if reach else 0)


class Size(NamedTuple):
    """What memory depends on: (H, W, B), and the type of the numbers."""

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]


def memory_of_pictures(sizes: Sequence[Size], settings: Settings, reach: int) -> int:
    """Bytes that a run in memory needs, where every picture is one tile and all are there at the same time.

    1.3 to 1.4 times the measured peaks of pictures of four megapixels (docs/scale.md).
    """
    n_pixels = sum(size.shape[0] * size.shape[1] for size in sizes)
    k, p = settings.topics, guess_features(sizes[0].shape[2], reach)
    needed = BASE_MEMORY + writing_memory(n_pixels, k, p)
    for (height, width, n_bands), dtype in sizes:
        needed += reading_memory(height * width, n_bands, dtype.itemsize, p)
    if thins_words(settings):
        return needed + DRAWS_MEMORY
    if not make_model(settings).samples_words:  # every word has a state of its own
        needed += n_pixels * 8 * (4 * k + 4 * p + 8)
    return needed


def check_memory(sizes: Sequence[Size], settings: Settings, reach: int) -> None:
    """Refuse pictures that are too large for a run in memory, with advice."""
    wanted, free = memory_of_pictures(sizes, settings, reach), free_memory()
    shapes = ", ".join("×".join(map(str, size.shape)) for size in sizes[:3]) + (", …" if len(sizes) > 3 else "")
    require(
        free is None or wanted <= MEMORY_SHARE * free,
        f"A run in memory needs about {_gb(wanted)} for {shapes} pixels and bands, and {_gb(free or 0)} are free. "
        "Write to NAME.zarr or NAME.tif, which works tile by tile; or give a smaller picture, or free some memory.",
    )


def count_documents(job: Job) -> tuple[int, int]:
    """Number of pixels of the picture, and of documents."""
    (height, width), cutting = job.plan.shapes[0], cutting_of(job.plan)
    n_pixels = height * width
    windows = cutting.window[0] * cutting.window[1]
    return n_pixels, n_pixels // windows if cutting.kind == "windows" else cutting.n_regions


def sampled_words(job: Job) -> int:
    """Maximum number of words from which topics are learnt."""
    n_pixels, n_documents = count_documents(job)
    each = words_each(n_documents, job.settings.sample)
    return int(min(each * min(n_documents, MOST_DOCUMENTS), n_pixels))


def cells_of(job: Job, n_pixels: int) -> int:
    """Number of cells of so many pixels, each of which has a blended prior."""
    if job.settings.blend == 0:
        return 0
    pixels, documents = count_documents(job)
    return int(n_pixels // Blur.between(pixels, max(documents, 1), job.settings.blend).side ** 2)


def check_needs(job: Job, out: Path, executor: Executor, *, shards: bool, chains: bool) -> None:
    """Refuse a run that will not fit, with advice."""
    wanted = estimate_needs(job, shards=shards, chains=chains)
    place = out.resolve().parent
    free = shutil.disk_usage(place).free
    require(
        wanted.disk <= DISK_SHARE * free,
        f"The run needs about {_gb(wanted.disk)} on the disk of {str(place)!r}, where {_gb(free)} are "
        "free. Make room, write elsewhere, or ask for fewer topics.",
    )
    there = executor.memory()
    require(
        there is None or wanted.memory <= MEMORY_SHARE * there,
        f"A tile needs about {_gb(wanted.memory)} of memory and a worker has {_gb(there or 0)}. "
        "Choose smaller tiles (--set block=512), fewer workers, or workers with more memory.",
    )


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes < 1e10 else f"{n_bytes / 1e9:,.0f} GB"
