"""Engine variational: the bound rises at every step; threads and the order of topics do not matter."""

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from pmlda.engines import variational_schedule as schedule
from pmlda.engines import variational_steps as steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.documents import group_rows
from pmlda.engines.parameters import VariationalPlan
from pmlda.families import Gaussian, find_family
from pmlda.model import log_dirichlet, log_labels, log_words, simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Fixed, Topics
from tests.contracts.agreement import labels_of
from tests.problems import PROBLEMS, triangle


def corpus(name, sizes=(30, 1, 12, 90), n_topics=3, labelled=False):
    """Words of a family, centred where that is allowed, topics to start from, and settings.

    labelled: every third word and every document has a label, of all kinds, whatever its truth
    """
    problem = PROBLEMS[name]
    rng = np.random.default_rng(11)
    topics = problem.family.draw_topics(rng, n_topics)
    words, document, latents = simulate(rng, problem.family, topics, sizes)
    family, documents = problem.family.informed_by(words), group_rows(words, document)
    if labelled:
        row = np.where(np.arange(len(words)) % 3 == 0, rng.integers(1, 5, len(words)), 0)
        documents = documents._replace(told=labels_of(row, n_topics), told_documents=labels_of([1, 3, 4, 2], n_topics))
    return documents, family, family.draw_topics(rng, n_topics), latents


def settings_of(n_topics, **options):
    return steps.Settings(np.linspace(0.5, 2.0, n_topics), 0.5, **options)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("n_topics", "labelled"), [(2, False), (3, False), (3, True)])
def test_the_bound_rises_at_every_single_step(name, n_topics, labelled):
    documents, family, topics, _ = corpus(name, n_topics=n_topics, labelled=labelled)
    settings = settings_of(n_topics, steps=1)
    state = steps.start(documents, topics, settings)
    with Workers(1) as workers:
        cut = steps.Corpus(documents, family, workers)
        nothing = settings._replace(steps=0)
        bounds = [cut.bound(state, cut.local_step(state, nothing), settings)]
        for _ in range(12):
            local = cut.local_step(state, settings)
            bounds.append(cut.bound(state, local, settings))
            cut.document_step(state.a, local.sum_log_z, settings, 3)
            bounds.append(cut.bound(state, local, settings))
            state = state._replace(topics=cut.topic_step(state, local.statistics, Fixed()))
            bounds.append(cut.bound(state, cut.local_step(state, nothing), settings))
    assert np.isfinite(bounds).all()
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all(), np.diff(bounds).min()
    assert bounds[-1] > bounds[0] + 1.0


@pytest.mark.parametrize(
    ("family", "covariance"), [("poisson", "isotropic"), ("gaussian", "topic-diagonal"), ("gaussian", "topic-full")]
)
def test_a_topic_step_evaluates_topics_as_often_for_many_features_as_for_few(family, covariance, monkeypatch):
    """Slopes by differences evaluate them once or twice for every value."""
    kind, counts = type(find_family(family, covariance)), []
    natural = kind.natural
    monkeypatch.setattr(kind, "natural", lambda self, topics: counts.append(1) or natural(self, topics))
    words = np.random.default_rng(0).poisson(4.0, size=(80, 15)).astype(float)

    def evaluations(n_features):
        documents = group_rows(words[:, :n_features], np.repeat([0, 1], 40))
        informed = find_family(family, covariance).informed_by(documents.words)
        topics = informed.draw_topics(np.random.default_rng(1), 2)
        state, settings = steps.start(documents, topics, settings_of(2)), settings_of(2)
        with Workers(1) as workers:
            cut = steps.Corpus(documents, informed, workers)
            statistics = cut.local_step(state, settings).statistics
            counts.clear()
            moved = cut.topic_step(state, statistics, Fixed())
        assert not np.array_equal(moved.means, topics.means)
        return len(counts)

    # A line search may end an evaluation or two sooner or later; each takes a handful of calls.
    assert evaluations(15) < 2 * evaluations(2)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("name", ["gaussian isotropic", "gaussian full", "gaussian bounded", "poisson"])
def test_the_bound_rises_with_acceleration(name, labelled):
    documents, family, topics, _ = corpus(name, labelled=labelled)
    with Workers(1) as workers:
        run = steps.run(documents, family, steps.start(documents, topics, settings_of(3)), settings_of(3), workers)
        bounds = np.array([info.bound for _, info in islice(run, 80)])
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()


def test_the_bound_is_what_it_says():
    """E_q[ln p(x, z, labels, ln a)] + H(q), by 50,000 draws for each of 9 words; 5 standard errors have 6e-7."""
    documents, family, topics, _ = corpus("gaussian isotropic", sizes=(5, 4))
    told, told_documents = labels_of([0, 1, 2, 3, 4, 1, 3, 4, 3], 3), labels_of([4, 3], 3)
    documents = documents._replace(told=told, told_documents=told_documents)
    rng, settings, n_draws = np.random.default_rng(3), settings_of(3, steps=0), 50_000
    a, gamma = rng.uniform(0.3, 3.0, (2, 3)), rng.uniform(0.4, 4.0, (9, 3))
    state = steps.State(0, topics, gamma, np.ones(9), a)
    with Workers(1) as workers:
        cut = steps.Corpus(documents, family, workers)
        bound = cut.bound(state, cut.local_step(state, settings), settings)
    # Π π_k^α_k p(label | π) · s e^(−λs) of each document, which is the density of ln a up to a constant
    log_pi = np.log(a / a.sum(axis=1, keepdims=True))
    expected = (log_pi @ settings.alpha + np.log(a.sum(axis=1)) - settings.scale_rate * a.sum(axis=1)).sum()
    expected += log_labels(told_documents, log_pi).sum() + family.log_prior(topics).total
    variance = 0.0
    for n, d in enumerate(documents.document):
        z = rng.dirichlet(gamma[n], n_draws)
        values = log_words(documents.words[[n]], z, topics, family) + log_dirichlet(np.log(z), a[[d]])
        values += log_labels(told.take(np.full(n_draws, n)), np.log(z)) - stats.dirichlet(gamma[n]).logpdf(z.T)
        expected += values.mean()
        variance += values.var() / n_draws
    assert abs(bound - expected) < 5.0 * np.sqrt(variance)
    assert np.sqrt(variance) < 0.05


@pytest.mark.parametrize("name", ["gaussian isotropic", "bernoulli", "gaussian per topic, diagonal"])
def test_acceleration_gets_further(name):
    documents, family, topics, _ = corpus(name)
    with Workers(1) as workers:
        ends = []
        for accelerate in (False, True):
            settings = settings_of(3, accelerate=accelerate)
            run = steps.run(documents, family, steps.start(documents, topics, settings), settings, workers)
            ends.append(next(islice(run, 40, None))[1].bound)
    assert ends[1] > ends[0]


@pytest.mark.parametrize("name", ["gaussian isotropic", "bernoulli"])
def test_a_run_that_is_stopped_continues_as_if_nothing_had_happened(name):
    documents, family, topics, _ = corpus(name)
    settings = settings_of(3)
    with Workers(1) as workers:
        whole = steps.run(documents, family, steps.start(documents, topics, settings), settings, workers)
        bounds = [info.bound for _, info in islice(whole, 14)]
        first = steps.run(documents, family, steps.start(documents, topics, settings), settings, workers)
        state, _ = next(islice(first, 6, None))
        rest = steps.run(documents, family, state, settings, workers)
        assert [info.bound for _, info in islice(rest, 7)] == bounds[7:]


def test_topics_that_creep_are_not_taken_for_settled_while_they_gather_momentum():
    plan = VariationalPlan(n_sweeps=1000, tol=2e-4)
    slow = tuple(5e-5 * n for n in range(60))  # of one word
    assert schedule.is_settled(slow[:4], 1, plan, creeps=False)
    assert not any(schedule.is_settled(slow[:n], 1, plan, creeps=True) for n in range(1, 60))
    assert schedule.is_settled((0.0,) * 11, 1, plan, creeps=True)
    assert not schedule.is_settled((0.0,) * 10, 1, plan, creeps=True)


def test_one_and_two_threads_give_the_same_bits():
    family = Gaussian()
    words, document, _ = simulate(np.random.default_rng(0), family, triangle(), [9000, 5, 14000, 700])
    documents, family = group_rows(words, document), family.informed_by(words)
    ends = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            start = steps.start(documents, triangle(7.0), settings_of(3))
            state, info = next(islice(steps.run(documents, family, start, settings_of(3), workers), 9, None))
        ends.append((state.gamma, state.a, state.topics.means, state.topics.spread, info.bound))
    for other in ends[1:]:
        for a, b in zip(ends[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_renumbered_topics_give_renumbered_results():
    documents, family, topics, _ = corpus("gaussian isotropic")
    order = np.array([2, 0, 1])
    settings = steps.Settings(np.ones(3), 0.5, accelerate=False)
    with Workers(1) as workers:
        ends = []
        for start in (topics, topics.order(order, spread_too=False)):
            run = steps.run(documents, family, steps.start(documents, start, settings), settings, workers)
            ends.append(next(islice(run, 15, None))[0])
    np.testing.assert_allclose(ends[1].gamma, ends[0].gamma[:, order], rtol=1e-5)
    np.testing.assert_allclose(ends[1].topics.means, ends[0].topics.means[order], rtol=1e-5, atol=1e-6)


def test_what_is_held_stays():
    documents, family, topics, latents = corpus("gaussian diagonal")
    a = np.exp(latents.log_proportions) * latents.scales[:, None]
    for name in Fixed._fields:
        settings = settings_of(3, fixed=Fixed(**{name: True}))
        start = steps.start(documents, topics, settings, a.copy())
        with Workers(1) as workers:
            state, _ = next(islice(steps.run(documents, family, start, settings, workers), 6, None))
        s = state.a.sum(axis=1)
        found = {
            "means": (state.topics.means, topics.means),
            "spread": (state.topics.spread, topics.spread),
            "proportions": (state.a / s[:, None], np.exp(latents.log_proportions)),
            "scales": (s, latents.scales),
        }
        for other, (now, before) in found.items():
            assert np.allclose(now, before, rtol=1e-6) == (other == name), (name, other)


def test_a_large_scale_pulls_words_to_their_document_and_a_small_one_to_corners():
    family = Gaussian()
    words, document, _ = simulate(np.random.default_rng(3), family, triangle(4.0), [200, 200])
    documents, family = group_rows(words, document), family.informed_by(words)
    pi = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])
    fixed = Fixed(True, True, True, True)
    spreads = []
    with Workers(1) as workers:
        for scale in (1e4, 1e-3):
            settings = settings_of(3, steps=40, fixed=fixed)
            start = steps.start(documents, triangle(4.0), settings, scale * pi)
            state, _ = next(steps.run(documents, family, start, settings, workers))
            means, _ = steps.Corpus(documents, family, workers).posterior_moments(state)
            spreads.append((np.abs(means - pi[documents.document]).max(), np.median(means.max(axis=1))))
    assert spreads[0][0] < 0.02
    assert spreads[1][1] > 0.98


def test_samples_of_words_keep_documents_together():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 900, size=300)
    documents = group_rows(np.arange(sizes.sum())[:, None] * 1.0, np.repeat(np.arange(300), sizes))
    rows = schedule.choose_words(rng, documents, 5000)
    assert 4000 < len(rows) < 7000
    assert (np.diff(rows) > 0).all()
    taken, a = schedule.take_words(documents, rows, np.arange(600.0).reshape(300, 2))
    np.testing.assert_array_equal(taken.words[:, 0], rows)
    np.testing.assert_array_equal(a[taken.document, 0], 2 * documents.document[rows])
    assert taken.sizes.min() >= 1
    np.testing.assert_array_equal(schedule.choose_words(rng, documents, 10**6), np.arange(sizes.sum()))


def test_topics_learnt_from_a_sample_serve_all_words():
    family = Gaussian()
    words, document, latents = simulate(np.random.default_rng(5), family, triangle(), [1500] * 40)
    documents, family = group_rows(words, document), family.informed_by(words)
    starts = schedule.Starts([Topics(triangle(6.0).means, np.array(4.0))], None)
    plan = VariationalPlan(100, 2e-4)
    with Workers(2) as workers:
        stages = schedule.fit(documents, family, starts, settings_of(3), plan, np.random.default_rng(0), workers)
        seen = [(progress.stage, len(state.gamma)) for state, progress in stages]
        *_, (state, _) = schedule.fit(
            documents, family, starts, settings_of(3), plan, np.random.default_rng(0), workers
        )
        means, _ = steps.Corpus(documents, family, workers).posterior_moments(state)
    assert seen[-1] == (schedule.ALL_WORDS, 60_000)
    assert {size for stage, size in seen if stage == schedule.TOPICS} != {60_000}
    assert np.abs(state.topics.means - triangle().means).max() < 0.2
    assert np.sqrt(((means - latents.memberships) ** 2).mean()) < 0.1


def test_starts_whose_sweeps_are_dear_drop_out_by_halves():
    documents, family, _, _ = corpus("bernoulli")
    rng = np.random.default_rng(5)
    four, plan = [family.draw_topics(rng, 3) for _ in range(4)], VariationalPlan(40, 1e-9)

    def fit(starts):
        begin = schedule.Starts(starts, None)
        with Workers(1) as workers:
            return list(schedule.fit(documents, family, begin, settings_of(3), plan, np.random.default_rng(0), workers))

    together = fit(four)
    alone = [fit([topics])[-1][1].bounds for topics in four]
    better = sorted(alone, key=lambda bounds: -bounds[4])[:2]
    assert together[-1][1].bounds == max(better, key=lambda bounds: bounds[9])
    assert sum(progress.stage == schedule.STARTS for _, progress in together) == 4 * 5 + 2 * 5


@pytest.mark.parametrize("n_sweeps", [1, 4])
def test_no_stage_has_more_sweeps_than_were_allowed(n_sweeps, monkeypatch):
    monkeypatch.setattr(tuning, "SAMPLE_WORDS", 60)
    documents, family, topics, _ = corpus("gaussian isotropic", sizes=(150,) * 4)
    starts, plan = schedule.Starts([topics] * 3, None), VariationalPlan(n_sweeps, 1e-9)
    with Workers(1) as workers:
        stages = schedule.fit(documents, family, starts, settings_of(3), plan, np.random.default_rng(0), workers)
        seen = [progress.stage for _, progress in stages]
    assert seen.count(schedule.STARTS) == 3 * n_sweeps
    assert seen.count(schedule.TOPICS) == n_sweeps
    assert 1 <= seen.count(schedule.ALL_WORDS) <= n_sweeps
