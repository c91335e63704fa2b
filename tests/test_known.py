"""Topics that are known beforehand: all, or some beside others that are learnt."""

import numpy as np
import pytest
from sklearn.base import clone

from pmlda import PMLDA
from pmlda.errors import InputError
from pmlda.families import Gaussian, NormalMeans

CORNERS = np.array([[0.0, 0.0], [6.0, 1.0], [2.0, 5.0]])
NOTHING = np.full(2, np.nan)
SHORT = {"variational": 1000, "gibbs": 40, "paper": 40}
COVARIANCES = ["isotropic", "diagonal", "full", "topic-diagonal", "topic-full"]


@pytest.fixture(scope="module")
def corpus():
    """Words that mix three topics, none of them pure, in twelve documents; and the truth."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 40)
    z = np.concatenate([rng.dirichlet(4.0 * rng.dirichlet(np.ones(3)), size=40) for _ in range(12)])
    return z @ CORNERS + 0.2 * rng.normal(size=(480, 2)), groups, z


def options(engine, **others):
    return {"engine": engine, "n_sweeps": SHORT[engine], "n_jobs": 1, "random_state": 0, "n_refits": 3} | others


@pytest.mark.filterwarnings("ignore:.*(have not mixed|too few|still rising)")
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("engine", SHORT)
def test_an_exact_mean_stays_as_it_is_given_and_the_others_move(corpus, engine, covariance):
    X, groups, _ = corpus
    known = np.array([NOTHING, CORNERS[1] + 0.1, NOTHING])
    quick = options(engine, n_init=1, n_sweeps=40)
    model = PMLDA(3, known_topics=known, covariance=covariance, **quick).fit(X, groups=groups)
    np.testing.assert_array_equal(model.topic_means_[1], known[1])
    every = model.refits_.means if engine == "variational" else model.draws_.means
    assert (every[:, 1] == known[1]).all()
    if engine != "paper":  # which hardly ever accepts
        assert (every[:, 0].std(axis=0) > 0).all()
        assert (every[:, 2].std(axis=0) > 0).all()
    if engine == "variational":
        assert (np.diff(model.bound_) >= -1e-9 * np.abs(model.bound_[1:])).all()
    else:
        assert np.isfinite(model.log_joint_).all()


@pytest.mark.filterwarnings("ignore:.*(have not mixed|too few)")
@pytest.mark.parametrize("family", [{"covariance": "full"}, {"family": "poisson"}])
@pytest.mark.parametrize("engine", SHORT)
def test_all_topics_known_exactly_are_fixed_topics(corpus, engine, family):
    X, groups, _ = corpus
    X = np.rint(np.maximum(X, 0.0))
    known, fixed = (
        PMLDA(3, **given, **family, **options(engine)).fit(X, groups=groups)
        for given in ({"known_topics": CORNERS + 1.0}, {"fixed": {"topics": CORNERS + 1.0}})
    )
    for name in ("memberships_", "topic_means_", "proportions_", "scales_"):
        np.testing.assert_array_equal(getattr(known, name), getattr(fixed, name))
    np.testing.assert_array_equal(known.membership_std_, fixed.membership_std_)
    np.testing.assert_array_equal(
        known.transform(X[:80], groups=groups[:80]), fixed.transform(X[:80], groups=groups[:80])
    )
    assert known.verdict_ == fixed.verdict_


def test_known_topics_keep_their_number_and_others_are_matched(corpus):
    """The free topics start from the corners that are left, in refits too."""
    X, groups, z = corpus
    for number in range(3):
        model = PMLDA(3, known_topics={number: CORNERS[2]}, **options("variational")).fit(X, groups=groups)
        assert np.abs(model.refits_.means - model.topic_means_).max() < 1.5
        assert np.sqrt(((model.memberships_[:, number] - z[:, 2]) ** 2).mean()) < 0.08


def test_a_spread_lets_a_mean_move_as_far_as_the_words_and_the_prior_agree(corpus):
    X, groups, _ = corpus
    wrong = CORNERS[1] + [0.0, 0.8]
    found = [
        PMLDA(3, known_topics={1: wrong}, known_spread=spread, **options("variational", n_refits=0))
        .fit(X, groups=groups)
        .topic_means_[1]
        for spread in (1e-6, 0.03, 0.3, 1e6)
    ]
    away = [np.linalg.norm(each - wrong) for each in found]
    assert away[0] < 1e-5
    assert away[0] < away[1] < away[2]
    free = PMLDA(3, init=CORNERS, **options("variational", n_refits=0)).fit(X, groups=groups).topic_means_[1]
    assert np.linalg.norm(found[3] - free) < 0.1 * np.linalg.norm(wrong - free)


@pytest.mark.parametrize("engine", SHORT)
@pytest.mark.filterwarnings("ignore:.*(have not mixed|too few)")
def test_a_feature_may_be_known_exactly_and_another_roughly_within_bounds(corpus, engine):
    X, groups, _ = corpus
    bounds = (np.array([-0.5, -0.5]), np.array([6.0, 5.2]))
    settings = {"known_topics": {0: [0.0, 0.1]}, "known_spread": [[0.0, 0.3], [1.0, 1.0], [1.0, 1.0]]}
    model = PMLDA(3, topic_bounds=bounds, **settings, **options(engine)).fit(X, groups=groups)
    every = model.refits_.means if engine == "variational" else model.draws_.means
    assert (every[:, 0, 0] == 0.0).all()
    assert (every >= bounds[0]).all()
    assert (every <= bounds[1]).all()
    assert engine == "paper" or np.ptp(every[:, 0, 1]) > 0


def test_the_prior_of_a_known_topic_is_the_density_of_its_draws():
    known = np.array([[1.0, 2.0], NOTHING, [3.0, 4.0]])
    spread = [[0.5, 0.0], [1.0, 1.0], [2.0, 1.0]]
    means = NormalMeans(np.zeros(2), 4.0 * np.eye(2), np.zeros(2), np.eye(2), known=known, known_spread=spread)
    rng = np.random.default_rng(0)
    draws = np.array([means.draw(rng, 3) for _ in range(4000)])
    assert (draws[:, 0, 1] == 2.0).all()
    np.testing.assert_allclose(draws.mean(axis=0), [[1, 2], [0, 0], [3, 4]], atol=0.15)
    np.testing.assert_allclose(draws.std(axis=0), [[0.5, 0], [2, 2], [2, 1]], rtol=0.05)
    at = draws[0] + 0.1
    numeric = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[i] = 1e-5
        numeric[i] = (means.log_prior(at + step).sum() - means.log_prior(at - step).sum()) / 2e-5
    np.testing.assert_allclose(means.slopes(at), numeric, atol=1e-6)
    offset = np.array([5.0, -1.0])
    np.testing.assert_allclose(means.shifted(offset).log_prior(at + offset), means.log_prior(at))
    np.testing.assert_allclose(means.log_proposal(at)[[0, 2]], means.log_prior(at)[[0, 2]])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"known_topics": CORNERS[:2]}, "2 rows for 3 topics"),
        ({"known_topics": np.full((3, 2), np.nan)}, "all NaN"),
        ({"known_topics": [[1.0, np.nan], NOTHING, NOTHING]}, "some numbers and some NaN"),
        ({"known_topics": [[1.0, np.inf], NOTHING, NOTHING]}, "as large as inf"),
        ({"known_topics": {0: [1.0, 2.0, 3.0]}}, "3 features, but X has 2"),
        ({"known_topics": {3: [1.0, 2.0]}}, "topic 3, expected a number from 0 to 2"),
        ({"known_topics": {"water": [1.0, 2.0]}}, "topic 'water'"),
        ({"known_topics": {0: [1.0], 1: [1.0, 2.0]}}, "shapes"),
        ({"known_topics": {}}, "empty"),
        ({"known_topics": "water"}, "real numbers"),
        ({"known_topics": {0: [1.0, 2.0]}, "known_spread": -1.0}, "between -1 and -1"),
        ({"known_topics": {0: [1.0, 2.0]}, "known_spread": [1.0, 2.0]}, "known_spread has shape"),
        ({"known_topics": {0: [1.0, 9.0]}, "topic_bounds": (0.0, 6.5)}, "1 value.* outside the bounds"),
        ({"known_topics": {0: [1.0, 2.0]}, "fixed": {"topics": CORNERS}}, "both given"),
        ({"known_topics": {0: [1.0, 2.0]}, "family": "poisson"}, "'poisson' can only take all of them"),
    ],
)
def test_what_cannot_be_known_is_refused_in_one_line(corpus, given, said):
    X, groups, _ = corpus
    X = np.rint(np.maximum(X, 0.0)) if "family" in given else X
    with pytest.raises(InputError, match=said) as error:
        PMLDA(3, **given).fit(X, groups=groups)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("known", [{1: CORNERS[1]}, np.array([NOTHING, CORNERS[1], NOTHING])])
def test_known_topics_are_kept_in_model_files_and_checkpoints(corpus, known, tmp_path):
    X, groups, _ = corpus
    model = PMLDA(3, known_topics=known, known_spread=0.1, **options("variational"))
    clone(model).fit(X, groups=groups, checkpoint=tmp_path / "kept")
    model.fit(X, groups=groups, checkpoint=tmp_path / "kept")
    model.save(tmp_path / "model.pmlda")
    again = PMLDA.load(tmp_path / "model.pmlda")
    np.testing.assert_array_equal(again.family_.known_means, model.family_.known_means)
    np.testing.assert_array_equal(
        again.transform(X[:50], groups=groups[:50]), model.transform(X[:50], groups=groups[:50])
    )
    refitted = again.set_params(n_jobs=1).fit(X, groups=groups)
    np.testing.assert_array_equal(refitted.memberships_, model.memberships_)


def test_batches_keep_to_what_is_known(corpus):
    X, groups, _ = corpus
    for covariance in ("isotropic", "topic-diagonal"):
        model = PMLDA(3, known_topics={0: CORNERS[0]}, covariance=covariance, random_state=0, n_jobs=1)
        for half in (groups < 6, groups >= 6):
            model.partial_fit(X[half], groups=groups[half])
        np.testing.assert_array_equal(model.topic_means_[0], CORNERS[0])


def test_a_family_that_knows_topics_says_so_too(corpus):
    X, groups, _ = corpus
    family = Gaussian(means=NormalMeans(known=np.array([NOTHING, CORNERS[1]]), known_spread=0.0))
    with pytest.raises(InputError, match="knows of 2 topics, but n_components=3"):
        PMLDA(3, family=family).fit(X, groups=groups)
    model = PMLDA(2, family=family, **options("variational")).fit(X, groups=groups)
    np.testing.assert_array_equal(model.topic_means_[1], CORNERS[1])


def test_labels_number_the_free_topics_and_known_ones_stay(corpus):
    """Labels of topic 2 say nothing of what is known of topic 0, and neither is renumbered."""
    X, groups, z = corpus
    y = np.where(z[:, 1] > 0.9, 2, -1)
    model = PMLDA(3, known_topics={0: CORNERS[2]}, **options("variational")).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.topic_means_[0], CORNERS[2])
    order = [2, 0, 1]  # topic k of the model is that of the truth
    assert np.sqrt(((model.memberships_ - z[:, order]) ** 2).mean()) < 0.08
