"""Engine gibbs: threads and stops do not matter, what is held stays, and step lengths stop changing."""

import copy
import warnings
from collections import deque
from itertools import islice

import numpy as np
import pytest

from pmlda.engines import gibbs, gibbs_steps, sampling
from pmlda.engines.base import add_up
from pmlda.engines.diagnostics import Remedy
from pmlda.engines.documents import group_rows
from pmlda.engines.walks import make_walks
from pmlda.families import Gaussian
from pmlda.model import log_joint, simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Fixed, Latents, Topics
from tests.problems import PROBLEMS, triangle

NOTHING = Fixed()


def begin(name, sizes=(40, 1, 25), fixed=NOTHING):
    problem = PROBLEMS[name]
    rng = np.random.default_rng(2)
    topics = problem.family.draw_topics(rng, 2)
    words, document, latents = simulate(rng, problem.family, topics, sizes)
    family = problem.family.informed_by(words)
    return (
        group_rows(words, document),
        family,
        gibbs.start(topics, latents, family, fixed, np.full((len(words), 2), 0.8)),
    )


def copied(state):
    tuning = copy.deepcopy(state.tuning)
    return state._replace(latents=Latents(*(a.copy() for a in state.latents)), tuning=tuning)


def after(documents, family, state, n_sweeps, n_jobs=1, **options):
    settings = gibbs_steps.Settings(np.array([1.0, 2.0]), 0.5, seed=3, **options)
    with Workers(n_jobs) as workers:
        run = gibbs.run(documents, family, copied(state), settings, workers)
        return deque(islice(run, n_sweeps), maxlen=1)[0]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_log_joint_is_that_of_the_model(name):
    """Where sums over words do not tell it, it is that of the topics under which words were visited."""
    documents, family, state = begin(name)
    before, _ = after(documents, family, state, 2)
    state, info = after(documents, family, state, 3)
    topics = before.topics if family.additive else state.topics
    expected = log_joint(documents.words, documents.document, state.latents, topics, family, [1.0, 2.0], 0.5)
    np.testing.assert_allclose(info.log_joint, expected, rtol=1e-8)
    np.testing.assert_allclose(state.latents.memberships.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(state.latents.log_proportions).sum(axis=1), 1.0)


def test_threads_do_not_matter():
    family = Gaussian()
    words, document, latents = simulate(np.random.default_rng(0), family, triangle(), [9000, 5, 7000, 700])
    documents, family = group_rows(words, document), family.informed_by(words)
    ends = []
    for n_jobs in (1, 2, 3):
        mine = Latents(*(a.copy() for a in latents))
        state = gibbs.start(triangle(), mine, family, Fixed(), np.full((len(words), 3), 0.8))
        settings = gibbs_steps.Settings(np.ones(3), 0.5, seed=3, warm_up=2)
        with Workers(n_jobs) as workers:
            run = gibbs.run(documents, family, state, settings, workers)
            state, info = next(islice(run, 3, None))
        ends.append((*state.latents, *state.topics, info.log_joint))
    for other in ends[1:]:
        for a, b in zip(ends[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["gaussian full", "poisson"])
@pytest.mark.parametrize("stop", [4, 30, 50])
def test_a_run_that_is_stopped_continues_as_if_nothing_had_happened(name, stop):
    """Before candidates are learnt, between, and after the warm-up."""
    documents, family, state = begin(name)
    whole, _ = after(documents, family, state, 60, warm_up=40)
    half, _ = after(documents, family, begin(name)[2], stop, warm_up=40)
    rest, _ = after(documents, family, half, 60 - stop, warm_up=40)
    for a, b in zip((*whole.topics, *whole.latents), (*rest.topics, *rest.latents), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["gaussian isotropic", "gamma", "gaussian per topic, full"])
def test_what_is_held_stays(name):
    for block in Fixed._fields:
        fixed = Fixed(**{block: True})
        documents, family, before = begin(name, fixed=fixed)
        state, _ = after(documents, family, before, 8, fixed=fixed)
        found = {
            "means": (state.topics.means, before.topics.means),
            "spread": (state.topics.spread, before.topics.spread),
            "proportions": (state.latents.log_proportions, before.latents.log_proportions),
            "scales": (state.latents.scales, before.latents.scales),
        }
        for other, (now, then) in found.items():
            if then.size:
                assert np.allclose(now, then) == (other == block), (block, other)


def test_step_lengths_are_learnt_and_then_stay():
    documents, family, state = begin("bernoulli")
    settings = gibbs_steps.Settings(np.ones(2), 0.5, seed=3, warm_up=30)
    with Workers(1) as workers:
        run = gibbs.run(documents, family, state, settings, workers)
        lengths = []
        for now, _ in islice(run, 60):
            lengths.append((now.tuning.widths.copy(), now.tuning.stretches.copy(), now.tuning.walks[0].log_length))
    assert not np.allclose(lengths[0][0], lengths[29][0])
    assert lengths[0][2] != lengths[29][2]
    for first, last in zip(lengths[30], lengths[59], strict=True):
        np.testing.assert_array_equal(first, last)


def test_candidates_are_learnt_where_memberships_are_and_then_stay():
    """Topics that are held and far apart leave little doubt about z; candidates begin as far from it as may be."""
    family = Gaussian()
    words, document, latents = simulate(np.random.default_rng(0), family, triangle(), [200])
    documents, family = group_rows(words, document), family.informed_by(words)
    fixed = Fixed(means=True, spread=True)
    truth = latents.memberships.copy()
    state = gibbs.start(triangle(), latents, family, fixed, 4.0 * (1.0 - truth) + 0.2)
    settings = gibbs_steps.Settings(np.ones(3), 0.5, seed=3, warm_up=160, fixed=fixed)

    def distance(state):
        gamma = state.tuning.proposals.shapes / state.tuning.proposals.rates
        return np.abs(gamma / gamma.sum(axis=1, keepdims=True) - truth).mean()

    before = distance(state)
    with Workers(1) as workers:
        states = [copied(now) for now, _ in islice(gibbs.run(documents, family, state, settings, workers), 200)]
    assert distance(states[90]) < 0.3 * before
    np.testing.assert_array_equal(states[90].tuning.proposals.shapes, states[199].tuning.proposals.shapes)


def test_large_families_walk_topic_by_topic():
    family = PROBLEMS["categorical"].family.__class__(n_symbols=50)
    topics = family.draw_topics(np.random.default_rng(0), 3)
    walks = make_walks(family, topics, 100, Fixed())
    assert [len(walk.chosen) for walk in walks] == [50, 50, 50]
    assert make_walks(family, topics, 100, Fixed(means=True)) == []


def test_a_long_run_says_early_and_once_that_its_topics_will_not_mix(monkeypatch):
    monkeypatch.setattr(sampling, "EARLY_SECONDS", 0.0)
    rng = np.random.default_rng(0)

    def noted(*places):
        """Chains whose topics are at these places, with a little noise."""
        watch = sampling.Watch(len(places), 1000, Remedy("more", "use something else"))
        for _ in range(2 * sampling.EARLY_SWEEPS):
            for number in reversed(range(len(places))):
                watch.note(number, Topics(places[number] + 0.1 * rng.normal(size=(2, 2)), np.ones(())))

    here, there = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[0.0, 3.0], [5.0, 9.0]])
    with pytest.warns(
        UserWarning, match=r"After \d+ of 1000 sweeps.* hardly have mixed.* Use something else\."
    ) as said:
        noted(here, there)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noted(here, here[::-1])  # the same topics, numbered otherwise


def test_counts_that_add_are_drawn_from_the_sums_of_several_shards():
    """Parts of counts, and memberships, add up over shards to those of all words; topics are drawn from the totals."""
    documents, family, state = begin("additive poisson")
    halves = [documents.starts[[0, 2]], documents.starts[[2, -1]]]
    parts = []
    with Workers(1) as workers:
        for number, (first, last) in enumerate(halves):
            inside = (documents.starts[:-1] >= first) & (documents.starts[:-1] < last)
            rows = slice(first, last)
            document = documents.document[rows] - documents.document[first]
            shard = documents._replace(
                words=documents.words[rows],
                document=document,
                starts=np.append(documents.starts[:-1][inside], last) - first,
                labels=documents.labels[inside],
                order=np.arange(last - first),
            )
            latents = Latents(
                *(array[rows].copy() for array in state.latents[:2]),
                *(array[inside].copy() for array in state.latents[2:]),
            )
            own = gibbs.start(state.topics, latents, family, Fixed(), np.full((last - first, 2), 0.8))
            settings = gibbs_steps.Settings(np.array([1.0, 2.0]), 0.5, seed=3 + number)
            parts.append(gibbs.LocalStep(shard, family, settings, workers).move(own))
    sums = add_up(parts)
    np.testing.assert_allclose(sums.statistics.weighted.sum(axis=0), documents.words.sum(axis=0))
    assert sums.statistics.gram.sum() == pytest.approx(len(documents.words))
    settings = gibbs_steps.Settings(np.array([1.0, 2.0]), 0.5, seed=3)
    topics, info = gibbs.TopicUpdate(family, settings).update(state.topics, sums, 0)
    assert family.allows(topics)
    assert (topics.means != state.topics.means).all()
    assert np.isfinite(info.log_joint)
