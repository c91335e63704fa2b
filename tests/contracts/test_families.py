"""What every family must keep: densities as in SciPy, prior, sums without visits, conditional distributions."""

import numpy as np
import pytest
from scipy import stats

from pmlda.families import Gamma, TopicDiagonalGaussian, find_family
from pmlda.families.base import Family
from pmlda.model import draw_words, log_words
from pmlda.types import Statistics, Topics
from tests.problems import PROBLEMS, draw_all


@pytest.fixture(params=PROBLEMS)
def case(request):
    problem = PROBLEMS[request.param]
    topics, documents, latents = draw_all(np.random.default_rng(7), problem._replace(sizes=(6, 5)))
    return request.param, problem.family, topics, documents, latents


def word_density(name, family, topics, z):
    """SciPy's log density of one word with memberships z, from usual parameters alone."""
    m, v = topics
    if name.startswith("gaussian per topic"):
        precisions = np.array([np.linalg.inv(np.diag(c) if c.ndim == 1 else c) for c in v])
        covariance = np.linalg.inv(np.tensordot(z, precisions, 1))
        mean = covariance @ sum(z[k] * precisions[k] @ m[k] for k in range(len(z)))
        return stats.multivariate_normal(mean, covariance).logpdf
    if name.startswith("gaussian"):
        covariance = v * np.eye(2) if v.ndim == 0 else np.diag(v) if v.ndim == 1 else v
        return stats.multivariate_normal(z @ m, covariance).logpdf
    if name == "additive poisson":
        return lambda x: stats.poisson(z @ m).logpmf(x).sum()
    if name == "poisson":
        return lambda x: stats.poisson(np.exp(z @ np.log(m))).logpmf(x).sum()
    if name == "bernoulli":
        odds = np.exp(z @ np.log(m / (1 - m)))
        return lambda x: stats.bernoulli(odds / (1 + odds)).logpmf(x).sum()
    if name == "gamma":
        rate = z @ (family.shape / m)
        return lambda x: stats.gamma(family.shape, scale=1 / rate).logpdf(x).sum()
    weights = np.exp(z @ np.log(m))
    return lambda x: np.log(weights / weights.sum())[int(x[0])]


def test_words_have_the_density_of_their_mixed_parameters(case):
    name, family, topics, documents, latents = case
    expected = [
        word_density(name, family, topics, z)(x) for z, x in zip(latents.memberships, documents.words, strict=True)
    ]
    np.testing.assert_allclose(log_words(documents.words, latents.memberships, topics, family), expected, rtol=1e-9)


def test_scores_mix_to_the_same_density(case):
    """z·ℓ − A + log h, the identity that engines use."""
    _, family, topics, documents, latents = case
    fit = (latents.memberships * family.scores(documents.words, topics)).sum(axis=1)
    partition = family.partitions(documents.words, latents.memberships @ family.natural(topics), topics)
    np.testing.assert_allclose(
        fit - partition + family.log_base(documents.words, topics),
        log_words(documents.words, latents.memberships, topics, family),
    )


def test_sums_over_words_need_no_visit(case):
    _, family, topics, documents, latents = case
    z, x = latents.memberships, documents.words
    weighted = family.weighted_statistic(z, x)
    np.testing.assert_allclose(weighted, z.T @ family.statistic(x))
    np.testing.assert_allclose((weighted * family.natural(topics)).sum(), (z * family.scores(x, topics)).sum())
    total = family.log_base_total(family.summarise(x), len(x), topics)
    np.testing.assert_allclose(total, family.log_base(x, topics).sum())
    partition = family.partition_from_gram(topics, z.T @ z)
    if partition is not None:
        np.testing.assert_allclose(partition, family.log_partition(z @ family.natural(topics), topics).sum())


def test_slopes_along_free_coordinates_are_those_of_differences(case):
    """Differences with steps of 1e-5 are right to about 1e-9 of the largest slope."""
    _, family, topics, _, _ = case
    if family.conjugate is not None:
        pytest.skip("the best topics of conjugate families are known without slopes")
    along_eta = np.random.default_rng(3).normal(size=family.natural(topics).shape)
    assert family.slopes(topics, along_eta) is not None
    slopes = family.free_slopes(topics, along_eta)
    expected = Family._slopes_by_differences(family, topics, along_eta)
    for found, reference in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-6, atol=1e-7 * np.abs(reference).max(initial=0.0))


def test_the_gain_of_one_new_mean_needs_no_visit(case):
    _, family, topics, documents, latents = case
    candidate = family.draw_topics(np.random.default_rng(1), len(topics.means)).means
    z, x = latents.memberships, documents.words
    gains = family.gains_by_mean(topics, candidate, Statistics(z.T @ z, family.weighted_statistic(z, x)))
    if gains is not None:
        now = log_words(x, z, topics, family).sum()
        for k in range(len(candidate)):
            means = topics.means.copy()
            means[k] = candidate[k]
            np.testing.assert_allclose(gains[k], log_words(x, z, Topics(means, topics.spread), family).sum() - now)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if PROBLEMS[name].family.quadratic])
def test_where_the_partition_is_quadratic_its_matrix_is_the_table(name):
    family = PROBLEMS[name].family
    topics, _, latents = draw_all(np.random.default_rng(7), PROBLEMS[name])
    z = latents.memberships
    squares = 0.5 * np.einsum("nj,jk,nk->n", z, family.table(topics), z)
    np.testing.assert_allclose(squares, family.log_partition(z @ family.natural(topics), topics))


@pytest.mark.parametrize("name", [name for name in PROBLEMS if PROBLEMS[name].family.quadratic])
def test_the_modes_of_conjugate_topics_are_where_the_joint_density_is_largest(name):
    """No step of a thousandth along any coordinate leads up from either mode."""
    family = PROBLEMS[name].family.conjugate
    topics, documents, latents = draw_all(np.random.default_rng(7), PROBLEMS[name]._replace(sizes=(60, 50)))
    z, x = latents.memberships, documents.words
    sums = Statistics(z.T @ z, family.weighted_statistic(z, x))
    best = topics._replace(means=family.given_means(topics, sums).mode)
    best = best._replace(spread=np.asarray(family.given_spread(best.means, sums, family.summarise(x), len(x)).mode))
    again = best._replace(means=family.given_means(best, sums).mode)

    def log_joint(each):
        return log_words(x, z, each, family).sum() + family.log_prior(each).total

    for start, field in ((again, "means"), (best, "spread")):
        value = getattr(start, field)
        for at in np.ndindex(value.shape):
            for step in (-1e-3, 1e-3):
                change = np.zeros(value.shape)
                change[at] = step
                if field == "spread" and value.ndim == 2:
                    change[at[::-1]] = step
                assert log_joint(start._replace(**{field: value + change})) <= log_joint(start)


def test_means_start_among_points_as_wide_as_they_are(case):
    _, family, topics, documents, _ = case
    points = family.starting_points(np.random.default_rng(0), documents, 6)
    assert points.shape[1] == family.n_values(documents.words.shape[1]) == topics.means.shape[1]
    assert len(points) <= 6
    if family.means_among_words:
        assert {tuple(point) for point in points} <= {tuple(word) for word in documents.words}
    else:
        np.testing.assert_allclose(points.sum(axis=1), 1.0)


def test_prior_draws_follow_the_prior_density(case):
    """If x ~ p then E[p(g(x)) |g'(x)| / p(x)] = 1 for any bijection g of the domain; here one close to the identity."""
    name, family, _, _, _ = case
    rng = np.random.default_rng(11)
    n = 4000
    draws = [family.draw_topics(rng, 1) for _ in range(n)]
    ratios = []
    for topics in draws:
        moved, log_jacobian = shift(name, topics)
        ratios.append(np.exp(family.log_prior(moved).total - family.log_prior(topics).total + log_jacobian))
    error = np.std(ratios) / np.sqrt(n)
    # One number for each of 10 families at 5 standard errors: false alarm 6e-6.
    assert abs(np.mean(ratios) - 1.0) < 5 * error
    assert error < 0.05


def shift(name, topics):
    """A bijection of the means' domain close to the identity, and the log of its Jacobian."""
    m = topics.means
    if name == "gaussian bounded":
        return bend(topics)
    if name.startswith("gaussian"):
        return topics._replace(means=0.9 * m + 0.1), m.size * np.log(0.9)
    if name in {"poisson", "additive poisson", "gamma"}:
        return topics._replace(means=m * 1.1), m.size * np.log(1.1)
    if name == "bernoulli":
        moved = m**1.1
        return topics._replace(means=moved), (np.log(1.1) + 0.1 * np.log(m)).sum()
    # A tilt of the simplex, θ_v ∝ θ_v c_v, has Jacobian Π c_v / (Σ θ_v c_v)^V.
    c = np.linspace(0.9, 1.1, m.shape[1])
    total = (m * c).sum(axis=1, keepdims=True)
    return topics._replace(means=m * c / total), float(np.log(c).sum() * len(m) - m.shape[1] * np.log(total).sum())


def bend(topics):
    """The first feature bent within its bounds, t → t + 0.2 t (1 − t) of the way from low to high."""
    low, high = -0.6, 0.5
    t = (topics.means[:, 0] - low) / (high - low)
    moved = np.column_stack([low + (high - low) * (t + 0.2 * t * (1.0 - t)), topics.means[:, 1]])
    return topics._replace(means=moved), float(np.log(1.2 - 0.4 * t).sum())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gaussian isotropic", lambda t: stats.uniform(0, 4).logpdf(t.spread)),
        ("gaussian diagonal", lambda t: stats.uniform(0, [4, 2]).logpdf(t.spread).sum()),
        ("gaussian full", lambda t: stats.invwishart(5, [[2, 0.5], [0.5, 1]]).logpdf(t.spread)),
        ("gaussian per topic, diagonal", lambda t: stats.invgamma(3, scale=[2, 1]).logpdf(t.spread).sum()),
        (
            "gaussian per topic, full",
            lambda t: sum(stats.invwishart(6, [[2, 0.5], [0.5, 1]]).logpdf(c) for c in t.spread),
        ),
        ("poisson", lambda t: stats.gamma(2, scale=1 / np.array([0.5, 1])).logpdf(t.means).sum()),
        ("bernoulli", lambda t: stats.beta(1.5, 1).logpdf(t.means).sum()),
        ("gamma", lambda t: stats.invgamma(3, scale=2 * np.array([2, 1])).logpdf(t.means).sum()),
        ("categorical", lambda t: sum(stats.dirichlet([0.8] * 4).logpdf(row) for row in t.means)),
    ],
)
def test_prior_density_is_scipys(name, expected):
    family = PROBLEMS[name].family
    topics = family.draw_topics(np.random.default_rng(2), 2)
    value = family.log_prior(topics).total
    if name.startswith("gaussian"):
        value -= stats.multivariate_normal(np.zeros(2), 4 * np.eye(2)).logpdf(topics.means).sum()
    assert value == pytest.approx(float(expected(topics)), rel=1e-9)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if PROBLEMS[name].family.has_location])
def test_shifted_families_move_with_their_words(name):
    topics, documents, latents = draw_all(np.random.default_rng(7), PROBLEMS[name])
    family = PROBLEMS[name].family.informed_by(documents.words)
    offset = np.array([3.0, -70.0])
    moved = family.shifted(offset)
    elsewhere = Topics(topics.means + offset, topics.spread)
    np.testing.assert_allclose(moved.log_prior(elsewhere).total, family.log_prior(topics).total)
    np.testing.assert_allclose(moved.log_proposal(elsewhere).total, family.log_proposal(topics).total)
    np.testing.assert_allclose(
        log_words(documents.words + offset, latents.memberships, elsewhere, moved),
        log_words(documents.words, latents.memberships, topics, family),
        rtol=1e-7,
    )


def test_simulated_words_have_the_mean_of_their_topic(case):
    """Pure words of topic 0 average to its mean: 5 standard errors, at most 4 numbers for 10 families: 2e-5."""
    name, family, topics, _, _ = case
    n = 20_000
    pure = np.zeros((n, 2))
    pure[:, 0] = 1.0
    words = draw_words(np.random.default_rng(5), family, topics, pure)
    values = family.statistic(words) if name == "categorical" else words
    error = values.std(axis=0) / np.sqrt(n)
    assert (np.abs(values.mean(axis=0) - topics.means[0]) < 5 * error).all()


def test_estimates_are_allowed_topics(case):
    _, family, _, documents, latents = case
    informed = family.informed_by(documents.words)
    means = np.zeros((2, informed.n_values(documents.words.shape[1])))
    topics = informed.estimate(documents.words, latents.memberships, means)
    assert np.isfinite(informed.natural(topics)).all()
    assert np.isfinite(informed.log_prior(topics).total)


def test_a_variance_outside_its_interval_has_no_density():
    family = PROBLEMS["gaussian isotropic"].family
    assert family.log_prior(Topics(np.zeros((2, 2)), np.array(4.1))).spread[0] == -np.inf


def test_open_settings_come_from_the_data():
    X = np.random.default_rng(0).gamma(2.0, 3.0, size=(500, 2))
    assert Gamma(2.0).informed_by(X).prior_rate == pytest.approx(X.mean(axis=0))
    assert TopicDiagonalGaussian().informed_by(X).scale == pytest.approx(0.25 * X.var(axis=0))
    with pytest.raises(ValueError, match="left open"):
        find_family("gaussian", "full").draw_topics(np.random.default_rng(0), 2)


@pytest.mark.parametrize(("family", "covariance"), [("normal", "full"), ("gaussian", "spherical")])
def test_unknown_names_are_refused_with_the_choices(family, covariance):
    with pytest.raises(ValueError, match=r"is not known\. Choose one of"):
        find_family(family, covariance)


@pytest.mark.parametrize("name", PROBLEMS)
def test_words_are_as_far_from_their_expectation_as_their_variance_says(name):
    """Within five standard errors: a false alarm in 1 of 10⁶ tests of each family."""
    family, rng = PROBLEMS[name].family, np.random.default_rng(3)
    topics, _, _ = draw_all(rng, PROBLEMS[name])
    z = np.repeat(rng.dirichlet(np.ones(len(topics.means)), 20), 400, axis=0)
    words = draw_words(rng, family, topics, z)
    expected, misfit = family.expected_words(z, topics), family.misfit(words, z, topics)
    if name == "categorical":
        assert misfit is None
        words = np.eye(expected.shape[1])[words[:, 0].astype(int)]
    else:
        assert abs(misfit.mean() - 1.0) < 5.0 * misfit.std() / np.sqrt(len(misfit))
        some = rng.choice(len(z), 7, replace=False)
        np.testing.assert_array_equal(family.misfit(words[some], z[some], topics), misfit[some])
    error = words.std(axis=0) / np.sqrt(len(words))
    assert (np.abs(words.mean(axis=0) - expected.mean(axis=0)) < 5.0 * error + 1e-12).all()
