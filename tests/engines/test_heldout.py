"""Scores of held-out words are integrals; here they are found another way."""

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import dirichlet, norm

from pmlda.engines.heldout import log_evidence
from pmlda.families import Gaussian, Poisson
from pmlda.types import Topics


def exact(word, prior, likelihood):
    """ln ∫ Dir(z; prior) p(word | z) dz over the simplex."""

    def density(*z):
        whole = np.array([*z, 1.0 - sum(z)])
        return dirichlet.pdf(whole, prior) * likelihood(word, whole) if whole.min() > 0 else 0.0

    if len(prior) == 2:
        return np.log(quad(density, 0.0, 1.0, limit=200)[0])
    return np.log(dblquad(lambda y, x: density(x, y), 0.0, 1.0, 0.0, lambda x: 1.0 - x, epsabs=1e-4)[0])


@pytest.mark.parametrize("prior", [[1.5, 0.7], [4.0, 6.0], [1.2, 2.0, 3.0]])
def test_evidence_is_the_integral_whatever_the_number_of_topics(prior):
    prior, rng = np.array(prior), np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])[: len(prior)]
    word = np.array([1.2, 0.8])
    truth = exact(word, prior, lambda x, z: norm.pdf(x - z @ means, scale=0.7).prod())
    many = 200
    rows = [np.tile(each, (many, 1)) for each in (word, prior, prior + 5.0 * prior / prior.sum())]
    found = log_evidence(rng, *rows, Topics(means, np.array(0.49)), Gaussian())
    assert abs(found.mean() - truth) < max(4.0 * found.std() / np.sqrt(many), 1e-3)
    assert 4.0 * found.std() / np.sqrt(many) < 0.06


def test_evidence_of_counts_is_the_integral():
    prior, rates = np.array([1.5, 0.7]), np.array([[2.0, 8.0], [9.0, 1.0]])
    word = np.array([4.0, 3.0])

    def likelihood(x, z):
        mean = np.exp(z @ np.log(rates))
        return np.prod(mean**x * np.exp(-mean)) / (24.0 * 6.0)

    rows = [np.tile(each, (200, 1)) for each in (word, prior, prior + 1.0)]
    found = log_evidence(np.random.default_rng(0), *rows, Topics(rates, np.empty(0)), Poisson())
    assert abs(found.mean() - exact(word, prior, likelihood)) < 0.01
