"""From a run to a fit: averages with topics in one order, draws within memory, Ctrl-C that loses nothing."""

import os
import signal

import numpy as np
import pytest

from pmlda.engines.collect import Collector, Plan, join_chains, match_topics, reorder
from pmlda.engines.paper import Info, State
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.threads import Workers
from pmlda.types import Latents, Topics


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal, even where tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def fake_run(n=1000, flip=False, press=None):
    """States whose topics and memberships are renumbered after every sweep."""
    rng = np.random.default_rng(0)
    for i in range(n):
        if i == press:
            os.kill(os.getpid(), signal.SIGINT)
        order = np.array([1, 0]) if flip and i % 2 else np.array([0, 1])
        means = np.array([[0.0], [9.0]]) + 0.1 * rng.normal(size=(2, 1))
        z = np.tile([0.2, 0.8], (5, 1)) + 0.01 * rng.normal(size=(5, 1)) * [1, -1]
        pi = np.log([[0.3, 0.7]])
        latents = Latents(z[:, order].copy(), np.log(z[:, order]), pi[:, order], np.array([2.0]))
        yield State(i + 1, Topics(means[order], np.array(1.0)), latents), Info(float(i % 7), {"means": 0.5})


def collected(run, **plan):
    collector = Collector(Plan(**plan), spread_per_topic=False)
    with Workers(1) as workers, deferred_interrupt() as interrupted:
        collector.follow(run, plan["n_sweeps"], interrupted, workers)
    return collector.finish(plan["n_sweeps"])


def test_renumbered_topics_are_averaged_in_one_order():
    fit = collected(fake_run(flip=True), n_sweeps=200, burn_in=100)
    np.testing.assert_allclose(fit.mean.memberships, [[0.2, 0.8]] * 5, atol=0.01)
    np.testing.assert_allclose(fit.mean.topics.means, [[0.0], [9.0]], atol=0.1)
    np.testing.assert_allclose(fit.mean.proportions, [[0.3, 0.7]])
    np.testing.assert_array_equal(fit.dominance, [[0.0, 1.0]] * 5)
    assert fit.draws.means[:, 0].max() < 1 < fit.draws.means[:, 1].min()
    assert fit.draws.memberships[:, :, 0].max() < 0.5


def test_counts_of_draws_traces_and_thinning():
    fit = collected(fake_run(), n_sweeps=100, burn_in=40, thin=7)
    assert len(fit.trace) == 100
    assert fit.draws.sweeps.tolist() == list(range(41, 101, 7))
    assert fit.draws.latent_sweeps.tolist() == fit.draws.sweeps.tolist()
    assert fit.acceptance == {"means": pytest.approx(0.5)}


def test_the_best_sample_has_the_largest_log_joint():
    fit = collected(fake_run(), n_sweeps=20, burn_in=10)
    states = [state for (state, info) in list(fake_run())[10:20] if info.log_joint == 6.0]
    np.testing.assert_array_equal(fit.best.memberships, states[0].latents.memberships)


@pytest.mark.parametrize(("memory", "n_kept"), [(10**6, 60), (10 * 64, 8), (63, 0)])
def test_draws_of_memberships_stay_within_their_memory(memory, n_kept):
    """One draw takes 4·10 bytes of memberships and 8·3 of proportions and scales: 64. Ten of them fit: every eighth."""
    fit = collected(fake_run(), n_sweeps=100, burn_in=40, draws_memory=memory)
    assert len(fit.draws.latent_sweeps) == n_kept
    assert len(fit.draws.sweeps) == 60
    used = fit.draws.memberships.nbytes + fit.draws.proportions.nbytes + fit.draws.scales.nbytes
    assert used <= memory


def test_kept_memberships_are_evenly_spaced():
    fit = collected(fake_run(), n_sweeps=100, burn_in=40, thin=3, draws_memory=64 * 4)
    assert set(np.diff(fit.draws.latent_sweeps)) == {24}


def test_a_chain_that_is_fed_again_is_as_if_it_had_never_stopped():
    plan = {"n_sweeps": 80, "burn_in": 20, "draws_memory": 64 * 7}
    at_once = collected(fake_run(), **plan)
    collector = Collector(Plan(**plan), spread_per_topic=False)
    run = fake_run()
    with Workers(1) as workers:
        for n_sweeps in (13, 50, 80):
            collector.follow(run, n_sweeps, lambda: False, workers)
    again = collector.finish(80)
    for one, other in ((at_once.mean, again.mean), (at_once.draws, again.draws)):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_equal(a, b)


def test_chains_are_joined_in_the_order_of_the_first():
    first = collected(fake_run(), n_sweeps=60, burn_in=20)
    second = reorder(collected(fake_run(), n_sweeps=70, burn_in=20), np.array([1, 0]), spread_per_topic=False)
    assert second.mean.topics.means[0, 0] > 5
    joined = join_chains([first, second], spread_per_topic=False, renumber=True)
    np.testing.assert_allclose(joined.mean.topics.means, [[0.0], [9.0]], atol=0.1)
    assert joined.draws.n_chains == 2
    chains = joined.draws.by_chain()
    assert chains["means"].shape == (2, 40, 2, 1)
    assert chains["memberships"][..., 0].max() < 0.5
    np.testing.assert_array_equal(chains["means"][0], chains["means"][1])


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_after_warm_up_keeps_what_was_done():
    fit = collected(fake_run(press=30), n_sweeps=100, burn_in=10)
    assert fit.interrupted
    assert len(fit.trace) == 31
    assert len(fit.draws.sweeps) == 21


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_during_warm_up_says_that_there_is_no_result():
    with pytest.raises(KeyboardInterrupt, match="after 6 of 100 sweeps"):
        collected(fake_run(press=5), n_sweeps=100, burn_in=10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_ignores_ctrl_c_goes_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        fit = collected(fake_run(press=30), n_sweeps=100, burn_in=10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not fit.interrupted
    assert len(fit.trace) == 100


def test_a_log_joint_that_is_never_a_number_is_an_error():
    def broken():
        for state, info in fake_run():
            yield state, info._replace(log_joint=np.nan)

    with pytest.raises(FloatingPointError, match="standardise"):
        collected(broken(), n_sweeps=10, burn_in=5)


def test_matching_undoes_a_renumbering():
    rng = np.random.default_rng(1)
    reference = Topics(rng.normal(size=(5, 3)), np.array(1.0))
    shuffle = rng.permutation(5)
    order = match_topics(reference, Topics(reference.means[shuffle], reference.spread))
    np.testing.assert_array_equal(reference.means[shuffle][order], reference.means)
