"""Visual-word LDA is scikit-learn's, and its memberships are p(topic | word, document)."""

import numpy as np
import pytest
from sklearn.decomposition import LatentDirichletAllocation

from pmlda.peers.distances import nearest_centre
from pmlda.peers.lda import Lda, bound, count_words, document_step, even, maximise, mean_log, normalised, settle


@pytest.fixture(scope="module")
def counts():
    """Documents from LDA's own model: 40 documents of 80 words out of 25."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(25, 0.3), size=3)
    chances = rng.dirichlet(np.full(3, 0.4), size=40) @ topics
    return np.stack([rng.multinomial(80, chance) for chance in chances]).astype(float)


def theirs(components, counts, **priors):
    """scikit-learn's model with our topics."""
    model = LatentDirichletAllocation(
        len(components), max_iter=1, max_doc_update_iter=5000, mean_change_tol=1e-10, random_state=0, **priors
    ).fit(counts)
    model.components_, model.exp_dirichlet_component_ = components, np.exp(mean_log(components))
    return model


def test_the_bound_rises_with_every_sweep(counts):
    start = np.random.default_rng(1).gamma(100.0, 0.01, (3, 25))
    found = maximise(counts, start, 1 / 3, 1 / 3, 1e-9, 300)
    assert (np.diff(found.bound) > -1e-8).all()
    assert found.converged


@pytest.mark.parametrize(("alpha", "eta"), [(1 / 3, 1 / 3), (0.05, 1.0), (1.0, 0.01)])
def test_scikit_learn_has_the_same_bound_and_documents_for_the_same_topics(counts, alpha, eta):
    start = np.random.default_rng(1).gamma(100.0, 0.01, (3, 25))
    found = maximise(counts, start, alpha, eta, 1e-8, 2000)
    model = theirs(found.topics, counts, doc_topic_prior=alpha, topic_word_prior=eta)
    documents = settle(counts, found.topics, alpha)
    np.testing.assert_allclose(normalised(documents), model.transform(counts), atol=1e-5)
    np.testing.assert_allclose(bound(counts, documents, found.topics, alpha, eta), model.score(counts), rtol=1e-7)


def test_the_best_start_is_no_worse_than_scikit_learns(counts):
    starts = np.random.default_rng(2).gamma(100.0, 0.01, (4, 3, 25))
    ours = max((maximise(counts, start, 1 / 3, 1 / 3, 1e-7, 1000) for start in starts), key=lambda run: run.bound[-1])
    model = LatentDirichletAllocation(3, max_iter=40, random_state=0).fit(counts)
    assert theirs(ours.topics, counts).score(counts) > model.score(counts) - 1e-4 * abs(model.score(counts))


def test_a_documents_step_is_the_sum_of_its_words(counts):
    """The same in a loop over words, as the literature writes it."""
    topics = np.random.default_rng(3).gamma(5.0, size=(3, 25))
    before = even(counts, 3, 0.5)
    after = document_step(counts, before, np.exp(mean_log(topics)), 0.5)
    for d in (0, 7):
        total = np.full(3, 0.5)
        for word, count in enumerate(counts[d]):
            share = np.exp(mean_log(before)[d]) * np.exp(mean_log(topics)[:, word])
            total += count * share / share.sum()
        np.testing.assert_allclose(after[d], total, rtol=1e-10)


def test_memberships_weigh_the_document_and_the_word():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + 5.0 * (rng.random((200, 1)) < np.repeat([0.1, 0.9], 100)[:, None])
    groups = np.repeat(["a", "b"], 100)
    model = Lda(2, dictionary=15, random_state=0).fit(X, groups=groups)
    visual, _ = nearest_centre(X, model.dictionary_)
    counts = count_words(visual, 15, np.repeat([0, 1], 100), 2)
    doc_topic = theirs(model.components_, counts).transform(counts)
    topic_word = model.components_ / model.components_.sum(axis=1, keepdims=True)
    for n in (0, 50, 150):
        expected = doc_topic[0 if n < 100 else 1] * topic_word[:, visual[n]]
        np.testing.assert_allclose(model.memberships_[n], expected / expected.sum(), atol=1e-5)
    np.testing.assert_allclose(model.topic_means_, topic_word @ model.dictionary_, rtol=1e-9)


def test_the_same_word_means_less_in_a_document_without_its_topic():
    rng = np.random.default_rng(0)
    left, right, between = rng.normal(-3.0, 1.0, 99), rng.normal(3.0, 1.0, 99), [0.0]
    X = np.concatenate([left, between, right, between])[:, None]
    model = Lda(2, dictionary=10, random_state=0).fit(X, groups=np.repeat([0, 1], 100))
    topic = int(model.topic_means_.argmin())
    assert model.memberships_[99, topic] > model.memberships_[199, topic] + 0.3


def test_a_dictionary_is_no_larger_than_the_rows_that_differ():
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    model = Lda(2, dictionary=100, random_state=0).fit(X, groups=np.repeat([0, 1, 2], 10))
    np.testing.assert_allclose(np.sort(model.dictionary_.ravel()), [0.0, 1.0, 2.0], atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"dictionary": 0}, {"dictionary": 2.5}, {"doc_topic_prior": -1.0}, {"topic_word_prior": 0.0}]
)
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Lda(2, **options).fit(np.random.default_rng(0).normal(size=(20, 2)))
