"""Sparse counts: every use of PMLDA gives what it gives for the same counts in an array; inputs stay as they are."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator_sparse_tag

from pmlda import PMLDA
from pmlda.families import AdditivePoisson
from pmlda.families.sparse import SparseRows, as_sparse, column_sums, dense, row_sums, stored
from pmlda.model import simulate
from pmlda.types import Topics

RATES = np.array([[9.0, 0.1, 0.1, 2.0, 0.02], [0.1, 6.0, 0.1, 2.0, 0.02], [0.1, 0.1, 4.0, 1.0, 0.02]])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FORMATS = {"csr": sparse.csr_matrix, "csc": sparse.csc_array, "coo": sparse.coo_matrix}


@pytest.fixture(scope="module")
def corpus():
    """Counts, their documents in no order, and memberships."""
    words, document, latents = simulate(
        np.random.default_rng(3), AdditivePoisson(rate=np.ones(5)), Topics(RATES, np.empty(0)), [60] * 10
    )
    order = np.random.default_rng(4).permutation(len(words))
    return words[order], document[order], latents.memberships[order]


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("family", "name"),
    [("additive-poisson", "csr"), ("poisson", "csc"), ("bernoulli", "coo"), ("additive-poisson", "coo")],
)
def test_sparse_counts_give_what_arrays_give(corpus, family, name):
    X, groups, _ = corpus
    X = np.minimum(X, 1.0) if family == "bernoulli" else X
    matrix = FORMATS[name](X)
    before = matrix.toarray()
    options = {"family": family, "random_state": 0, "n_refits": 3, "n_init": 1, "n_sweeps": 6, "n_jobs": 1}
    from_array, from_sparse = (PMLDA(3, **options).fit(each, groups=groups) for each in (X, matrix))
    agree(from_sparse.memberships_, from_array.memberships_)
    agree(from_sparse.membership_std_, from_array.membership_std_)
    agree(from_sparse.topic_means_, from_array.topic_means_)
    for use in ("transform", "predict_proba", "score_samples", "score"):
        agree(getattr(from_array, use)(matrix), getattr(from_array, use)(X))
    agree(from_array.transform(matrix, groups=groups), from_array.transform(X, groups=groups))
    found, expected = (from_array.infer_documents(each, groups=groups) for each in (matrix, X))
    agree(found.proportions, expected.proportions)
    priors = expected.concentrations
    found, expected = (from_array.infer_memberships(each, groups=groups, priors=priors) for each in (matrix, X))
    agree(found.std, expected.std)
    np.testing.assert_array_equal(matrix.toarray(), before)


@pytest.mark.parametrize("engine", ["gibbs", "paper"])
def test_samplers_take_sparse_counts(corpus, engine):
    X, groups, _ = corpus
    options = {"family": "additive-poisson", "engine": engine, "n_sweeps": 8, "n_chains": 1, "random_state": 0}
    models = [PMLDA(3, **options).fit(each, groups=groups) for each in (X, sparse.csr_array(X))]
    agree(models[1].memberships_, models[0].memberships_)
    agree(models[1].topic_means_, models[0].topic_means_)


def test_batches_may_be_sparse_and_may_have_labels(corpus):
    X, groups, truth = corpus
    y = np.where(truth.max(axis=1) > 0.95, truth.argmax(axis=1), -1)
    options = {"family": "additive-poisson", "random_state": 0, "n_init": 1, "n_sweeps": 20}
    models = [PMLDA(3, **options), PMLDA(3, **options)]
    for half in (groups < 5, groups >= 5):
        models[0].partial_fit(X[half], y[half], groups=groups[half])
        models[1].partial_fit(sparse.csr_matrix(X)[half], y[half], groups=groups[half])
    agree(models[1].topic_means_, models[0].topic_means_)
    assert np.abs(models[1].topic_means_ - RATES).max() < 1.5  # numbered by the labels


def test_shares_of_materials_are_recovered(corpus):
    """Nearly as well as with topics that are known, and by the samplers too, which need no more than a short run."""
    X, groups, truth = corpus
    X = sparse.csr_matrix(X)

    def error(**options):
        model = PMLDA(3, family="additive-poisson", random_state=0, **options).fit(X, groups=groups)
        order = [int(np.argmax(model.topic_means_[:, j])) for j in range(3)]
        return np.sqrt(((model.memberships_[:, order] - truth) ** 2).mean())

    best = error(fixed={"topics": RATES}, n_refits=0)
    assert best < 0.15
    assert error() < 1.1 * best
    assert error(engine="gibbs", n_sweeps=200, n_chains=1) < 1.1 * best


def test_a_model_of_sparse_counts_is_saved_and_loaded(corpus, tmp_path):
    X, groups, _ = corpus
    X = sparse.csr_matrix(X, dtype=np.float32)
    model = PMLDA(2, family="additive-poisson", random_state=0, n_init=1, n_sweeps=3, n_refits=0).fit(X, groups=groups)
    model.save(tmp_path / "counts.pmlda")
    again = PMLDA.load(tmp_path / "counts.pmlda")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert model.memberships_.dtype == np.float32


def test_duplicate_and_stored_zero_entries_count_once(corpus):
    X, _, _ = corpus
    doubled = sparse.csr_matrix(X)
    doubled = sparse.csr_matrix(
        (np.repeat(0.5 * doubled.data, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr), shape=X.shape
    )
    doubled.data[0] = doubled.data[1] = 0.0
    kept = doubled.data.copy()
    rows = SparseRows.from_matrix(doubled)
    X = X.copy()
    X[tuple(np.argwhere(X)[0])] = 0.0
    np.testing.assert_array_equal(dense(rows), X)
    np.testing.assert_array_equal(doubled.data, kept)
    assert (stored(rows) > 0).all()


def test_rows_of_either_kind_have_the_same_sums(corpus):
    X, _, _ = corpus
    rows = as_sparse(X)
    chosen, some = np.array([5, 3, 3, 200]), rows[7:40]
    np.testing.assert_array_equal(dense(rows[chosen]), X[chosen])
    np.testing.assert_array_equal(dense(some), X[7:40])
    np.testing.assert_allclose(column_sums(some), X[7:40].sum(axis=0))
    np.testing.assert_allclose(row_sums(np.sqrt, some), np.sqrt(X[7:40]).sum(axis=1))
    np.testing.assert_allclose(some @ RATES.T, X[7:40] @ RATES.T)
    np.testing.assert_allclose(np.ones((2, 33)) @ some, np.ones((2, 33)) @ X[7:40])
    assert len(rows[10:4]) == 0


def test_the_tag_tells_scikit_learn_which_families_take_sparse_matrices():
    assert PMLDA(family="additive-poisson").__sklearn_tags__().input_tags.sparse
    assert not PMLDA().__sklearn_tags__().input_tags.sparse
    check_estimator_sparse_tag("PMLDA", PMLDA(2))
