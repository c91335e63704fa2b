"""Rows and groups become documents, and values go back to their rows."""

import numpy as np
import pytest

from pmlda.engines.documents import check_groups, cut_segments, group_rows, to_row_order


def test_values_return_to_the_order_of_the_rows():
    X = np.arange(12.0).reshape(6, 2)
    documents = group_rows(X, [3, 1, 3, 2, 1, 3])
    assert documents.labels.tolist() == [1, 2, 3]
    assert documents.sizes.tolist() == [2, 1, 3]
    np.testing.assert_array_equal(to_row_order(documents.words, documents), X)
    for d, label in enumerate(documents.labels):
        np.testing.assert_array_equal(
            documents.words[documents.starts[d] : documents.starts[d + 1]], X[np.array([3, 1, 3, 2, 1, 3]) == label]
        )


def test_words_of_a_document_keep_their_order():
    documents = group_rows(np.arange(6.0)[:, None], list("bababa"))
    assert documents.words[:, 0].tolist() == [1, 3, 5, 0, 2, 4]


def test_without_groups_everything_is_one_document():
    documents = group_rows(np.zeros((4, 1)), None)
    assert documents.sizes.tolist() == [4]
    assert cut_segments(documents).tolist() == [[0, 4, 0, 0]]


@pytest.mark.parametrize(
    "groups",
    [
        [1, 2, 1],
        ("a", "b", "a"),
        np.array([1, 2, 1], dtype=object),
        np.array([1.5, 2.5, 1.5]),
        np.array([[1], [2], [1]]),
        np.array([True, False, True]),
        np.array(["2026-01-01", "2026-01-02", "2026-01-01"], dtype="datetime64[D]"),
        np.array([1, np.int64(2), 1], dtype=object),
    ],
)
def test_labels_of_many_kinds(groups):
    documents = group_rows(np.zeros((3, 1)), groups)
    assert len(documents.labels) == 2
    assert documents.labels.dtype != object


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros((3, 2)), "has shape"),
        (5, "has shape"),
        (np.array(["2026-01-01", "NaT", "2026-01-01"], dtype="datetime64[D]"), "NaN, infinity or None"),
        (np.array([1.0, float("nan"), np.inf], dtype=object), "NaN, infinity or None"),
    ],
)
def test_labels_that_are_none(groups, message):
    with pytest.raises(ValueError, match=message):
        check_groups(groups, 3)
