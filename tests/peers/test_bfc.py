"""Bayesian fuzzy clustering draws from the density that it states, and a chain that does not is caught."""

import numpy as np
import pytest
from scipy.special import roots_jacobi, softmax

from pmlda.engines.diagnostics import monte_carlo_error
from pmlda.peers.bfc import Bfc
from pmlda.peers.bfc_sampler import Model, State, Walkers, alone, collect, log_joint, run
from pmlda.peers.fcm import Fcm

# Deviations are in standard errors; a normal one exceeds 5 with a chance of 6e-7.
FAR = 5.0

MODEL = Model(3.0, np.array([1.2, 1.9]), 6.0, np.array([4.0]))
WORDS = np.array([[-2.0], [-1.5], [0.4], [1.0], [2.2]])


def exact_moments():
    """By quadrature: memberships with Gauss–Jacobi for each pair of prototypes on a grid.

    Their density is Π u^(α−1) exp(−½β Σ uᵐ d²); the prototypes' prior is N(0, 4).
    """
    nodes, weights = roots_jacobi(40, MODEL.alpha[1] - 1.0, MODEL.alpha[0] - 1.0)
    u = 0.5 * (nodes + 1.0)
    y = np.linspace(-9.0, 9.0, 181)
    first, second = y[:, None, None], y[None, :, None]
    density = np.exp(-0.5 * (y[:, None] ** 2 + y[None] ** 2) / 4.0)
    conditional = []
    for x in WORDS.ravel():
        energy = 0.5 * MODEL.beta * (u**MODEL.m * (x - first) ** 2 + (1.0 - u) ** MODEL.m * (x - second) ** 2)
        each = weights * np.exp(-energy)
        total = each.sum(axis=2)
        density = density * total
        conditional.append([(each * u**power).sum(axis=2) / total for power in (1, 2)])
    density /= density.sum()
    moments = [(density * value).sum() for value in (y[:, None], y[None], y[:, None] ** 2, y[None] ** 2)]
    moments.append((density * y[:, None] * y[None]).sum())
    return np.array(moments + [(density * value).sum() for pair in conditional for value in pair])


def deviations(n_sweeps=3000):
    """How far the chain's moments are from the exact ones, in standard errors."""
    draws = []
    for state in run(np.random.default_rng(0), WORDS, np.array([[-1.0], [1.0]]), MODEL, n_sweeps, 4):
        a, b = state.prototypes.ravel()
        u = np.exp(state.log_u[0])
        draws.append([a, b, a * a, b * b, a * b, *np.stack([u, u**2], axis=1).ravel()])
    kept = np.array(draws[n_sweeps // 2 :])
    return (kept.mean(axis=0) - exact_moments()) / monte_carlo_error(kept[None], 1)


def test_the_chain_draws_from_the_stated_density():
    """Fifteen moments of five words and two prototypes; a false alarm once in 100,000."""
    assert np.abs(deviations()).max() < FAR


def without_volume(walkers, log_u):
    """Forgets that the walk is in log-ratios."""
    model = walkers._model
    return (model.alpha - 1.0) @ log_u - (np.exp(model.m * log_u) * walkers._energy).sum(axis=0)


def of_wrong_power(walkers, log_u):
    """Weights prototypes by uᵐ, but memberships by u."""
    return walkers._model.alpha @ log_u - (np.exp(log_u) * walkers._energy).sum(axis=0)


@pytest.mark.parametrize("broken", [without_volume, of_wrong_power])
def test_a_broken_chain_is_caught(broken, monkeypatch):
    monkeypatch.setattr(Walkers, "_log_density", broken)
    assert np.abs(deviations()).max() > FAR


@pytest.mark.parametrize(("m", "alpha"), [(1.5, (1.0, 1.0, 1.0)), (2.5, (0.5, 1.0, 2.0)), (1.1, (0.8, 0.8, 0.8))])
def test_words_alone_have_the_means_of_their_conditional(m, alpha):
    """Three clusters, five words, prototypes known; the truth by the rule of midpoints in log-ratios."""
    model = Model(m, np.array(alpha), 2.0, np.empty(0))
    prototypes = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    words = np.array([[0.0, 0.0], [1.5, 0.0], [1.0, 1.0], [4.0, -1.0], [0.2, 2.9]])
    grid = np.linspace(-25.0, 25.0, 400)
    a, b = np.meshgrid(grid, grid)
    u = softmax(np.stack([np.zeros_like(a), a, b]), axis=0)
    d2 = ((words[:, None] - prototypes) ** 2).sum(axis=2)
    energy = np.einsum("kij,nk->nij", u**m, d2)
    density = np.exp(np.einsum("kij,k->ij", np.log(u), model.alpha) - energy)
    density /= density.sum(axis=(1, 2), keepdims=True)
    mean = np.einsum("nij,kij->kn", density, u)
    std = np.sqrt(np.einsum("nij,kij->kn", density, u**2) - mean**2)
    found = np.stack([alone(words, prototypes, model, 500, seed) for seed in range(20)])
    error = found.std(axis=0, ddof=1) / np.sqrt(20)
    assert (np.abs(found.mean(axis=0)[0] - mean) / error[0]).max() < FAR
    # Deviations of chains of finite length are a little too small.
    assert (np.abs(found.mean(axis=0)[1] - std) < 0.05 * std + FAR * error[1]).all()


def test_the_trace_is_the_density_of_every_state():
    rng = np.random.default_rng(0)
    words = rng.normal(size=(50, 2))
    model = Model(1.5, np.array([1.0, 2.0, 0.5]), 3.0, np.array([2.0, 0.5]))
    for state in run(rng, words, words[:3], model, 5, 2):
        expected = log_joint(words, state.log_u, state.prototypes, model)
        assert state.log_joint == pytest.approx(expected, rel=1e-9)


def test_draws_are_renumbered_before_they_are_averaged():
    """A chain that exchanges its two clusters in every sweep."""
    log_u, prototypes = np.log([[0.9, 0.2], [0.1, 0.8]]), np.array([[0.0], [5.0]])
    states = [State(log_u[::sign], prototypes[::sign], 0.0, 1.0) for sign in (1, -1) * 4]
    kept = collect(iter(states), prototypes, 8)
    np.testing.assert_allclose(kept.mean, [[0.9, 0.2], [0.1, 0.8]], rtol=1e-12)
    np.testing.assert_allclose(kept.std, 0.0, atol=1e-7)
    np.testing.assert_array_equal(kept.prototypes, [prototypes] * 4)


def test_with_a_large_scale_it_is_fuzzy_c_means():
    rng = np.random.default_rng(1)
    X = rng.dirichlet([0.5, 0.5], size=100) @ np.array([[0.0, 0.0], [6.0, 3.0]]) + 0.5 * rng.normal(size=(100, 2))
    fuzzy = Fcm(2, fuzzifier=2.0, random_state=0).fit(X)
    bayes = Bfc(2, fuzzifier=2.0, scale=3000.0, n_sweeps=600, random_state=0).fit(X)
    order = np.argsort(fuzzy.topic_means_[:, 0])[np.argsort(np.argsort(bayes.topic_means_[:, 0]))]
    np.testing.assert_allclose(bayes.memberships_, fuzzy.memberships_[:, order], atol=0.03)
    np.testing.assert_allclose(bayes.topic_means_, fuzzy.topic_means_[order], atol=0.05)


def test_the_unit_of_the_features_does_not_matter():
    X = np.random.default_rng(2).normal(size=(60, 2)) + np.repeat([[0.0], [7.0]], 30, axis=0)
    small, large = (Bfc(2, n_sweeps=200, random_state=0).fit(size * X) for size in (1.0, 1024.0))
    np.testing.assert_allclose(large.memberships_, small.memberships_, atol=1e-6)
    np.testing.assert_allclose(large.scale_ * 1024.0**2, small.scale_, rtol=1e-9)


def test_new_words_do_not_mind_each_other():
    X = np.random.default_rng(3).normal(size=(60, 2)) + np.repeat([[0.0], [7.0]], 30, axis=0)
    model = Bfc(2, n_sweeps=200, random_state=0).fit(X)
    np.testing.assert_allclose(model.transform(X[10:14]), model.transform(X)[10:14], atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"fuzzifier": 1.0}, {"alpha": 0.0}, {"scale": "sharp"}, {"scale": -1.0}, {"prior_spread": 0.0}, {"n_sweeps": 1}],
)
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Bfc(2, **options).fit(np.random.default_rng(0).normal(size=(20, 2)))
