"""What the comparisons of kernels and twins share: random states, and the comparison itself."""

from typing import NamedTuple

import numpy as np

from pmlda.engines.documents import cut_segments
from pmlda.kernels.arguments import DocumentPrior, DocumentRange, LogPartition, Places
from tests.problems import PROBLEMS, draw_all

SIZES = (70, 1, 3, 130)
ALPHA = np.array([1.0, 0.6, 2.0])
SCALE_RATE = 0.5


class Case(NamedTuple):
    """A corpus with all of its kernels' arguments; the last document is cut in two segments."""

    log_partition: LogPartition
    scores: np.ndarray
    documents: object
    latents: object
    segments: np.ndarray
    a: np.ndarray
    rng: np.random.Generator

    @property
    def prior(self):
        return DocumentPrior(ALPHA[: self.n_topics], SCALE_RATE)

    @property
    def places(self):
        return Places(self.segments, self.documents.starts)

    @property
    def all_documents(self):
        return DocumentRange(self.documents.starts, 0, len(SIZES))

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


def make_case(name, n_topics, seed=5):
    problem = PROBLEMS[name]._replace(sizes=SIZES, n_topics=n_topics, alpha=tuple(ALPHA[:n_topics]))
    rng = np.random.default_rng(seed)
    topics, documents, latents = draw_all(rng, problem)
    family = problem.family
    segments = cut_segments(documents)
    segments = np.concatenate([segments[:-1], [[74, 170, 3], [170, 204, 3]]])
    a = np.exp(latents.log_proportions) * latents.scales[:, None] + 1e-3
    log_partition = LogPartition(family.code, family.table(topics), family.constant)
    return Case(log_partition, family.scores(documents.words, topics), documents, latents, segments, a, rng)


def blank(*shape):
    """An array to be filled: whatever is left out stays NaN."""
    return np.full(shape, np.nan)


def arrays_in(arguments):
    """The arrays among arguments and in their NamedTuples, by name."""
    for i, argument in enumerate(arguments):
        fields = zip(argument._fields, argument, strict=True) if isinstance(argument, tuple) else [("", argument)]
        yield from ((f"argument {i} {name}", value) for name, value in fields if isinstance(value, np.ndarray))


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
