"""Samplers of engine "gibbs" broken on purpose, one mistake each: the joint distribution test must catch every one.

Kernels called through py_func run as Python, so that a function they use can be replaced.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import logsumexp

from pmlda.engines import gibbs_steps, gibbs_tuning
from pmlda.families import AdditivePoisson, Gaussian, IsotropicNoise, NormalMeans, Poisson
from pmlda.families import means as means_module
from pmlda.families.additive import GivenRates
from pmlda.families.noise import draw_variance
from pmlda.kernels import additive as kernels_additive
from pmlda.kernels import gibbs as kernels
from pmlda.kernels import gibbs_candidates as kernels_candidates
from pmlda.kernels import gibbs_stretch as kernels_stretch
from tests.entries import from_python, give_entries
from tests.problems import KNOWN, PROBLEMS, with_means
from tests.statistical.adapters import Gibbs
from tests.statistical.checks import ALARM, FULL, SEED, joint_scores

# Most mistakes show with few chains. Two looks at 20 numbers: a false alarm has 2e-5.
N_CHAINS = (2_000,) if FULL else (125, 400)
PLAIN, COUNTS, BOUNDED = (PROBLEMS[name] for name in ("gaussian isotropic", "poisson", "gaussian bounded"))
ADDED = PROBLEMS["additive poisson"]._replace(sizes=(9, 6))
# Mistakes about candidates do more harm where there are more of them, and more words.
LONG = PLAIN._replace(sizes=(12,))
ENGINE = Gibbs(n_candidates=10)


def replace_kernels(monkeypatch, **functions):
    """Give the engine others in place of some of its kernels."""
    monkeypatch.setattr(gibbs_steps, "kernels", SimpleNamespace(**vars(kernels) | functions))


def replace_candidates(monkeypatch, wrong):
    """Candidates drawn in another way. Exchanges would undo most of what went wrong there, so there are none."""
    functions = vars(kernels_candidates) | {"draw_candidates": wrong}
    monkeypatch.setattr(gibbs_steps, "kernels_candidates", SimpleNamespace(**functions))
    leave_out_exchanges(monkeypatch)


def replace_stretches(monkeypatch, **functions):
    """Stretches as Python, with others in place of some of the functions that they call."""
    give_entries(monkeypatch, kernels_stretch)
    for name, function in functions.items():
        monkeypatch.setattr(kernels_stretch, name, function)
    python = SimpleNamespace(stretch_step=kernels_stretch.stretch_step.py_func)
    monkeypatch.setattr(gibbs_steps, "kernels_stretch", python)


def replace_document_step(monkeypatch, **functions):
    """The step of documents as Python, with others in place of some of the functions that it calls."""
    give_entries(monkeypatch, kernels)
    for name, function in functions.items():
        monkeypatch.setattr(kernels, name, function)
    replace_kernels(monkeypatch, document_step=kernels.document_step.py_func)


def leave_out_exchanges(monkeypatch):
    """Let memberships move by candidates and stretches alone: exchanges would undo most of what went wrong there."""
    monkeypatch.setattr(gibbs_tuning, "TRANSFER_ROUNDS", 0)


@dataclass(frozen=True, eq=False)
class WithoutVolume(Poisson):
    """Walks in ln λ and believes that λ is walked."""

    def log_free_prior(self, topics):
        return self.log_prior(topics).total


@dataclass(frozen=True, eq=False)
class WithoutTotals(AdditivePoisson):
    """Scores all topics alike, whatever their rates add up to."""

    def scores(self, words, topics):
        return np.zeros((len(words), len(topics.means)))


@dataclass(frozen=True, eq=False)
class WithoutExposure(AdditivePoisson):
    """Divides the counts of a topic by the number of words."""

    def given_means(self, topics, statistics):
        return GivenRates(self.shape + statistics.weighted, self.rate + statistics.gram.sum())


@dataclass(frozen=True, eq=False)
class WrongShape(IsotropicNoise):
    """Draws σ² with shape Np/2, as if its prior were 1/σ²."""

    def draw_given(self, rng, scatter, n_words):
        return draw_variance(rng, 0.5 * n_words * len(scatter), 0.5 * np.trace(scatter), self.bound)


@dataclass(frozen=True, eq=False)
class WithoutPrior(NormalMeans):
    """Draws means as if nothing had been known of them."""

    def given(self, statistics, precision, means):
        return NormalMeans(self.mean, 1e4 * self.covariance).given(statistics, precision, means)


@dataclass(frozen=True, eq=False)
class WithoutBounds(NormalMeans):
    """Draws means as if they were possible everywhere."""

    def given(self, statistics, precision, means):
        return NormalMeans(self.mean, self.covariance).given(statistics, precision, means)


class Clipped(NamedTuple):
    """Draws means without bounds, and moves those outside to the edge."""

    free: Any
    box: Any

    def draw(self, rng):
        return self.box.nearest(self.free.draw(rng))


@dataclass(frozen=True, eq=False)
class WithClipping(WithoutBounds):
    def given(self, statistics, precision, means):
        return Clipped(super().given(statistics, precision, means), self.box)


@dataclass(frozen=True, eq=False)
class WithoutOwnPriors(NormalMeans):
    """Draws known means as if nothing had been known of them but what is exact."""

    def _system(self, statistics, precision, means):
        right, prior = super()._system(statistics, precision, means), self._prior
        own = np.broadcast_to(prior.precision, right.prior_precision.shape)
        return right._replace(prior_precision=own, pull=statistics.weighted @ precision + prior.weighted_mean)


@dataclass(frozen=True, eq=False)
class WithoutExactMeans(NormalMeans):
    """Draws means that are known exactly like all others."""

    def _system(self, statistics, precision, means):
        system, exact = super()._system(statistics, precision, means), self._known.exact
        own = np.where(exact[..., None], self._prior.precision, system.prior_precision)
        return system._replace(prior_precision=own, now=means, moves=np.ones(means.shape, bool))


def densities_of_candidates_forgotten(monkeypatch):
    def wrong(shapes, *others):
        kernels_candidates.draw_candidates(shapes, *others)
        ensemble = others[-1]
        ensemble.log_q[:] = 0.0

    replace_candidates(monkeypatch, wrong)
    return LONG


def rates_of_candidates_forgotten(monkeypatch):
    """Draws candidates from a scaled Dirichlet distribution, and believes that it is a Dirichlet distribution."""

    def wrong(shapes, *others):
        kernels_candidates.draw_candidates(shapes, *others)
        ensemble = others[-1]
        ensemble.log_q[:] = ((shapes - 1.0)[:, None] * ensemble.candidates).sum(axis=2)

    replace_candidates(monkeypatch, wrong)
    return LONG


def own_memberships_not_among_candidates(monkeypatch):
    rng = np.random.default_rng(SEED)

    def wrong(shapes, rates, log_z, *rest):
        other = np.log(rng.standard_gamma(shapes) / rates)
        kernels_candidates.draw_candidates(shapes, rates, other - logsumexp(other, axis=1, keepdims=True), *rest)

    replace_candidates(monkeypatch, wrong)
    return LONG


def best_candidate_always_taken(monkeypatch):
    def wrong(ensemble, *others):
        sharp = ensemble._replace(fits=1e9 * ensemble.fits, rest=1e9 * ensemble.rest)
        kernels.choose_candidates(sharp, *others)

    replace_kernels(monkeypatch, choose_candidates=wrong)
    leave_out_exchanges(monkeypatch)
    return LONG


def volume_of_the_document_walk_forgotten(monkeypatch):
    """Walks in ln a and believes that a is walked."""
    right = from_python(kernels._log_document)
    replace_document_step(monkeypatch, _log_document=lambda a, *rest: right(a, *rest) - np.log(a).sum())
    return PLAIN


def without_jacobian(right):
    def wrong(*arguments):
        right(*arguments)
        arguments[-1][:] = 0.0

    return wrong


def jacobian_of_stretches_forgotten(monkeypatch):
    replace_stretches(monkeypatch, _stretch=without_jacobian(from_python(kernels_stretch._stretch)))
    return PLAIN


def jacobian_of_common_stretches_forgotten(monkeypatch):
    replace_stretches(monkeypatch, _stretch_all=without_jacobian(from_python(kernels_stretch._stretch_all)))
    return PLAIN


def jacobian_of_stretches_as_for_two_topics(monkeypatch):
    """Four topics, but the Jacobian of two: where the others go is left out."""
    right = from_python(kernels_stretch._stretch)

    def wrong(log_z, n_words, k, r, edge, scratch, new, jacobian):
        right(log_z, n_words, k, r, edge, scratch, new, jacobian)
        stays = (edge < 0.0) & (log_z[k, :n_words] >= edge)
        jacobian[:n_words] = np.where(stays, 0.0, (new - log_z)[k, :n_words] - np.log(r))

    replace_stretches(monkeypatch, _stretch=wrong)
    return PLAIN._replace(n_topics=4, alpha=(1.5, 1.5, 1.5, 1.5))


def words_above_the_edge_counted_as_stretched(monkeypatch):
    """Memberships of ε or more stay, but are given a Jacobian as if they did not."""
    right = from_python(kernels_stretch._stretch)

    def wrong(log_z, n_words, k, r, edge, scratch, new, jacobian):
        right(log_z, n_words, k, r, edge, scratch, new, jacobian)
        jacobian[:n_words][(edge < 0.0) & (log_z[k, :n_words] >= edge)] = -np.log(r)

    replace_stretches(monkeypatch, _stretch=wrong)
    return PLAIN


def exchanges_weighed_with_a_instead_of_a_minus_one(monkeypatch):
    def wrong(log_partition, scores, latents, *rest):
        kernels.transfer_step(log_partition, scores, latents._replace(a=latents.a + 1.0), *rest)

    replace_kernels(monkeypatch, transfer_step=wrong)
    return PLAIN


def volume_of_the_topics_walk_forgotten(monkeypatch):
    return COUNTS._replace(family=WithoutVolume(COUNTS.family.shape, COUNTS.family.rate))


def totals_of_rates_left_out_of_scores(monkeypatch):
    """Weighs a word by its counts, and forgets that bright topics should have given more of them."""
    return ADDED._replace(family=WithoutTotals(ADDED.family.shape, ADDED.family.rate))


def counts_split_without_memberships(monkeypatch):
    """Splits counts among topics by their rates alone."""
    right = kernels_additive.split_counts

    def wrong(log_partition, z, *others):
        right(log_partition, np.full_like(z, 1.0 / z.shape[1]), *others)

    monkeypatch.setattr(gibbs_steps, "kernels_additive", SimpleNamespace(split_counts=wrong))
    return ADDED


def exposure_of_rates_forgotten(monkeypatch):
    """Draws rates as if every topic had been there in full in every word."""
    return ADDED._replace(family=WithoutExposure(ADDED.family.shape, ADDED.family.rate))


def shape_of_the_variance_one_too_large(monkeypatch):
    return PLAIN._replace(family=Gaussian(WrongShape(PLAIN.family.noise.bound), PLAIN.family.means))


def prior_of_the_means_forgotten(monkeypatch):
    means = WithoutPrior(PLAIN.family.means.mean, PLAIN.family.means.covariance)
    return PLAIN._replace(family=replace(PLAIN.family, means=means))


def priors_of_known_means_forgotten(monkeypatch):
    """Draws known means as if they had the prior of all others; those that are exact stay."""
    return with_means(KNOWN["known"], WithoutOwnPriors)


def exact_means_drawn_too(monkeypatch):
    """Forgets that some means are known exactly, and draws them like all others."""
    return with_means(KNOWN["known"], WithoutExactMeans)


def with_bounded_means(kind):
    means = BOUNDED.family.means
    own = kind(means.mean, means.covariance, low=means.low, high=means.high)
    return BOUNDED._replace(family=replace(BOUNDED.family, means=own))


def bounds_of_the_means_ignored(monkeypatch):
    return with_bounded_means(WithoutBounds)


def means_clipped_to_their_bounds(monkeypatch):
    return with_bounded_means(WithClipping)


def bounds_heeded_in_one_direction_only(monkeypatch):
    """Redraws numbers one by one as if there were no upper bound, then moves them below it."""
    right = means_module.redraw_inside

    def wrong(rng, curvature, pull, low, high, x):
        return np.minimum(right(rng, curvature, pull, low, np.full_like(high, np.inf), x), high)

    monkeypatch.setattr(means_module, "redraw_inside", wrong)
    return BOUNDED


ALARMS = [
    densities_of_candidates_forgotten,
    rates_of_candidates_forgotten,
    own_memberships_not_among_candidates,
    best_candidate_always_taken,
    volume_of_the_document_walk_forgotten,
    jacobian_of_stretches_forgotten,
    jacobian_of_common_stretches_forgotten,
    jacobian_of_stretches_as_for_two_topics,
    words_above_the_edge_counted_as_stretched,
    exchanges_weighed_with_a_instead_of_a_minus_one,
    volume_of_the_topics_walk_forgotten,
    totals_of_rates_left_out_of_scores,
    counts_split_without_memberships,
    exposure_of_rates_forgotten,
    shape_of_the_variance_one_too_large,
    prior_of_the_means_forgotten,
    bounds_of_the_means_ignored,
    means_clipped_to_their_bounds,
    bounds_heeded_in_one_direction_only,
    priors_of_known_means_forgotten,
    exact_means_drawn_too,
]


@pytest.mark.parametrize("break_it", ALARMS, ids=lambda alarm: alarm.__name__)
def test_the_joint_distribution_test_catches(break_it, monkeypatch):
    problem = break_it(monkeypatch)
    for n_chains in N_CHAINS:
        scores = joint_scores(problem, n_chains, n_rounds=5, engine=ENGINE)
        if np.abs(scores).max() > ALARM:
            break
    print(f"{break_it.__name__}: {np.abs(scores).max():.1f} standard errors with {n_chains} chains")
    assert np.abs(scores).max() > ALARM


def test_the_engine_itself_passes(monkeypatch):
    """As Python and without exchanges, as above, but with no mistake: 20 numbers, false alarm 1e-5."""
    replace_document_step(monkeypatch)
    replace_stretches(monkeypatch)
    leave_out_exchanges(monkeypatch)
    scores = joint_scores(LONG, N_CHAINS[-1], n_rounds=5, engine=ENGINE)
    print(f"no mistake: {np.abs(scores).max():.1f} standard errors")
    assert np.abs(scores).max() < ALARM
