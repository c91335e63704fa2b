"""How many topics: what chooses them, what it says, and what it refuses."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold

from pmlda import PMLDA, choose_n_topics
from pmlda.errors import PmldaError
from pmlda.families import Gaussian
from pmlda.howmany import Choice, Halves, Trial, conclude, distance, from_table, is_over, least_worth
from pmlda.model import simulate
from pmlda.types import Topics

CORNERS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


@pytest.fixture(scope="module")
def corpus():
    words, groups, _ = simulate(np.random.default_rng(3), Gaussian(), Topics(CORNERS, np.array(1.0)), [50] * 16)
    return words, groups


@pytest.fixture(scope="module")
def choice(corpus):
    return choose_n_topics(*corpus)


def trial(n_topics, total, gap=0.0, worth=0.5):
    steps = np.linspace(-0.1, 0.1, 10) * n_topics
    z, means = np.ones((4, n_topics)) / n_topics, np.eye(n_topics)
    return Trial(n_topics, total / 10 + steps - steps.mean(), gap, worth, z, means)


COUNTS = np.ones(10, int)


def choose(*trials, least=1):
    return conclude(list(trials), COUNTS, least, lambda means: np.arange(len(means)))


def test_the_number_of_topics_is_found(corpus, choice):
    assert choice.n_topics == 3
    assert choice.tried == (1, 2, 3, 4, 5)
    assert choice.errors[2] == 0.0
    assert sum(choice.splits) == pytest.approx(1.0)
    assert choice.reason.startswith("3 topics: ")


def test_threads_and_repeats_make_no_difference(corpus, choice):
    assert choose_n_topics(*corpus, n_jobs=2) == choose_n_topics(*corpus, n_jobs=1) == choice


def test_the_order_of_documents_in_the_rows_makes_no_difference(corpus, choice):
    words, groups = corpus
    order = np.argsort(groups % 5, kind="stable")
    assert choose_n_topics(words[order], groups[order]) == choice


def test_the_smallest_number_within_an_error_of_the_best_is_chosen():
    assert choose(trial(1, 0.0), trial(2, 9.0), trial(3, 9.01)).n_topics == 2
    assert choose(trial(1, 0.0), trial(2, 9.0), trial(3, 20.0)).n_topics == 3


def test_topics_that_are_not_the_same_in_both_halves_are_not_chosen():
    found = choose(trial(1, 0.0), trial(2, 9.0), trial(3, 20.0, gap=0.9))
    assert found.n_topics == 2
    assert "not the same in both halves" in found.reason


def test_topics_that_explain_hardly_anything_are_not_chosen():
    found = choose(trial(1, 0.0), trial(2, 9.0), trial(3, 20.0, worth=0.01))
    assert found.n_topics == 2
    assert "would explain less than 1.25 % of what varies" in found.reason


def test_a_topic_between_others_is_not_worth_having_however_many_words_it_has():
    z = np.random.default_rng(0).dirichlet([0.5] * 4, 500)
    worths = [least_worth(z, np.vstack([CORNERS, [[4.0 + away, 4.0 + away]]])) for away in (0.0, 1.0, 2.0)]
    assert worths[0] < 1e-6
    assert worths[2] / worths[1] == pytest.approx(4.0, rel=0.2)  # the square of the distance, by the structure
    assert least_worth(z[:, :3] / z[:, :3].sum(axis=1, keepdims=True), CORNERS) > 0.5


def test_labels_win():
    found = choose(trial(1, 0.0), trial(2, 9.0), trial(3, 8.0), least=3)
    assert found.n_topics == 3
    assert "labels or known topics name as many, where the data alone would have 2" in found.reason


def test_the_search_ends_after_two_lower_scores():
    rising = [trial(1, 0.0), trial(2, 9.0)]
    assert not is_over([*rising, trial(3, 8.0)], COUNTS)
    assert is_over([*rising, trial(3, 8.0), trial(4, 7.0)], COUNTS)


def test_the_search_goes_on_while_more_topics_score_higher_and_some_of_them_do_not_count():
    """Scores that have been surpassed are no reason to end it."""
    rising = [trial(1, 0.0), trial(2, 3.0), trial(3, 6.0), trial(4, 9.0)]
    assert not is_over([*rising, trial(5, 12.0, gap=0.9)], COUNTS)
    assert not is_over([*rising, *(trial(5 + k, 12.0 + k, gap=0.9) for k in range(3))], COUNTS)
    assert is_over([*rising, *(trial(5 + k, 12.0 + k, gap=0.9) for k in range(4))], COUNTS)


def test_a_gap_is_in_units_of_the_distance_to_the_nearest_topic():
    gap, same = distance(np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([[4.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.5]))
    assert (gap, same.tolist()) == (0.5, [1, 0])


def test_of_two_documents_that_follow_each_other_each_half_has_one(corpus):
    problem = Halves.of(*corpus, None, 0, {})
    pairs = problem.half[problem.documents.starts[:-1]].reshape(-1, 2)
    assert (pairs.sum(axis=1) == 1).all()
    assert 0 < pairs[:, 0].sum() < len(pairs)


def test_one_document_is_cut_into_parts(corpus):
    words = np.random.default_rng(0).permutation(corpus[0])
    assert choose_n_topics(words, np.zeros(len(words), int)).n_topics == 3


def test_counts_have_a_number_of_topics():
    rng = np.random.default_rng(0)
    crisp = np.eye(2)[rng.integers(2, size=900)]
    counts = rng.poisson(crisp @ [[2.0, 20.0], [20.0, 2.0]]).astype(float)
    assert choose_n_topics(counts, np.repeat(np.arange(15), 60), family="poisson").n_topics == 2


def test_a_table_is_the_same_choice(choice):
    assert from_table(choice.to_table()) == choice
    with pytest.raises(PmldaError, match="does not fit together"):
        from_table(choice.to_table() | {"gaps": [0.0]})


@pytest.mark.parametrize(
    ("words", "groups", "said"),
    [
        (np.ones((40, 2)), np.arange(40) // 4, "All words are the same"),
        (np.eye(3), [0, 1, 2], "too few to try 2 topics"),
        (np.random.default_rng(0).normal(size=(10, 2)), np.arange(10), "No two documents have words enough"),
        (np.ones(5), [0] * 5, "one row for each word"),
    ],
)
def test_what_cannot_be_answered_is_refused(words, groups, said):
    with pytest.raises(PmldaError, match=said):
        choose_n_topics(words, groups)


def test_a_search_by_score_agrees(corpus, choice):
    words, groups = corpus
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(PMLDA(n_refits=0, random_state=0), {"n_components": [2, 3, 4]}, cv=GroupKFold(2))
        search.fit(words, groups=groups)
    assert search.best_params_["n_components"] == choice.n_topics


def test_groups_that_scikit_learn_keeps_for_itself_give_a_warning(corpus):
    words, groups = corpus
    search = GridSearchCV(PMLDA(n_refits=0, random_state=0), {"n_components": [1]}, cv=GroupKFold(2))
    with pytest.warns(UserWarning, match="does not pass them on"):
        search.fit(words[:200], groups=groups[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        GridSearchCV(PMLDA(n_refits=0, random_state=0), {"n_components": [1]}, cv=2).fit(words[:200])


def test_rows_are_scored_in_their_order_and_alone_in_their_document(corpus):
    words, groups = corpus
    model = PMLDA(3, n_refits=0, random_state=0).fit(words, groups=groups)
    some, documents = words[:151], groups[:151]  # the last document has one row
    total = model.score(some, groups=documents)
    each = [model.score(some[[i, i + 25]], groups=documents[[i, i + 25]]) for i in (0, 100)]
    assert np.isfinite([total, *each]).all()
    shuffled = np.argsort(documents * 1000 + np.arange(151))
    assert model.score(some[shuffled], groups=documents[shuffled]) == pytest.approx(total)
    assert model.score(some, groups=documents) > model.score(some + 3.0, groups=documents)


def test_a_choice_is_shown_with_its_numbers():
    text = str(Choice(2, (1, 2), (-2.0, -1.0), (0.1, 0.0), (0.0, 0.1), (1.0, 0.9), (), "2 topics: why."))
    assert text.splitlines()[0] == "2 topics: why."
    assert text.splitlines()[-1].endswith("←")
