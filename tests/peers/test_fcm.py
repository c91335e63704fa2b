"""Fuzzy c-means finds what scikit-fuzzy finds from the same start, and stays a number where that does not."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from pmlda.peers.distances import nearest_centre, squared_distances
from pmlda.peers.fcm import Fcm, log_memberships, memberships, minimise, spread_out, sweep


def corners():
    rng = np.random.default_rng(0)
    return rng.dirichlet([0.4] * 4, size=600) @ (5.0 * np.eye(4)) + rng.normal(size=(600, 4))


def far_from_zero():
    """Small differences on a large offset, where ‖x‖² − 2x·c + ‖c‖² would have few digits left."""
    rng = np.random.default_rng(1)
    return 1e4 + rng.normal(size=(300, 2)) + 4.0 * rng.integers(3, size=(300, 1))


DATA = {
    "iris": (lambda: load_iris().data, 3),
    "wine, features of unlike size": (lambda: load_wine().data, 3),
    "mixed corners": (corners, 4),
    "far from zero": (far_from_zero, 3),
    "one feature": (lambda: np.random.default_rng(2).normal(size=(200, 1)) ** 3, 5),
}


@pytest.mark.parametrize("m", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("name", DATA)
def test_scikit_fuzzy_finds_the_same_from_the_same_start(name, m):
    skfuzzy = pytest.importorskip("skfuzzy")
    make, K = DATA[name]
    X = make()
    u = np.random.default_rng(4).dirichlet(np.ones(K), size=len(X)).T
    theirs, their_u, _, _, objective, _, _ = skfuzzy.cmeans(X.T, K, m, error=1e-9, maxiter=20_000, init=u)
    start = (u**m @ X) / (u**m).sum(axis=1, keepdims=True)  # their first step
    ours = Fcm(K, fuzzifier=m, init=start, tol=1e-11, max_iter=20_000).fit(X)
    spread = X.std()
    np.testing.assert_allclose(ours.topic_means_, theirs, atol=1e-6 * spread)
    np.testing.assert_allclose(ours.objective_, objective[-1], rtol=1e-9)
    np.testing.assert_allclose(ours.memberships_, their_u.T, atol=1e-6)


@pytest.mark.parametrize("m", [1.5, 2.0, 3.0])
def test_one_sweep_is_theirs(m):
    """Before anything has settled, so that a wrong rule cannot hide behind a common end."""
    skfuzzy = pytest.importorskip("skfuzzy")
    X = corners()
    u = np.random.default_rng(5).dirichlet(np.ones(3), size=len(X)).T
    start = (u**m @ X) / (u**m).sum(axis=1, keepdims=True)
    theirs, _, _, _, _, _, _ = skfuzzy.cmeans(X.T, 3, m, error=0.0, maxiter=2, init=u)
    ours, _ = sweep(X, (X**2).sum(axis=1), start, m)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_the_objective_falls_with_every_sweep():
    X = corners()
    centres, values = spread_out(X, 4, np.random.default_rng(0)), []
    for _ in range(15):
        centres, value = sweep(X, (X**2).sum(axis=1), centres, 1.5)
        values.append(value)
    assert (np.diff(values) < 0).all()


def test_the_objective_is_what_it_says():
    X = corners()
    model = Fcm(3, fuzzifier=1.7, random_state=0, tol=1e-9).fit(X)
    d2 = ((X[:, None] - model.topic_means_) ** 2).sum(axis=2)
    np.testing.assert_allclose(model.objective_, (model.memberships_**1.7 * d2).sum(), rtol=1e-9)


def test_a_word_on_a_centre_belongs_to_it_wholly():
    centres = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
    for m in (1.01, 1.5, 2.0, 10.0):
        np.testing.assert_array_equal(memberships(centres, centres, m), np.eye(3))


def test_centres_that_coincide_share_a_word_on_them_equally():
    centres = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]])
    found = memberships(np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 0.0]]), centres, 1.5)
    np.testing.assert_allclose(found[0], [0.5, 0.5, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(found[1], [0.0, 0.0, 1.0])
    assert found[2, 0] == found[2, 1]


def test_a_fitted_model_gives_its_own_centres_wholly_to_themselves():
    model = Fcm(3, fuzzifier=4.0, random_state=0).fit(1e6 + corners())
    np.testing.assert_array_equal(model.transform(model.topic_means_), np.eye(3))


@pytest.mark.parametrize("m", [1.0 + 1e-9, 1.01, 1.5, 10.0, 1e6])
@pytest.mark.parametrize("distance", [1e-12, 1e-3, 1.0, 1e12])
def test_no_fuzzifier_and_no_distance_makes_nonsense(m, distance):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 3)), distance + distance * rng.normal(size=(50, 3)), np.ones((3, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Fcm(3, fuzzifier=m, max_iter=50, random_state=0).fit(X)
    assert np.isfinite(model.topic_means_).all()
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.memberships_).all()
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, atol=1e-9)


def test_memberships_at_tiny_distances_follow_the_formula():
    """A word 1e-12 from one centre and 3e-12 from another, both of them far from zero's scale of digits."""
    centres = np.array([[0.0], [4e-12], [1.0]])
    found = memberships(np.array([[1e-12]]), centres, 1.5)[0]
    np.testing.assert_allclose(found[:2], [81 / 82, 1 / 82], rtol=1e-9)
    assert 0.0 <= found[2] < 1e-40


def test_small_distances_keep_their_digits():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 5))
    words = centres[rng.integers(4, size=200)] + 10.0 ** rng.uniform(-14, 0, (200, 1)) * rng.normal(size=(200, 5))
    exact = ((words - centres[:, None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(words, (words**2).sum(axis=1), centres), exact, rtol=1e-10)


def test_the_nearest_centre_is_the_nearest(monkeypatch):
    monkeypatch.setattr("pmlda.peers.distances.BLOCK", 37)
    rng = np.random.default_rng(0)
    words, centres = rng.normal(size=(100, 3)), rng.normal(size=(7, 3))
    d2 = ((words[:, None] - centres) ** 2).sum(axis=2)
    which, least = nearest_centre(words, centres)
    np.testing.assert_array_equal(which, d2.argmin(axis=1))
    np.testing.assert_allclose(least, d2.min(axis=1), rtol=1e-10)


def test_a_cluster_whose_weights_vanish_still_moves_to_its_nearest_words():
    """All of its memberships are below e^−1000: their ratios decide, and the nearest word has nearly all."""
    words = np.array([[0.0], [0.1], [1.0]])
    found, objective = sweep(words, (words**2).ravel(), np.array([[0.02], [1.01], [80.0]]), 1.005)
    assert np.isfinite(objective)
    log_u, _ = log_memberships(squared_distances(words, (words**2).ravel(), np.array([[0.02], [1.01], [80.0]])), 1.005)
    assert log_u[2].max() < -1000
    weights = np.exp(1.005 * (log_u[2] - log_u[2].max()))
    np.testing.assert_allclose(found[2], (weights @ words) / weights.sum(), rtol=1e-12)


def test_a_cluster_without_any_word_stays():
    words = np.array([[0.0], [1.0]])
    found, objective = sweep(words, (words**2).ravel(), np.array([[0.0], [1.0], [7.0]]), 1.5)
    np.testing.assert_array_equal(found, [[0.0], [1.0], [7.0]])
    assert objective == 0.0


def test_near_one_it_is_k_means():
    from sklearn.cluster import KMeans

    X = corners()
    start = spread_out(X, 4, np.random.default_rng(1))
    theirs = KMeans(4, init=start, n_init=1, tol=0.0).fit(X)
    ours = minimise(X, start, 1.0 + 1e-6, 1e-9, 1000)
    np.testing.assert_allclose(ours.centres, theirs.cluster_centers_, atol=1e-3)


def test_blocks_do_not_show(monkeypatch):
    X = corners()
    whole = sweep(X, (X**2).sum(axis=1), X[:3], 1.5)
    monkeypatch.setattr("pmlda.peers.distances.BLOCK", 37)
    pieces = sweep(X, (X**2).sum(axis=1), X[:3], 1.5)
    np.testing.assert_allclose(pieces[0], whole[0], rtol=1e-12)
    np.testing.assert_allclose(pieces[1], whole[1], rtol=1e-12)


def test_the_best_of_several_starts_goes_on():
    """Nine blobs: a single start often puts two centres into one of them, and leaves one for two others."""
    rng = np.random.default_rng(0)
    X = np.stack(np.mgrid[:3, :3], axis=-1).reshape(9, 2).repeat(20, axis=0) + 0.1 * rng.normal(size=(180, 2))
    single = [Fcm(9, n_init=1, random_state=seed).fit(X).objective_ for seed in range(10)]
    several = [Fcm(9, n_init=10, random_state=seed).fit(X).objective_ for seed in range(10)]
    assert max(single) > 1.5 * min(single)
    assert max(several) < 1.001 * min(single)


def test_a_run_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="still moved after 2 sweeps"):
        model = Fcm(3, max_iter=2, random_state=0).fit(corners())
    assert model.verdict_.state == "not_converged"
    assert "larger max_iter" in model.verdict_.advice


@pytest.mark.parametrize("fuzzifier", [1.0, 0.5, -2.0, np.nan, np.inf, "soft", None])
def test_fuzzifiers_that_make_no_sense_are_refused(fuzzifier):
    with pytest.raises(ValueError, match="fuzzifier"):
        Fcm(2, fuzzifier=fuzzifier).fit(corners())


def test_starts_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="init has shape"):
        Fcm(2, init=np.zeros((3, 4))).fit(corners())
