"""Kernels of engine variational equal their twins; what they compute is what they say, and no bound falls."""

import numpy as np
import pytest
from numba import njit
from scipy import special as scipy_special
from scipy import stats
from scipy.optimize import minimize

from pmlda.engines.corpus import no_labels
from pmlda.kernels import special
from pmlda.kernels.arguments import ADDITIVE, DocumentPrior, DocumentRange, LocalSums, LogPartition
from pmlda.kernels.lines import expected_partition, line_rule
from pmlda.kernels.variational import local_step
from pmlda.kernels.variational_documents import SMALLEST, document_step
from pmlda.kernels.variational_moments import posterior_moments
from pmlda.kernels.variational_refits import move_under_refits
from pmlda.types import Fixed, Labels, Topics
from tests.contracts.agreement import ALPHA, SCALE_RATE, SIZES, agree, blank, labels_of, make_case
from tests.entries import from_python
from tests.problems import PROBLEMS
from tests.twins import variational as twins
from tests.twins.counts import to_array
from tests.twins.labels import log_label
from tests.twins.paper import log_partitions

CASES = [(name, n_topics) for name in PROBLEMS for n_topics in (2, 3)]

# Slopes and bends that are not wanted.
NOTHING = np.empty((0, 0)), np.empty((0, 0, 0))


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return make_case(*request.param)


@pytest.fixture(params=[case for case in CASES if PROBLEMS[case[0]].family.conjugate is None], ids=str)
def case_without_formula(request):
    """Families whose E[A] has no closed form."""
    return make_case(*request.param)


@njit
def evaluate(x, out):
    for i in range(len(x)):
        out[i, 0] = special.log(x[i])
        out[i, 1:] = special.gamma_functions(x[i])


def test_special_functions_equal_scipys():
    x = np.concatenate([10.0 ** np.linspace(-12, 12, 4001), np.linspace(0.9, 2.1, 1001)])
    out = np.empty((len(x), 4))
    evaluate(x, out)
    expected = np.stack([np.log(x), *twins.gamma_functions(x)], axis=1)
    # ln x, ln Γ and ψ pass through zero, ψ' does not.
    np.testing.assert_allclose(out[:, 0], expected[:, 0], rtol=2e-15, atol=2e-16)
    np.testing.assert_allclose(out[:, 1:3], expected[:, 1:3], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(out[:, 3], expected[:, 3], rtol=1e-13)


@njit
def evaluate_exponentials(x, out):
    for i in range(len(x)):
        out[i, 0] = special.exp(-x[i])
        out[i, 1] = special.exp_minus_one(-x[i])
        out[i, 2] = special.log_one_minus(min(x[i], 0.999))


def test_exponentials_hold_from_the_smallest_to_the_largest():
    x = np.concatenate([[0.0], 10.0 ** np.linspace(-300, 2.85, 4001), np.linspace(0.0, 1.0, 1001)])
    out = np.empty((len(x), 3))
    evaluate_exponentials(x, out)
    expected = np.stack([np.exp(-x), np.expm1(-x), np.log1p(-np.minimum(x, 0.999))], axis=1)
    np.testing.assert_allclose(out, expected, rtol=3e-15, atol=1e-307)
    far = np.array([708.5, 1e4, 1e300])
    evaluate_exponentials(far, out[:3])
    np.testing.assert_array_equal(out[:3, 0], 0.0)
    np.testing.assert_array_equal(out[:3, 1], -1.0)


@njit
def evaluate_cosine(u, out):
    for i in range(len(u)):
        out[i] = special.cos_of_turns(u[i])


def test_cosines_hold_for_a_whole_turn():
    u = np.linspace(0.0, 1.0, 10_001)
    out = np.empty_like(u)
    evaluate_cosine(u, out)
    np.testing.assert_allclose(out, np.cos(2.0 * np.pi * u), rtol=0.0, atol=1e-15)


def test_logarithms_hold_for_all_normal_numbers():
    x = np.concatenate(
        [10.0 ** np.linspace(-307, 308, 5000), 1.0 + np.linspace(-1e-7, 1e-7, 101), [0.5**0.5, 2.0**0.5]]
    )
    out = np.empty((len(x), 4))
    evaluate(x, out)
    np.testing.assert_allclose(out[:, 0], np.log(x), rtol=2e-15, atol=1e-22)


@pytest.mark.parametrize("mean", [1e-9, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("n", [1e-6, 0.3, 7.0, 1e4])
def test_lobattos_rule_is_exact_up_to_the_fifth_power(mean, n):
    x, y, *weights = from_python(line_rule)(mean, n)
    for power in range(6):
        exact = np.prod([(n * mean + i) / (n + i) for i in range(power)])
        assert weights @ np.array([0.0, x, y, 1.0]) ** power == pytest.approx(exact, rel=1e-10, abs=1e-15)
    assert min(weights) > -1e-15


def test_sharp_topics_gain_nothing_from_the_rule():
    """ln(1 + e^η) of two sharp topics over Beta(3, 3) is not less than it is: a cubic rule lacks up to 0.14."""
    gamma = np.full((1, 2), 3.0)
    for logit in (2.0, 4.0, 6.0):
        sharp = LogPartition.of(2, np.array([[logit], [-logit]]), 0.0)
        found = expected_partition(sharp, gamma, 0, 1, *NOTHING)
        exact = stats.beta(3.0, 3.0).expect(lambda z, at=logit: np.logaddexp(0.0, at * (2.0 * z - 1.0)))
        assert exact < found < exact + 0.03


@pytest.mark.parametrize("n_topics", [2, 3, 5])
def test_the_rule_towards_the_corners_is_exact_for_quadratics(n_topics):
    rng = np.random.default_rng(0)
    for size in (1e-6, 1.0, 1e4):
        gamma = size * rng.uniform(0.05, 1.0, (20, n_topics))
        points, weights = twins.rule(gamma)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.einsum("np,npk->nk", weights, points), stats_means(gamma))
        second = [stats.dirichlet(g).cov() + np.outer(m, m) for g, m in zip(gamma, stats_means(gamma), strict=True)]
        np.testing.assert_allclose(np.einsum("np,npi,npk->nik", weights, points, points), second, atol=1e-14)


def blank_sums(n_words, n_topics, n_segments):
    shapes = (n_words, n_topics), (n_topics, n_topics), (n_segments, n_topics), (n_segments,)
    return LocalSums(*(blank(*shape) for shape in shapes))


def stats_means(gamma):
    return np.array([stats.dirichlet(g).mean() for g in gamma])


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_local_steps_equal_their_twins(case, steps):
    n, k = case.n_words, case.n_topics
    gamma, rates = case.gamma(1e-6, 1e4), case.rng.uniform(0.05, 1.0, n)
    before = gamma.copy()
    segments, scores = case.segments, case.scores
    for used in (slice(0, None), slice(1, None)):  # the second time, rows of scores are not those of the corpus
        first = segments[used][0, 0]
        out = blank_sums(n - first, k, len(segments[used]))
        agree(
            local_step, twins,
            case.partition_from(first), scores[first:], case.a, segments[used], case.told, steps, gamma, rates, out,
        )  # fmt: skip
        np.testing.assert_allclose(out.means.sum(axis=1), 1.0)
        assert out.gram.sum() == pytest.approx(n - first)
    assert np.array_equal(gamma, before) == (steps == 0)


def test_local_steps_change_only_the_words_of_their_segments(case):
    n, k = case.n_words, case.n_topics
    gamma, rates = case.gamma(0.1, 10.0), np.ones(n)
    before = gamma.copy()
    segments = case.segments_of(1, 2)
    out = blank_sums(4, k, len(segments))
    local_step(case.partition_from(70, 74), case.scores[70:74], case.a, segments, case.told, 6, gamma, rates, out)
    changed = (gamma != before).all(axis=1)
    assert changed[70:74].all()
    assert changed.sum() == 4


@pytest.mark.parametrize("steps", [1, 2])
def test_moves_under_refits_are_those_of_local_steps(case, steps):
    n, k = case.n_words, case.n_topics
    gamma, segments = case.gamma(1e-3, 1e3), case.segments.copy()
    found = gamma / gamma.sum(axis=1, keepdims=True)
    orders = [np.arange(k), np.roll(np.arange(k), 1), np.arange(k)]
    topics = [case.topics.order(each, spread_too=case.family.spread_per_topic) for each in orders]
    a = np.stack([case.a, case.a, 3.0 * case.a])
    tables = np.array([case.family.table(each) for each in topics])
    scores = np.array([case.family.scores(case.documents.words, each) for each in topics])
    moved = []
    for table, score, prior in zip(tables, scores, a, strict=True):
        there, out = gamma.copy(), blank_sums(n, k, len(segments))
        partition = case.log_partition._replace(table=table)
        local_step(partition, score, prior, segments, case.told, steps, there, np.ones(n), out)
        moved.append(there / there.sum(axis=1, keepdims=True) - found)
    shift, squares, gram = blank(n, k), blank(n, k), blank(3, 3)
    move_under_refits(
        case.log_partition, tables, scores, a, segments, case.told, steps, gamma, shift, squares, gram
    )  # fmt: skip
    np.testing.assert_allclose(shift, np.sum(moved, axis=0), atol=1e-9)
    np.testing.assert_allclose(squares, np.sum(np.square(moved), axis=0), atol=1e-9)
    flat = np.reshape(moved, (3, -1))
    np.testing.assert_allclose(gram, flat @ flat.T, rtol=1e-9, atol=1e-9)
    assert np.abs(shift).max() > 0.1


def word_by_word(case):
    """Every word as a segment of its own, to see the bound of each."""
    words = np.arange(case.n_words)
    return np.stack([words, words + 1, case.documents.document, case.label], axis=1)


def test_no_step_lowers_the_bound_of_any_word(case):
    n, k = case.n_words, case.n_topics
    gamma, rates = case.gamma(1e-6, 1e4, even=False), case.rng.uniform(0.01, 1.0, n)
    a = 10.0 ** case.rng.uniform(-3, 2, (len(SIZES), k))
    segments, prior = word_by_word(case), a[case.documents.document]
    previous, slack, start = np.full(n, -np.inf), 0.0, None
    for step in range(12):
        out = blank_sums(n, k, n)
        local_step(case.log_partition, case.scores, a, segments, case.told, min(step, 1), gamma, rates, out)
        value = out.bound + (prior * out.sum_log_z).sum(axis=1)
        # The kernel has subtracted what is added here.
        slack += 1e-12 * np.abs(value) + 1e-15 * (prior * np.abs(out.sum_log_z)).sum(axis=1)
        assert np.isfinite(gamma).all()
        assert gamma.min() >= SMALLEST
        assert (value >= previous - slack).all()
        previous = value
        start = value if step == 0 else start
    assert (previous > start + slack).mean() > 0.9


@pytest.mark.parametrize("name", ["gaussian isotropic", "gaussian per topic, diagonal", "poisson", "additive poisson"])
def test_words_settle_where_the_bound_is_flat(name):
    """Slopes of each word's bound along ln γ, by differences: none is left, with a label of any kind or without."""
    case = make_case(name, 3)
    n, segments, prior = case.n_words, word_by_word(case), case.a[case.documents.document]
    gamma = np.ones((n, 3))

    def bounds_at(gamma, steps=0):
        out = blank_sums(n, 3, n)
        local_step(case.log_partition, case.scores, case.a, segments, case.told, steps, gamma, np.ones(n), out)
        return out.bound + (prior * out.sum_log_z).sum(axis=1)

    start = bounds_at(gamma.copy())
    for _ in range(20):
        bounds_at(gamma, steps=20)
    slopes = [(bounds_at(gamma * np.exp(h)) - bounds_at(gamma * np.exp(-h))) / 2e-4 for h in 1e-4 * np.eye(3)]
    assert np.abs(slopes).max() < 1e-3
    assert (bounds_at(gamma) > start).all()
    assert len(set(case.label)) == 5


def step_of(case, a, gamma):
    """The step that a word is about to take, read from a very short one."""
    n, k = gamma.shape
    rate, new = 1e-4, gamma.copy()
    out = blank_sums(n, k, n)
    local_step(case.log_partition, case.scores, a, word_by_word(case), case.told, 1, new, np.full(n, rate), out)
    return (new - gamma) / rate


def told(case, gamma):
    """(N,) E[ln p(label | z)] of every word."""
    rows = enumerate(case.label)
    return np.array([twins.expected_label(case.told, row, gamma[n : n + 1])[0] for n, row in rows])


def test_steps_are_newtons_with_the_curvature_of_dirichlets_and_of_the_likelihood(case):
    """(F + C)⁻¹(∇f + F(a − γ)), f with the label, F the curvature of ln B(γ), C with m alone moving: by differences."""
    n, k = case.n_words, case.n_topics
    gamma = case.gamma(0.2, 50.0, even=False)
    gradient, information = np.empty((n, k)), np.empty((n, k, k))
    for i, unit in enumerate(np.eye(k)):
        step = 1e-4 * gamma[:, i]
        there, back = gamma + step[:, None] * unit, gamma - step[:, None] * unit
        fits = [twins.expected_fits(case.log_partition, case.scores, at) + told(case, at) for at in (there, back)]
        gradient[:, i] = (fits[0] - fits[1]) / (2.0 * step)
        information[:, i] = (twins.expected_logs(there) - twins.expected_logs(back)) / (2.0 * step)[:, None]
    gradient += np.einsum("nij,nj->ni", information, case.a[case.documents.document] - gamma)
    total = gamma.sum(axis=1)
    m, corners = gamma / total[:, None], np.eye(k)
    for i in range(k if case.log_partition.code != ADDITIVE else 0):
        for o in range(k):  # A(m) along e_i − m and e_o − m
            ends = [m + 1e-4 * (s * (corners[i] - m) + t * (corners[o] - m)) for s in (1, -1) for t in (1, -1)]
            values = [log_partitions(case.log_partition, end) for end in ends]
            bend = (values[0] - values[1] - values[2] + values[3]) / 4e-8
            information[:, i, o] += bend / (total * (total + 1.0))
    expected = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
    scale = np.abs(expected).max(axis=1, keepdims=True) + gamma
    assert (np.abs(step_of(case, case.a, gamma) - expected) / scale).max() < 1e-4


def test_a_words_bound_is_below_its_evidence():
    """Two topics and one covariance, where E[A] is exact: E[ln p(x, z) − ln q(z)] ≤ ln p(x), and close after steps."""
    case = make_case("gaussian isotropic", 2, labelled=False)
    n = case.n_words
    a = np.maximum(case.a, 0.5)
    gamma, rates = np.ones((n, 2)), np.ones(n)
    out = blank_sums(n, 2, n)
    local_step(case.log_partition, case.scores, a, word_by_word(case), case.told, 60, gamma, rates, out)
    prior = a[case.documents.document]
    bound = out.bound + (prior * out.sum_log_z).sum(axis=1) - scipy_special.betaln(*prior.T)
    # t → z = sin²(πt/2) takes the poles of the prior at both ends away.
    t = (np.arange(4000) + 0.5) / 4000
    z = np.stack([np.sin(0.5 * np.pi * t) ** 2, np.cos(0.5 * np.pi * t) ** 2], axis=1)
    log_jacobian = np.log(np.pi) + 0.5 * np.log(z).sum(axis=1)
    fits = case.scores @ z.T - log_partitions(case.log_partition, z)
    log_prior = (prior - 1.0) @ np.log(z).T - scipy_special.betaln(*prior.T)[:, None]
    evidence = scipy_special.logsumexp(fits + log_prior + log_jacobian, axis=1) - np.log(4000)
    assert (bound < evidence + 1e-3).all()
    assert np.median(evidence - bound) < 0.1


def test_posterior_moments_equal_their_twins(case):
    n, k = case.n_words, case.n_topics
    for gamma in (case.gamma(1e-6, 1e4), case.gamma(0.1, 30.0, even=False)):
        for used in (slice(0, None), slice(2, None)):
            first = case.segments[used][0, 0]
            means, std = blank(n - first, k), blank(n - first, k)
            agree(
                posterior_moments, twins,
                case.partition_from(first), case.scores[first:], case.a, case.segments[used], case.told, gamma,
                means, std,
                rtol=1e-7, atol=1e-9,
            )  # fmt: skip
            np.testing.assert_allclose(means.sum(axis=1), 1.0)


def test_posterior_moments_of_extreme_words_are_those_of_memberships(case):
    gamma, (means, std) = case.gamma(1e-9, 1e5, even=False), (blank(case.n_words, case.n_topics) for _ in range(2))
    posterior_moments(case.log_partition, 50.0 * case.scores, case.a, case.segments, case.told, gamma, means, std)
    assert (means >= 0).all()
    np.testing.assert_allclose(means.sum(axis=1), 1.0)
    assert ((std >= 0) & (std <= np.sqrt(means * (1.0 - means)) + 1e-15)).all()


def test_posterior_moments_are_those_of_q_where_q_is_exact():
    """Without evidence the posterior is Dir(a), and γ = a."""
    a = np.array([[0.3, 2.0, 0.01]])
    means, std, segments = np.empty((70, 3)), np.empty((70, 3)), np.array([[0, 70, 0, 0]])
    flat = LogPartition.of(0, np.zeros((3, 3)), 0.0)
    posterior_moments(flat, np.zeros((70, 3)), a, segments, no_labels(3), np.repeat(a, 70, axis=0), means, std)
    exact = stats.dirichlet(a[0])
    np.testing.assert_allclose(means, np.repeat(exact.mean()[None], 70, axis=0), atol=2e-3)
    np.testing.assert_allclose(std, np.repeat(np.sqrt(exact.var())[None], 70, axis=0), atol=2e-3)


def settled(log_partition, scores, a, labels):
    """γ of words that are documents of their own with priors a (N, K), and their segments."""
    n, k = scores.shape
    row = labels.row if len(labels.row) else np.zeros(n, np.int64)
    segments = np.stack([np.arange(n), np.arange(n) + 1, np.arange(n), row], axis=1)
    gamma, out = np.maximum(a, 0.1) + 1.0 / k, blank_sums(n, k, n)
    local_step(log_partition, scores, a, segments, labels, 60, gamma, np.ones(n), out)
    return gamma, segments


def moments_of(log_partition, scores, a, labels=None):
    """Means and deviations that the kernel finds, and those of q."""
    labels = no_labels(scores.shape[1]) if labels is None else labels
    gamma, segments = settled(log_partition, scores, a, labels)
    means, std = blank(*scores.shape), blank(*scores.shape)
    posterior_moments(log_partition, scores, a, segments, labels, gamma, means, std)
    total = gamma.sum(axis=1, keepdims=True)
    m = gamma / total
    return (means, std), (m, np.sqrt(m * (1.0 - m) / (total + 1.0)))


def weighted_moments(z, log_weight):
    """(N, K) means and deviations of points z (P, K) with weights (N, P)."""
    weight = scipy_special.softmax(log_weight, axis=1)
    means = weight @ z
    return means, np.sqrt(weight @ z**2 - means**2)


def told_with(strength, n_words, n_topics):
    """A label for each word: it is the first topic; half of first and last; another; another and some of both."""
    first, nothing = np.eye(n_topics)[0], np.zeros(n_topics)
    half = 0.5 * (first + np.eye(n_topics)[-1])
    counts = strength * np.stack([nothing, first, half, nothing, 0.2 * half])
    any_of = np.stack([nothing, nothing, nothing, 1.0 - first, 1.0 - first])
    return Labels(1 + np.arange(n_words) % 4, counts, any_of, strength * any_of.max(axis=1))


def partitions_at(log_partition, n_words, z):
    """(N, P) A of every word at points z (P, K)."""
    if log_partition.code == ADDITIVE:
        return -to_array(log_partition.counts, log_partition.table.shape[1]) @ np.log(z @ log_partition.table).T
    return np.tile(log_partitions(log_partition, z), (n_words, 1))


def log_labels_at(labels, log_z):
    """(N, P) ln p(label of each word | z) at points ln z (P, K)."""
    by_row = np.stack([log_label(labels, row, log_z) for row in range(len(labels.counts))])
    return by_row[labels.row]


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("strength", [0.0, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("name", ["gaussian isotropic", "poisson", "gamma", "additive poisson"])
def test_posterior_moments_of_two_topics_are_the_exact_ones(name, strength, scale):
    """Against 20,000 points in ln z − ln(1 − z), with what lies beyond them, where z is 0 or 1."""
    case = make_case(name, 2, labelled=False)
    labels = told_with(strength, case.n_words, 2)
    a = scale * case.rng.dirichlet(np.ones(2), case.n_words) + 1e-3
    x = np.linspace(-25.0, 25.0, 20_001)
    z = np.stack([scipy_special.expit(x), scipy_special.expit(-x)], axis=1)
    fits = case.scores @ z.T - partitions_at(case.log_partition, case.n_words, z)
    fits += log_labels_at(labels, np.log(z))
    log_weight = fits + a @ np.log(z).T + np.log(x[1] - x[0])
    # ∫ z^(a − 1) dz beyond the last point; labels of two topics are powers of memberships.
    powers = a + labels.counts[labels.row] + (labels.strength[:, None] * labels.any_of)[labels.row]
    for end, k in ((0, 0), (-1, 1)):
        log_weight[:, end] = np.logaddexp(
            log_weight[:, end], fits[:, end] + a[:, k] * np.log(z[end, k]) - np.log(powers[:, k])
        )
    exact = weighted_moments(z, log_weight)
    (means, std), _ = moments_of(case.log_partition, case.scores, a, labels)
    assert np.abs(means - exact[0]).max() < 0.01
    assert np.abs(std - exact[1]).max() < 0.01
    assert np.sqrt(((means - exact[0]) ** 2).mean()) < 0.002
    assert np.sqrt(((std - exact[1]) ** 2).mean()) < 0.002


@pytest.mark.parametrize("scale", [1.0, 3.0, 30.0])
@pytest.mark.parametrize("strength", [0.0, 1.0, 5.0, 50.0])
def test_posterior_moments_of_three_topics_are_nearer_to_the_exact_ones_than_those_of_q(strength, scale):
    """Two features cannot tell three topics apart as well as one Dirichlet would have it. 300 × 300 points.

    Where a label says "one of these two", what z_k leaves to the others is shared otherwise than q has it: errors grow.
    """
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [8.0, 0.0], [5.0, 4.0]])
    a = scale * rng.dirichlet(np.ones(3), 100) + 0.1  # so that the poles can be resolved
    truth = np.array([rng.dirichlet(row) for row in a])
    words = truth @ means + rng.normal(size=(100, 2))
    log_partition, scores = LogPartition.of(0, means @ means.T, 0.0), words @ means.T
    # Sticks: z_1 = v, z_2 = (1 − v) w, in ln v − ln(1 − v) and the like, where poles are exponential tails.
    x = np.linspace(-45.0, 45.0, 300)
    v, w = (side.ravel() for side in np.meshgrid(x, x))
    log_z = np.stack(
        [
            -np.logaddexp(0.0, -v),
            -np.logaddexp(0.0, v) - np.logaddexp(0.0, -w),
            -np.logaddexp(0.0, v) - np.logaddexp(0.0, w),
        ],
        axis=1,
    )
    z = np.exp(log_z)
    fits = scores @ z.T - log_partitions(log_partition, z)
    labels = told_with(strength, 100, 3)
    exact = weighted_moments(z, fits + a @ log_z.T + log_labels_at(labels, log_z))
    found, of_q = moments_of(log_partition, scores, a, labels)
    says_shares = labels.strength[labels.row] == 0.0
    bounds = [(says_shares, 0.6, 0.012)] + [(~says_shares, 0.7, 0.03)] * (strength > 0.0)
    for chosen, part, most in bounds:
        for ours, q, right in zip(found, of_q, exact, strict=True):
            error, error_of_q = (np.sqrt(((one - right)[chosen] ** 2).mean()) for one in (ours, q))
            assert error < part * error_of_q or error < 0.002
            assert error < most


def test_expected_partitions_equal_their_twins(case_without_formula):
    case = case_without_formula
    for gamma in (case.gamma(1e-6, 1e4), case.gamma(1e-6, 1e4, even=False)):
        for n_bends in {0, case.family.count_bends(case.log_partition.table.shape[1])}:
            bends = blank(case.n_topics, case.n_topics, n_bends) if n_bends else np.empty((0, 0, 0))
            slopes = blank(*case.log_partition.table.shape)
            total = agree(expected_partition, twins, case.log_partition, gamma, 60, 200, slopes, bends)
        assert expected_partition(case.log_partition, gamma, 60, 200, *NOTHING) == total


def test_slopes_of_expected_partitions_are_its_derivatives(case_without_formula):
    case = case_without_formula
    code, table = case.log_partition.code, case.log_partition.table
    gamma, slopes = case.gamma(1e-2, 1e2, even=False), np.empty_like(table)
    expected_partition(case.log_partition, gamma, 0, case.n_words, slopes, NOTHING[1])
    p = round((np.sqrt(1 + 4 * table.shape[1]) - 1) / 2)
    for _ in range(4):
        direction = case.rng.uniform(-1.0, 1.0, table.shape) * np.minimum(np.abs(table), 1.0)
        if code == 6:  # precisions stay symmetric
            squares = direction[:, p:].reshape(-1, p, p)
            squares[:] = 0.5 * (squares + squares.transpose(0, 2, 1))
        step = 1e-5
        there, back = (
            expected_partition(case.log_partition._replace(table=moved), gamma, 0, case.n_words, *NOTHING)
            for moved in (table + step * direction, table - step * direction)
        )
        terms = slopes * direction
        assert (there - back) / (2 * step) == pytest.approx(terms.sum(), rel=1e-6, abs=1e-6 * np.abs(terms).sum())


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "gamma", "gaussian per topic, diagonal"])
def test_steps_of_topics_are_newtons(name):
    """Where the words are as the topics expect them, nothing but the prior pulls; its slope over all curvature."""
    case = make_case(name, 3)
    family, topics, gamma = case.family, case.topics, case.gamma(1e-1, 1e2)

    def evaluate(at, wants_bends=False):
        log_partition = case.log_partition._replace(table=family.table(at))
        slopes, bends = blank(*log_partition.table.shape), np.empty((0, 0, 0))
        if wants_bends:
            bends = blank(3, 3, family.count_bends(slopes.shape[1]))
        expected_partition(log_partition, gamma, 0, case.n_words, slopes, bends)
        return slopes, bends

    expected, bends = evaluate(topics, wants_bends=True)
    free = family.free(topics)
    start, size = np.concatenate([free.means.ravel(), free.spread.ravel()]), free.means.size

    def slope_at(vector):
        at = family.from_free(Topics(vector[:size].reshape(free.means.shape), vector[size:].reshape(free.spread.shape)))
        return np.concatenate([each.ravel() for each in family.free_slopes(at, expected - evaluate(at)[0])])

    units = 1e-5 * np.eye(len(start))
    curvature = np.stack([(slope_at(start + unit) - slope_at(start - unit)) / 2e-5 for unit in units])
    step = family.newton_step(topics, family.free_slopes(topics, 0.0 * expected), bends)
    found = np.concatenate([step.means.ravel(), step.spread.ravel()])
    right = np.linalg.solve(curvature, -slope_at(start))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6 * np.abs(right).max())


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_topic_alone_has_the_exact_bound(name):
    case = make_case(name, 1, labelled=False)
    n, log_partition = case.n_words, case.log_partition
    gamma, out = np.full((n, 1), 0.7), blank_sums(n, 1, len(case.segments))
    local_step(log_partition, case.scores, case.a, case.segments, case.told, 2, gamma, np.ones(n), out)
    partition = partitions_at(log_partition, n, np.ones((1, 1)))
    assert (out.bound + (out.sum_log_z * case.a[case.segments[:, 2]]).sum(axis=1)).sum() == pytest.approx(
        case.scores.sum() - partition.sum(), rel=1e-9
    )
    std = blank(n, 1)
    posterior_moments(log_partition, case.scores, case.a, case.segments, case.told, gamma, out.means, std)
    np.testing.assert_array_equal(out.means, 1.0)
    np.testing.assert_array_equal(std, 0.0)
    if PROBLEMS[name].family.conjugate is None:
        total = expected_partition(log_partition, gamma, 0, n, *NOTHING)
        assert total == pytest.approx(partition.sum(), rel=1e-9, abs=1e-9)


N_DOCUMENTS = 60


def document_sums(rng, n_topics, n_documents=N_DOCUMENTS):
    """Documents, and Σ E[ln z] of words between crisp and even."""
    sizes = np.concatenate([[1, 1, 2], rng.integers(1, 3000, n_documents - 3)])
    sums = np.empty((n_documents, n_topics))
    for d, size in enumerate(sizes):
        gamma = 10.0 ** rng.uniform(-3, 2) * rng.dirichlet(np.full(n_topics, 2.0), size) + 1e-9
        sums[d] = twins.expected_logs(gamma).sum(axis=0)
    return DocumentRange(np.append(0, np.cumsum(sizes)), 0, n_documents), sums


def prior_of(n_topics):
    """With labels of every kind, and documents that have none."""
    return DocumentPrior(ALPHA[:n_topics], SCALE_RATE, labels_of(np.arange(N_DOCUMENTS) % 5, n_topics))


HOLDS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("n_topics", [2, 3])
@pytest.mark.parametrize(("hold_pi", "hold_s"), HOLDS)
def test_document_steps_equal_their_twins(n_topics, hold_pi, hold_s):
    rng = np.random.default_rng(3)
    documents, sums = document_sums(rng, n_topics)
    a = 10.0 ** rng.uniform(-2, 2, sums.shape)
    fixed = Fixed(proportions=hold_pi, scales=hold_s)
    for steps in (0, 1, 3):
        bound = blank(len(a))
        agree(document_step, twins, prior_of(n_topics), a, sums, documents, steps, fixed, bound, rtol=1e-8)


@pytest.mark.parametrize("n_topics", [2, 3])
@pytest.mark.parametrize(("hold_pi", "hold_s"), HOLDS)
def test_document_steps_never_lower_the_bound_and_hold_what_they_are_told_to(n_topics, hold_pi, hold_s):
    rng = np.random.default_rng(4)
    documents, sums = document_sums(rng, n_topics)
    start = 10.0 ** rng.uniform(-4, 4, sums.shape)
    a, previous = start.copy(), np.full(len(start), -np.inf)
    fixed = Fixed(proportions=hold_pi, scales=hold_s)
    for step in range(40):
        bound = blank(len(a))
        document_step(prior_of(n_topics), a, sums, documents, min(step, 1), fixed, bound)
        assert (bound >= previous).all()
        previous = bound
    s, s_start = a.sum(axis=1), start.sum(axis=1)
    if hold_s:
        np.testing.assert_allclose(s, s_start, rtol=1e-10)
    if hold_pi:
        np.testing.assert_allclose(a / s[:, None], start / s_start[:, None], rtol=1e-10)
    assert np.array_equal(a, start) == (hold_pi and hold_s)


def test_document_steps_lead_to_the_top():
    rng = np.random.default_rng(5)
    documents, sums = document_sums(rng, 3)
    a, bound = 10.0 ** rng.uniform(-2, 2, sums.shape), blank(len(sums))
    for _ in range(5):
        document_step(prior_of(3), a, sums, documents, 50, Fixed(), bound)
    for d, size in enumerate(np.diff(documents.starts)):
        document = (sums[d], size, prior_of(3), d % 5)
        best = minimize(lambda log_a, document=document: -twins.document_bound(log_a, *document), np.log(a[d]))
        assert bound[d] == pytest.approx(-best.fun, rel=1e-8, abs=1e-6)
