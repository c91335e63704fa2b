"""Samplers of engine "gibbs" broken on purpose, one mistake each: the joint distribution test must catch every one.

Kernels called through py_func run as Python, so that a function they use can be replaced.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from pmlda.engines import gibbs
from pmlda.families import Gaussian, IsotropicNoise, NormalMeans, Poisson
from pmlda.families.noise import draw_variance
from pmlda.kernels import gibbs as kernels
from pmlda.model import draw_log_dirichlet
from tests.problems import PROBLEMS
from tests.statistical.adapters import Gibbs
from tests.statistical.checks import ALARM, FULL, SEED, joint_scores

N_CHAINS = 2_000 if FULL else 400
PLAIN, COUNTS = PROBLEMS["gaussian isotropic"], PROBLEMS["poisson"]
# Mistakes about candidates do more harm where a document has more words.
LONG = PLAIN._replace(sizes=(12,))


def replaced(monkeypatch, **functions):
    """The engine with some of its kernels replaced."""
    monkeypatch.setattr(gibbs, "kernels", SimpleNamespace(**vars(kernels) | functions))


@dataclass(frozen=True, eq=False)
class WithoutVolume(Poisson):
    """Walks in ln λ and believes that λ is walked."""

    def log_free_prior(self, topics):
        return self.log_prior(topics).total


@dataclass(frozen=True, eq=False)
class WrongShape(IsotropicNoise):
    """Draws σ² with shape Np/2, as if its prior were 1/σ²."""

    def draw_given(self, rng, scatter, n_words):
        return draw_variance(rng, 0.5 * n_words * len(scatter), 0.5 * np.trace(scatter), self.bound)


@dataclass(frozen=True, eq=False)
class WithoutPrior(NormalMeans):
    """Draws means as if nothing had been known of them."""

    def given(self, statistics, precision):
        return NormalMeans(self.mean, 1e4 * self.covariance).given(statistics, precision)


def densities_of_candidates_forgotten(monkeypatch):
    def wrong(*arguments):
        kernels.draw_candidates(*arguments)
        arguments[-1][:] = 0.0

    replaced(monkeypatch, draw_candidates=wrong)
    return PLAIN


def own_memberships_not_among_candidates(monkeypatch):
    rng = np.random.default_rng(SEED)

    def wrong(gamma, log_z, *rest):
        kernels.draw_candidates(gamma, draw_log_dirichlet(rng, gamma), *rest)

    replaced(monkeypatch, draw_candidates=wrong)
    return PLAIN


def best_candidate_always_taken(monkeypatch):
    def wrong(fits, rest, *others):
        kernels.choose_candidates(1e9 * fits, 1e9 * rest, *others)

    replaced(monkeypatch, choose_candidates=wrong)
    return LONG


def volume_of_the_document_walk_forgotten(monkeypatch):
    """Walks in ln a and believes that a is walked."""
    right = kernels._log_document
    monkeypatch.setattr(kernels, "_log_document", lambda a, *rest: right(a, *rest) - np.log(a).sum())
    replaced(monkeypatch, document_step=kernels.document_step.py_func)
    return PLAIN


def jacobian_of_stretches_forgotten(monkeypatch):
    right = kernels._stretch
    monkeypatch.setattr(kernels, "_stretch", lambda *arguments: 0.0 * right(*arguments))
    replaced(monkeypatch, stretch_step=kernels.stretch_step.py_func)
    return PLAIN


def jacobian_of_common_stretches_forgotten(monkeypatch):
    right = kernels._stretch_all
    monkeypatch.setattr(kernels, "_stretch_all", lambda *arguments: 0.0 * right(*arguments))
    replaced(monkeypatch, stretch_step=kernels.stretch_step.py_func)
    return PLAIN


def jacobian_of_stretches_as_for_two_topics(monkeypatch):
    """Three topics, but the Jacobian of two: where the third goes is left out."""
    right = kernels._stretch

    def wrong(log_z, k, r, new):
        right(log_z, k, r, new)
        return new[k] - log_z[k] - np.log(r)

    monkeypatch.setattr(kernels, "_stretch", wrong)
    replaced(monkeypatch, stretch_step=kernels.stretch_step.py_func)
    return PLAIN._replace(n_topics=3, alpha=(1.5, 1.5, 1.5))


def exchanges_weighed_with_a_instead_of_a_minus_one(monkeypatch):
    def wrong(code, table, constant, scores, z, log_z, a, *rest):
        kernels.transfer_step(code, table, constant, scores, z, log_z, a + 1.0, *rest)

    replaced(monkeypatch, transfer_step=wrong)
    return PLAIN


def volume_of_the_topics_walk_forgotten(monkeypatch):
    return COUNTS._replace(family=WithoutVolume(COUNTS.family.shape, COUNTS.family.rate))


def shape_of_the_variance_one_too_large(monkeypatch):
    return PLAIN._replace(family=Gaussian(WrongShape(PLAIN.family.noise.bound), PLAIN.family.means))


def prior_of_the_means_forgotten(monkeypatch):
    means = WithoutPrior(PLAIN.family.means.mean, PLAIN.family.means.covariance)
    return PLAIN._replace(family=replace(PLAIN.family, means=means))


ALARMS = [
    densities_of_candidates_forgotten,
    own_memberships_not_among_candidates,
    best_candidate_always_taken,
    volume_of_the_document_walk_forgotten,
    jacobian_of_stretches_forgotten,
    jacobian_of_common_stretches_forgotten,
    jacobian_of_stretches_as_for_two_topics,
    exchanges_weighed_with_a_instead_of_a_minus_one,
    volume_of_the_topics_walk_forgotten,
    shape_of_the_variance_one_too_large,
    prior_of_the_means_forgotten,
]


@pytest.mark.parametrize("break_it", ALARMS, ids=lambda alarm: alarm.__name__)
def test_the_joint_distribution_test_catches(break_it, monkeypatch):
    scores = joint_scores(break_it(monkeypatch), N_CHAINS, n_rounds=5, engine=Gibbs())
    print(f"{break_it.__name__}: {np.abs(scores).max():.1f} standard errors")
    assert np.abs(scores).max() > ALARM
