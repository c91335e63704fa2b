"""The model itself, against SciPy's densities and against what its limits must be."""

import numpy as np
import pytest
from scipy import stats

from pmlda.families import Gaussian
from pmlda.model import draw_log_dirichlet, log_dirichlet, log_documents, log_joint, simulate
from pmlda.types import Latents, Topics
from tests.problems import PROBLEMS, draw_all, triangle


def test_log_joint_is_the_papers_equation_summed():
    """Written out with SciPy, term by term, for the isotropic Gaussian."""
    problem = PROBLEMS["gaussian isotropic"]
    topics, documents, latents = draw_all(np.random.default_rng(3), problem)
    expected = stats.multivariate_normal(np.zeros(2), 4 * np.eye(2)).logpdf(topics.means).sum()
    expected += stats.uniform(0, 4).logpdf(topics.spread)
    for d in range(2):
        pi, s = np.exp(latents.log_proportions[d]), latents.scales[d]
        expected += stats.dirichlet(problem.alpha).logpdf(pi) + stats.expon(scale=2.0).logpdf(s)
        for n in np.flatnonzero(documents.document == d):
            z = latents.memberships[n]
            expected += stats.dirichlet(s * pi).logpdf(z)
            mean = z @ topics.means
            expected += stats.multivariate_normal(mean, float(topics.spread) * np.eye(2)).logpdf(documents.words[n])
    actual = log_joint(documents.words, documents.document, latents, topics, problem.family, problem.alpha, 0.5)
    assert actual == pytest.approx(expected, rel=1e-12)


def test_a_document_has_the_density_that_it_has_alone():
    problem = PROBLEMS["poisson"]
    topics, documents, latents = draw_all(np.random.default_rng(4), problem)
    together = log_documents(documents.words, documents.document, latents, topics, problem.family, problem.alpha, 0.5)
    for d in range(len(together)):
        own = documents.document == d
        alone = Latents(*(values[own] for values in latents[:2]), *(values[[d]] for values in latents[2:]))
        zeros = np.zeros(own.sum(), np.int64)
        found = log_documents(documents.words[own], zeros, alone, topics, problem.family, problem.alpha, 0.5)
        np.testing.assert_allclose(found, together[[d]])


@pytest.mark.parametrize("scale", [1e4, 1e6])
def test_large_scales_give_every_word_the_proportions_of_its_document(scale):
    _, document, latents = simulate(np.random.default_rng(0), Gaussian(), triangle(), [50, 50], scales=scale)
    gap = latents.memberships - np.exp(latents.log_proportions)[document]
    # The variance of a membership is π(1 − π)/(s + 1), at most 1/(4s); 6 standard deviations, 300 numbers: 6e-7.
    assert np.abs(gap).max() < 6 * 0.5 / np.sqrt(scale)


def test_tiny_scales_give_crisp_words_and_finite_logarithms():
    _, _, latents = simulate(np.random.default_rng(0), Gaussian(), triangle(), [500], scales=1e-6)
    assert (latents.memberships.max(axis=1) > 0.999).mean() > 0.98
    assert np.isfinite(latents.log_memberships).all()
    assert latents.log_memberships.min() < -1e4


def test_log_dirichlet_draws_have_the_right_marginals():
    """Marginals are beta; one Kolmogorov-Smirnov test each at 1e-6: false alarm 4e-6."""
    a = np.array([0.05, 0.7, 1.0, 6.0])
    draws = np.exp(draw_log_dirichlet(np.random.default_rng(1), np.broadcast_to(a, (20_000, 4))))
    for k in range(4):
        assert stats.kstest(draws[:, k], stats.beta(a[k], a.sum() - a[k]).cdf).pvalue > 1e-6


def test_log_dirichlet_survives_a_concentration_that_underflowed():
    log_a = np.array([[-800.0, 0.0]])
    value = log_dirichlet(np.array([[-5.0, -0.01]]), np.exp(log_a), log_a)
    # ln Γ(1) − ln Γ(a) − ln Γ(1) + (a − 1)(−5), with ln Γ(a) = −ln a = 800
    assert value[0] == pytest.approx(-800.0 + 5.0)


def test_given_proportions_and_scales_are_used():
    topics = Topics(np.eye(3), np.array(0.1))
    _, _, latents = simulate(
        np.random.default_rng(0), Gaussian(), topics, [4, 4], scales=[3.0, 5.0], proportions=[0.2, 0.3, 0.5]
    )
    np.testing.assert_allclose(latents.scales, [3.0, 5.0])
    np.testing.assert_allclose(np.exp(latents.log_proportions), [[0.2, 0.3, 0.5]] * 2)
