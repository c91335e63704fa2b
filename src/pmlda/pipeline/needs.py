"""Upper estimates of the memory and the disk space that a run needs, before it starts."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.engines.base import Sampler
from pmlda.engines.corpus import GROUP_FEATURES
from pmlda.engines.gibbs_steps import count_candidates
from pmlda.engines.gibbs_tuning import MOST_CANDIDATES
from pmlda.engines.registry import find_engine
from pmlda.errors import PmldaError
from pmlda.features import Features
from pmlda.output.places import is_tiff
from pmlda.parallel.executor import Executor
from pmlda.parallel.memory import free_memory
from pmlda.parallel.threads import count_jobs
from pmlda.partitions import parse_cutting
from pmlda.partitions.automatic import auto_documents
from pmlda.pipeline.blending import Blur, strip_pixels
from pmlda.pipeline.family import in_small_windows
from pmlda.pipeline.job import Job
from pmlda.pipeline.learning import MAP_DRAWS, make_model, thins_words
from pmlda.pipeline.subsample import MOST_DOCUMENTS, words_each
from pmlda.settings import Settings
from pmlda.validate import require

# Python, NumPy, numba, and LLVM while it compiles kernels for the first time.
BASE_MEMORY = 500 * 2**20
# Model, figure, report and other files that do not grow with the picture.
BASE_DISK = 16 * 2**20
# Number of features of a filter bank, before the features are fitted.
GUESSED_FEATURES = 12
# Chains of engine "gibbs"; other samplers have one.
CHAINS = 2
DRAWS_MEMORY = 2**28
# Fractions of the available memory and of the free disk space that a run may use.
MEMORY_SHARE, DISK_SHARE = 0.8, 0.95


class Needs(NamedTuple):
    """Bytes: memory of each worker, disk for the run and its result."""

    memory: int
    disk: int


def estimate_needs(job: Job, *, shards: bool, chains: bool = False, tiffs: bool = False) -> Needs:
    """From the sizes of the arrays that exist at the same time.

    shards : whether a sampler sweeps over the tiles
    chains : whether topics are learnt by a sampler, from whose draws the maps follow
    tiffs : whether the maps become TIFFs, beside the group of tiles that they are made from
    """
    (height, width, n_bands), settings = job.sources[0].shape, job.settings
    largest = max(tile.n_pixels for tile in job.plan.tiles)
    seen = (int(np.sqrt(largest)) + 2 * job.reach) ** 2
    k, p = settings.n_topics, guess_features(n_bands, job.reach)
    n_documents = count_documents(job.plan.documents[0], (height, width))
    n_words = sampled_words(height * width, n_documents, settings.sample)
    reading = reading_memory(seen, n_bands, job.sources[0].dtype.itemsize, p)
    # Nothing but the subsampled words is in memory while topics are learnt from them.
    learning = words_memory(n_words, k, p)
    if chains:
        learning += chains_memory(n_words, settings)
    # Maps, which hardly compress, with smaller copies; labels of documents; subsampled words.
    bytes_each = (8 * k + 8) + 6 + p // 2
    if tiffs:  # two of maps, each a third larger with its smaller copies; and one while it is rearranged
        bytes_each += 16 * k + 10
    if shards:
        # The state and the candidates of one chain, read and written.
        mapping = mapping_memory(largest, k, p) + largest * 8 * ((9 * k + 1) * 2 + MOST_CANDIDATES * (2 * k + 3))
        bytes_each += CHAINS * 2 * 8 * (9 * k + 1) + 4 * p + 16
    else:
        cells = count_cells(height * width, n_documents, settings.blend) * largest // (height * width)
        mapping = mapping_memory(largest, k, p, cells * 8 * k * (1 + count_refits(settings, chains=chains)))
    needed = BASE_MEMORY + statistics_memory(settings, p)
    return Needs(needed + max(reading + mapping, learning), BASE_DISK + height * width * bytes_each)


def reading_memory(n_pixels: int, n_bands: int, itemsize: int, p: int) -> int:
    """Pixels as they are stored and in float64; features, words and one more copy in float32; labels and places."""
    return n_pixels * (n_bands * (itemsize + 8) + 12 * p + 24)


def maps_memory(n_pixels: int, k: int) -> int:
    """Maps and their uncertainty, as rows and as maps; residuals; what pixels say by themselves, and novelty."""
    return n_pixels * (26 * k + 36)


def mapping_memory(n_pixels: int, k: int, p: int, priors: int = 0) -> int:
    """Steps towards the blended prior; then the maps, and a strip of words with everything computed from it.

    priors : bytes of the prior of every cell, under the topics and under those of each refit or draw
    """
    strip = min(n_pixels, strip_pixels(k))
    blending = 5 * priors  # sums over cells, smoothed, together, divided, and their exponentials
    seeing = strip * 8 * (6 * k + 2 * p + 8) + priors + 2 * priors * strip // max(n_pixels, 1)
    return max(blending, maps_memory(n_pixels, k) + seeing)


def words_memory(n_words: int, k: int, p: int) -> int:
    """Words from which a model learns, what is computed from them, and the state of the fit."""
    return n_words * 8 * (4 * k + 4 * p + 8)


def statistics_memory(settings: Settings, p: int) -> int:
    """Products of pairs of features of the words that every thread works on, where topics have full covariances."""
    return 3 * 8 * GROUP_FEATURES * p * count_jobs(None) if settings.covariance == "topic-full" else 0


def chains_memory(n_words: int, settings: Settings) -> int:
    """Memberships with their logarithms, proposals and sums over draws, candidates, and draws that are kept.

    Draws are there three times when they are put together: one by one, those of each chain, and those of all chains.
    """
    k, is_gibbs = settings.n_topics, settings.engine == "gibbs"
    n_chains = CHAINS if is_gibbs else 1
    candidates = count_candidates(n_words, k) * (2 * k + 3) if is_gibbs else 0
    draws = min(DRAWS_MEMORY, n_chains * settings.sweeps // 2 * n_words * 4 * k)
    return n_words * 8 * n_chains * (9 * k + 1 + candidates) + 3 * draws


def guess_features(n_bands: int, reach: int) -> int:
    """Number of features, before they are fitted; those that look around a pixel are a filter bank."""
    return max(n_bands, GUESSED_FEATURES if reach else 0)


class Size(NamedTuple):
    """What memory depends on: (H, W, B), and the type of the numbers."""

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]


def memory_of_pictures(sizes: Sequence[Size], settings: Settings, features: Features) -> int:
    """Bytes that a run in memory needs, where every picture is one tile and all are there at the same time."""
    shapes = [size.shape[:2] for size in sizes]
    n_pixels = sum(height * width for height, width in shapes)
    k, p = settings.n_topics, guess_features(sizes[0].shape[2], features.reach)
    needed = BASE_MEMORY + statistics_memory(settings, p)
    for (height, width, n_bands), dtype in sizes:
        needed += reading_memory(height * width, n_bands, dtype.itemsize, p)
    thins = thins_words(settings)
    if not (thins or samples_words(settings)):  # every word has a state of its own, from which maps follow
        chains = chains_memory(n_pixels, settings) if has_chains(settings) else 0
        return needed + words_memory(n_pixels, k, p) + chains + maps_memory(n_pixels, k)
    counts = [documents_of_picture(shape, settings, small=in_small_windows(settings, features)) for shape in shapes]
    n_words = sampled_words(n_pixels, sum(counts), settings.sample)
    learning = words_memory(n_words, k, p) + (chains_memory(n_words, settings) if thins else 0)
    cells = sum(
        count_cells(height * width, count, settings.blend)
        for (height, width), count in zip(shapes, counts, strict=True)
    )
    priors = cells * 8 * k * (1 + count_refits(settings, chains=thins))
    return needed + max(learning, mapping_memory(n_pixels, k, p, priors))


def samples_words(settings: Settings) -> bool:
    """Model.samples_words of the chosen model; PMLDA is large, and is not imported before anything happens."""
    chosen = find_engine(settings.engine) if settings.model == "pmlda" else make_model(settings)
    return chosen.samples_words


def check_memory(sizes: Sequence[Size], settings: Settings, features: Features) -> None:
    """Refuse pictures that are too large for a run in memory, with advice."""
    wanted, free = memory_of_pictures(sizes, settings, features), free_memory()
    shapes = ", ".join("×".join(map(str, size.shape)) for size in sizes[:3]) + (", …" if len(sizes) > 3 else "")
    require(
        free is None or wanted <= MEMORY_SHARE * free,
        f"A run in memory needs about {_gb(wanted)} for {shapes} pixels and bands, and {_gb(free or 0)} are free. "
        "Write to NAME.zarr or NAME.tif, which works tile by tile; or give a smaller picture, or free some memory.",
    )


def count_refits(settings: Settings, *, chains: bool) -> int:
    """Number of topics besides the best ones under which maps are computed: those of draws, or of refits."""
    return MAP_DRAWS if chains else settings.refits


def has_chains(settings: Settings) -> bool:
    """Whether a sampler learns the topics."""
    return settings.model in ("pmlda", "bpm") and isinstance(find_engine(settings.engine), Sampler)


def documents_of_picture(shape: tuple[int, int], settings: Settings, *, small: bool) -> int:
    """Number of documents of a picture in memory; labels of the user count as if there were as many as by "auto"."""
    spec = settings.documents.partition("/")[0].partition("*")[0]  # several partitions, one after another
    try:
        return count_documents(spec, shape)
    except PmldaError:
        return count_documents(auto_documents(shape, settings.n_topics, small=small), shape)


def count_documents(spec: str, shape: tuple[int, int]) -> int:
    """Number of documents of a picture that is cut in this way."""
    cutting = parse_cutting(spec)
    if cutting.kind == "windows":
        return max(1, shape[0] * shape[1] // (cutting.window[0] * cutting.window[1]))
    return cutting.n_regions


def sampled_words(n_pixels: int, n_documents: int, sample: int) -> int:
    """Maximum number of words from which topics are learnt."""
    return int(min(words_each(n_documents, sample) * min(n_documents, MOST_DOCUMENTS), n_pixels))


def count_cells(n_pixels: int, n_documents: int, blend: float) -> int:
    """Number of cells of a picture, each of which has a blended prior."""
    return 0 if blend == 0 or n_documents == 1 else n_pixels // Blur.between(n_pixels, n_documents, blend).side ** 2


def check_needs(job: Job, out: Path, executor: Executor, *, shards: bool, chains: bool) -> None:
    """Refuse a run that will not fit, with advice."""
    wanted = estimate_needs(job, shards=shards, chains=chains, tiffs=is_tiff(out))
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
