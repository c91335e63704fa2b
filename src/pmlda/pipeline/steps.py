"""What is done to one block: each step reads the picture and earlier parts, and leaves a part of its own.

Steps keep nothing in memory from one block to the next and ask nobody: they can run anywhere, in any order, and again.
What they return is the little that must be known of all blocks before the next step.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.parameters import MOST_START_SWEEPS
from pmlda.errors import ModelFileError
from pmlda.estimator import PMLDA
from pmlda.features import Features
from pmlda.features.given import Function, Given
from pmlda.features.scaling import Scaling
from pmlda.images.windowed import Windowed
from pmlda.images.zarrs import read_block, write_block
from pmlda.parallel.threads import count_jobs
from pmlda.partitions import cut_block
from pmlda.pipeline.api import canonical_order, check_words, concentrations, make_model
from pmlda.pipeline.blending import Blur, smooth_field, tile_numbers, weigh_pixels
from pmlda.pipeline.parts import Content, need_part, part_path, read_part, write_part
from pmlda.pipeline.subsample import Shares, chosen_documents, chosen_words
from pmlda.pipeline.tiles import Block, Plan, inside, places_of, widen
from pmlda.recipe import load_chain, save_chain
from pmlda.segmentation import Chain, crisp
from pmlda.settings import Settings
from pmlda.types import FloatArray, Image, IntArray

Words = NDArray[np.float32]
# The picture is shown, and its maps are, with about so many pixels.
PREVIEW_PIXELS = 500_000


class Job(NamedTuple):
    """What every step knows, small enough to be sent along with each block.

    source : the picture
    folder : of the run, where all workers can reach it
    plan : blocks and documents
    features : how pixels become numbers; learnt once all blocks were surveyed
    """

    source: Windowed
    folder: Path
    plan: Plan
    settings: Settings
    features: Features

    @property
    def maps(self) -> Path:
        """The Zarr group that is being written."""
        return self.folder / "maps.zarr"

    @property
    def model(self) -> Path:
        return self.folder / "model.pmlda"

    @property
    def posterior(self) -> Path:
        """The model file of a sampler, once it is done."""
        return self.folder / "posterior.pmlda"

    @property
    def result(self) -> Path:
        """The model file that belongs to the maps."""
        return self.posterior if self.settings.engine == "gibbs" else self.model

    @property
    def reach(self) -> int:
        """How far around a block the picture is read; pixels without data take theirs from as far again."""
        return 2 * max(self.features.reach, self.settings.halo)

    @property
    def preview_step(self) -> int:
        return max(1, int(np.ceil(np.sqrt(self.plan.shape[0] * self.plan.shape[1] / PREVIEW_PIXELS))))


Step = Callable[..., Content]


def once(stage: str) -> Callable[[Step], Step]:
    """A step that is not done again where its part is there: the part's "facts" are returned."""

    def wrap(step: Step) -> Step:
        def do(job: Job, block: Block, *details: Any) -> Content:
            found = read_part(job.folder, stage, block.number)
            if found is None:
                found = step(job, block, *details)
                write_part(job.folder, stage, block.number, found)
            facts: Content = found["facts"]
            return facts

        do.__name__ = do.__qualname__ = step.__name__
        do.__module__, do.__doc__ = step.__module__, step.__doc__
        return do

    return wrap


@once("survey")
def survey(job: Job, block: Block) -> Content:
    """Cut the block into documents, and look at what features must know of the whole picture."""
    image = job.source.read(block.rows, block.columns)
    if not image.valid.any():
        return {"facts": {"n_valid": 0, "n_documents": 0, "surveys": []}}
    labels, numbers = cut_block(job.plan.documents, image, block.rows, block.columns, job.plan.shape, job.settings.seed)
    facts = {
        "n_valid": int(image.valid.sum()),
        "n_documents": len(numbers),
        "surveys": job.features.survey(image),
    }
    small = labels.astype(np.int16 if len(numbers) < 2**15 else np.int32)
    return {"facts": facts, "labels": small, "numbers": numbers}


@once("sample")
def sample(job: Job, block: Block, most: Shares, n_documents: int, n_valid: int) -> Content:
    """The features of the pixels from which topics are learnt, and documents described.

    n_documents, n_valid : documents of the whole picture, and its pixels with data
    """
    cut = need_part(job.folder, "survey", block.number)
    if cut["facts"]["n_valid"] == 0:
        return {"facts": {"n_learning": 0}}
    image, values = features_of(job, block)
    labels = np.asarray(cut["labels"], np.int64)
    groups, places = labels[image.valid], places_of(block, job.plan.shape[1])[image.valid]
    first = places[np.unique(groups, return_index=True)[1]]
    learns = chosen_documents(first, n_documents, job.settings.seed)[groups]
    # A document that is the whole picture has more words than there are here.
    sizes = np.array([n_valid]) if job.plan.documents.kind == "whole" else np.bincount(groups)
    learning = chosen_words(groups, places, sizes, most.learning, job.settings.seed) & learns
    deciding = chosen_words(groups, places, sizes, most.deciding, job.settings.seed)
    kept = learning | deciding
    return {
        "facts": {"n_learning": int(learning.sum())},
        "values": values[kept],
        "groups": groups[kept],
        "places": places[kept],
        "learning": learning[kept],
        "deciding": deciding[kept],
    }


def learn(job: Job, numbers: list[int], threads: int) -> Content:
    """Topics, from the sampled words of all blocks in the order of the picture; they go into a model file.

    threads : of all workers, which wait meanwhile; those on this machine can be used
    """
    with suppress(OSError, ModelFileError):  # absent or damaged: learnt again, to the same topics
        chain_of(job)
        return {}
    raw, documents = sampled_words(job, numbers, "learning")
    scaling = Scaling(job.settings.scaling).fit(raw)
    words = scaling.apply(raw)
    check_words(words, job.settings.topics)
    fitted = make_model(variational(job.settings), min(threads, count_jobs(None)), 0).fit(words, groups=documents)
    fitted.n_jobs = None  # a model file is the same, however many threads made it
    save_chain(job.model, Chain(job.features, scaling, fitted, canonical_order(fitted.topic_means_), job.settings))
    return {}


def sampled_words(job: Job, numbers: list[int], use: str) -> tuple[Words, IntArray]:
    """Features of sampled pixels of these blocks, row by row as in the picture, and the document of each."""
    values, groups, places = [], [], []
    for number in numbers:
        part = need_part(job.folder, "sample", number)
        used = part[use]
        values.append(part["values"][used])
        places.append(part["places"][used])
        groups.append(need_part(job.folder, "survey", number)["numbers"][part["groups"][used]])
    order = np.argsort(np.concatenate(places))
    return np.concatenate(values)[order], np.concatenate(groups)[order]


def variational(settings: Settings) -> Settings:
    """Topics are learnt from a sample by engine "variational", from where a sampler goes on."""
    if settings.engine == "variational":
        return settings
    return settings.model_copy(update={"engine": "variational", "sweeps": MOST_START_SWEEPS})


@once("documents")
def describe(job: Job, block: Block, numbers: list[int] | None = None) -> Content:
    """π and s of every document of the block, from its sampled words.

    numbers : all blocks with data, where the whole picture is one document; only the first block is then described
    """
    chain, model = chain_of(job)
    if numbers is None:
        part = need_part(job.folder, "sample", block.number)
        if "values" not in part:
            return {"facts": {}}
        raw, groups = part["values"][part["deciding"]], part["groups"][part["deciding"]]
    else:
        raw, groups = sampled_words(job, numbers, "deciding")
    found = model.describe(chain.scaling.apply(raw), groups=groups)
    return {"facts": {}, "a": concentrations(found)}


@once("maps")
def maps(job: Job, block: Block, blur: Blur | None) -> Content:
    """Memberships of every pixel of the block, documents blended over their borders; written to the maps."""
    if need_part(job.folder, "survey", block.number)["facts"]["n_valid"] == 0:
        return {"facts": {"n_valid": 0}}
    chain, model = chain_of(job)
    image, values = features_of(job, block)
    words = chain.scaling.apply(values)
    del values
    labels, prior = prior_of(job, block, blur)
    found, std = weigh_pixels(model, words, labels, prior, image.valid)
    return keep_maps(job, block, image, found[:, chain.order], std[:, chain.order])


def keep_maps(job: Job, block: Block, image: Image, found: Words, std: Words) -> Content:
    """Rows → maps of the block, on disk; the part is a small picture of them."""
    shape = (*block.shape, found.shape[1])
    memberships, uncertainty = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float16)
    memberships[image.valid], uncertainty[image.valid] = found, std
    arrays: dict[str, NDArray[Any]] = {
        "memberships": memberships,
        "uncertainty": uncertainty,
        "labels": crisp(memberships).astype(np.int16),
    }
    for rows, columns in chunks_of(job.plan, block):
        here = inside(block._replace(rows=rows, columns=columns), block.rows, block.columns)
        write_block(job.maps, rows, columns, **{name: array[here] for name, array in arrays.items()})
    step = job.preview_step
    shown = (slice(-block.rows.start % step, None, step), slice(-block.columns.start % step, None, step))
    return {
        "facts": {"n_valid": int(image.valid.sum())},
        "digests": {name: digest(array) for name, array in arrays.items()},
        "pixels": image.pixels[shown],
        "valid": image.valid[shown],
        "memberships": memberships[shown],
        "uncertainty": uncertainty[shown].astype(np.float32),
    }


def is_sound(job: Job, block: Block) -> bool:
    """Whether the maps of a block are what its part says; if not, the part is removed, so that it is made again."""
    part = read_part(job.folder, "maps", block.number)
    if part is None:
        return True  # not made yet, or about to be made again
    try:
        sound = all(
            digest(read_block(job.maps, name, block.rows, block.columns)) == expected
            for name, expected in part.get("digests", {}).items()
        )
    except Exception:  # whatever a damaged chunk makes its decoder raise
        sound = False
    if not sound:
        part_path(job.folder, "maps", block.number).unlink()
    return sound


# ── what steps share ───────────────────────────────────────────────────────────────────────────────────────────────
def features_of(job: Job, block: Block) -> tuple[Image, Words]:
    """The block, and the features of its valid pixels, computed with what lies around it."""
    rows, columns = widen(block, job.reach, job.plan.shape)
    here = inside(block, rows, columns)
    wide = job.source.read(rows, columns)
    values = job.features.compute(wide).values[here]
    image = wide._replace(pixels=wide.pixels[here], valid=wide.valid[here])
    return image, values[image.valid]


def prior_of(job: Job, block: Block, blur: Blur | None) -> tuple[IntArray, FloatArray]:
    """(h, w) which row of the prior counts for each pixel, and the prior: a of documents, or of blended tiles."""
    if blur is None:
        labels = np.asarray(need_part(job.folder, "survey", block.number)["labels"], np.int64)
        number = 0 if job.plan.documents.kind == "whole" else block.number
        return labels, need_part(job.folder, "documents", number)["a"]
    rows, columns = widen(block, blur.reach, job.plan.shape, blur.side)
    around = np.full((rows.stop - rows.start, columns.stop - columns.start), -1, np.int64)
    a: list[FloatArray] = []
    n_documents = 0
    for each in job.plan.touching(rows, columns):
        cut = need_part(job.folder, "survey", each.number)
        if cut["facts"]["n_valid"] == 0:
            continue
        here, there = shared(each, rows, columns)
        labels = np.asarray(cut["labels"], np.int64)[there]
        around[here] = np.where(labels >= 0, labels + n_documents, -1)
        a.append(need_part(job.folder, "documents", each.number)["a"])
        n_documents += len(a[-1])
    field = smooth_field(np.concatenate(a), around, blur)
    tiles = tile_numbers(around.shape, blur.side)[inside(block, rows, columns)]
    return tiles, field


def shared(block: Block, rows: slice, columns: slice) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """What a block and a rectangle have in common: in the rectangle, and in the block."""
    top, bottom = max(block.rows.start, rows.start), min(block.rows.stop, rows.stop)
    left, right = max(block.columns.start, columns.start), min(block.columns.stop, columns.stop)

    def within(first_row: int, first_column: int) -> tuple[slice, slice]:
        return slice(top - first_row, bottom - first_row), slice(left - first_column, right - first_column)

    return within(rows.start, columns.start), within(block.rows.start, block.columns.start)


def chunks_of(plan: Plan, block: Block) -> Iterable[tuple[slice, slice]]:
    """The chunks of the maps that make up a block: one, or several for a large block at the end."""

    def cut(part: slice) -> list[slice]:
        return [slice(first, min(first + plan.side, part.stop)) for first in range(part.start, part.stop, plan.side)]

    return [(rows, columns) for rows in cut(block.rows) for columns in cut(block.columns)]


def chain_of(job: Job) -> tuple[Chain, PMLDA]:
    """What was learnt, read once in each process; a block is worked on by one thread."""
    chain = _load_chain(job.model, job.model.stat().st_mtime_ns, tuple(functions_of(job).items()))
    assert isinstance(chain.model, PMLDA)
    return chain, chain.model


def functions_of(job: Job) -> dict[str, Function]:
    """Features that are functions, which model files do not hold."""
    return {part.spec: part.function for part in job.features.parts if isinstance(part, Given)}


@lru_cache(maxsize=2)
def _load_chain(path: Path, changed: int, functions: tuple[tuple[str, Any], ...]) -> Chain:
    chain = load_chain(path, dict(functions))
    chain.model.n_jobs = 1
    return chain


def digest(array: NDArray[Any]) -> str:
    """SHA-256 of the numbers."""
    import hashlib

    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
