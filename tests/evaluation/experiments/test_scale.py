"""What the scale does."""

import numpy as np
import pytest

from pmlda.errors import DataError
from pmlda.evaluation.experiments.scale import SCALES, run, three_neighbours
from tests.evaluation.experiments.folders import write_authors


def falls(rows):
    distances = [row["distance from 1/3"] for row in rows]
    return len(distances) == len(SCALES) and all(np.diff(distances) < 0)


def test_memberships_come_closer_to_their_proportions_at_every_step_of_the_scale():
    outcome = run(None, 1, True)
    assert [row["s"] for row in outcome.rows] == [3.0, 10.0, 300.0, 30000.0]
    assert falls(outcome.rows)
    assert outcome.rows[0]["distance from 1/3"] > 0.2  # at s = 3 there is something to lose
    assert "1 of 1" in outcome.remark


def test_the_authors_pictures_are_read_from_their_folder_or_from_the_one_above(tmp_path):
    (tmp_path / "authors").mkdir()
    write_authors(tmp_path / "authors")
    outcome = run(tmp_path, 1, False)
    assert list(outcome.figures) == ["sunset"]
    assert falls(outcome.rows)


def test_the_three_superpixels_touch_each_other_and_differ_most():
    superpixels = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 3], [2, 2, 2, 3]])
    values = np.array([0.0, 1.0, 5.0, 3.0])[superpixels][..., None]
    assert three_neighbours(superpixels, values) == (1, 2, 3)  # 0 and 3 do not touch; 0 and 1 are alike
    with pytest.raises(DataError, match="all touch"):
        three_neighbours(np.array([[0, 1, 2]]), np.zeros((1, 3, 1)))
