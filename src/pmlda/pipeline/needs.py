"""What a run will take at most, told before it begins: memory of each worker, disk."""

from typing import NamedTuple

import numpy as np

from pmlda.pipeline.blending import STRIP_PIXELS
from pmlda.pipeline.steps import Job, variational
from pmlda.pipeline.subsample import MOST_DOCUMENTS, words_each

# Python, NumPy, numba, and LLVM while it compiles kernels for the first time.
BASE_MEMORY = 500 * 2**20
# Model, figure and what else does not grow with the picture.
BASE_DISK = 4 * 2**20
# Features of a filter bank, before it is known which.
GUESSED_FEATURES = 12
CHAINS = 2


class Needs(NamedTuple):
    """Bytes: memory of each worker, disk for the run and its result."""

    memory: int
    disk: int


def needs(job: Job) -> Needs:
    """From the sizes of the arrays that are there at once."""
    height, width, n_bands = job.source.shape
    largest = max(block.n_pixels for block in job.plan.blocks)
    seen = (int(np.sqrt(largest)) + 2 * job.reach) ** 2
    k, p = job.settings.topics, max(n_bands, GUESSED_FEATURES if job.reach else 0)
    # Pixels as they are stored and in float64; features, words and one more copy in float32; labels and places.
    reading = seen * (n_bands * (job.source.dtype.itemsize + 8) + 12 * p + 24)
    # Maps and their uncertainty as rows and as maps; a strip of words with all that is computed of it.
    writing = largest * 22 * k + min(largest, STRIP_PIXELS) * 8 * (6 * k + 2 * p + 8)
    # Sampled words, what is computed of them, and what the fit keeps; nothing else is in memory meanwhile.
    learning = sampled_words(job) * 8 * (4 * k + 4 * p + 8)
    # Maps, which hardly pack; labels of documents; sampled words.
    bytes_each = (6 * k + 2) + 2 + p // 2
    if job.settings.engine == "gibbs":
        # A state: memberships with their logarithms, what warm-up has learnt, sums over draws. Candidates beside it.
        writing += largest * 8 * (8 * k + 1) * 2 + largest * 8 * (2 * k + 3) * 4
        bytes_each += CHAINS * 2 * 8 * (8 * k + 1) + 4 * p + 16
    return Needs(BASE_MEMORY + max(reading + writing, learning), BASE_DISK + height * width * bytes_each)


def sampled_words(job: Job) -> int:
    """At most so many words decide on the topics."""
    n_pixels, cutting = job.plan.shape[0] * job.plan.shape[1], job.plan.documents
    n_documents = (
        n_pixels // (cutting.window[0] * cutting.window[1]) if cutting.kind == "windows" else cutting.n_regions
    )
    each = words_each(n_documents, variational(job.settings)).learning
    return int(min(each * min(n_documents, MOST_DOCUMENTS), n_pixels))
