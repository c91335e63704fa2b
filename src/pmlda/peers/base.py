"""The face of every peer: rows of X and the document of each → memberships, like PMLDA's.

A peer answers two questions, _learn and _weigh, in units in which the data have mean 0 and spread 1. Everything else
is here: checks, units, labels, what a document has of each topic, and model files.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from pmlda.engines.documents import group_rows, to_row_order
from pmlda.engines.fitted import check_documents, check_rows, check_traces
from pmlda.engines.parameters import bounded_array, check_magnitude, sizable_array
from pmlda.errors import PmldaError
from pmlda.families.rows import column_means, count_distinct
from pmlda.types import DocumentPosterior, FloatArray, IntArray, Verdict
from pmlda.validate import require, whole

# Starts are tried on so many rows, drawn at random, and the best of them goes on with all rows.
STARTING_ROWS = 20_000
LEAST_SCALE, LARGEST_SCALE = 1e-3, 1e6


class Units(NamedTuple):
    """Where the data lie and how large they are: offset (p,), and the root of the mean squared distance from it."""

    offset: FloatArray
    size: float

    def into(self, rows: NDArray[np.floating]) -> FloatArray:
        """Equal rows stay equal bit for bit, so that a word on a centre stays on it."""
        return np.asarray((rows.astype(np.float64) - self.offset) / self.size)

    def back(self, rows: FloatArray) -> FloatArray:
        return rows * self.size + self.offset


class Task(NamedTuple):
    """What a peer learns from.

    words : (N, p) in units
    document : (N,) index of each word's document
    n_topics, n_documents, seed : numbers
    units : from X to words
    """

    words: FloatArray
    document: IntArray
    n_topics: int
    n_documents: int
    seed: int
    units: Units


class Learnt(NamedTuple):
    """What a peer has learnt.

    topic_means : (K, p), in units
    n_iter : sweeps over all words
    verdict : whether it stopped because nothing changed any more
    fitted : further attributes, in the units of X
    memberships, std : (N, K), where they are not what _weigh says of the same words, and their deviations
    """

    topic_means: FloatArray
    n_iter: int
    verdict: Verdict
    fitted: dict[str, Any]
    memberships: FloatArray | None = None
    std: FloatArray | None = None


# scikit-learn ships no types, so its base classes are unknown to mypy.
class Peer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A model to compare PM-LDA with.

    Attributes
    ----------
    memberships_ : (N, K) how much of each topic every training row has, or how probable each topic is
    labels_ : (N,) the topic with the largest membership
    topic_means_ : (K, p) mean, centre or prototype of each topic
    membership_std_ : (N, K) standard deviation of each membership; zero where a model knows none
    proportions_, scales_ : (D, K) and (D,) of documents, see describe
    documents_, document_sizes_ : (D,) group labels, and rows of each
    n_iter_, verdict_ : sweeps over the data, and whether they were enough, see pmlda.types.Verdict
    """

    name: ClassVar[str]
    minds_groups: ClassVar[bool] = False
    """Whether the memberships of a row depend on its document."""
    takes_checkpoint: ClassVar[bool] = False
    """Whether fit(checkpoint=…) can be resumed; others take moments."""
    samples_words: ClassVar[bool] = False
    """As in PMLDA: other models learn from every word."""
    warns_itself: ClassVar[bool] = False
    """Whether _learn warns of a fit that did not converge, so that fit need not."""

    n_components: int
    random_state: int | np.random.RandomState | None
    memberships_: NDArray[np.floating]
    labels_: IntArray
    topic_means_: FloatArray
    membership_std_: NDArray[np.floating]
    proportions_: FloatArray
    scales_: FloatArray
    documents_: NDArray[np.generic]
    document_sizes_: IntArray
    offset_: FloatArray
    unit_: float
    seed_: int
    n_iter_: int
    verdict_: Verdict

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"groups": True}

    # ── what a peer answers ────────────────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def _learn(self, task: Task) -> Learnt:
        """Topics from words."""

    @abstractmethod
    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        """(N, K) memberships of words, in units; rows sum to one."""

    def _check_settings(self) -> None:
        """Raise ValueError for settings that make no sense."""

    def _check_loaded(self) -> None:
        """Raise ValueError for fitted attributes, as read from a file, that do not belong together."""

    # ── fitting and using ──────────────────────────────────────────────────────────────────────────────────────
    def fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Learn topics, and the memberships of the rows of X. groups is the document of each row; y is ignored."""
        n_topics = whole("n_components", self.n_components, 1)
        self._check_settings()
        rows = self._validated(X, ensure_min_samples=2)
        check_magnitude(rows)
        found = count_distinct(rows, n_topics)
        require(
            found >= n_topics,
            f"n_components={n_topics} but X has only {found} distinct row(s). "
            f"Use at most {found} topics, or more data.",
        )
        documents = group_rows(rows, groups)
        document = to_row_order(documents.document, documents)
        units = units_of(rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        task = Task(units.into(rows), document, n_topics, len(documents.labels), seed, units)
        with one_thread():
            learnt = self._learn(task)
            self.seed_, self.offset_, self.unit_ = seed, units.offset, units.size
            self.n_iter_, self.verdict_ = learnt.n_iter, learnt.verdict
            self.topic_means_ = units.back(learnt.topic_means)
            self.__dict__.update(learnt.fitted)
            found_memberships = learnt.memberships
            if found_memberships is None:
                found_memberships = self._weigh(task.words, document, task.n_documents)
        self.memberships_ = found_memberships.astype(rows.dtype, copy=False)
        self.labels_ = np.argmax(self.memberships_, axis=1)
        std = np.zeros_like(found_memberships) if learnt.std is None else learnt.std
        self.membership_std_ = std.astype(rows.dtype, copy=False)
        self.proportions_, self.scales_ = document_values(found_memberships, document, task.n_documents)
        self.documents_, self.document_sizes_ = documents.labels, documents.sizes
        if learnt.verdict.state == "not_converged" and not self.warns_itself:
            warnings.warn(str(learnt.verdict), ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """(N, K) memberships of the rows of X, topics as learnt. Only "lda" minds groups; without, they are one."""
        rows = self._check_new(X)
        documents = group_rows(rows, groups)
        with one_thread():
            found = self._weigh(
                self._units.into(rows), to_row_order(documents.document, documents), len(documents.labels)
            )
        return found.astype(rows.dtype, copy=False)

    def infer_documents(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> DocumentPosterior:
        """Memberships as transform gives them, with what each document has of every topic.

        π is the mean of a document's memberships, and s that of the Dirichlet distribution with their variances: near 0
        where they are crisp, large where all are alike (at most 1e6, which also stands where all words of a document
        are of one topic, and nothing tells).
        """
        rows = self._check_new(X)
        documents = group_rows(rows, groups)
        document = to_row_order(documents.document, documents)
        with one_thread():
            memberships, std = self._weigh_with_std(self._units.into(rows), document, len(documents.labels))
        proportions, scales = document_values(memberships, document, len(documents.labels))
        dtype = rows.dtype
        return DocumentPosterior(
            memberships.astype(dtype, copy=False), std.astype(dtype, copy=False), proportions, scales
        )

    def _weigh_with_std(self, words: FloatArray, document: IntArray, n_documents: int) -> tuple[FloatArray, FloatArray]:
        memberships = self._weigh(words, document, n_documents)
        return memberships, np.zeros_like(memberships)

    def fit_transform(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """fit(X, groups=groups), then transform(X, groups=groups). The fit's own answer is memberships_."""
        return self.fit(X, groups=groups).transform(X, groups=groups)

    def predict(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> IntArray:
        """(N,) the topic with the largest membership."""
        return np.asarray(np.argmax(self.transform(X, groups=groups), axis=1))

    @property
    def _units(self) -> Units:
        return Units(self.offset_, self.unit_)

    @property
    def _centres(self) -> FloatArray:
        """(K, p) topic_means_ in units."""
        return self._units.into(self.topic_means_)

    def _check_new(self, X: ArrayLike) -> NDArray[np.floating]:
        check_is_fitted(self, "topic_means_")
        rows = self._validated(X, reset=False)
        check_magnitude(rows)
        return rows

    def _validated(self, X: ArrayLike, **settings: Any) -> NDArray[np.floating]:
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], **settings))

    # ── model files ────────────────────────────────────────────────────────────────────────────────────────────
    def to_content(self, *, rows: bool = True) -> dict[str, Any]:
        """What a model file holds of this model; rows=False leaves out what there is for each training row."""
        check_is_fitted(self, "topic_means_")
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], Integral):
            parameters["random_state"] = None  # a generator's position is not a setting; seed_ holds what was used
        left_out = set() if rows else {"memberships_", "labels_", "membership_std_", "map_memberships_"}
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and name not in left_out}
        fitted["verdict_"] = self.verdict_._asdict()
        return {"model": self.name, "parameters": parameters, "fitted": fitted}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The model that to_content described, checked."""
        model = cls(**content["parameters"])
        for name, value in content["fitted"].items():
            if not name.endswith("_") or name.startswith("_"):
                raise PmldaError(f"it sets {name!r}")
            setattr(model, name, value)
        n_topics, p = whole("n_components", model.n_components, 1), whole("n_features_in_", model.n_features_in_, 1)
        model._check_settings()
        values = model.__dict__
        values |= check_documents(values, n_topics) | check_traces(values)
        values |= check_rows(values, n_topics, "memberships_", "labels_", "membership_std_", "map_memberships_")
        model.topic_means_ = bounded_array("topic_means_", model.topic_means_, (n_topics, p))
        model.offset_ = bounded_array("offset_", model.offset_, (p,))
        model.unit_ = float(sizable_array("unit_", model.unit_, ()))
        model.verdict_ = Verdict.from_content(model.verdict_)
        model._check_loaded()
        return model

    # ── scikit-learn ───────────────────────────────────────────────────────────────────────────────────────────
    @property
    def _n_features_out(self) -> int:
        return len(self.topic_means_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def one_thread() -> Any:
    """A context in which libraries use one thread: what several add up comes in whatever order they end."""
    return _libraries().limit(limits=1)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def units_of(rows: NDArray[np.floating]) -> Units:
    """Units in which the rows have mean 0 and spread 1; rows that are all equal keep their size."""
    offset = column_means(rows)
    spread = float(np.sqrt(np.mean(np.sum((rows - offset) ** 2, axis=1))))
    return Units(offset, spread if spread > 0 else 1.0)


def starting_rows(words: FloatArray, n_distinct: int, rng: np.random.Generator) -> FloatArray:
    """Rows to try starts on: a sample, or all where a sample has fewer than n_distinct different ones."""
    if len(words) <= STARTING_ROWS:
        return words
    sample = words[np.sort(rng.choice(len(words), STARTING_ROWS, replace=False))]
    return sample if count_distinct(sample, n_distinct) >= n_distinct else words


def document_values(
    memberships: NDArray[np.floating], document: IntArray, n_documents: int
) -> tuple[FloatArray, FloatArray]:
    """π (D, K) and s (D,) of documents, by the moments of their memberships.

    Dir(sπ) has mean π and variances π(1 − π) / (s + 1).

    >>> pi, s = document_values(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), np.array([0, 0, 1]), 2)
    >>> pi.tolist(), s.tolist()
    ([[0.5, 0.5], [0.5, 0.5]], [0.001, 1000000.0])
    """
    sizes = np.bincount(document, minlength=n_documents)

    def means(values: FloatArray) -> FloatArray:
        sums = [np.bincount(document, column, minlength=n_documents) for column in values.T]
        return np.asarray(np.stack(sums, axis=1) / sizes[:, None])

    z = memberships.astype(np.float64)
    pi = means(z)
    within = means((z - pi[document]) ** 2).sum(axis=1)
    possible = (pi * (1.0 - pi)).sum(axis=1)
    ratio = np.divide(possible, within, out=np.full_like(possible, np.inf), where=within > possible / LARGEST_SCALE)
    return pi, np.clip(ratio - 1.0, LEAST_SCALE, LARGEST_SCALE)
