"""What the comparisons of kernels and twins share: random states, and the comparison itself."""

from typing import NamedTuple

import numpy as np

from pmlda.engines.documents import cut_segments
from tests.problems import PROBLEMS, draw_all

SIZES = (70, 1, 3, 130)
ALPHA = np.array([1.0, 0.6, 2.0])
SCALE_RATE = 0.5


class Case(NamedTuple):
    """A corpus with all of its kernels' arguments; the last document is cut in two segments."""

    model: tuple
    scores: np.ndarray
    documents: object
    latents: object
    segments: np.ndarray
    a: np.ndarray
    rng: np.random.Generator

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
    model = (family.code, family.table(topics), family.constant)
    return Case(model, family.scores(documents.words, topics), documents, latents, segments, a, rng)


def blank(*shape):
    """An array to be filled: whatever is left out stays NaN."""
    return np.full(shape, np.nan)


def agree(kernel, twins, *arguments, rtol=1e-9, atol=1e-10):
    """Run a kernel, and its twin of the same name on copies: all arrays must be equal afterwards."""
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    name = kernel.__name__
    result, expected = kernel(*arguments), getattr(twins, name)(*copies)
    for i, (argument, copy) in enumerate(zip(arguments, copies, strict=True)):
        if isinstance(argument, np.ndarray):
            np.testing.assert_allclose(argument, copy, rtol=rtol, atol=atol, err_msg=f"{name}, argument {i}")
            assert not np.isnan(argument).any()
    if result is not None:
        np.testing.assert_allclose(result, expected, rtol=rtol)
    return result
