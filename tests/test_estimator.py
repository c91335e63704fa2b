"""PMLDA as scikit-learn users meet it: conventions, results, fixed values, threads, interruption, bad input."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pmlda import PMLDA, Categorical, Gamma
from pmlda.engines.collect import match_topics
from pmlda.errors import PmldaError
from pmlda.model import simulate
from pmlda.types import Topics
from tests.problems import PROBLEMS, draw_all, random_corpus, triangle

GAUSSIAN = PROBLEMS["gaussian isotropic"].family
FAMILIES = {
    "gaussian isotropic": {},
    "gaussian diagonal": {"covariance": "diagonal"},
    "gaussian full": {"covariance": "full"},
    "gaussian per topic, diagonal": {"covariance": "topic-diagonal"},
    "gaussian per topic, full": {"covariance": "topic-full"},
    "poisson": {"family": "poisson"},
    "additive poisson": {"family": "additive-poisson"},
    "bernoulli": {"family": "bernoulli"},
    "gamma": {"family": Gamma(shape=2.0)},
    "categorical": {"family": "categorical"},
}


@parametrize_with_checks([PMLDA(), PMLDA(engine="paper", n_sweeps=60)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(GAUSSIAN, triangle(), [150] * 8)


@pytest.fixture(scope="module")
def fitted(corpus):
    X, groups, _ = corpus
    return PMLDA(3, engine="paper", n_sweeps=600, random_state=0).fit(X, groups=groups)


def error(memberships, means, truth):
    order = match_topics(triangle(), Topics(means, np.empty(0)))
    return np.sqrt(((memberships[:, order] - truth) ** 2).mean())


def test_memberships_are_recovered(corpus, fitted):
    """Known topics give an RMSE of about 0.10 here; a crisp answer gives more than 0.2."""
    X, groups, latents = corpus
    truth = latents.memberships
    assert error(fitted.memberships_, fitted.topic_means_, truth) < 0.14
    assert error(fitted.transform(X), fitted.topic_means_, truth) < 0.14
    assert error(fitted.transform(X, groups=groups), fitted.topic_means_, truth) < 0.14
    crisp = np.eye(3)[fitted.labels_]
    assert error(crisp, fitted.topic_means_, truth) > 0.2


def test_attributes_have_the_documented_shapes(corpus, fitted):
    X, groups, _ = corpus
    assert fitted.memberships_.shape == (1200, 3)
    assert fitted.labels_.shape == (1200,)
    assert fitted.topic_means_.shape == (3, 3)
    assert isinstance(fitted.noise_variance_, float)
    assert fitted.proportions_.shape == (8, 3)
    assert fitted.scales_.shape == (8,)
    assert fitted.documents_.tolist() == sorted(set(groups.tolist()))
    assert len(fitted.log_joint_) == fitted.n_iter_ == 600
    assert set(fitted.acceptance_) == {"proportions", "scales", "memberships", "means", "spread"}
    assert len(fitted.draws_.sweeps) == 300
    np.testing.assert_allclose(fitted.memberships_.sum(axis=1), 1.0)
    np.testing.assert_allclose(fitted.draws_.memberships.mean(axis=0), fitted.memberships_, atol=1e-5)
    assert fitted.get_feature_names_out().tolist() == ["pmlda0", "pmlda1", "pmlda2"]
    assert fitted.predict_proba(X).shape == (1200, 3)
    np.testing.assert_array_equal(fitted.predict(X), fitted.transform(X).argmax(axis=1))


def test_rows_may_come_in_any_order_and_labels_may_be_strings(corpus):
    """The same documents shuffled: results follow their rows. Bits differ because words have other places."""
    X, groups, _ = corpus
    names = np.array([f"tile {g}" for g in groups])
    shuffle = np.random.default_rng(0).permutation(len(X))
    model = PMLDA(3, engine="paper", n_sweeps=300, random_state=0).fit(X[shuffle], groups=names[shuffle])
    again = PMLDA(3, engine="paper", n_sweeps=300, random_state=0).fit(X, groups=names)
    assert model.documents_.tolist() == [f"tile {d}" for d in range(8)]
    order = match_topics(Topics(again.topic_means_, np.empty(0)), Topics(model.topic_means_, np.empty(0)))
    gap = model.memberships_[:, order] - again.memberships_[shuffle]
    assert np.sqrt((gap**2).mean()) < 0.08


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_fits_transforms_and_samples(name):
    problem = PROBLEMS[name]._replace(sizes=(60, 50, 70))
    _, documents, _ = draw_all(np.random.default_rng(1), problem)
    X = documents.words
    for dtype in (np.float64, np.float32):
        model = PMLDA(2, engine="paper", n_sweeps=60, random_state=0, **FAMILIES[name]).fit(
            X.astype(dtype), groups=documents.document
        )
        assert model.memberships_.dtype == dtype
        for result in (
            model.transform(X.astype(dtype)),
            model.transform(X.astype(dtype), groups=documents.document),
            model.predict_proba(X.astype(dtype)),
        ):
            assert result.dtype == dtype
            np.testing.assert_allclose(result.sum(axis=1), 1.0, atol=1e-5)
    assert np.isfinite(model.score(X))
    words, memberships = model.sample(20, random_state=1)
    assert words.shape == (20, X.shape[1])
    assert memberships.shape == (20, 2)
    assert hasattr(model, "topic_covariances_") == ("per topic" in name)
    assert hasattr(model, "noise_variance_") == (name.startswith("gaussian") and "per topic" not in name)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_topic_is_trivial(name):
    problem = PROBLEMS[name]._replace(sizes=(30,))
    _, documents, _ = draw_all(np.random.default_rng(1), problem)
    model = PMLDA(1, engine="paper", n_sweeps=20, random_state=0, **FAMILIES[name]).fit(documents.words)
    np.testing.assert_array_equal(model.memberships_, np.ones((30, 1)))
    np.testing.assert_array_equal(model.transform(documents.words), np.ones((30, 1)))


def test_one_and_two_threads_give_the_same_bits():
    X, groups, _ = random_corpus(GAUSSIAN, triangle(), [22_000, 15_000])
    models = [PMLDA(3, engine="paper", n_sweeps=10, random_state=0, n_jobs=n).fit(X, groups=groups) for n in (1, 2)]
    np.testing.assert_array_equal(models[0].memberships_, models[1].memberships_)
    np.testing.assert_array_equal(models[0].topic_means_, models[1].topic_means_)
    np.testing.assert_array_equal(models[0].log_joint_, models[1].log_joint_)
    np.testing.assert_array_equal(models[0].transform(X), models[1].transform(X))


def test_two_fits_in_two_threads_do_not_disturb_each_other(corpus):
    X, groups, _ = corpus
    alone = PMLDA(3, engine="paper", n_sweeps=30, random_state=5).fit(X, groups=groups)
    models = [PMLDA(3, engine="paper", n_sweeps=30, random_state=5) for _ in range(2)]
    threads = [threading.Thread(target=model.fit, args=(X,), kwargs={"groups": groups}) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in models:
        np.testing.assert_array_equal(model.memberships_, alone.memberships_)


def test_a_fit_in_a_forked_process_ends(corpus):
    X, groups, _ = corpus
    model = PMLDA(3, engine="paper", n_sweeps=10, random_state=5).fit(X, groups=groups)
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = np.array_equal(clone(model).fit(X, groups=groups).memberships_, model.memberships_)
        finally:
            os._exit(0 if same else 1)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("a fit after fork() did not end within a minute")
    assert os.waitstatus_to_exitcode(status) == 0


def test_fixed_proportions_tell_topics_apart():
    """They are held exactly, whichever topic the data would rather put first."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = PMLDA(2, fixed={"proportions": [0.9, 0.1]}, engine="paper", n_sweeps=200, random_state=0).fit(X)
    np.testing.assert_allclose(model.proportions_, [[0.9, 0.1]])
    covariances = [[50.0, 50.0], [99.0, 99.0]]
    fixed = {"covariance": covariances}
    model = PMLDA(2, covariance="topic-diagonal", fixed=fixed, engine="paper", n_sweeps=100, random_state=0).fit(X)
    np.testing.assert_allclose(model.topic_covariances_, covariances)


def test_a_fixed_covariance_may_lie_outside_the_prior():
    X = np.random.default_rng(0).uniform(0, 1, (200, 2))
    model = PMLDA(2, fixed={"covariance": 30.0}, engine="paper", n_sweeps=20, random_state=0).fit(X)
    assert np.isfinite(model.log_joint_).all()


def test_per_topic_covariances_may_be_fixed_in_every_shape(corpus):
    X, groups, _ = corpus
    for covariance, value in (
        ("topic-full", 2.0),
        ("topic-full", np.eye(3)),
        ("topic-full", np.stack([np.eye(3)] * 3)),
        ("topic-diagonal", [1.0, 2.0, 3.0]),
        ("full", 2.0),
    ):
        model = PMLDA(3, covariance=covariance, fixed={"covariance": value}, engine="paper", n_sweeps=4).fit(
            X, groups=groups
        )
        assert np.isfinite(model.memberships_).all()


def test_changing_n_components_after_fit_is_noticed(corpus, tmp_path):
    X, groups, _ = corpus
    model = PMLDA(3, engine="paper", n_sweeps=4).fit(X, groups=groups).set_params(n_components=10_000_000)
    for use in (model.transform, model.predict_proba, model.score):
        with pytest.raises(ValueError, match="Fit again"):
            use(X)
    with pytest.raises(ValueError, match="Fit again"):
        model.save(tmp_path / "m")


def test_the_map_sample_is_the_papers_estimate(corpus):
    X, groups, _ = corpus
    model = PMLDA(3, engine="paper", n_sweeps=100, random_state=0, estimate="map").fit(X, groups=groups)
    best = np.argmax(model.log_joint_[50:])
    np.testing.assert_allclose(model.memberships_, model.draws_.memberships[best], atol=1e-6)
    np.testing.assert_allclose(model.topic_means_, model.draws_.means[best])


def test_large_fixed_scales_pull_memberships_to_the_proportions(corpus):
    X, groups, _ = corpus
    third = [1 / 3] * 3
    means = []
    for scale in (1.0, 300.0):
        fixed = {"scales": scale, "proportions": third, "topics": triangle().means, "covariance": 1.0}
        model = PMLDA(3, engine="paper", n_sweeps=200, random_state=0, fixed=fixed).fit(X, groups=groups)
        np.testing.assert_array_equal(model.scales_, scale)
        np.testing.assert_allclose(model.proportions_, 1 / 3)
        np.testing.assert_allclose(model.topic_means_, triangle().means, atol=1e-12)
        assert model.noise_variance_ == pytest.approx(1.0)
        means.append(np.abs(model.memberships_ - 1 / 3).mean())
    assert means[1] < 0.3 * means[0]


def test_fixed_values_may_differ_between_documents(corpus):
    X, groups, _ = corpus
    pi = np.random.default_rng(0).dirichlet([2, 2, 2], size=8)
    model = PMLDA(3, engine="paper", n_sweeps=10, fixed={"proportions": pi, "scales": np.arange(1.0, 9.0)}).fit(
        X, groups=groups
    )
    np.testing.assert_allclose(model.proportions_, pi)
    np.testing.assert_array_equal(model.scales_, np.arange(1.0, 9.0))


def test_starts_may_be_given(corpus):
    X, groups, _ = corpus
    model = PMLDA(3, engine="paper", n_sweeps=2, init=triangle().means, random_state=0).fit(X, groups=groups)
    assert np.abs(model.topic_means_ - triangle().means).max() < 1.0
    assert PMLDA(3, engine="paper", n_sweeps=5, init="prior", random_state=0).fit(X).topic_means_.shape == (3, 3)


def test_groups_reach_the_model_through_pipeline_and_search(corpus):
    X, groups, _ = corpus
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), PMLDA(engine="paper", n_sweeps=20, random_state=0))
        search = GridSearchCV(pipeline, {"pmlda__n_components": [1, 3]}, cv=GroupKFold(2))
        search.fit(X, groups=groups)
        assert search.best_params_ == {"pmlda__n_components": 3}
        assert len(search.best_estimator_[-1].documents_) == 8
        pipeline.fit(X, groups=groups)
        assert pipeline.transform(X, groups=groups).shape == (1200, 3)


def test_score_prefers_the_data_it_describes(corpus, fitted):
    X, _, _ = corpus
    fresh, _ = fitted.sample(500, random_state=3)
    assert fitted.score(fresh) > fitted.score(fresh + 5.0)
    np.testing.assert_allclose(fitted.score_samples(X).mean(), fitted.score(X))


def test_clones_pickles_and_repeats_agree(corpus, fitted):
    X, groups, _ = corpus
    again = clone(fitted).fit(X, groups=groups)
    np.testing.assert_array_equal(again.memberships_, fitted.memberships_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


@pytest.mark.parametrize("covariance", ["isotropic", "diagonal", "full", "topic-diagonal", "topic-full"])
@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e9)])
def test_the_unit_and_the_zero_of_features_do_not_matter(corpus, covariance, scale, offset):
    X, groups, _ = corpus
    settings = {"engine": "paper", "n_sweeps": 30, "random_state": 0, "covariance": covariance}
    plain = PMLDA(3, **settings).fit(X, groups=groups)
    moved = PMLDA(3, **settings).fit(X * scale + offset, groups=groups)
    np.testing.assert_allclose(moved.memberships_, plain.memberships_, atol=1e-3)
    np.testing.assert_allclose((moved.topic_means_ - offset) / scale, plain.topic_means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moved.transform(X * scale + offset), plain.transform(X), atol=1e-3)


def test_a_full_covariance_takes_features_of_very_different_scale(corpus):
    X, groups, _ = corpus
    model = PMLDA(3, covariance="full", engine="paper", n_sweeps=30, random_state=0).fit(
        X * [1e-9, 1.0, 1e9], groups=groups
    )
    assert np.isfinite(model.memberships_).all()
    assert np.isfinite(model.log_joint_).all()
    plain = PMLDA(3, covariance="full", engine="paper", n_sweeps=30, random_state=0).fit(X, groups=groups)
    np.testing.assert_allclose(model.memberships_, plain.memberships_, atol=1e-3)


@pytest.mark.parametrize(
    "X", [[[1, 2], [3, 4], [5, 7], [9, 1]], np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)]
)
def test_lists_integers_and_booleans_are_numbers(X):
    assert PMLDA(2, engine="paper", n_sweeps=4, random_state=0).fit(X).memberships_.dtype == np.float64


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 1e-3},
        {"alpha": 1e3},
        {"scale_rate": 1e-6},
        {"scale_rate": 1e6},
        {"fixed": {"scales": 1e-8}},
        {"fixed": {"scales": 1e8}},
    ],
)
def test_extreme_priors_give_finite_answers(corpus, settings):
    X, groups, _ = corpus
    model = PMLDA(3, engine="paper", n_sweeps=20, random_state=0, **settings).fit(X, groups=groups)
    assert np.isfinite(model.memberships_).all()
    assert np.isfinite(model.log_joint_).all()
    assert np.isfinite(model.transform(X)).all()


def test_documents_of_one_word():
    X, _, _ = random_corpus(GAUSSIAN, triangle(), [500])
    model = PMLDA(3, engine="paper", n_sweeps=20, random_state=0).fit(X, groups=np.arange(500))
    assert model.proportions_.shape == (500, 3)
    assert np.isfinite(model.memberships_).all()


def test_duplicate_and_constant_columns_suit_an_isotropic_covariance(corpus):
    X, groups, _ = corpus
    wide = np.hstack([X, X[:, :1], np.ones((len(X), 1))])
    assert np.isfinite(
        PMLDA(3, engine="paper", n_sweeps=20, random_state=0).fit(wide, groups=groups).memberships_
    ).all()


def test_noiseless_words_end_in_numbers():
    z = np.random.default_rng(0).dirichlet([1, 1, 1], size=200)
    model = PMLDA(3, engine="paper", n_sweeps=50, random_state=0).fit(z @ triangle().means)
    assert np.isfinite(model.memberships_).all()
    assert model.noise_variance_ > 0


def test_unseen_symbols_need_room(tmp_path):
    X = np.random.default_rng(0).integers(3, size=(50, 1))
    new = np.array([[4.0], [1.0]])
    with pytest.raises(ValueError, match="0 to 2 but got 4"):
        PMLDA(2, family="categorical", engine="paper", n_sweeps=4).fit(X).transform(new)
    roomy = PMLDA(2, family=Categorical(n_symbols=5), engine="paper", n_sweeps=4).fit(X)
    assert np.isfinite(roomy.transform(new)).all()


def test_the_model_of_a_single_document_is_bayesian_partial_membership():
    words, _, latents = simulate(np.random.default_rng(2), GAUSSIAN, triangle(), [800], scales=1.0)
    model = PMLDA(3, engine="paper", n_sweeps=300, random_state=0).fit(words)
    assert model.documents_.tolist() == [0]
    assert error(model.memberships_, model.topic_means_, latents.memberships) < 0.15


def test_expected_words_of_pure_memberships_are_the_topics(fitted):
    n_topics = len(fitted.topic_means_)
    np.testing.assert_allclose(fitted.inverse_transform(np.eye(n_topics)), fitted.topic_means_)
    half = np.zeros((1, n_topics))
    half[0, :2] = 0.5
    np.testing.assert_allclose(fitted.inverse_transform(half)[0], fitted.topic_means_[:2].mean(axis=0))
    with pytest.raises(PmldaError, match="memberships"):
        fitted.inverse_transform(np.ones((2, n_topics + 1)))
