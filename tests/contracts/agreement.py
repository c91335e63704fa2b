"""What the comparisons of kernels and twins share: random states, and the comparison itself."""

from typing import NamedTuple

import numpy as np

from pmlda.engines.corpus import no_labels, to_counts
from pmlda.engines.documents import cut_segments
from pmlda.kernels.arguments import NO_COUNTS, DocumentPrior, DocumentRange, LogPartition, Places
from pmlda.types import Labels
from tests.problems import PROBLEMS, draw_all
from tests.twins.counts import take

SIZES = (70, 1, 3, 130)
ALPHA = np.array([1.0, 0.6, 2.0])
SCALE_RATE = 0.5


def labels_of(row, n_topics):
    """Labels of every kind: 0 nothing, 1 precise, 2 soft, 3 imprecise, 4 all of that in one row."""
    first, last, everything = np.eye(n_topics)[0], np.eye(n_topics)[-1], np.ones(n_topics)
    counts = np.stack([0.0 * first, 3.0 * first, 1.5 * first + 0.4 * last, 0.0 * first, 0.3 + 1.2 * first])
    both = np.maximum(first, last) if n_topics > 2 else last
    any_of = np.stack([0.0 * first, 0.0 * first, 0.0 * first, everything - first, both])
    return Labels(np.asarray(row), counts, any_of, np.array([0.0, 0.0, 0.0, 4.0, 2.5]))


# The label of each word, in runs from one word to more than kernels treat together.
LABEL_OF_WORDS = np.repeat([0, 1, 2, 3, 4, 3, 4, 1, 4, 0, 2, 3], [10, 12, 13, 15, 20, 1, 2, 1, 100, 10, 10, 10])
LABEL_OF_DOCUMENTS = [3, 0, 4, 2]


class Case(NamedTuple):
    """A corpus with all of its kernels' arguments; the last document is cut in two segments or more.

    told, told_documents : labels of words and of documents
    """

    log_partition: LogPartition
    scores: np.ndarray
    documents: object
    latents: object
    segments: np.ndarray
    a: np.ndarray
    rng: np.random.Generator
    told: Labels
    told_documents: Labels
    family: object
    topics: object

    @property
    def prior(self):
        return DocumentPrior(ALPHA[: self.n_topics], SCALE_RATE, self.told_documents)

    @property
    def places(self):
        return Places(self.segments, self.documents.starts)

    @property
    def all_documents(self):
        return DocumentRange(self.documents.starts, 0, len(SIZES))

    @property
    def label(self):
        """(N,) the label of each word."""
        return self.told.row if len(self.told.row) else np.zeros(self.n_words, np.int64)

    def segments_of(self, first, last):
        """Segments of documents first to last."""
        return self.segments[(self.segments[:, 2] >= first) & (self.segments[:, 2] <= last)]

    def partition_from(self, first, last=None):
        """The log partition of words first to last − 1, as scores[first:last] are theirs."""
        return take(self.log_partition, slice(first, last))

    @property
    def n_words(self):
        return len(self.scores)

    @property
    def n_topics(self):
        return self.scores.shape[1]

    def gamma(self, low, high, even=True):
        """Parameters of Dirichlet distributions from `low` to `high`; even: those of one word of like size."""
        shape = (self.n_words, 1) if even else (self.n_words, self.n_topics)
        return 10.0 ** self.rng.uniform(np.log10(low), np.log10(high), shape) * self.rng.uniform(
            0.1, 1.0, (self.n_words, self.n_topics)
        )


def make_case(name, n_topics, seed=5, labelled=True):
    """labelled: words and documents have labels of every kind; some have none."""
    problem = PROBLEMS[name]._replace(sizes=SIZES, n_topics=n_topics, alpha=tuple(ALPHA[:n_topics]))
    rng = np.random.default_rng(seed)
    topics, documents, latents = draw_all(rng, problem)
    family, told, told_documents = problem.family, no_labels(n_topics), no_labels(n_topics)
    if labelled:
        told, told_documents = labels_of(LABEL_OF_WORDS, n_topics), labels_of(LABEL_OF_DOCUMENTS, n_topics)
        documents = documents._replace(told=told, told_documents=told_documents)
    segments = cut_segments(documents, 96)
    a = np.exp(latents.log_proportions) * latents.scales[:, None] + 1e-3
    counts = to_counts(documents.words) if family.additive else NO_COUNTS
    log_partition = LogPartition.of(family.code, family.table(topics), family.constant, counts)
    scores = family.scores(documents.words, topics)
    return Case(log_partition, scores, documents, latents, segments, a, rng, told, told_documents, family, topics)


def blank(*shape):
    """An array to be filled: whatever is left out stays NaN."""
    return np.full(shape, np.nan)


def arrays_in(arguments):
    """The arrays among arguments and in their NamedTuples, with where they are."""
    for i, argument in enumerate(arguments):
        if isinstance(argument, tuple):
            kind = type(argument).__name__
            yield from ((f"{kind}, {name}", value) for name, value in arrays_in(argument))
        elif isinstance(argument, np.ndarray):
            yield f"argument {i}", argument


def copied(argument):
    """A copy of an array, of all arrays in a NamedTuple, or the same number."""
    if isinstance(argument, tuple):
        return type(argument)(*map(copied, argument))
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def agree(kernel, twins, *arguments, rtol=1e-9, atol=1e-10):
    """Run a kernel, and its twin of the same name on copies: all arrays must be equal afterwards."""
    copies = [copied(argument) for argument in arguments]
    name = kernel.__name__
    result, expected = kernel(*arguments), getattr(twins, name)(*copies)
    for (what, array), (_, copy) in zip(arrays_in(arguments), arrays_in(copies), strict=True):
        np.testing.assert_allclose(array, copy, rtol=rtol, atol=atol, err_msg=f"{name}, {what}")
        assert not np.isnan(array).any()
    if result is not None:
        np.testing.assert_allclose(result, expected, rtol=rtol)
    return result
