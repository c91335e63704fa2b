"""Documents: rows of X + the group of each row → Documents; per-word values → the order of X."""

from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.errors import PmldaError
from pmlda.families.sparse import contiguous
from pmlda.types import Documents, IntArray
from pmlda.validate import require

# Work is cut into pieces of at most this many words of one document. The cut depends on the data alone, so every
# number of threads adds the same numbers in the same order.
SEGMENT_WORDS = 4096
# Of a sample of the words, no larger a part has labels: the sample stands for many more words, its labels for all.
LABELLED_PART = 1 / 16


def group_rows(X: NDArray[np.floating], groups: ArrayLike | None) -> Documents:
    """Sort the rows of X by document. Without groups all rows are one document, labelled 0.

    >>> documents = group_rows(np.array([[1.0], [2.0], [3.0]]), ["b", "a", "b"])
    >>> documents.labels.tolist(), documents.words[:, 0].tolist(), documents.starts.tolist()
    (['a', 'b'], [2.0, 1.0, 3.0], [0, 1, 3])
    """
    n_words = len(X)
    if groups is None:
        everything = np.arange(n_words)
        return Documents(X, np.zeros(n_words, np.int64), np.array([0, n_words]), np.array([0]), everything)
    checked = check_groups(groups, n_words)
    if checked.dtype.kind in "iu" and bool((np.diff(checked.astype(np.int64)) >= 0).all()):  # sorted already
        first = np.flatnonzero(np.concatenate(([True], checked[1:] != checked[:-1])))
        starts = np.append(first, n_words)
        document = np.repeat(np.arange(len(first)), np.diff(starts))
        return Documents(contiguous(X), document, starts, checked[first], np.arange(n_words))
    labels, document = np.unique(checked, return_inverse=True)
    order = np.argsort(document, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(document))))
    return Documents(contiguous(X[order]), document[order], starts, labels, order)


def check_groups(groups: ArrayLike, n_words: int) -> NDArray[np.generic]:
    """Groups as a one-dimensional array of labels, one for each row of X."""
    labels = groups if isinstance(groups, np.ndarray) else _as_objects(groups)
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim != 1 or len(labels) != n_words:
        raise PmldaError(
            f"groups has shape {labels.shape} but X has {n_words} rows. "
            "Give one document label for each row of X, or leave groups out to treat X as one document."
        )
    if labels.dtype == object:
        kinds = {_kind(label) for label in labels.tolist()}
        _require_labels("nothing" not in kinds)
        require(
            len(kinds) == 1 and kinds <= {"text", "number"},
            f"groups mixes labels of several kinds, or has labels of an odd kind: {', '.join(sorted(kinds))}. "
            "Use one kind, all strings or all integers.",
        )
        labels = np.array(labels.tolist())
    if labels.dtype.kind in "mM":
        _require_labels(not np.isnat(labels).any())
    if labels.dtype.kind in "fc":
        _require_labels(bool(np.isfinite(labels).all()))
    return labels


def _require_labels(complete: bool) -> None:
    require(
        complete,
        "groups contains NaN, infinity or None. Give every row a document label, "
        "or drop the rows that belong to no document.",
    )


def _as_objects(groups: ArrayLike) -> NDArray[np.generic]:
    """The labels as they are: NumPy would turn a mixture of numbers and texts into texts."""
    if hasattr(groups, "__array__"):
        return np.asarray(groups)
    try:
        labels = np.asarray(groups)
    except ValueError:
        raise PmldaError("groups is ragged. Give one document label for each row of X.") from None
    return np.asarray(groups, dtype=object) if labels.dtype.kind in "US" else labels


def _kind(label: object) -> str:
    if label is None or (isinstance(label, Real) and not isfinite(label)):
        return "nothing"
    return "text" if isinstance(label, str) else "number" if isinstance(label, Real) else type(label).__name__


def to_row_order(values: NDArray[Any], documents: Documents) -> NDArray[Any]:
    """Per-word values back in the order of the rows that the user gave."""
    order = documents.order
    if len(order) and order[0] == 0 and bool((np.diff(order) == 1).all()):
        return values
    result = np.empty_like(values)
    result[order] = values
    return result


def cut_segments(documents: Documents, most_words: int = SEGMENT_WORDS) -> IntArray:
    """(n_segments, 4) rows (start, stop, document, label): pieces of SEGMENT_WORDS or fewer, each with one label.

    >>> from pmlda.types import Labels
    >>> labels = Labels(np.array([0, 0, 1, 1, 0]), np.eye(2), np.zeros((2, 2)), np.zeros(2))
    >>> cut_segments(group_rows(np.zeros((5, 1)), [7, 7, 7, 8, 8])._replace(told=labels)).tolist()
    [[0, 2, 0, 0], [2, 3, 0, 1], [3, 4, 1, 1], [4, 5, 1, 0]]
    """
    most, edges, told = min(most_words, SEGMENT_WORDS), documents.starts, documents.told
    if told is not None:
        edges = np.union1d(edges, np.flatnonzero(np.diff(told.row)) + 1)
    pieces = -(-np.diff(edges) // most)
    run = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = edges[run] + most * number
    label = np.zeros_like(start) if told is None else told.row[start]
    stop = np.minimum(start + most, edges[run + 1])
    return np.stack([start, stop, documents.document[start], label], axis=1)


def take_rows(documents: Documents, rows: IntArray, chosen: IntArray, document: IntArray) -> Documents:
    """Documents of some of their words; in each, words with the same label follow each other, and are one segment.

    rows : (n,) words, document by document
    chosen : (d,) the old numbers of documents
    document : (n,) the new number of the document of each row, ascending from 0 to d − 1
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(document, minlength=len(chosen)))])
    told, of_documents = documents.told, documents.told_documents
    if told is not None:
        rows = rows[np.lexsort((told.row[rows], document))]
    return Documents(
        contiguous(documents.words[rows]),
        document,
        starts,
        documents.labels[chosen],
        np.arange(len(rows)),
        None if told is None else told.take(rows),
        None if of_documents is None else of_documents.take(chosen),
    )


def labelled_rows(documents: Documents, sample: int | None = None) -> IntArray:
    """Words that have a label, ascending.

    sample : number of words that are visited in all, of which they are a part: then no more than LABELLED_PART of it,
        evenly of all labels
    """
    if documents.told is None:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(documents.told.row)
    most = len(rows) if sample is None else int(LABELLED_PART * sample)
    if len(rows) <= most:
        return rows
    by_label = rows[np.argsort(documents.told.row[rows], kind="stable")]
    return np.sort(by_label[np.arange(most) * len(rows) // most])
