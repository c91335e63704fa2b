"""How many topics: words in documents → the smallest number that predicts documents that were held out best.

For each number, topics are learnt from one half of the documents and judged on the other, and the other way round: half
of the words of a document tell its π and s, the other half are scored (engines/heldout.py). The bound of training
would rise with every topic. Held-out scores fall once a topic is one too many, because its prior takes mass from the
others; where pictures are no exact mixtures, they go on rising, but topics of the two halves are no longer the same, or
one of them explains hardly anything that mixtures of the others do not. So the choice is the smallest number within one
standard error of the best, among those whose topics are all reproducible and worth having. docs/howmany.md has the
measurements.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.engines.documents import group_rows, take_rows
from pmlda.engines.heldout import halves
from pmlda.families.rows import count_distinct
from pmlda.types import BoolArray, Documents, FloatArray, IntArray
from pmlda.validate import require, whole

# Topics need a few thousand independent words, whatever the size of the data; and documents, which are what errors are
# about, enough words each to tell their proportions.
MOST_WORDS, MOST_DOCUMENTS = 10_000, 200
# Documents are cut until there are so many, since halves of fewer are hardly alike.
FEWEST_DOCUMENTS = 8
# Starts of each fit. A poor optimum at the right number would make it look wrong.
STARTS = 2
# A topic is reproduced where its copy is no farther than this part of the way to any other topic. On pictures and sets
# that decided on it, gaps of the right numbers were 0.01 to 0.25, but 0.6 on two small pictures of four colours.
REPRODUCED = 1 / 3
# A topic is worth having where more than this share of the structure would be unexplained without it; where more is
# unexplained, the fit check says that a topic is missing.
UNEXPLAINED = 0.0125
# Weight of the condition that shares add up to one, where distances are about 1.
HEAVY = 1e4
# Axes that topics could span, and then so many more topics than axes: a simplex has one more corner, and two more let
# the score fall.
BEYOND_AXES = 3
# The search ends after so many numbers in a row that score lower than the best before; or that do so or do not count.
LOWER, NO_BETTER = 2, 4


class Choice(NamedTuple):
    """How many topics, and why.

    n_topics : the number
    tried : (m,) numbers that were tried
    scores : (m,) mean held-out log density of a word
    errors : (m,) standard error of the difference to the best score; 0 for the best itself
    gaps : (m,) the largest distance between a topic and its copy in the other half of the documents, in units of that
        to the nearest other topic; topics are reproducible up to 1/3
    worths : (m,) the share of the structure that would be unexplained without one of the topics, the least of all; up
        to 0.0125 it is not worth having
    splits : (n_topics,) from which topics the next one would take its share, dark to bright in a photograph; empty if
        one more was not tried
    reason : a sentence
    """

    n_topics: int
    tried: tuple[int, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    gaps: tuple[float, ...]
    worths: tuple[float, ...]
    splits: tuple[float, ...]
    reason: str

    def to_table(self) -> dict[str, Any]:
        """For run.json."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._asdict().items()}

    def __str__(self) -> str:
        rows = zip(self.tried, self.scores, self.errors, self.gaps, self.worths, strict=True)
        lines = [
            f"{k:4d}  {score:10.4f} ± {error:.4f}  {gap:6.2f}  {worth:7.4f}{'  ←' if k == self.n_topics else ''}"
            for k, score, error, gap, worth in rows
        ]
        return "\n".join([self.reason, "topics     score            gap    worth", *lines])


def from_table(table: Mapping[str, Any]) -> Choice:
    """The inverse of Choice.to_table; lists of other lengths are those of a damaged file."""
    values: dict[str, Any] = {k: tuple(each) if isinstance(each, list) else each for k, each in table.items()}
    choice = Choice(**values)
    lengths = {len(each) for each in (choice.tried, choice.scores, choice.errors, choice.gaps, choice.worths)}
    fits = len(lengths) == 1 and len(choice.tried) > 0 and len(choice.splits) in (0, choice.n_topics)
    require(fits, "what it says of the number of topics does not fit together")
    return choice


def from_record(record: Mapping[str, Any]) -> Choice | None:
    """How the number of topics of a run was chosen, if it was."""
    return None if record.get("choice") is None else from_table(record["choice"])


class Trial(NamedTuple):
    """What a number of topics came to.

    totals : (D,) sum of the log densities of the scored words of each document
    gap : as in Choice
    worth : likewise
    memberships : (n, K) of the scored words, topics as in the first half
    means : (K, p) of words, from the first half
    """

    n_topics: int
    totals: FloatArray
    gap: float
    worth: float
    memberships: FloatArray
    means: FloatArray

    @property
    def reproducible(self) -> bool:
        return self.gap <= REPRODUCED

    @property
    def sound(self) -> bool:
        return self.reproducible and self.worth > UNEXPLAINED


Order = Callable[[FloatArray], IntArray]


def choose_number(
    words: NDArray[np.floating],
    groups: ArrayLike,
    *,
    scored: BoolArray | None = None,
    least: int = 1,
    axes: int | None = None,
    order: Order | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Choice:
    """The number of topics of words (N, p) in documents.

    scored : (N,) words that are scored, the others tell π and s; None is the later half of the rows of each document
    least : number of topics that are known anyway, such as those that labels name
    axes : how many axes topics could span, at most; None is the number of features
    order : (K, p) means of words → the order in which people see topics
    parameters : of PMLDA
    """
    problem = Halves.of(words, groups, scored, whole("seed", seed, 0), parameters)
    most = min((words.shape[1] if axes is None else axes) + BEYOND_AXES, problem.n_words // 4)
    trials: list[Trial] = []
    for n_topics in range(1, most + 1):
        trials.append(problem.try_number(n_topics))
        if is_over(trials, problem.counts):
            break
    return conclude(trials, problem.counts, least, order or (lambda means: np.argsort(means.mean(axis=1))))


def differences(trials: list[Trial], best: Trial, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """(m,) how much less each trial scores than the best, per word, and the standard error of that.

    Documents are drawn, not words: the error is that of a ratio of sums over documents, whose differences are paired.
    """
    lost, errors, n = [], [], len(counts)
    for each in trials:
        change = best.totals - each.totals
        mean = change.sum() / counts.sum()
        rest = change - mean * counts
        lost.append(mean)
        errors.append(np.sqrt((rest**2).sum() * n / max(n - 1, 1)) / counts.sum())
    return np.array(lost), np.array(errors)


def is_over(trials: list[Trial], counts: IntArray) -> bool:
    """Whether more topics are no use any more."""
    best = max(trials, key=lambda each: float(each.totals.sum()))
    lower = np.greater(*differences(trials, best, counts))
    first = next((i for i, each in enumerate(trials) if each.n_topics > 1 and each.sound), len(trials))
    after = trials.index(best) + 1
    lower[:after] = False  # these have been surpassed by more topics
    poor = lower | [not each.sound for each in trials]
    return bool(lower[-LOWER:].sum() >= LOWER or poor[first + 1 :][-NO_BETTER:].sum() >= NO_BETTER)


def conclude(trials: list[Trial], counts: IntArray, least: int, order: Order) -> Choice:
    """The choice among numbers that were tried."""
    sound = [each for each in trials if each.sound]
    best = max(sound, key=lambda each: float(each.totals.sum()))
    highest = max(trials, key=lambda each: float(each.totals.sum()))
    lost, errors = differences(trials, best, counts)
    tried = [each.n_topics for each in trials]
    near = [each for each, enough in zip(trials, lost <= errors, strict=True) if enough and each.sound]
    found = near[0].n_topics
    if not highest.reproducible:
        reason = "more would predict better, but are not the same in both halves of the documents"
    elif not highest.sound:
        reason = (
            f"more would predict better, but one of them would explain less than {100 * UNEXPLAINED} % of what varies"
        )
    elif found == highest.n_topics:
        reason = "no other number predicts documents that were held out better"
    else:
        reason = "the smallest number within one standard error of the best"
    reason = f"{count(found)}: {reason}"
    if least > found:
        reason = f"{count(least)}: labels or known topics name as many, where the data alone would have {found}"
    chosen = max(found, least)
    splits = split_of(trials, chosen, order)
    scores = tuple(float(each.totals.sum() / counts.sum()) for each in trials)
    gaps, worths = (
        tuple(float(each) for each in of_all) for of_all in zip(*((t.gap, t.worth) for t in trials), strict=True)
    )
    return Choice(chosen, tuple(tried), scores, tuple(map(float, errors)), gaps, worths, splits, f"{reason}.")


def count(n_topics: int) -> str:
    """A number of topics in words.

    >>> count(1), count(3)
    ('1 topic', '3 topics')
    """
    return f"{n_topics} topic{'s' * (n_topics != 1)}"


def split_of(trials: list[Trial], chosen: int, order: Order) -> tuple[float, ...]:
    """From which topics the one that comes with the next number takes its share; empty if that is not known."""
    from scipy.optimize import linear_sum_assignment

    by_number = {each.n_topics: each for each in trials}
    if chosen not in by_number or chosen + 1 not in by_number:
        return ()
    now, then = by_number[chosen], by_number[chosen + 1]
    overlap = now.memberships.T @ then.memberships
    _, same = linear_sum_assignment(-overlap)
    (new,) = set(range(chosen + 1)) - set(same.tolist())
    taken = overlap[:, new] / max(float(overlap[:, new].sum()), 1e-300)
    return tuple(float(each) for each in taken[order(now.means)])


class Halves(NamedTuple):
    """Words of two halves of the documents, of which one learns what the other is scored by.

    scored : (N,) words that are scored
    half : (N,) the half of each
    counts : (D,) how many words of each document are scored
    """

    documents: Documents
    scored: BoolArray
    half: IntArray
    counts: IntArray
    seed: int
    parameters: dict[str, Any]

    @property
    def n_words(self) -> int:
        return len(self.documents.words)

    @classmethod
    def of(
        cls,
        words: NDArray[np.floating],
        groups: ArrayLike,
        scored: BoolArray | None,
        seed: int,
        parameters: dict[str, Any],
    ) -> "Halves":
        """A subsample of all documents."""
        require(len(words) >= 8, f"There are {len(words)} words, too few to try 2 topics: give at least 8.")
        require(
            count_distinct(words, 2) > 1,
            "All words are the same, so there are no topics to tell apart: give data with more than one colour.",
        )
        documents = _cut(group_rows(words, groups))
        document = documents.document
        later = halves(documents) if scored is None else np.asarray(scored, bool)[documents.order]
        rng = np.random.default_rng(seed)
        n_before = len(words)
        rows = _choose_rows(rng, document, later)
        chosen, document = np.unique(document[rows], return_inverse=True)
        order = np.argsort(document, kind="stable")
        rows, document = rows[order], document[order]
        taken, later = take_rows(documents, rows, chosen, document), later[rows]
        # Of two that follow each other, one goes to each half, so that both halves have seen all of a picture.
        pair, place = np.divmod(np.arange(len(chosen)), 2)
        half = (rng.integers(2, size=len(chosen))[pair] ^ place)[document]
        effect = parameters.get("design_effect", 1.0) * len(rows) / n_before
        parameters = parameters | {"design_effect": max(1.0, effect), "n_refits": 0, "n_init": STARTS}
        return cls(taken, later, half, np.bincount(document[later], minlength=len(chosen)), seed, parameters)

    def try_number(self, n_topics: int) -> Trial:
        """Learn from each half, judge by the other."""
        from pmlda.estimator import PMLDA  # late, as scipy.optimize is: only who asks for the number needs them

        words, document = self.documents.words, self.documents.document
        logs, found, models = np.zeros(len(words)), np.empty((len(words), n_topics)), []
        for half in (0, 1):
            learn, judge = self.half == half, self.half != half
            model = PMLDA(n_topics, **self.parameters, random_state=self.seed)
            model.fit(words[learn], groups=document[learn])
            found_here = model.score_words(words[judge], groups=document[judge], scored=self.scored[judge])
            logs[judge], found[judge] = found_here
            models.append(model)
        first, second = (model.family_.mean_words(model.topic_means_) for model in models)
        unit = models[0].family_.feature_scale(words)
        gap, same = distance(first, second, unit)
        found[self.half == 0] = found[self.half == 0][:, same]
        scored = logs[self.scored]
        totals = np.bincount(document[self.scored], scored, minlength=len(self.counts)).astype(np.float64)
        return Trial(n_topics, totals, gap, least_worth(found[self.scored], first / unit), found[self.scored], first)


def distance(first: FloatArray, second: FloatArray, scale: FloatArray) -> tuple[float, IntArray]:
    """The largest distance of a topic to its copy, in units of that to the nearest other topic, and all copies.

    >>> gap, same = distance(np.array([[0.0], [10.0]]), np.array([[11.0], [0.0]]), np.ones(1))
    >>> round(gap, 3), same.tolist()
    (0.1, [1, 0])
    """
    if len(first) == 1:
        return 0.0, np.zeros(1, np.int64)
    from scipy.optimize import linear_sum_assignment

    a, b = first / scale, second / scale
    _, same = linear_sum_assignment(((a[:, None] - b[None]) ** 2).sum(axis=2))
    apart = np.linalg.norm(a[:, None] - a[None], axis=2) + np.diag(np.full(len(a), np.inf))
    moved = np.linalg.norm(a - b[same], axis=1)
    return float((moved / np.maximum(apart.min(axis=1), 1e-300)).max()), np.asarray(same)


def least_worth(memberships: FloatArray, means: FloatArray) -> float:
    """What would be unexplained, as a share of the variance of mixtures, with the nearest mixture of the others in
    place of a topic; the least of all topics, and at most 1.

    memberships : (n, K)
    means : (K, p) of words, in units in which features are comparable

    >>> means = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0]])
    >>> float(round(least_worth(np.eye(3), means), 3))  # 1² · ⅓ of a variance of 8/3 + 2/9
    0.115
    """
    if len(means) == 1:
        return 1.0
    from scipy.optimize import nnls

    mixtures = memberships @ means
    structure = max(float(mixtures.var(axis=0).sum()), 1e-300)
    scaled = means / np.sqrt(structure)
    worth = 1.0
    for k, (mean, share) in enumerate(zip(scaled, memberships.mean(axis=0), strict=True)):
        others = np.delete(scaled, k, axis=0) - mean
        # Shares of others are positive, and the heavy last row makes them add up to one.
        _, away = nnls(np.vstack([others.T, np.full(len(others), HEAVY)]), np.append(np.zeros(len(mean)), HEAVY))
        worth = min(worth, float(share * away**2))
    return worth


def _cut(documents: Documents) -> Documents:
    """The same documents; where there are few, parts of them, of rows that follow each other."""
    n, sizes = len(documents.sizes), documents.sizes
    if n >= FEWEST_DOCUMENTS:
        return documents
    parts = -(-FEWEST_DOCUMENTS // n)
    place = np.arange(len(documents.words)) - documents.starts[documents.document]
    part = documents.document * parts + place * parts // sizes[documents.document]
    chosen, document = np.unique(part, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(np.bincount(document))])
    return Documents(documents.words, document, starts, chosen, documents.order)


def _choose_rows(rng: np.random.Generator, document: IntArray, later: BoolArray) -> IntArray:
    """Ascending rows of at most about MOST_WORDS, of at most MOST_DOCUMENTS that have words of both kinds."""
    n = int(document.max()) + 1
    both = np.minimum(np.bincount(document[later], minlength=n), np.bincount(document[~later], minlength=n)) > 0
    require(int(both.sum()) >= 2, "No two documents have words enough to hold some out: give larger documents.")
    chosen = np.zeros(n, bool)
    usable = np.flatnonzero(both)
    chosen[rng.permutation(usable)[:MOST_DOCUMENTS]] = True
    rows = np.flatnonzero(chosen[document])
    share = min(1.0, MOST_WORDS / len(rows))
    if share == 1.0:
        return rows
    # Of each document and kind, evenly: the first by chance, and at least one.
    kind = 2 * document[rows] + later[rows]
    order = np.argsort(kind, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=2 * n))])
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - starts[kind[order]]
    offset = rng.random(2 * n)[kind]
    kept = (np.floor((place + 1) * share + offset) > np.floor(place * share + offset)) | (place == 0)
    return np.asarray(rows[kept])
