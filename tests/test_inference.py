"""What users get from the fast engines: memberships and their uncertainty, chains that go on, streams, odd corpora."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from pmlda import PMLDA
from pmlda.engines.collect import match_topics
from pmlda.families import Gaussian
from pmlda.model import simulate
from pmlda.types import Topics
from tests.problems import random_corpus, triangle


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(Gaussian(), triangle(), [60] * 12, seed=4)


@pytest.fixture(scope="module")
def fast(corpus):
    X, groups, _ = corpus
    return PMLDA(3, random_state=0).fit(X, groups=groups)


@pytest.fixture(scope="module")
def exact(corpus):
    X, groups, _ = corpus
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PMLDA(3, engine="gibbs", n_sweeps=500, random_state=0).fit(X, groups=groups)


def in_order(model, values):
    """Columns in the order of the true topics."""
    return values[:, match_topics(triangle(), Topics(model.topic_means_, np.empty(0)))]


def error(model, truth):
    return np.sqrt(((in_order(model, model.memberships_) - truth) ** 2).mean())


def test_both_engines_find_the_memberships(corpus, fast, exact):
    truth = corpus[2].memberships
    assert error(fast, truth) < 0.085
    assert error(exact, truth) < 0.083
    assert np.abs(in_order(exact, exact.topic_means_.T).T - triangle().means).max() < 6.0  # columns are features
    np.testing.assert_allclose(exact.noise_variance_, 1.0, atol=0.15)
    np.testing.assert_allclose(fast.noise_variance_, 1.0, atol=0.15)


def test_engines_agree_within_monte_carlo_error_and_the_documented_bias(fast, exact):
    """Memberships differ by 0.02 on average, hardly anywhere by more than 0.15; means by half a deviation."""
    difference = in_order(fast, fast.memberships_) - in_order(exact, exact.memberships_)
    monte_carlo = exact.diagnose().error["memberships"].mean()
    assert np.abs(difference).mean() < 0.02 + monte_carlo
    assert np.quantile(np.abs(difference), 0.999) < 0.15
    order = match_topics(Topics(fast.topic_means_, np.empty(0)), Topics(exact.topic_means_, np.empty(0)))
    assert np.abs(fast.topic_means_ - exact.topic_means_[order]).max() < 0.5


def test_intervals_hold_what_they_promise(corpus, fast, exact):
    """720 words of 3 topics: a share of 90 % has a standard error of about 1 %, words of a document being alike."""
    truth = corpus[2].memberships
    shares = {}
    for name, model in (("fast", fast), ("exact", exact)):
        low, high = (in_order(model, end) for end in model.membership_interval(0.9))
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        shares[name] = ((low <= truth) & (truth <= high)).mean()
    assert 0.86 < shares["exact"] < 0.94
    assert 0.85 < shares["fast"] < 0.94
    assert fast.membership_std_.shape == exact.membership_std_.shape == truth.shape


def test_engines_are_equally_sure_of_memberships(fast, exact):
    """Engine variational takes topics and documents as known, which narrows it a little."""
    of_fast, of_exact = (in_order(model, model.membership_std_) for model in (fast, exact))
    size = np.sqrt((of_exact**2).mean())
    assert 0.85 < np.sqrt((of_fast**2).mean()) / size < 1.1
    assert np.sqrt(((of_fast - of_exact) ** 2).mean()) < 0.35 * size


def test_wider_levels_give_wider_intervals(fast):
    narrow, wide = fast.membership_interval(0.5), fast.membership_interval(0.95)
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all()
    for level in (0, 1, 90, "much"):
        with pytest.raises(ValueError, match="probability between 0 and 1"):
            fast.membership_interval(level)


def test_extending_is_as_if_the_run_had_been_longer(corpus):
    X, groups, _ = corpus
    settings = {"n_components": 3, "engine": "gibbs", "random_state": 0, "burn_in": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        at_once = PMLDA(n_sweeps=40, **settings).fit(X, groups=groups)
        steps = PMLDA(n_sweeps=25, **settings).fit(X, groups=groups).fit(X, groups=groups, extend=15)
    np.testing.assert_array_equal(steps.memberships_, at_once.memberships_)
    np.testing.assert_array_equal(steps.draws_.means, at_once.draws_.means)
    assert steps.n_iter_ == at_once.n_iter_ == 40
    assert steps.draws_.by_chain()["scales"].shape == (2, 30, 12)


def test_only_chains_of_the_same_words_can_be_extended(corpus, fast):
    X, groups, _ = corpus
    with pytest.raises(ValueError, match="no chains to extend"):
        PMLDA(3, engine="gibbs").fit(X, groups=groups, extend=10)
    with pytest.raises(ValueError, match="no chains to extend"):
        fast.fit(X, groups=groups, extend=10)
    model = PMLDA(3, engine="paper", n_sweeps=8, random_state=0).fit(X, groups=groups)
    with pytest.raises(ValueError, match="not those of the last fit"):
        model.fit(X + 1.0, groups=groups, extend=10)
    assert model.fit(X, groups=groups, extend=3).n_iter_ == 11


def test_a_short_run_is_told_to_go_on(corpus):
    X, groups, _ = corpus
    with pytest.warns(ConvergenceWarning, match=r"have not mixed.* Extend by \d+ draws with fit\(\.\.\., extend="):
        model = PMLDA(3, engine="gibbs", n_sweeps=16, random_state=0).fit(X, groups=groups)
    assert model.verdict_.state == "not_converged"


def test_every_engine_says_whether_it_converged(corpus, fast, exact):
    X, groups, _ = corpus
    assert fast.verdict_.state == "converged"
    assert exact.verdict_.state in {"converged", "nearly", "not_converged"}
    few = PMLDA(3, engine="paper", n_sweeps=6, random_state=0).fit(X, groups=groups)
    assert few.verdict_.state == "too_short"
    stream = PMLDA(3, random_state=0).partial_fit(X, groups=groups)
    assert stream.verdict_.state == "unknown"
    assert few.set_params(engine="variational", n_sweeps=1000).fit(X, groups=groups).verdict_.state == "converged"


def test_a_fit_of_which_nothing_is_kept_that_could_be_judged_ends_well(corpus):
    X, groups, _ = corpus
    fixed = {"topics": triangle().means, "covariance": 1.0}
    model = PMLDA(3, engine="gibbs", n_sweeps=12, fixed=fixed, draws_memory=0, random_state=0).fit(X, groups=groups)
    assert model.verdict_.state == "unknown"
    assert np.isfinite(model.memberships_).all()


def test_diagnostics_have_maps_and_reach_arviz(corpus, exact):
    diagnosis = exact.diagnose()
    assert diagnosis.rhat["memberships"].shape == exact.memberships_.shape
    assert np.median(diagnosis.rhat["memberships"]) < 1.05
    assert (diagnosis.error["memberships"] < 0.2).all()
    tree = exact.to_arviz()
    assert dict(tree["posterior"].sizes) == {
        "chain": 2,
        "draw": 250,
        "topic": 3,
        "feature": 3,
        "document": 12,
        "word": 720,
    }


def test_only_samplers_have_draws(fast):
    for use in (fast.diagnose, fast.to_arviz):
        with pytest.raises(ValueError, match="engine='gibbs'"):
            use()


def test_one_and_two_threads_give_the_same_bits(corpus):
    X, groups, _ = corpus
    for engine, n_sweeps in (("variational", 1000), ("gibbs", 12)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models = [
                PMLDA(3, engine=engine, n_sweeps=n_sweeps, random_state=1, n_jobs=n).fit(X, groups=groups)
                for n in (1, 2)
            ]
        np.testing.assert_array_equal(models[0].memberships_, models[1].memberships_)
        np.testing.assert_array_equal(*(model.transform(X[:90], groups=groups[:90]) for model in models))


def test_grouped_rows_are_transformed_like_training_rows(corpus, fast):
    X, groups, _ = corpus
    again = fast.transform(X, groups=groups)
    assert np.abs(again - fast.memberships_).mean() < 0.01
    doubt = fast.predict_proba(X, groups=groups)
    np.testing.assert_allclose(doubt.sum(axis=1), 1.0)
    assert (doubt.argmax(axis=1) == fast.labels_).mean() > 0.95


def test_the_best_start_wins(corpus):
    X, groups, _ = corpus
    one, many = (PMLDA(3, n_init=n, random_state=3).fit(X, groups=groups) for n in (1, 6))
    assert many.bound_[-1] >= one.bound_[-1] - 1.0


def test_too_few_sweeps_are_told(corpus):
    X, groups, _ = corpus
    with pytest.warns(ConvergenceWarning, match="still rising after 3 sweeps"):
        PMLDA(3, n_sweeps=3, random_state=0).fit(X, groups=groups)


def test_a_bar_is_shown_on_request(corpus, capsys, monkeypatch):
    X, groups, _ = corpus
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if there were a terminal
    PMLDA(3, random_state=0, verbose=1).fit(X, groups=groups)
    shown = capsys.readouterr().out
    assert "topics" in shown
    PMLDA(3, random_state=0).fit(X, groups=groups)
    assert capsys.readouterr().out == ""


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_batches_refine_topics(tmp_path):
    rng = np.random.default_rng(8)
    model = PMLDA(3, random_state=0)
    errors, everything = [], []

    def worst_mean(one):
        order = match_topics(triangle(), Topics(one.topic_means_, np.empty(0)))
        return np.abs(one.topic_means_[order] - triangle().means).max()

    for i, n_documents in enumerate([2] + [15] * 8):
        X, groups, latents = simulate(rng, Gaussian(), triangle(), [80] * n_documents)
        everything.append((X, groups + 100 * i))
        model.partial_fit(X, groups=groups)
        errors.append(worst_mean(model))
        if i == 3:  # a model file knows what it has seen
            model.save(tmp_path / "m")
            model = PMLDA.load(tmp_path / "m")
    at_once = PMLDA(3, random_state=0).fit(
        np.concatenate([words for words, _ in everything]), groups=np.concatenate([groups for _, groups in everything])
    )
    assert errors[-1] < 3.0 * worst_mean(at_once)
    assert errors[-1] < errors[0]
    assert model.n_iter_ == 9
    assert len(model.proportions_) == len(model.documents_) == 2 + 15 * 8
    assert error(model, latents.memberships) < 0.1
    assert model.transform(X[:3]).shape == (3, 3)


def test_batches_work_for_other_families():
    rng = np.random.default_rng(1)
    model = PMLDA(2, family="poisson", random_state=0)
    for _ in range(4):
        z = rng.dirichlet([0.5, 0.5], size=300)
        X = rng.poisson(np.exp(z @ np.log([[1.0, 12.0], [15.0, 2.0]])))
        model.partial_fit(X, groups=np.repeat(range(3), 100))
    found = model.topic_means_[np.argsort(model.topic_means_[:, 0])]
    np.testing.assert_allclose(found, [[1.0, 12.0], [15.0, 2.0]], rtol=0.3)


def test_batches_are_checked(corpus):
    X, groups, _ = corpus
    assert not hasattr(PMLDA(3, engine="gibbs"), "partial_fit")
    model = PMLDA(3, random_state=0).partial_fit(X, groups=groups)
    before = model.topic_means_.copy()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2])
    np.testing.assert_array_equal(model.topic_means_, before)


# ── odd corpora ──────────────────────────────────────────────────────────────────────────────────────────────────
def sound(model):
    """Numbers everywhere, memberships on the simplex."""
    spread = getattr(model, "topic_covariances_", getattr(model, "noise_variance_", 0.0))
    for values in (model.memberships_, model.topic_means_, model.proportions_, model.scales_, spread):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, rtol=1e-6)
    assert (model.scales_ > 0).all()
    return model


def quietly(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*arguments, **options)


ENGINES = [{"engine": "variational"}, {"engine": "gibbs", "n_sweeps": 30}]


@pytest.mark.parametrize("settings", ENGINES, ids=lambda s: s["engine"])
class TestOddCorpora:
    def test_more_topics_than_there_are(self, settings):
        X, groups, _ = random_corpus(Gaussian(), Topics(triangle().means[:2], np.array(1.0)), [80] * 4)
        sound(quietly(PMLDA(6, random_state=0, **settings), X, groups=groups))

    def test_equal_topics(self, settings, corpus):
        X, groups, _ = corpus
        sound(quietly(PMLDA(3, init=np.zeros((3, 3)), random_state=0, **settings), X, groups=groups))

    def test_topics_on_a_line(self, settings):
        rng = np.random.default_rng(0)
        z = rng.dirichlet([0.4] * 3, size=500)
        X = z @ [[0.0, 0.0], [6.0, 3.0], [12.0, 6.0]] + rng.normal(size=(500, 2))
        sound(quietly(PMLDA(3, random_state=0, **settings), X, groups=np.repeat(range(5), 100)))

    def test_words_without_noise(self, settings):
        z = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
        model = sound(quietly(PMLDA(3, random_state=0, **settings), z @ triangle().means))
        assert model.noise_variance_ > 0

    def test_one_word_for_each_document(self, settings):
        X, _, _ = random_corpus(Gaussian(), triangle(), [300])
        sound(quietly(PMLDA(3, random_state=0, **settings), X, groups=np.arange(300)))

    def test_many_small_documents(self, settings):
        n = 10_000 if settings["engine"] == "variational" else 500
        X, groups, latents = random_corpus(Gaussian(), triangle(), [5] * n)
        model = sound(quietly(PMLDA(3, random_state=0, **settings), X, groups=groups))
        assert error(model, latents.memberships) < 0.15

    def test_features_of_very_different_scale(self, settings, corpus):
        X, groups, latents = corpus
        model = PMLDA(3, covariance="full", random_state=0, **settings)
        sound(quietly(model, X * [1e-6, 1.0, 1e6], groups=groups))
        order = match_topics(triangle(), Topics(model.topic_means_ / [1e-6, 1.0, 1e6], np.empty(0)))
        assert np.sqrt(((model.memberships_[:, order] - latents.memberships) ** 2).mean()) < 0.15


def test_a_single_large_document():
    options = {"scales": np.array([1.5]), "proportions": np.full((1, 3), 1 / 3)}
    X, _, latents = random_corpus(Gaussian(), triangle(), [300_000], **options)
    model = sound(PMLDA(3, random_state=0).fit(X))
    assert error(model, latents.memberships) < 0.1
    assert 1.5 < model.scales_[0] < 2.5  # too large, as documented
