"""Every kernel equals its NumPy twin, and random numbers are what their addresses say."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from pmlda.engines.corpus import no_labels, to_counts
from pmlda.engines.documents import cut_segments, group_rows
from pmlda.engines.paper import COMPILED
from pmlda.kernels import streams
from pmlda.kernels.arguments import NO_COUNTS, DocumentPrior, DocumentRange, LogPartition, Places, SweepKey
from pmlda.kernels.paper import accumulate
from pmlda.types import Fixed, Latents
from tests.contracts.agreement import labels_of
from tests.entries import from_python
from tests.problems import PROBLEMS, draw_all
from tests.twins import paper as twins

# From the authors' reference implementation, Random123, file kat_vectors: philox4x32, 10 rounds.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, 0xFFFFFFFFFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@njit
def read_stream(sweep_key, document, word, purpose, shape, kind, out):
    stream = np.empty(streams.STREAM_SIZE, np.uint64)
    streams.point(stream, sweep_key, document, word, purpose)
    for i in range(len(out)):
        if kind == 0:
            out[i] = streams.uniform(stream)
        elif kind == 1:
            out[i] = streams.normal(stream)
        else:
            out[i] = streams.log_gamma(stream, shape)


def drawn(kind, n, shape=1.0):
    out = np.empty(n)
    key, sweep, *rest = (np.uint64(i) for i in (3, 1, 4, 1, 5))
    read_stream(SweepKey(key, sweep), *rest, shape, kind, out)
    return out


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, expected):
    compiled = from_python(streams.philox)(*(np.uint64(c) for c in counter), np.uint64(key))
    assert tuple(int(word) for word in compiled) == expected
    assert tuple(int(word) for word in twins.philox(counter, key)) == expected


def test_streams_and_their_twins_give_the_same_numbers():
    twin = twins.Stream(SweepKey(3, 1), 4, 1, 5)
    np.testing.assert_array_equal(drawn(0, 33), [twin.uniform() for _ in range(33)])
    np.testing.assert_array_equal(drawn(0, 33), twins.uniforms(SweepKey(3, 1), 4, 1, 5, 33))
    for shape in (0.02, 0.8, 1.0, 7.5):
        twin = twins.Stream(SweepKey(3, 1), 4, 1, 5)
        np.testing.assert_allclose(drawn(2, 20, shape), [twin.log_gamma(shape) for _ in range(20)], rtol=1e-12)


def test_streams_have_the_stated_distributions():
    """Six Kolmogorov-Smirnov tests at 1e-6: false alarm 6e-6."""
    assert stats.kstest(drawn(0, 50_000), "uniform").pvalue > 1e-6
    assert stats.kstest(drawn(1, 50_000), "norm").pvalue > 1e-6
    for shape in (0.02, 0.8, 1.0, 7.5):
        assert stats.kstest(drawn(2, 50_000, shape), stats.loggamma(shape).cdf).pvalue > 1e-6


def test_gamma_draws_of_tiny_shape_never_underflow():
    values = drawn(2, 1000, 1e-9)
    assert np.isfinite(values).all()
    assert values.min() < -1e9


def test_neighbouring_addresses_are_uncorrelated():
    """200 correlations of 2,000 numbers each: the largest at 5 standard errors, false alarm 1e-4."""
    numbers = twins.uniforms(SweepKey(9, 0), np.arange(2000), 0, 2, 2)[:, 0]
    keys = [SweepKey(9, sweep) for sweep in range(10)]
    others = [twins.uniforms(keys[i % 10], np.arange(2000), 1 + i // 10, 2, 2)[:, 0] for i in range(200)]
    correlations = [np.corrcoef(numbers, other)[0, 1] for other in others]
    assert np.abs(correlations).max() < 5 / np.sqrt(2000)


def test_proposals_are_uniform_on_the_simplex():
    """Marginals of Dir(1_K) are Beta(1, K − 1): four tests at 1e-6, false alarm 4e-6."""
    z = twins.propose_memberships(np.random.default_rng(0).random((20_000, 3)))
    np.testing.assert_allclose(z.sum(axis=1), 1.0)
    for k in range(4):
        assert stats.kstest(z[:, k], stats.beta(1, 3).cdf).pvalue > 1e-6


def test_equal_numbers_leave_no_zero_membership():
    assert (twins.propose_memberships(np.array([[0.5, 0.5], [0.25, 0.25]])) > 0).all()


@pytest.fixture(params=PROBLEMS)
def corpus(request):
    problem = PROBLEMS[request.param]._replace(sizes=(70, 3, 130), n_topics=3, alpha=(1.0, 0.6, 2.0))
    topics, documents, latents = draw_all(np.random.default_rng(5), problem)
    runs = np.repeat([0, 1, 2, 3, 4, 1, 3, 0], [10, 20, 20, 15, 8, 10, 100, 20])
    return problem, topics, documents._replace(told=labels_of(runs, 3)), latents


def log_partition_of(problem, topics, documents):
    family = problem.family
    counts = to_counts(documents.words) if family.additive else NO_COUNTS
    return LogPartition.of(family.code, family.table(topics), family.constant, counts)


def key_of(sweep):
    return SweepKey(np.uint64(8), np.uint64(sweep))


def copies(latents):
    return [Latents(*(array.copy() for array in latents)) for _ in range(2)]


@pytest.mark.parametrize("step", ["word_step", "word_prior_step"])
def test_word_steps_equal_their_twins(corpus, step):
    problem, topics, documents, latents = corpus
    scores, log_partition = problem.family.scores(documents.words, topics), log_partition_of(problem, topics, documents)
    places = Places(cut_segments(documents), documents.starts)
    outs = []
    both = copies(latents)
    for kernels, state in zip((COMPILED, twins), both, strict=True):
        out = np.empty((len(places.segments), 2))
        for sweep in range(3):
            getattr(kernels, step)(log_partition, scores, state, places, documents.told, key_of(sweep), out)
        outs.append(out)
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-9)
    np.testing.assert_allclose(both[0].memberships, both[1].memberships, rtol=1e-12)
    np.testing.assert_allclose(both[0].log_memberships, both[1].log_memberships, rtol=1e-12, atol=1e-14)
    assert not np.array_equal(both[0].memberships, latents.memberships)


def test_any_order_of_segments_gives_the_same_bits(corpus):
    problem, topics, documents, latents = corpus
    segments = cut_segments(documents)
    arguments = log_partition_of(problem, topics, documents), problem.family.scores(documents.words, topics)
    forward, backward = copies(latents)
    places, out = Places(segments, documents.starts), np.empty((len(segments), 2))
    COMPILED.word_step(*arguments, forward, places, documents.told, key_of(0), out)
    for segment in segments[::-1]:
        place = Places(segment[None], documents.starts)
        COMPILED.word_step(*arguments, backward, place, documents.told, key_of(0), np.empty((1, 2)))
    np.testing.assert_array_equal(forward.memberships, backward.memberships)


def test_sums_equal_their_twins(corpus):
    problem, topics, documents, latents = corpus
    segments = cut_segments(documents)
    for name, arguments, shape in (
        ("sum_partition", (log_partition_of(problem, topics, documents), latents.memberships), ()),
        ("sum_log", (latents.log_memberships,), (3,)),
    ):
        outs = [np.empty((len(segments), *shape)) for _ in range(2)]
        for kernels, out in zip((COMPILED, twins), outs, strict=True):
            getattr(kernels, name)(*arguments, segments, out)
        np.testing.assert_allclose(outs[0], outs[1], rtol=1e-9)


def test_the_kernels_partition_is_the_familys(corpus):
    problem, topics, documents, latents = corpus
    family = problem.family
    out = np.empty(len(cut_segments(documents)))
    COMPILED.sum_partition(
        log_partition_of(problem, topics, documents), latents.memberships, cut_segments(documents), out
    )
    expected = family.partitions(documents.words, latents.memberships @ family.natural(topics), topics).sum()
    assert out.sum() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("labels", [no_labels(3), labels_of([4, 0, 1], 3), labels_of([2, 3, 3], 3)], ids=range(3))
@pytest.mark.parametrize(("hold_pi", "hold_s"), [(False, False), (True, False), (False, True)])
def test_document_steps_equal_their_twins(labels, hold_pi, hold_s):
    problem = PROBLEMS["gaussian isotropic"]._replace(sizes=(5, 1, 9), n_topics=3, alpha=(1.0, 0.6, 2.0))
    _, documents, latents = draw_all(np.random.default_rng(5), problem)
    prior, fixed = DocumentPrior(np.array(problem.alpha), 0.5, labels), Fixed(proportions=hold_pi, scales=hold_s)
    everything = DocumentRange(documents.starts, 0, 3)
    sums = np.add.reduceat(latents.log_memberships, documents.starts[:-1], axis=0)
    both = copies(latents)
    outs = [np.empty((3, 2)) for _ in range(2)]
    for kernels, state, out in zip((COMPILED, twins), both, outs, strict=True):
        for sweep in range(20):
            kernels.document_step(prior, state, sums, everything, 3, key_of(sweep), fixed, out)
    np.testing.assert_allclose(both[0].log_proportions, both[1].log_proportions, rtol=1e-10)
    np.testing.assert_allclose(both[0].scales, both[1].scales, rtol=1e-10)
    np.testing.assert_array_equal(outs[0], outs[1])
    assert np.array_equal(both[0].log_proportions, latents.log_proportions) == hold_pi
    assert np.array_equal(both[0].scales, latents.scales) == hold_s
    hidden = [np.empty(3), np.empty(3)]
    for kernels, out in zip((COMPILED, twins), hidden, strict=True):
        kernels.log_hidden(prior, latents, sums, everything, out)
    np.testing.assert_allclose(hidden[0], hidden[1], rtol=1e-12)


def test_gram_equals_its_twin():
    z = np.random.default_rng(0).dirichlet([1, 1, 1], size=40)
    outs = [np.empty((3, 3)) for _ in range(2)]
    COMPILED.gram(z, 5, 33, outs[0])
    twins.gram(z, 5, 33, outs[1])
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-13)


def test_accumulate_equals_its_twin():
    rng = np.random.default_rng(0)
    z = rng.dirichlet([1, 1, 1], size=40)
    position = np.array([2, 0, 1])
    sums = [[np.zeros((40, 3)), np.zeros((40, 3))] for _ in range(2)]
    for function, (total, dominant) in zip((accumulate, twins.accumulate), sums, strict=True):
        function(z, position, total, dominant, 5, 40)
    np.testing.assert_array_equal(sums[0], sums[1])
    assert sums[0][0][:5].sum() == 0


def test_long_documents_are_cut_and_short_ones_are_not():
    documents = group_rows(np.zeros((10_000, 1)), np.repeat([0, 1], [9_000, 1_000]))
    assert cut_segments(documents).tolist() == [
        [0, 4096, 0, 0],
        [4096, 8192, 0, 0],
        [8192, 9000, 0, 0],
        [9000, 10000, 1, 0],
    ]
