"""What all engines share: words cut into groups that fit in a processor's cache, and what kernels need of them."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.documents import cut_segments, labelled_rows
from pmlda.families.base import Family
from pmlda.families.sparse import as_sparse, stored_per_row
from pmlda.kernels.arguments import NO_COUNTS, Counts, DocumentPrior, DocumentRange, LogPartition, Places, SweepKey
from pmlda.model import log_labels
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, FloatArray, IntArray, Labels, Statistics, Topics
from pmlda.types import Fixed as Fixed

# As many words as fit in a processor's own cache with their memberships and scores, and as many features.
GROUP_WORDS = 8192
GROUP_FEATURES = 16 * GROUP_WORDS


class Group(NamedTuple):
    """Neighbouring segments that are worked on together: which of them, and their words."""

    segments: slice
    words: slice


class Cut:
    """Documents cut into segments and groups, with what is computed from the words once.

    The cuts follow from the data alone, so that sums over groups always add alike.
    """

    def __init__(self, documents: Documents, family: Family, workers: Workers) -> None:
        self.documents, self.family, self.workers = documents, family, workers
        self.sizes = documents.sizes
        group_words = min(GROUP_WORDS, max(256, GROUP_FEATURES // stored_per_row(documents.words)))
        self.counts = to_counts(documents.words) if family.additive else NO_COUNTS
        self.segments = cut_segments(documents, group_words)
        self.first_segment = np.searchsorted(self.segments[:, 2], np.arange(len(self.sizes)))
        self.groups = group_segments(self.segments, group_words)
        # A document's own step costs about as much as ten words.
        self.document_shares = workers.share(np.full(len(self.sizes), 10))
        self.base = np.asarray(
            sum(workers.map(lambda group: family.summarise(documents.words[group.words]), self.groups))
        )

    def log_partition(self, topics: Topics) -> LogPartition:
        """A at these topics, as kernels evaluate it, of all words."""
        table = np.ascontiguousarray(self.family.table(topics))
        return LogPartition.of(int(self.family.code), table, float(self.family.constant), self.counts)

    def in_group(self, log_partition: LogPartition, group: Group) -> LogPartition:
        """The same of the words of one group."""
        if not self.family.additive:
            return log_partition
        rows = slice(group.words.start, group.words.stop + 1)
        return log_partition._replace(counts=self.counts._replace(starts=self.counts.starts[rows]))

    def labels(self, n_topics: int) -> Labels:
        """Labels of words, as kernels take them."""
        return no_labels(n_topics) if self.documents.told is None else self.documents.told

    def prior(self, alpha: FloatArray, scale_rate: float) -> DocumentPrior:
        """The priors of π and s, with the labels of documents."""
        told = self.documents.told_documents
        return DocumentPrior(alpha, float(scale_rate), no_labels(len(alpha)) if told is None else told)

    def log_labels(self, log_memberships: FloatArray) -> float:
        """ln p(label | z) of all words that have one."""
        told, rows = self.documents.told, labelled_rows(self.documents)
        return 0.0 if told is None else float(log_labels(told.take(rows), log_memberships[rows]).sum())

    def places(self, group: Group) -> Places:
        """The words of a group."""
        return Places(self.segments[group.segments], self.documents.starts)

    def document_range(self, share: tuple[int, int]) -> DocumentRange:
        """A worker's share of the documents."""
        first, last = share
        return DocumentRange(self.documents.starts, int(first), int(last))

    def per_document(self, per_segment: FloatArray) -> FloatArray:
        """Sums over the segments of each document."""
        return np.asarray(np.add.reduceat(per_segment, self.first_segment, axis=0))


def to_counts(words: NDArray[np.floating]) -> Counts:
    """Counts of words as kernels take them."""
    rows = as_sparse(words)
    return Counts(rows.starts, rows.features, rows.values.astype(np.float64, copy=False))


def no_labels(n_topics: int) -> Labels:
    """Where nothing was said."""
    nothing = np.zeros((1, n_topics))
    return Labels(np.empty(0, np.int64), nothing, nothing, np.zeros(1))


def sweep_key(seed: int, sweep: int) -> SweepKey:
    """Where the random numbers of a sweep begin."""
    return SweepKey(np.uint64(seed), np.uint64(sweep))


def group_segments(segments: IntArray, group_words: int) -> list[Group]:
    """Groups of about so many words."""
    edges = [0, *(np.flatnonzero(np.diff(segments[:, 0] // group_words)) + 1).tolist(), len(segments)]
    return [Group(slice(a, b), slice(int(segments[a, 0]), int(segments[b - 1, 1]))) for a, b in pairwise(edges)]


def add_statistics(parts: list[Statistics]) -> Statistics:
    """The sum, taken in order."""
    total = parts[0]
    for part in parts[1:]:
        total = Statistics(total.gram + part.gram, total.weighted + part.weighted)
    return total


class Addressed:
    """Random numbers for the topics, addressed by (seed, sweep)."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=seed))
        self._start: Any = self._generator.bit_generator.state

    def at(self, sweep: int) -> np.random.Generator:
        """A generator at the start of the sweep's numbers. Moving one is ten times as fast as making one."""
        self._start["state"]["counter"][:] = 0, 0, 0, sweep
        self._generator.bit_generator.state = self._start
        return self._generator
