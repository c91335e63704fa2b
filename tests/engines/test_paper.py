"""The engine: its trace is the model's log joint, its bits do not depend on threads or pauses, its target is exact."""

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from pmlda.engines import paper
from pmlda.engines.base import Sums
from pmlda.engines.documents import group_rows
from pmlda.families import Gaussian
from pmlda.model import log_joint, simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, Fixed, Latents, Topics
from tests.problems import PROBLEMS, draw_all, triangle


def copied(latents):
    return Latents(*(array.copy() for array in latents))


def run(documents, family, topics, latents, n_sweeps, *, n_jobs=1, first=0, **settings):
    """The last state and all infos of n_sweeps sweeps."""
    n_topics = len(topics.means)
    settings = paper.Settings(np.ones(n_topics), 0.5, 17, **settings)
    with Workers(n_jobs) as workers:
        steps = paper.run(documents, family, paper.State(first, topics, copied(latents)), settings, workers)
        results = list(islice(steps, n_sweeps))
    return results[-1][0], [info for _, info in results]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_trace_is_the_log_joint_of_the_model(name):
    problem = PROBLEMS[name]
    topics, documents, latents = draw_all(np.random.default_rng(1), problem._replace(alpha=(1.0, 1.0)))
    family = problem.family.informed_by(documents.words)
    moved = 0
    for n_sweeps in range(1, 30):
        state, infos = run(documents, family, topics, latents, n_sweeps)
        expected = log_joint(documents.words, documents.document, state.latents, state.topics, family, 1.0, 0.5)
        assert infos[-1].log_joint == pytest.approx(expected, rel=1e-9, abs=1e-9)
        moved += state.topics is not topics
    assert moved, "topics never moved, so the trace was not tried where it could fail"


@pytest.mark.parametrize("name", ["gaussian full", "poisson"])
def test_one_and_two_threads_give_the_same_bits(name):
    problem = PROBLEMS[name]._replace(sizes=(20_000, 20, 14_000, *(3,) * 1500))
    topics, documents, latents = draw_all(np.random.default_rng(2), problem)
    family = problem.family.informed_by(documents.words)
    results = [run(documents, family, topics, latents, 4, n_jobs=n) for n in (1, 2, 3)]
    for state, infos in results[1:]:
        for a, b in zip(state.latents, results[0][0].latents, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(state.topics.means, results[0][0].topics.means)
        assert infos == results[0][1]


def test_a_pause_changes_nothing():
    problem = PROBLEMS["gaussian isotropic"]._replace(sizes=(40, 60))
    topics, documents, latents = draw_all(np.random.default_rng(3), problem)
    family = problem.family.informed_by(documents.words)
    straight, infos = run(documents, family, topics, latents, 60)
    half, first = run(documents, family, topics, latents, 25)
    resumed, second = run(documents, family, half.topics, half.latents, 35, first=half.sweep)
    np.testing.assert_array_equal(resumed.latents.memberships, straight.latents.memberships)
    np.testing.assert_array_equal(resumed.topics.means, straight.topics.means)
    assert first + second == infos


def test_what_is_held_stays():
    problem = PROBLEMS["gaussian isotropic"]._replace(sizes=(40, 60))
    topics, documents, latents = draw_all(np.random.default_rng(4), problem)
    family = problem.family.informed_by(documents.words)
    state, infos = run(documents, family, topics, latents, 30, fixed=Fixed(True, True, True, True))
    assert state.topics is topics
    np.testing.assert_array_equal(state.latents.log_proportions, latents.log_proportions)
    np.testing.assert_array_equal(state.latents.scales, latents.scales)
    assert not np.array_equal(state.latents.memberships, latents.memberships)
    assert set(infos[0].acceptance) == {"memberships"}


def test_a_topic_proposal_makes_no_pass_over_the_words():
    """Words may even be gone: shared-covariance Gaussians judge topics by statistics alone."""
    words, document, latents = simulate(np.random.default_rng(0), Gaussian(), triangle(), [300] * 3)
    documents = group_rows(words, document)
    family = Gaussian().informed_by(words)
    with Workers(1) as workers:
        corpus = paper.Corpus(documents, family, workers, paper.COMPILED)
        sums = Sums(corpus.statistics(latents), 0.0, corpus.base, 0.0, len(words), {})
        del corpus
    value = paper.log_likelihood(family, triangle(7.5, 1.2), sums, visit=None)
    z = latents.memberships
    expected = stats.norm(z @ triangle(7.5).means, np.sqrt(1.2)).logpdf(words).sum()
    assert value == pytest.approx(expected, rel=1e-10)


def test_without_words_in_the_likelihood_the_scale_follows_its_prior():
    """Words with a huge variance say nothing, so s ~ Exp(λ): the mean is 1/λ = 2, not the 1 of a prior counted twice.

    400 documents of one word, 400 independent draws after 40 sweeps from the prior: 5 standard errors, 6e-7.
    """
    rng = np.random.default_rng(5)
    family = Gaussian()
    topics = Topics(np.array([[0.0], [1.0]]), np.array(1e12))
    words, document, latents = simulate(rng, family, topics, [1] * 400)
    state, _ = run(group_rows(words, document), family.informed_by(words), topics, latents, 40, fixed=Fixed(True, True))
    assert abs(state.latents.scales.mean() - 2.0) < 5 * 2.0 / np.sqrt(400)


def test_posterior_means_match_brute_force_integration():
    """One document of two words, K = 2, topics known. The exact means come from weighing 2 million prior draws.

    Three numbers at 5 standard errors of the two estimates together: false alarm 2e-6.
    """
    family, rng = Gaussian(), np.random.default_rng(6)
    topics = Topics(np.array([[0.0], [3.0]]), np.array(1.0))
    x = np.array([[0.4], [2.1]])
    n = 2_000_000
    _, _, prior = simulate(rng, family, topics, np.full(n, 2))
    z = prior.memberships.reshape(n, 2, 2)
    weight = stats.norm(z[:, :, 1] * 3.0, 1.0).pdf(x[:, 0]).prod(axis=1)
    weight /= weight.sum()
    values = np.stack([np.exp(prior.log_proportions[:, 0]), prior.scales, z[:, 0, 0]])
    expected = values @ weight
    expected_error = np.sqrt((values - expected[:, None]) ** 2 @ weight**2)

    documents = Documents(x, np.zeros(2, np.int64), np.array([0, 2]), np.array([0]), np.arange(2))
    _, _, start = simulate(rng, family, topics, [2])
    settings = paper.Settings(np.ones(2), 0.5, 23, fixed=Fixed(True, True))
    draws = []
    with Workers(1) as workers:
        steps = paper.run(documents, family.informed_by(x), paper.State(0, topics, start), settings, workers)
        for state, _ in islice(steps, 40_000):
            latents = state.latents
            draws.append([np.exp(latents.log_proportions[0, 0]), latents.scales[0], latents.memberships[0, 0]])
    draws = np.array(draws[1000:])
    batches = draws[: len(draws) // 50 * 50].reshape(50, -1, 3).mean(axis=1)
    error = np.hypot(batches.std(axis=0, ddof=1) / np.sqrt(50), expected_error)
    assert (np.abs(draws.mean(axis=0) - expected) < 5 * error).all()
    deviation = np.sqrt((values - expected[:, None]) ** 2 @ weight)
    assert (error < 0.1 * deviation).all(), "too little precision for the comparison to mean something"


def exact_scale_of_crisp_document():
    """E[s | ten words at 0, ten at 6], by a grid over ln s and π and over the quantiles of z."""
    s = np.exp(np.linspace(-9.0, 3.5, 90))[:, None, None]
    pi = ((np.arange(40) + 0.5) / 40)[:, None]
    z = stats.beta(s * pi, s * (1 - pi)).ppf((np.arange(200) + 0.5) / 200)  # membership in the topic at 0
    log_words = 10 * sum(np.log(stats.norm(6 * (1 - z), 1).pdf(x).mean(axis=2)) for x in (0.0, 6.0))
    weight = np.exp(log_words - log_words.max()).sum(axis=1) * (s * np.exp(-0.5 * s))[:, 0, 0]
    return float(weight @ s[:, 0, 0] / weight.sum())


def test_prior_proposals_reach_memberships_that_uniform_ones_cannot():
    """Crisp words put most posterior mass on memberships below any grid of floats, and s near zero.

    100 copies of one document are 100 independent chains: 5 standard errors, false alarm 6e-7, plus 0.01 for the grid.
    """
    topics = Topics(np.array([[0.0], [6.0]]), np.array(1.0))
    x = np.tile(np.repeat([0.0, 6.0], 10), 100)[:, None]
    documents = group_rows(x, np.repeat(np.arange(100), 20))
    z = np.where(x < 3.0, [[0.999, 0.001]], [[0.001, 0.999]])
    latents = Latents(z, np.log(z), np.log(np.full((100, 2), 0.5)), np.full(100, 2.0))
    scales = []
    for prior_steps in (0, 1):
        settings = paper.Settings(np.ones(2), 0.5, 3, 2, prior_steps, Fixed(True, True))
        with Workers(1) as workers:
            start = paper.State(0, topics, copied(latents))
            steps = paper.run(documents, Gaussian().informed_by(x), start, settings, workers)
            scales.append(np.mean([state.latents.scales.copy() for state, _ in islice(steps, 2500)][500:], axis=0))
    expected = exact_scale_of_crisp_document()
    error = scales[1].std() / np.sqrt(100)
    assert abs(scales[1].mean() - expected) < 5 * error + 0.01
    assert scales[0].mean() > expected + 0.2, "the paper's own proposals were expected to stay away from the truth"
