"""From a run to a fit: averages with topics in one order, draws within memory, Ctrl-C that loses nothing."""

import os
import signal
from functools import partial

import numpy as np
import pytest

from pmlda import PMLDA
from pmlda.engines.base import Info, Sampler, Sums, Task
from pmlda.engines.collect import agreement, join, match_topics, summarise
from pmlda.engines.documents import group_rows
from pmlda.engines.paper import State
from pmlda.engines.parameters import check_parameters
from pmlda.engines.sampling import Chains, LocalChain, extend, new_chain, rules_of, sweeps
from pmlda.families import Gaussian
from pmlda.parallel.threads import Workers
from pmlda.types import Fixed, Latents, Topics

FREE = Fixed()


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal, even where tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Scripted(Sampler):
    """A sampler whose sweeps are known beforehand, on five words in one document.

    numbered : how topics are numbered; flip : otherwise after every second sweep
    press : the sweep in which Ctrl-C is pressed
    """

    name = "scripted"
    summary = "for tests"

    def __init__(self, *, numbered=(0, 1), flip=False, press=None, log_joint=lambda sweep: float(sweep % 7)):
        self.press, self.log_joint = press, log_joint
        rng = np.random.default_rng(0)
        self.drawn = []
        for i in range(200):
            order = np.array(numbered)[::-1] if flip and i % 2 else np.array(numbered)
            means = np.array([[0.0], [9.0]]) + 0.1 * rng.normal(size=(2, 1))
            z = np.tile([0.2, 0.8], (5, 1)) + 0.01 * rng.normal(size=(5, 1)) * [1, -1]
            pi = np.log([[0.3, 0.7]])
            latents = Latents(z[:, order].copy(), np.log(z[:, order]), pi[:, order], np.array([2.0]))
            self.drawn.append((Topics(means[order], np.array(1.0)), latents))

    def start(self, task, given):
        topics, latents = self.drawn[-1]
        return [State(0, topics, Latents(*(array.copy() for array in latents)))]

    def start_known(self, task, topics, fixed):
        return self.start(task, None)

    def local_step(self, documents, family, rules, workers):
        return self

    def topic_update(self, family, rules):
        return self

    def move(self, state):
        if state.sweep == self.press:
            os.kill(os.getpid(), signal.SIGINT)
        for mine, drawn in zip(state.latents, self.drawn[state.sweep][1], strict=True):
            mine[...] = drawn
        return Sums(None, 0.0, np.zeros(1), 0.0, 5, {"means": 0.5})

    def update(self, topics, sums, sweep):
        return self.drawn[sweep][0], Info(self.log_joint(sweep), sums.shares)


def task_of(workers, **plan):
    parameters = PMLDA(2).get_params(deep=False) | plan
    checked = check_parameters(parameters, Gaussian(), 5, samples_words=False)
    words = np.zeros((5, 1))
    return Task(group_rows(words, None), checked.family.informed_by(np.arange(5.0)[:, None]), checked, 0, workers)


def outcome(engine, **plan):
    with Workers(1) as workers:
        return engine.fit(task_of(workers, **plan), None)


def collected(engine, **plan):
    return outcome(engine, **plan).fit


def test_renumbered_topics_are_averaged_in_one_order():
    fit = collected(Scripted(flip=True), n_sweeps=200, burn_in=100)
    np.testing.assert_allclose(fit.mean.memberships, [[0.2, 0.8]] * 5, atol=0.01)
    np.testing.assert_allclose(fit.mean.topics.means, [[0.0], [9.0]], atol=0.1)
    np.testing.assert_allclose(fit.mean.proportions, [[0.3, 0.7]])
    np.testing.assert_array_equal(fit.dominance, [[0.0, 1.0]] * 5)
    assert fit.draws.means[:, 0].max() < 1 < fit.draws.means[:, 1].min()
    assert fit.draws.memberships[:, :, 0].max() < 0.5


def test_counts_of_draws_traces_and_thinning():
    fit = collected(Scripted(), n_sweeps=100, burn_in=40, thin=7)
    assert len(fit.trace) == 100
    assert fit.draws.sweeps.tolist() == list(range(41, 101, 7))
    assert fit.draws.latent_sweeps.tolist() == fit.draws.sweeps.tolist()
    assert fit.acceptance == {"means": pytest.approx(0.5)}


def test_the_best_sample_has_the_largest_log_joint():
    engine = Scripted()
    fit = collected(engine, n_sweeps=20, burn_in=10)
    topics, latents = engine.drawn[13]  # the first sweep after warm-up whose log joint is 6
    np.testing.assert_array_equal(fit.best.memberships, latents.memberships)
    np.testing.assert_array_equal(fit.best.topics.means, topics.means)


@pytest.mark.parametrize(("memory", "n_kept"), [(10**6, 60), (10 * 64, 8), (63, 0)])
def test_draws_of_memberships_stay_within_their_memory(memory, n_kept):
    """One draw takes 4·10 bytes of memberships and 8·3 of proportions and scales: 64. Ten of them fit: every eighth."""
    fit = collected(Scripted(), n_sweeps=100, burn_in=40, draws_memory=memory)
    assert len(fit.draws.latent_sweeps) == n_kept
    assert len(fit.draws.sweeps) == 60
    used = fit.draws.memberships.nbytes + fit.draws.proportions.nbytes + fit.draws.scales.nbytes
    assert used <= memory


def test_kept_memberships_are_evenly_spaced():
    fit = collected(Scripted(), n_sweeps=100, burn_in=40, thin=3, draws_memory=64 * 4)
    assert set(np.diff(fit.draws.latent_sweeps)) == {24}


def test_where_no_draw_is_kept_the_spread_of_memberships_is_known_all_the_same():
    plan = {"n_sweeps": 100, "burn_in": 40}
    draws = collected(Scripted(flip=True), **plan).draws.memberships
    without = collected(Scripted(flip=True), draws_memory=0, **plan)
    assert len(without.draws.memberships) == 0
    np.testing.assert_allclose(without.std, draws.std(axis=0, dtype=np.float64), rtol=1e-4)


def one_shard(local, move, workers, chains):
    """The step of the only chain on the only shard."""
    return [[local.step(chain.told(), move, workers)] for chain in chains]


@pytest.mark.parametrize("as_tables", [False, True])
def test_a_chain_that_is_fed_again_is_as_if_it_had_never_stopped(as_tables):
    """as_tables : taken up from what a checkpoint would hold"""
    plan, engine = {"n_sweeps": 80, "burn_in": 20, "draws_memory": 64 * 7}, Scripted(flip=True)
    at_once = collected(engine, **plan)
    with Workers(1) as workers:
        task = task_of(workers, **plan)
        rules = rules_of(task.checked, task.seed, FREE, 0)
        local = LocalChain.new(engine.start(task, None)[0], task.checked.plan)
        chain = new_chain(engine, task.family, rules, local.state.topics)
        for n_sweeps in (13, 50):
            step = partial(one_shard, local, engine.move, workers)
            assert len(list(sweeps([chain], step, n_sweeps))) > 0
            if as_tables:
                table = chain.to_table()
                chain = new_chain(engine, task.family, rules, chain.topics)
                chain.take_up(table)
                local = LocalChain.from_table(local.to_table(), task.checked.plan)
        again = extend(engine, task, Chains([chain], [local], FREE), 80).fit
    for one, other in ((at_once.mean, again.mean), (at_once.draws, again.draws), (at_once.best, again.best)):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_equal(a, b)


def test_chains_are_joined_in_the_order_of_the_first():
    plan = {"burn_in": 20}
    first = outcome(Scripted(), n_sweeps=60, **plan).chains
    second = outcome(Scripted(numbered=(1, 0)), n_sweeps=70, **plan).chains
    assert second.chains[0].record.mean_topics.means[0, 0] > 5
    records = [one.chains[0].record for one in (first, second)]
    orders = agreement(records, 60)
    found = [one.locals[0].tally.summary(record.count) for one, record in zip((first, second), records, strict=True)]
    joined = summarise(records, join(found, orders), orders, 60)
    np.testing.assert_allclose(joined.mean.topics.means, [[0.0], [9.0]], atol=0.1)
    np.testing.assert_allclose(joined.mean.memberships, [[0.2, 0.8]] * 5, atol=0.01)
    assert joined.draws.n_chains == 2
    chains = joined.draws.by_chain()
    assert chains["means"].shape == (2, 40, 2, 1)
    assert chains["memberships"][..., 0].max() < 0.5
    np.testing.assert_array_equal(chains["means"][0], chains["means"][1])
    np.testing.assert_array_equal(chains["memberships"][0], chains["memberships"][1])


def joined(engines, **plan):
    """The fit of several chains, each of an engine of its own."""
    found = [outcome(engine, **plan).chains for engine in engines]
    records, tallies = [one.chains[0].record for one in found], [one.locals[0].tally for one in found]
    orders = agreement(records, plan["n_sweeps"])
    each = [tally.summary(record.count) for tally, record in zip(tallies, records, strict=True)]
    return summarise(records, join(each, orders), orders, plan["n_sweeps"])


def test_the_best_sample_of_several_chains_is_not_chosen_by_their_warm_up():
    """The first chain had the largest log joint of all before its draws began, the second has it among its draws."""
    early = Scripted(log_joint=lambda sweep: 100.0 if sweep == 3 else 1.0)
    late = Scripted(log_joint=lambda sweep: 5.0 if sweep == 15 else 0.0)
    fit = joined([early, late], n_sweeps=20, burn_in=10)
    np.testing.assert_array_equal(fit.best.memberships, late.drawn[15][1].memberships)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_after_warm_up_keeps_what_was_done():
    fit = collected(Scripted(press=30), n_sweeps=100, burn_in=10)
    assert fit.interrupted
    assert len(fit.trace) == 31
    assert len(fit.draws.sweeps) == len(fit.draws.latent_sweeps) == 21


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_during_warm_up_says_that_there_is_no_result():
    with pytest.raises(KeyboardInterrupt, match="after 6 of 100 sweeps"):
        collected(Scripted(press=5), n_sweeps=100, burn_in=10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_ignores_ctrl_c_goes_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        fit = collected(Scripted(press=30), n_sweeps=100, burn_in=10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not fit.interrupted
    assert len(fit.trace) == 100


def test_a_log_joint_that_is_never_a_number_is_an_error():
    with pytest.raises(FloatingPointError, match="standardise"):
        collected(Scripted(log_joint=lambda sweep: np.nan), n_sweeps=10, burn_in=5)


def test_matching_undoes_a_renumbering():
    rng = np.random.default_rng(1)
    reference = Topics(rng.normal(size=(5, 3)), np.array(1.0))
    shuffle = rng.permutation(5)
    order = match_topics(reference, Topics(reference.means[shuffle], reference.spread))
    np.testing.assert_array_equal(reference.means[shuffle][order], reference.means)


def test_topics_that_are_told_apart_keep_their_number():
    reference, topics = (Topics(np.array(means)[:, None], np.array(1.0)) for means in ([0.0, 1, 2, 3], [10.0, 3, 2, 1]))
    assert match_topics(reference, topics).tolist() == [3, 2, 1, 0]
    assert match_topics(reference, topics, np.array([True, False, False, False])).tolist() == [0, 3, 2, 1]
    assert match_topics(reference, topics, np.ones(4, bool)).tolist() == [0, 1, 2, 3]
