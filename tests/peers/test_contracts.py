"""Every peer keeps the promises of the estimator's face, whatever it is inside."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from pmlda.peers import PEERS, find_peer, make_peer
from pmlda.peers.base import STARTING_ROWS, document_values

NAMES = list(PEERS)
QUICK = {"bfc": {"n_sweeps": 40}, "bpm": {"n_sweeps": 40}, "lda": {"dictionary": 20}}
CORNERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
# The others average over what they do not know of their topics, or over a document that is not given again.
SAME_AGAIN = [name for name in NAMES if name not in ("bfc", "bpm")]


def quick(name, n_topics=3, **options):
    return make_peer(name, n_topics, **(QUICK.get(name, {}) | options))


def fitted(model, X, **given):
    """Fits as short as these may not settle, and say so; that is not what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **given)


@pytest.fixture(scope="module")
def blobs():
    """Words on and between three corners, in six documents that mix them unlike each other; and their documents."""
    rng = np.random.default_rng(3)
    proportions = rng.dirichlet([0.5, 0.5, 0.5], size=6)
    weights = np.concatenate([rng.dirichlet(pi + 0.02, size=40) for pi in proportions])
    return weights @ CORNERS + 0.4 * rng.normal(size=(240, 2)), np.repeat(np.arange(6), 40)


@pytest.mark.parametrize("name", NAMES)
def test_memberships_are_shares_of_every_row(name, blobs):
    X, groups = blobs
    model = fitted(quick(name), X, groups=groups)
    assert model.memberships_.shape == model.membership_std_.shape == (240, 3)
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, atol=1e-9)
    assert (model.memberships_ >= 0).all()
    assert (model.membership_std_ >= 0).all()
    np.testing.assert_array_equal(model.labels_, model.memberships_.argmax(axis=1))
    assert model.topic_means_.shape == (3, 2)
    assert np.isfinite(model.topic_means_).all()
    assert model.proportions_.shape == (6, 3)
    np.testing.assert_allclose(model.proportions_.sum(axis=1), 1.0, atol=1e-9)
    assert model.scales_.shape == model.documents_.shape == (6,)
    assert (model.scales_ > 0).all()
    assert model.verdict_.state in {"converged", "not_converged"}
    assert str(model.verdict_).endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_new_rows_are_weighed_with_the_topics_learnt(name, blobs):
    X, groups = blobs
    model = fitted(quick(name), X, groups=groups)
    found = model.transform(X[:80], groups=groups[:80])
    assert found.shape == (80, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X[:80], groups=groups[:80]), found.argmax(axis=1))
    # The documents are whole, so that LDA sees them as it did; others must come near.
    error = np.abs(found - model.memberships_[:80]).mean()
    assert error < (1e-12 if name in SAME_AGAIN else 0.05)


@pytest.mark.parametrize("name", SAME_AGAIN)
def test_training_rows_are_weighed_as_they_were(name, blobs):
    X, groups = blobs
    model = fitted(quick(name), X, groups=groups)
    np.testing.assert_array_equal(model.transform(X, groups=groups), model.memberships_)


@pytest.mark.parametrize("name", NAMES)
def test_topics_are_where_the_words_are(name, blobs):
    """Each true corner is nearer to its own topic than to any other: labels are at most permuted."""
    X, groups = blobs
    means = fitted(quick(name), X, groups=groups).topic_means_
    nearest = np.linalg.norm(CORNERS[:, None] - means, axis=2).argmin(axis=1)
    assert sorted(nearest.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_bits(name, blobs):
    X, groups = blobs
    first, second = (fitted(quick(name, random_state=5), X, groups=groups) for _ in range(2))
    np.testing.assert_array_equal(first.memberships_, second.memberships_)
    np.testing.assert_array_equal(first.topic_means_, second.topic_means_)
    np.testing.assert_array_equal(
        first.transform(X[::3], groups=groups[::3]), second.transform(X[::3], groups=groups[::3])
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_topic_has_everything(name, blobs):
    X, _ = blobs
    model = fitted(quick(name, 1), X)
    np.testing.assert_array_equal(model.memberships_, np.ones((240, 1)))
    np.testing.assert_array_equal(model.transform(X[:5]), np.ones((5, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_comes_back(name, blobs):
    X, groups = blobs
    model = fitted(quick(name), X.astype(np.float32), groups=groups)
    assert model.memberships_.dtype == model.transform(X[:9].astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("bpm", "bfc")])
@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_the_unit_of_the_features_does_not_matter(name, size, blobs):
    """But for the numbers that topics have: of starts that end in the same place, rounding decides which wins."""
    X, groups = blobs
    model, other = (fitted(quick(name), each, groups=groups) for each in (X, size * X))
    here, there = (np.argsort(each.topic_means_[:, 0]) for each in (model, other))
    np.testing.assert_allclose(other.memberships_[:, there], model.memberships_[:, here], atol=1e-6)
    np.testing.assert_allclose(other.topic_means_[there] / size, model.topic_means_[here], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_more_topics_than_different_rows_are_refused(name):
    with pytest.raises(ValueError, match=r"only 2 distinct row"):
        quick(name, 3).fit(np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0))


@pytest.mark.parametrize("name", NAMES)
def test_as_many_topics_as_different_rows_are_not(name):
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)
    model = fitted(quick(name, 2), X, groups=np.repeat([0, 1], 10))
    assert np.isfinite(model.memberships_).all()
    assert model.labels_[0] != model.labels_[-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda X: np.where(X[0, 0] == X, np.nan, X), "NaN"),
        (lambda X: np.where(X[0, 0] == X, np.inf, X), "infinity"),
        (lambda X: X[:, 0], "1D array"),
        (lambda X: X[:1], "minimum of 2"),
        (lambda X: 1e200 * X, "Rescale"),
    ],
)
def test_rows_that_are_no_words_are_refused(name, change, says, blobs):
    with pytest.raises(ValueError, match=says):
        quick(name).fit(change(blobs[0]))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_use_is_named(name, blobs):
    X, groups = blobs
    with pytest.raises(NotFittedError):
        quick(name).transform(X)
    with pytest.raises(ValueError, match="n_components=0"):
        quick(name, 0).fit(X)
    with pytest.raises(ValueError, match="239"):
        quick(name).fit(X, groups=groups[1:])
    with pytest.raises(ValueError, match="expecting 2 features"):
        fitted(quick(name), X).transform(X[:, :1])


@pytest.mark.parametrize("name", NAMES)
def test_a_model_survives_its_content(name, blobs):
    X, groups = blobs
    model = fitted(quick(name), X, groups=groups)
    content = model.to_content(rows=False)
    assert content["model"] == name
    again = find_peer(name).from_content(content)
    np.testing.assert_array_equal(again.transform(X, groups=groups), model.transform(X, groups=groups))
    assert again.verdict_ == model.verdict_


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_kept_as_given(name):
    model = clone(make_peer(name, 4, random_state=7))
    assert (model.n_components, model.random_state) == (4, 7)


@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_agrees(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        few = {"n_sweeps": 8} if name in ("bfc", "bpm") else {}
        results = check_estimator(quick(name, 2, **few), on_fail=None, on_skip=None)
    assert [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"] == []


def test_names_that_are_misspelt_suggest_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'fcm'"):
        make_peer("fcmm", 3)
    with pytest.raises(ValueError, match="There are: lda, fcm"):
        make_peer("spectral clustering", 3)
    with pytest.raises(ValueError, match="Did you mean 'fuzzifier'"):
        make_peer("fcm", 3, fuzzyfier=2.0)


@pytest.mark.parametrize("name", ["fcm", "kmeans", "gmm"])
def test_starts_from_a_sample_end_where_starts_from_all_rows_do(name, monkeypatch):
    """Well-separated blobs have one best answer, so that how it was found must not show."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) + 9.0 * np.eye(3)[rng.integers(3, size=3000)][:, :2]
    assert len(X) < STARTING_ROWS
    whole = make_peer(name, 3, tol=1e-8).fit(X)
    monkeypatch.setattr("pmlda.peers.base.STARTING_ROWS", 300)
    sampled = make_peer(name, 3, tol=1e-8).fit(X)
    order = np.linalg.norm(whole.topic_means_[:, None] - sampled.topic_means_, axis=2).argmin(axis=1)
    np.testing.assert_allclose(sampled.topic_means_[order], whole.topic_means_, atol=1e-3)


def test_a_documents_scale_is_that_of_the_dirichlet_that_made_its_memberships():
    """20,000 draws: the estimate's standard error is about 1.5 %; six of them."""
    rng = np.random.default_rng(1)
    z = np.concatenate([rng.dirichlet(s * np.array([0.2, 0.3, 0.5]), 20_000) for s in (0.5, 8.0)])
    pi, scales = document_values(z, np.repeat([0, 1], 20_000), 2)
    np.testing.assert_allclose(scales, [0.5, 8.0], rtol=0.09)
    np.testing.assert_allclose(pi, [[0.2, 0.3, 0.5]] * 2, atol=0.02)
