"""A run over all blocks: survey → sample → topics → documents → maps, by whoever maps a step over blocks.

Everything that was done is in parts on disk. A run that was killed is resumed by doing all of it again: steps whose
part is there return at once.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple, Protocol

import numpy as np

from pmlda.parallel.progress import Report
from pmlda.parallel.threads import count_jobs
from pmlda.pipeline import steps
from pmlda.pipeline.blending import blur_of
from pmlda.pipeline.parts import Content, need_part
from pmlda.pipeline.shards import follow_chains
from pmlda.pipeline.steps import Job
from pmlda.pipeline.subsample import words_each
from pmlda.pipeline.tiles import Block
from pmlda.validate import require


class Mapper(Protocol):
    """Whoever makes calls: threads here, or the workers of a cluster."""

    def threads(self) -> int: ...
    def run(
        self, function: Callable[..., Any], common: Any, calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]: ...


class Threads:
    """Calls made by threads of this process."""

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs = count_jobs(n_jobs)

    def threads(self) -> int:
        return self._n_jobs

    def run(
        self, function: Callable[..., Any], common: Any, calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (i, function(common, *calls[i])) in the order in which they are done."""
        with ThreadPoolExecutor(self._n_jobs) as pool:
            numbers = {pool.submit(function, common, *call): i for i, call in enumerate(calls)}
            try:
                for future in as_completed(numbers):
                    yield numbers[future], future.result()
            finally:
                pool.shutdown(cancel_futures=True)


class Outcome(NamedTuple):
    """What a run found beside its maps: pixels with data, documents, seconds of each stage, a sampler's verdict."""

    n_valid: int
    n_documents: int
    seconds: dict[str, float]
    verdict: str = ""


class Run:
    """The stages in order, with their times."""

    def __init__(self, job: Job, mapper: Mapper, report: Report) -> None:
        self.job, self.mapper, self.report = job, mapper, report
        self.blocks = job.plan.blocks
        self.seconds: dict[str, float] = {}

    def all_stages(self) -> Outcome:
        """Everything, and what is done already once more, at no cost."""
        surveyed = self.over("surveying", steps.survey, [(block,) for block in self.blocks])
        n_valid = sum(each["n_valid"] for each in surveyed)
        require(n_valid > 0, f"{self.job.source.name} has no pixel with data. Check its values, nodata and the mask.")
        whole = self.job.plan.documents.kind == "whole"
        require(
            not (whole and self.job.settings.engine == "gibbs"),
            "documents='whole' with engine='gibbs' cannot be worked on block by block: a document must lie in one "
            "block. Use 'windows:64' or 'slic:N', or engine='variational'.",
        )
        n_documents = 1 if whole else sum(each["n_documents"] for each in surveyed)
        used = [block.number for block, each in zip(self.blocks, surveyed, strict=True) if each["n_valid"]]
        self.learn_features(surveyed, used)
        most = words_each(n_documents, steps.variational(self.job.settings))
        sampled = self.over("sampling", steps.sample, [(block, most, n_documents, n_valid) for block in self.blocks])
        learning = [block.number for block, each in zip(self.blocks, sampled, strict=True) if each["n_learning"]]
        self.learn_topics(learning)
        if self.job.settings.engine == "gibbs":
            verdict = follow_chains(self.job, self.over, self.blocks)
            return Outcome(n_valid, n_documents, self.seconds, verdict)
        # A document that is the whole picture is described once, from the words of all blocks.
        described = [(self.blocks[0], used)] if whole else [(block,) for block in self.blocks]
        self.over("documents", steps.describe, described)
        blur = None
        if self.job.settings.blend > 0 and n_documents > 1:
            blur = blur_of(n_valid, n_documents, self.job.settings.blend)
        self.over("maps", steps.maps, [(block, blur) for block in self.blocks])
        return Outcome(n_valid, n_documents, self.seconds)

    def over(
        self,
        stage: str,
        step: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        progress: tuple[int, int] | None = None,
    ) -> list[Any]:
        """What a step returns for all calls, in order. progress : how much of a longer stage this is"""
        start, total = time.perf_counter(), len(calls)
        found: list[Any] = [None] * total
        self.report(stage, *((0, total) if progress is None else progress))
        for done, (number, result) in enumerate(self.mapper.run(step, self.job, calls)):
            found[number] = result
            if progress is None:
                self.report(stage, done + 1, total)
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        return found

    def learn_features(self, surveyed: list[Content], used: list[int]) -> None:
        """What features must know of the whole picture."""
        first: Block = self.blocks[used[0]]
        example = self.job.source.read(first.rows, first.columns)
        self.job.features.settle((each["surveys"] for each in surveyed), example)

    def learn_topics(self, learning: list[int]) -> None:
        """One call: what it needs fits in memory, however large the picture."""
        self.over("learning topics", steps.learn, [(learning, self.mapper.threads())])

    def check_maps(self) -> int:
        """How many blocks of an earlier run are damaged; they will be made again."""
        calls = [(block,) for block in self.blocks]
        return sum(not sound for _, sound in self.mapper.run(steps.is_sound, self.job, calls))


def preview(job: Job) -> tuple[np.ndarray[Any, Any], ...]:
    """Small pictures, from those of all blocks: pixels, valid, memberships, uncertainty."""
    step = job.preview_step
    height, width = (-(-length // step) for length in job.plan.shape)
    k, bands = job.settings.topics, job.source.shape[2]
    pixels = np.zeros((height, width, bands), job.source.dtype)
    valid = np.zeros((height, width), bool)
    memberships, uncertainty = (np.full((height, width, k), np.nan, np.float32) for _ in range(2))
    for block in job.plan.blocks:
        part = need_part(job.folder, "maps", block.number)
        if "valid" not in part:
            continue
        top, left = -(-block.rows.start // step), -(-block.columns.start // step)
        here = np.s_[top : top + part["valid"].shape[0], left : left + part["valid"].shape[1]]
        pixels[here], valid[here] = part["pixels"], part["valid"]
        memberships[here], uncertainty[here] = part["memberships"], part["uncertainty"]
    return pixels, valid, memberships, uncertainty
