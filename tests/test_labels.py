"""Labels of rows and groups, as PMLDA takes them: what they do, what they may be, and what is refused."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pmlda import PMLDA
from pmlda.errors import CheckpointError, InputError
from pmlda.families import find_family
from pmlda.model import simulate
from pmlda.types import Topics
from tests.statistical.checks import FULL

N_SETS = 50 if FULL else 8
K, EXAMPLES = 3, 4
MEANS = {
    "gaussian": np.array([[0.0, 0.0, 0.0], [6.0, 2.0, 1.0], [1.0, 6.0, 3.0]]),
    "poisson": np.array([[1.0, 9.0, 3.0], [9.0, 2.0, 3.0], [4.0, 4.0, 20.0]]),
}


def simulated(seed, family="gaussian", n_documents=12, size=60):
    """Words, groups, true memberships: topics in an order that depends on the seed."""
    rng = np.random.default_rng(seed)
    means = MEANS[family][rng.permutation(K)]
    topics = Topics(means, np.array(1.0) if family == "gaussian" else np.empty(0))
    chosen = find_family(family, "isotropic")
    words, document, latents = simulate(rng, chosen, topics, [size] * n_documents, scale_rate=1.0)
    return words, document, latents.memberships, means


def examples(z, n=EXAMPLES):
    """(N,) the n purest rows of each topic labelled."""
    y = np.full(len(z), -1)
    for k in range(z.shape[1]):
        y[np.argsort(-z[:, k])[:n]] = k
    return y


def is_numbered_right(model, means):
    """Whether every topic found is nearest to the true topic of the same number."""
    apart = ((model.topic_means_[:, None] - means[None]) ** 2).sum(axis=2)
    return bool((apart.argmin(axis=1) == np.arange(len(means))).all())


@pytest.mark.parametrize("init", ["extremes", "prior", "wrong"])
def test_topics_follow_labels_from_any_start(init):
    """Order right on all simulated sets, whatever init and seed; without labels it is right by chance alone."""
    right = unlabelled = 0
    for seed in range(N_SETS):
        X, groups, z, means = simulated(seed)
        start = np.roll(means, 1, axis=0) if init == "wrong" else init
        model = PMLDA(K, init=start, n_refits=0, random_state=seed)
        right += is_numbered_right(model.fit(X, examples(z), groups=groups), means)
        unlabelled += is_numbered_right(model.fit(X, groups=groups), means)
    assert right == N_SETS
    assert unlabelled < N_SETS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", ["gibbs", "paper"])
def test_samplers_follow_labels(engine):
    X, groups, z, means = simulated(0)
    model = PMLDA(K, engine=engine, n_sweeps=60, init=np.roll(means, 1, axis=0), random_state=0, prior_steps=1)
    assert is_numbered_right(model.fit(X, examples(z), groups=groups), means)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_counts_follow_labels():
    X, groups, z, means = simulated(1, "poisson")
    model = PMLDA(K, family="poisson", n_refits=0, random_state=0).fit(X, examples(z), groups=groups)
    assert is_numbered_right(model, means)


def test_numbers_shares_and_one_of_these_of_the_same_rows_agree():
    """A share of 1 says what a number says, and so does one of a single topic."""
    X, groups, z, _ = simulated(2)
    y = examples(z)
    told = (y >= 0)[:, None]
    as_shares = np.where(told, np.eye(K)[y], np.nan)
    as_one_of = told & (np.eye(K)[y] > 0)
    first, second, third = (
        PMLDA(K, n_refits=0, random_state=0).fit(X, each, groups=groups).memberships_
        for each in (y, as_shares, as_one_of)
    )
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_labels_reach_the_rows_they_are_of_whatever_the_order_of_groups():
    """Rows are sorted by group inside; a strong wrong label moves its own row, and the others hardly."""
    X, groups, z, _ = simulated(3)
    shuffled = np.random.default_rng(0).permutation(len(X))
    y = examples(z)
    contrary = int(np.argsort(-z[:, 0])[EXAMPLES + 3])
    y[contrary] = 1
    model = PMLDA(K, n_refits=0, label_strength=1000.0, random_state=0)
    model.fit(X[shuffled], y[shuffled], groups=groups[shuffled])
    found = np.empty_like(model.memberships_)
    found[shuffled] = model.memberships_
    assert found[contrary, 1] > 0.9
    others = np.setdiff1d(np.argsort(-z[:, 0])[:20], [contrary])
    assert found[others, 0].mean() > 0.8


def test_half_and_half_is_believed_as_far_as_its_strength():
    X, groups, z, _ = simulated(4)
    y = np.where((examples(z) >= 0)[:, None], np.eye(K)[examples(z)], np.nan)
    row = int(np.argsort(-z[:, 0])[EXAMPLES + 3])
    y[row] = [0.5, 0.5, 0.0]

    def share(strength):
        model = PMLDA(K, n_refits=0, label_strength=strength, random_state=0).fit(X, y, groups=groups)
        return model.memberships_[row, 0]

    assert share(0.1) > share(10.0) > share(3000.0)
    assert abs(share(3000.0) - 0.5) < 0.05


def test_one_of_these_leaves_the_data_to_decide_which():
    """Told that a row is topic 0 or 1, it is whichever its features say; told that it is 2, it is that."""
    X, groups, z, _ = simulated(5)
    y = np.zeros((len(X), K), bool)
    y[examples(z) >= 0] = np.eye(K, dtype=bool)[examples(z)[examples(z) >= 0]]
    rows = np.argsort(-z[:, 0])[EXAMPLES : EXAMPLES + 6]
    y[rows] = [True, True, False]
    found = PMLDA(K, n_refits=0, label_strength=300.0, random_state=0).fit(X, y, groups=groups).memberships_[rows]
    assert found[:, 0].mean() > 0.7
    y[rows] = [False, False, True]
    found = PMLDA(K, n_refits=0, label_strength=300.0, random_state=0).fit(X, y, groups=groups).memberships_[rows]
    assert found[:, 2].mean() > 0.9


def test_groups_contain_what_they_are_said_to_contain():
    X, groups, z, _ = simulated(6, size=12)
    poor = int(np.argmin([z[groups == d, 2].mean() for d in range(12)]))
    y, model = examples(z), PMLDA(K, n_refits=0, random_state=0)
    plain = model.fit(X, y, groups=groups).proportions_[poor]
    before = plain[2]
    after = model.fit(X, y, groups=groups, group_labels={poor: 2}).proportions_[poor, 2]
    either = model.fit(X, y, groups=groups, group_labels={poor: [1, 2]}).proportions_[poor]
    shares = model.fit(X, y, groups=groups, group_labels={poor: [0.2, 0.2, 0.6]}).proportions_[poor, 2]
    assert after > before + 0.02
    assert shares > before
    assert either[1:].sum() > plain[1:].sum()


def test_batches_have_labels_too():
    X, groups, z, means = simulated(7, n_documents=20)
    y, model = examples(z, 8), PMLDA(K, random_state=0)
    for batch in (slice(0, 600), slice(600, 1200)):
        model.partial_fit(X[batch], y[batch], groups=groups[batch])
    assert is_numbered_right(model, means)


def test_pipelines_and_searches_pass_labels_on():
    X, groups, z, means = simulated(8)
    steps = make_pipeline(StandardScaler(), PMLDA(K, n_refits=0, random_state=0))
    steps.fit(X, examples(z), pmlda__groups=groups)
    assert is_numbered_right(steps[-1], StandardScaler().fit(X).transform(means))
    search = GridSearchCV(PMLDA(K, n_refits=0, random_state=0), {"label_strength": [1.0, 100.0]}, cv=GroupKFold(2))
    with pytest.warns(UserWarning, match="does not pass them on to PMLDA"):  # but only to the splitter
        search.fit(X, examples(z, 20), groups=groups)
    assert is_numbered_right(search.best_estimator_, means)
    first, second = search.cv_results_["mean_test_score"]
    assert first != second  # labels have reached the fits


def test_classes_of_another_task_are_ignored_with_a_warning():
    X, groups, _, _ = simulated(9)
    plain = PMLDA(K, n_refits=0, random_state=0).fit(X, groups=groups)
    with pytest.warns(UserWarning, match="y names 12 classes and no row without a label; there are 3 topics"):
        other = PMLDA(K, n_refits=0, random_state=0).fit(X, groups, groups=groups)
    np.testing.assert_array_equal(other.memberships_, plain.memberships_)


def share_rows(row):
    y = np.full((720, K), np.nan)
    y[3] = row
    return y


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(5, int), "y has shape (5,), expected (720,) topic numbers, or (720, 3) shares or booleans"),
        (np.zeros((720, 2)), "y has shape (720, 2), expected (720,) topic numbers"),
        (np.where(np.arange(720) == 3, 3, -1), "y has the topic number 3, expected 0 to 2 for 3 topics"),
        (np.where(np.arange(720) == 3, -2, -1), "y has the topic number -2, expected 0 to 2 for 3 topics"),
        (np.linspace(0, 1, 720), "Unknown label type: y has values of type float64"),
        (share_rows([0.5, 0.2, 0.2]), "y has shares that sum to 0.9. They must sum to 1 in every row"),
        (share_rows([1.5, -0.5, 0.0]), "y has a share of -0.5. Shares lie between 0 and 1"),
        (share_rows([0.5, np.nan, 0.5]), "y has rows of which only some shares are NaN"),
        (np.tile([True, True, True], (720, 1)), 'y says "one of these" of all 3 topics, which says nothing'),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y, message):
    X, groups, _, _ = simulated(10)
    with pytest.raises(InputError) as refused:
        PMLDA(K).fit(X, y, groups=groups)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({99: 1}, "group_labels names the group 99, which is not among groups"),
        ({0: 7}, "group_labels[0] has the topic number 7, expected 0 to 2"),
        ({0: [0.5, 0.5]}, "group_labels[0] has shape (2,), expected (3,) shares"),
        ([1, 2], "group_labels=[1, 2]: give a mapping from groups to what they contain"),
    ],
)
def test_group_labels_that_cannot_be_used_are_refused(given, message):
    X, groups, _, _ = simulated(10)
    with pytest.raises(InputError) as refused:
        PMLDA(K).fit(X, groups=groups, group_labels=given)
    assert message in str(refused.value)


@pytest.mark.parametrize("strength", [0.0, -1.0, np.inf, "much"])
def test_a_strength_is_a_positive_number(strength):
    X, groups, z, _ = simulated(10)
    with pytest.raises(InputError, match="label_strength"):
        PMLDA(K, label_strength=strength).fit(X, examples(z), groups=groups)


def test_labels_are_part_of_what_a_checkpoint_belongs_to(tmp_path):
    X, groups, z, _ = simulated(11)
    model = PMLDA(K, n_refits=0, random_state=0)
    model.fit(X, examples(z), groups=groups, checkpoint=tmp_path / "kept")
    other = np.roll(np.arange(K), 1)[examples(z)]
    other[examples(z) < 0] = -1
    with pytest.raises(CheckpointError, match=r"belong to another fit\. Different: labels\."):
        model.fit(X, other, groups=groups, checkpoint=tmp_path / "kept")
