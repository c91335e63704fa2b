"""Kernels of engine gibbs equal their twins, and Jacobians and densities are what they say."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pmlda.engines.corpus import no_labels
from pmlda.kernels import gibbs as kernels
from pmlda.kernels import gibbs_candidates as kernels_candidates
from pmlda.kernels import gibbs_stretch as kernels_stretch
from pmlda.kernels.arguments import DocumentPrior, Ensemble, GibbsLatents, Moves, Places, SweepKey
from pmlda.kernels.labels import labelled_prior
from pmlda.types import Fixed, Latents
from tests.contracts.agreement import ALPHA, SCALE_RATE, SIZES, agree, blank, copied, labels_of, make_case
from tests.entries import from_python
from tests.problems import PROBLEMS
from tests.twins import gibbs as twins
from tests.twins.labels import log_label

N_CANDIDATES = 5


@pytest.fixture(params=[(name, n_topics) for name in PROBLEMS for n_topics in (2, 3)], ids=str)
def case(request):
    return make_case(*request.param)


def key_of(sweep):
    return SweepKey(np.uint64(8), np.uint64(sweep))


def gibbs_latents(case):
    return copied(GibbsLatents(case.latents.memberships, case.latents.log_memberships, case.a))


def draw(case):
    """Shapes and candidates of all words, with proposals from narrow to wide and of unequal rates; no fits yet."""
    n, k = case.n_words, case.n_topics
    out = blank(n, N_CANDIDATES, k), blank(n, k, N_CANDIDATES), blank(n, N_CANDIDATES)
    ensemble = Ensemble(*out, np.zeros((n, N_CANDIDATES)), np.zeros((n, N_CANDIDATES)))
    shapes = case.gamma(1e-2, 1e3)
    rates = np.where(np.arange(n)[:, None] % 2 == 0, 1.0, np.linspace(0.5, 40.0, k))
    log_z = case.latents.log_memberships.copy()
    agree(kernels_candidates.draw_candidates, twins, shapes, rates, log_z, case.places, case.told, key_of(0), ensemble)
    return shapes, ensemble


def draw_with_fits(case):
    _, ensemble = draw(case)
    kernels_candidates.candidate_fits(case.log_partition, case.scores, ensemble, 0, case.n_words)
    return ensemble


def test_candidates_equal_their_twins(case):
    shapes, ensemble = draw(case)
    candidates, shares, log_q = ensemble[:3]
    np.testing.assert_array_equal(candidates[:, 0], case.latents.log_memberships)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    rows = np.flatnonzero((shares > 1e-300).all(axis=(1, 2)) & (np.arange(case.n_words) % 2 == 0))
    for n in [rows[case.label[rows] == label][0] for label in range(5)]:  # rates of one
        exact = np.array([stats.dirichlet(shapes[n]).logpdf(z) for z in shares[n].T])  # up to one constant
        exact -= log_label(case.told, case.label[n], candidates[n])
        np.testing.assert_allclose(log_q[n] - log_q[n, 0], exact - exact[0], rtol=1e-6, atol=1e-6)


def test_unequal_rates_scale_a_dirichlet_draw():
    """g_k / rate_k, normalised: the density is that of the Dirichlet at y ∝ rate·z times the Jacobian of the map."""
    shape, rate, n = np.array([0.7, 1.6, 2.5]), np.array([0.4, 3.0, 1.1]), 40
    log_z = np.log(np.random.default_rng(0).dirichlet(np.ones(3), size=n))
    candidates, shares, log_q = blank(n, N_CANDIDATES, 3), blank(n, 3, N_CANDIDATES), blank(n, N_CANDIDATES)
    ensemble = Ensemble(candidates, shares, log_q, blank(n, N_CANDIDATES), blank(n, N_CANDIDATES))
    one_document = Places(np.array([[0, n, 0, 0]]), np.array([0, n]))
    tiled = np.tile(shape, (n, 1)), np.tile(rate, (n, 1))
    kernels_candidates.draw_candidates(*tiled, log_z, one_document, no_labels(3), key_of(0), ensemble)
    z = shares.transpose(0, 2, 1).reshape(-1, 3)
    y = rate * z / (z @ rate)[:, None]
    # ∂y/∂z on the simplex is Π rate_k / (Σ rate_k z_k)^K.
    exact = stats.dirichlet(shape).logpdf(y.T) - 3.0 * np.log(z @ rate)
    np.testing.assert_allclose(log_q.ravel() - log_q[0, 0], exact - exact[0], rtol=1e-9, atol=1e-9)


def test_fits_equal_their_twins(case):
    _, ensemble = draw(case)
    agree(kernels_candidates.candidate_fits, twins, case.partition_from(60), case.scores[60:], ensemble, 60, 200)
    assert not ensemble.fits[:60].any()
    assert not ensemble.fits[200:].any()


def test_weights_and_choices_equal_their_twins(case):
    ensemble, latents, out = draw_with_fits(case), copied(case.latents), blank(len(case.segments), 2)
    agree(kernels.weigh_candidates, twins, case.a, case.documents.document, ensemble, 60, 200)
    assert not ensemble.rest[:60].any()
    agree(kernels.log_marginals, twins, ensemble, 60, 200)
    for sweep in range(3):
        agree(kernels.choose_candidates, twins, ensemble, case.places, key_of(sweep), latents, out)
    assert 0 < out[:, 0].sum() < case.n_words


def test_choices_have_the_stated_probabilities():
    """20,000 words with the same four candidates: a χ² test at 1e-6."""
    n, probabilities = 20_000, np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        fits = np.tile(np.log(probabilities) + 300.0, (n, 1))
    candidates = np.tile(np.arange(4.0)[:, None], (n, 1, 1))
    shares, nothing = candidates.transpose(0, 2, 1).copy(), np.zeros_like(fits)
    latents = Latents(np.empty((n, 1)), np.empty((n, 1)), np.zeros((1, 1)), np.ones(1))
    places, out = Places(np.array([[0, n, 0, 0]]), np.array([0, n])), np.empty((1, 2))
    kernels.choose_candidates(Ensemble(candidates, shares, nothing, fits, nothing), places, key_of(0), latents, out)
    counts = np.bincount(latents.log_memberships[:, 0].astype(int), minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]], n * probabilities[[0, 2, 3]]).pvalue > 1e-6
    assert out[0, 0] == n - counts[0]


@pytest.mark.parametrize(("hold_pi", "hold_s"), [(False, False), (True, False), (False, True), (True, True)])
def test_document_steps_equal_their_twins(case, hold_pi, hold_s):
    ensemble, a, fixed = draw_with_fits(case), case.a.copy(), Fixed(proportions=hold_pi, scales=hold_s)
    widths = case.rng.uniform(0.1, 1.5, (len(SIZES), case.n_topics + 1))
    total, accepted = 0.0, blank(*widths.shape)
    for sweep in range(3):
        moves = Moves(widths, accepted)
        agree(kernels.document_step, twins, case.prior, a, ensemble, case.all_documents, moves, 3, key_of(sweep), fixed)
        total += accepted.sum()
    assert (total > 0) == (not (hold_pi and hold_s))
    if hold_s:
        np.testing.assert_allclose(a.sum(axis=1), case.a.sum(axis=1))
        assert not accepted[:, 0].any()
    if hold_pi:
        np.testing.assert_allclose(a / a.sum(axis=1, keepdims=True), case.a / case.a.sum(axis=1, keepdims=True))
        assert not accepted[:, 1:].any()


@pytest.mark.parametrize("row", range(5))
def test_the_prior_of_a_is_that_of_proportions_and_scales(row):
    """p(ln a) = p(π) p(label | π) p(s) |∂(π, s) / ∂ ln a|, the last by differences."""
    rng = np.random.default_rng(0)
    prior, labels = stats.dirichlet(ALPHA), labels_of([row], 3)

    def exact(log_a):
        def forward(log_a):
            a = np.exp(log_a)
            return np.append(a[:-1] / a.sum(), a.sum())

        jacobian = [(forward(log_a + h) - forward(log_a - h)) / 2e-5 for h in 1e-5 * np.eye(3)]
        a = np.exp(log_a)
        told = log_label(labels, row, log_a - logsumexp(log_a))
        return prior.logpdf(a / a.sum()) + told - SCALE_RATE * a.sum() + np.linalg.slogdet(jacobian)[1]

    points = rng.normal(size=(10, 3))
    given, log_prior = from_python(labelled_prior)(ALPHA, labels, row), from_python(kernels.log_prior)
    difference = [log_prior(np.exp(x), given, SCALE_RATE, 0) - exact(x) for x in points]
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)
    given = DocumentPrior(ALPHA, SCALE_RATE, labels)
    difference = [twins.log_prior(np.exp(x), given, 0) - exact(x) for x in points]
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)


def test_transfers_equal_their_twins(case):
    latents = gibbs_latents(case)
    widths = case.rng.uniform(0.02, 0.6, (case.n_topics, case.n_topics))
    out = blank(len(case.segments), 2)
    accepted = 0.0
    for sweep in range(2):
        agree(
            kernels.transfer_step, twins,
            case.log_partition, case.scores, latents, case.places, case.told, widths, 2, key_of(sweep), out,
        )  # fmt: skip
        accepted += out[:, 0].sum()
    places = case.places._replace(segments=case.segments_of(1, 2))
    out = blank(len(places.segments), 2)
    agree(
        kernels.transfer_step, twins,
        case.partition_from(70), case.scores[70:], latents, places, case.told, widths, 2, key_of(9), out,
    )  # fmt: skip
    assert accepted > 0
    np.testing.assert_allclose(latents.memberships.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(latents.log_memberships), latents.memberships, rtol=1e-12)


def test_stretches_equal_their_twins(case):
    latents = gibbs_latents(case)
    widths = case.rng.uniform(0.05, 0.5, (len(SIZES), 3 * case.n_topics + 1))
    moves, total = Moves(widths, blank(*widths.shape)), 0.0
    for sweep in range(3):
        agree(
            kernels_stretch.stretch_step, twins,
            case.log_partition, case.scores, latents, case.prior, case.all_documents, case.told, moves, key_of(sweep),
            rtol=1e-6,
        )  # fmt: skip
        total += moves.accepted.sum()
    assert total > 0
    np.testing.assert_allclose(latents.memberships.sum(axis=1), 1.0)


def stretch(log_z, k, r, edge):
    """ln z of all rows after a stretch of topic k, or of all topics where k is one more, and the log Jacobians."""
    n, n_topics = log_z.shape
    columns, new = np.ascontiguousarray(log_z.T), np.empty((n_topics, n))
    scratch, jacobians = np.empty(n), np.empty(n)
    if k < n_topics:
        from_python(kernels_stretch._stretch)(columns, n, k, r, edge, scratch, new, jacobians)
    else:
        from_python(kernels_stretch._stretch_all)(columns, n, r, scratch, new, jacobians)
    return new.T, jacobians


def log_memberships(rng, n, n_topics, spread):
    """Rows from even (small spread) to crisp, normalised in log space."""
    log_z = spread * rng.normal(size=(n, n_topics))
    return log_z - logsumexp(log_z, axis=1, keepdims=True)


@pytest.mark.parametrize("n_topics", [2, 3, 5])
@pytest.mark.parametrize("r", [0.2, 0.9, 1.0, 4.0])
@pytest.mark.parametrize("edge", [0.0, -0.5, -4.0])
def test_stretches_of_one_word_equal_their_twins(n_topics, r, edge):
    rng = np.random.default_rng(0)
    for spread in (0.5, 5.0, 50.0, 1e4):
        log_z = log_memberships(rng, 50, n_topics, spread)
        for k in range(n_topics + 1):
            new, jacobians = stretch(log_z, k, r, edge)
            expected = twins.stretch(log_z, k, r, edge) if k < n_topics else twins.stretch_all(log_z, r)
            np.testing.assert_allclose(new, expected[0], rtol=1e-6, atol=1e-12)
            # ln z_k of a z_k next to one is known to about 1e-14, so 1 − z_k = 1e-9 only to 1e-5.
            np.testing.assert_allclose(jacobians, expected[1], rtol=1e-6, atol=1e-4)
            np.testing.assert_allclose(logsumexp(new, axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("n_topics", [2, 3, 5])
def test_jacobians_of_stretches_are_those_of_differences(n_topics):
    rng = np.random.default_rng(1)
    for row in log_memberships(rng, 10, n_topics, 1.0):
        for k in range(n_topics + 1):
            r, edge = float(np.exp(rng.uniform(-0.7, 0.7))), -float(rng.uniform(0.0, 2.0))

            def forward(z, k=k, r=r, edge=edge):
                new, jacobians = stretch(np.log(np.append(z, 1.0 - z.sum()))[None], k, r, edge)
                return np.exp(new[0])[:-1], jacobians[0]

            z = np.exp(row)[:-1]
            steps = 1e-5 * np.exp(row).min() * np.eye(n_topics - 1)
            columns = [(forward(z + h)[0] - forward(z - h)[0]) / (2.0 * h.sum()) for h in steps]
            assert np.linalg.slogdet(columns)[1] == pytest.approx(forward(z)[1], abs=1e-5)


def test_stretching_back_returns_everything():
    rng = np.random.default_rng(2)
    log_z = log_memberships(rng, 50, 3, 10.0)
    for k in range(3):
        there, forward = stretch(log_z, k, 1.7, -1.5)
        back, backward = stretch(there, k, 1 / 1.7, -1.5)
        np.testing.assert_allclose(back, log_z, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(forward + backward, 0.0, atol=1e-6)
