"""What a user says of rows and of groups → Labels, or one clear error; and topics that start where labels put them.

Rows: an integer for each ("this is topic 2"), shares ("half and half"), or booleans ("one of these").
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.collect import match
from pmlda.engines.documents import labelled_rows
from pmlda.families.base import Family
from pmlda.types import BoolArray, Documents, FloatArray, IntArray, Labels
from pmlda.validate import ROUNDING, brief, positive_array, require

# Part of a label's counts that one topic must have for the word to be an example of it.
PURE = 0.9
# Strength of what a group is said to contain. Its rows say much more; it only has to tip the balance.
CONTAINS = 5.0


def check_labels(name: str, y: Any, n_rows: int, n_topics: int, strength: Any) -> Labels | None:
    """Labels of rows, in the order of the rows; None if nothing was said.

    y : None, (N,) integers with −1 for "unlabelled", (N, K) shares with NaN for unlabelled rows, (N, K) booleans with
        no True in unlabelled rows, or Labels
    strength : a number, or (N,) one for each row
    """
    if y is None:
        return None
    if isinstance(y, Labels):
        return _checked_table(name, y, n_rows, n_topics)
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1 and n_topics > 1:
        values = values[:, 0]
    require(
        values.shape in ((n_rows,), (n_rows, n_topics)),
        f"{name} has shape {values.shape}, expected ({n_rows},) topic numbers, or ({n_rows}, {n_topics}) shares or "
        "booleans: one label for each row of X.",
    )
    if n_topics == 1:  # of which nothing can be said
        return None
    if _are_classes(values, n_topics):
        warnings.warn(
            f"{name} names {int(values.max()) + 1} classes and no row without a label; there are {n_topics} topics. "
            "It was taken for something else than labels of topics, and ignored.",
            stacklevel=6,
        )
        return None
    power = np.broadcast_to(positive_array("label_strength", strength, (), (n_rows,)), (n_rows,))
    if values.ndim == 1:
        numbers = _topic_numbers(name, values, n_topics)
        told = np.flatnonzero(numbers >= 0)
        counts = power[told, None] * np.eye(n_topics)[numbers[told]]
    elif values.dtype.kind == "b":
        told = np.flatnonzero(values.any(axis=1))
        counts = np.zeros((len(told), n_topics))
    else:
        shares = _check_shares(name, values)
        told = np.flatnonzero(np.isfinite(shares[:, 0]))
        counts = power[told, None] * shares[told]
    any_of = values[told].astype(np.float64) if values.dtype.kind == "b" and values.ndim == 2 else np.zeros_like(counts)
    return _distinct(name, n_rows, told, counts, any_of, power[told])


def _are_classes(values: NDArray[Any], n_topics: int) -> bool:
    """Whether these are classes of some other task, which pipelines and searches pass to every step."""
    return values.ndim == 1 and values.dtype.kind in "iu" and bool(values.min() >= 0) and bool(values.max() >= n_topics)


def check_group_labels(value: Any, groups: NDArray[np.generic], n_topics: int, strength: float) -> Labels | None:
    """Labels of documents, in the order of groups (D,).

    value : None, Labels, or a mapping from groups to a topic's number, to numbers ("one of these"), or to (K,) shares
    """
    if value is None:
        return None
    if isinstance(value, Labels):
        return _checked_table("group_labels", value, len(groups), n_topics)
    require(
        isinstance(value, Mapping),
        f"group_labels={brief(value)}: give a mapping from groups to what they contain: a topic's number, a list of "
        "numbers for one of these, or shares of all topics.",
    )
    known = {group: number for number, group in enumerate(groups.tolist())}
    counts, any_of = np.zeros((len(value), n_topics)), np.zeros((len(value), n_topics))
    for i, (group, said) in enumerate(value.items()):
        require(group in known, f"group_labels names the group {brief(group)}, which is not among groups.")
        name, of_group = f"group_labels[{brief(group)}]", np.asarray(said)
        if of_group.dtype.kind == "f":
            require(of_group.shape == (n_topics,), f"{name} has shape {of_group.shape}, expected ({n_topics},) shares.")
            counts[i] = strength * _check_shares(name, of_group[None])[0]
        else:
            any_of[i, _topic_numbers(name, of_group.ravel(), n_topics)] = 1.0
    told = np.array([known[group] for group in value], np.int64)
    return _distinct("group_labels", len(groups), told, counts, any_of, np.full(len(told), CONTAINS))


def _topic_numbers(name: str, values: NDArray[Any], n_topics: int) -> IntArray:
    """(N,) topics from 0, −1 where nothing is known."""
    whole = values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.floor(values)).all()))
    require(
        whole,
        f"Unknown label type: {name} has values of type {values.dtype}. Give topic numbers, −1 for unlabelled rows.",
    )
    numbers = values.astype(np.int64, copy=False)
    for extreme in (numbers.min(initial=0), numbers.max(initial=0)):
        require(
            -1 <= extreme < n_topics,
            f"{name} has the topic number {extreme}, expected 0 to {n_topics - 1} for {n_topics} topics, or −1 for "
            "rows without a label.",
        )
    return np.asarray(numbers)


def _check_shares(name: str, values: NDArray[Any]) -> FloatArray:
    """(N, K) shares that add up to one, or NaN in the whole row."""
    require(values.dtype.kind in "iuf", f"{name} has values of type {values.dtype}: give shares of topics.")
    shares = values.astype(np.float64)
    missing = np.isnan(shares)
    require(
        bool((missing.all(axis=1) == missing.any(axis=1)).all()),
        f"{name} has rows of which only some shares are NaN. Give all shares of a row, or NaN for all of them.",
    )
    sums = np.where(missing.all(axis=1), 1.0, np.nan_to_num(shares).sum(axis=1))
    smallest = float(np.nanmin(shares, initial=0.0))
    require(smallest >= 0.0, f"{name} has a share of {smallest:g}. Shares lie between 0 and 1.")
    worst = float(sums[np.argmax(np.abs(sums - 1.0))])
    require(abs(worst - 1.0) <= ROUNDING, f"{name} has shares that sum to {worst:g}. They must sum to 1 in every row.")
    return np.asarray(shares / sums[:, None])


def _distinct(
    name: str, n_rows: int, told: IntArray, counts: FloatArray, any_of: FloatArray, power: FloatArray
) -> Labels | None:
    """Labels with a table of the different ones; None if there are none.

    told : (n,) rows that have one
    counts, any_of, power : (n, K), (n, K) and (n,) of each; power is the strength of "one of these"
    """
    if len(told) == 0:
        return None
    n_topics, n_any = counts.shape[1], any_of.sum(axis=1)
    require(
        bool((n_any < n_topics).all()),
        f'{name} says "one of these" of all {n_topics} topics, which says nothing. Leave such rows unlabelled.',
    )
    alone = (n_any == 1)[:, None] * any_of  # one of one topic is that topic
    strength = np.where(n_any > 1, power, 0.0)
    table = np.hstack([counts + power[:, None] * alone, any_of - alone, strength[:, None]])
    different, row = np.unique(table, axis=0, return_inverse=True)
    rows = np.zeros(n_rows, np.int64)
    rows[told] = 1 + row.ravel()
    different = np.vstack([np.zeros((1, different.shape[1])), different])
    parts = different[:, :n_topics], different[:, n_topics:-1], different[:, -1]
    return Labels(rows, *(np.ascontiguousarray(part) for part in parts))


def _checked_table(name: str, labels: Labels, n_rows: int, n_topics: int) -> Labels | None:
    """Labels that were made elsewhere, if they fit."""
    row, counts, any_of, strength = labels
    n = len(strength)
    fits = row.shape == (n_rows,) and counts.shape == any_of.shape == (n, n_topics) and strength.shape == (n,)
    require(
        fits and bool(((row >= 0) & (row < n)).all()) and not (counts[0].any() or strength[0]),
        f"{name} are labels of {len(row)} rows with a table of shape {counts.shape}, expected {n_rows} rows and "
        f"{n_topics} topics.",
    )
    finite = all(bool(np.isfinite(part).all()) and bool((part >= 0).all()) for part in (counts, any_of, strength))
    require(finite, f"{name} have counts or strengths that are negative or not finite.")
    require(
        bool((any_of.any(axis=1) | (strength == 0.0)).all()),
        f'{name} say "one of these" of no topic. Give the topics that it may be, or no strength.',
    )
    made = (np.ascontiguousarray(part, np.float64) for part in (counts, any_of, strength))
    return Labels(np.ascontiguousarray(row, np.int64), *made) if row.any() else None


# ── what follows from labels ───────────────────────────────────────────────────────────────────────────────────────
def told_apart(*said: Labels | None) -> BoolArray | None:
    """(K,) topics of which labels, of words and of documents, say something; None if there are no labels."""
    found: BoolArray | None = None
    for labels in said:
        if labels is not None:
            used = np.unique(labels.row[labels.row > 0])
            columns: BoolArray = np.asarray((labels.counts[used] + labels.any_of[used]).any(axis=0))
            found = columns if found is None else found | columns
    return found


def means_from_labels(means: FloatArray, documents: Documents, family: Family) -> FloatArray:
    """(K, ·) starting means, numbered as labels say; topics of which there are examples start at the mean of these.

    Which mean gets which number follows from how near it is to the words, and to the averages of documents, that labels
    speak of: each label votes for the topics that it names.
    """
    examples, votes, pure = _examples(documents, family)
    if len(examples) == 0 or not votes.any():
        return means
    scale, known = family.feature_scale(examples), family.known_means
    numbered = None if known is None else ~np.isnan(known[:, 0])
    apart = (((examples[:, None] - means[None]) / scale) ** 2).sum(axis=2)
    means = means[match(votes.T @ apart, numbered)]
    total = pure.sum(axis=0)
    # One more example, an average one, keeps means where the family allows them.
    average = (pure.T @ examples + examples.mean(axis=0)) / (total + 1.0)[:, None]
    return np.where((total > 0.0)[:, None], average, means)


def _examples(documents: Documents, family: Family) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points as wide as a mean, (n, ·), of words and documents with labels; how each votes, and of what each is an
    example, (n, K) both."""
    parts = []
    rows = labelled_rows(documents)
    if documents.told is not None:
        points = family.as_means(documents.words[rows])
        parts.append((points, *_votes(documents.told, documents.told.row[rows])))
    if documents.told_documents is not None:
        known = np.flatnonzero(documents.told_documents.row)
        spans = [slice(*documents.starts[d : d + 2]) for d in known]
        points = np.array([family.as_means(documents.words[span]).mean(axis=0) for span in spans])
        votes, _ = _votes(documents.told_documents, documents.told_documents.row[known])
        parts.append((points, votes, np.zeros_like(votes)))  # a document contains more than it is said to
    if not parts:
        return np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0))
    points, votes, pure = (np.concatenate(each) for each in zip(*parts, strict=True))
    return points, votes, pure


def _votes(labels: Labels, row: IntArray) -> tuple[FloatArray, FloatArray]:
    """(n, K) the counts of labels, with those of "one of these" shared out; and 1 for what they call pure."""
    counts, any_of = labels.counts[row], labels.any_of[row]
    shared = any_of * (labels.strength[row] / np.maximum(any_of.sum(axis=1), 1.0))[:, None]
    total = counts.sum(axis=1, keepdims=True)
    return counts + shared, ((total > 0.0) & (counts >= PURE * total)).astype(np.float64)
