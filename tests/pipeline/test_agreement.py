"""Strokes are judged by what their pixels have without them, alike in memory and tile by tile."""

import json

import numpy as np
import pytest

from pmlda import segment
from pmlda.errors import SettingsError
from pmlda.evaluation.scenes import sunset
from pmlda.labels.agreement import MOST_TOLD
from pmlda.output.report import render
from pmlda.segmentation import Segmentation

SHAPE = (80, 100)
CHOICES = {"documents": "windows:16", "blend": 0, "refits": 0}
WRONG = {"topic": "glow", "points": [[40, 76], [90, 76]], "radius": 2, "strength": 3e-3}  # over the border of two tiles


@pytest.fixture(scope="module")
def scene():
    return sunset(*SHAPE, 0)


@pytest.fixture(scope="module")
def strokes(scene):
    """A stroke where each topic is purest, and one that calls water a glow."""
    tops = [np.unravel_index(int(scene[1][..., k].argmax()), SHAPE) for k in range(3)]
    right = [
        {"topic": name, "points": [[int(x), int(y)]], "radius": 3}
        for name, (y, x) in zip(("sky", "glow", "water"), tops, strict=True)
    ]
    return [*right, WRONG]


@pytest.fixture(scope="module")
def found(scene, strokes):
    return segment(scene[0], 3, labels=strokes, **CHOICES)


def test_strokes_that_are_right_agree_and_one_that_is_wrong_is_told(found):
    *right, wrong = found.agreement
    assert [each.said for each in right] == ["sky", "glow", "water"]
    assert all(each.overlap > 0.8 and not each.contradiction for each in right)
    assert wrong.overlap < 0.1
    assert wrong.contradiction.startswith("Stroke 4 says glow, but without it its ")
    assert found.images[0].notes[-1] == wrong.contradiction


def test_the_judgement_is_of_pixels_without_their_label(found):
    """Their own maps have the label in them, and follow it to some degree."""
    wrong, mapped = found.agreement[3], found.memberships[74:79, 42:88, 1].mean()
    assert wrong.found[1] < mapped


def test_tiles_come_to_the_same_judgement(found, scene, strokes, tmp_path):
    tiled = segment(scene[0], 3, labels=strokes, out=tmp_path / "maps.zarr", block=64, **CHOICES)
    assert tiled.topic_names == found.topic_names == ("sky", "glow", "water")
    for mine, theirs in zip(tiled.agreement, found.agreement, strict=True):
        assert (mine.stroke, mine.said) == (theirs.stroke, theirs.said)
        np.testing.assert_allclose(mine.found, theirs.found, atol=0.02)
        assert bool(mine.contradiction) == bool(theirs.contradiction)
    record = json.loads((tmp_path / "maps.zarr" / "run.json").read_text(encoding="utf-8"))
    assert record["pictures"][0]["notes"][-1] == tiled.agreement[3].contradiction


def test_the_judgement_comes_back_with_the_result(found, tmp_path):
    again = Segmentation.load(found.save(tmp_path / "out"))
    assert [each.contradiction for each in again.agreement] == [each.contradiction for each in found.agreement]
    np.testing.assert_allclose([each.found for each in again.agreement], [e.found for e in found.agreement], atol=1e-4)


def test_the_report_lists_strokes(found):
    page = render(found)
    assert page.count("contradicts its pixels") == 1
    assert "Stroke 4 says glow" in page


def test_documents_with_a_label_are_not_asked_for(found):
    labelled = set(found.documents[found.labelled()].tolist())
    assert labelled
    assert labelled.isdisjoint(found.documents[y, x] for x, y in found.ask(8))


def test_without_labels_there_is_nothing_to_judge(scene):
    plain = segment(scene[0], 3, **CHOICES)
    assert plain.agreement == ()
    assert plain.labelled() is None
    assert "contradicts" not in render(plain)


def test_an_image_of_many_wrong_regions_is_told_in_few_sentences(scene):
    labels = np.zeros(SHAPE, np.uint8)
    for k in range(3):
        labels.flat[np.argsort(-scene[1][..., k].ravel())[:60]] = k + 1
    labels[70:79:3, 4:96:4] = 2  # specks in the water that say glow
    maps = segment(scene[0], 3, labels=labels, names=["sky", "glow", "water"], **CHOICES)
    wrong = [each for each in maps.agreement if each.contradiction]
    assert len(wrong) > MOST_TOLD
    sentences = [note for note in maps.images[0].notes if "contradict" in note or "but without it" in note]
    assert len(sentences) == MOST_TOLD + 1
    assert sentences[-1] == f"{len(wrong) - MOST_TOLD} more strokes contradict their pixels."


def test_names_of_topics_that_no_stroke_names_are_numbers(scene, strokes):
    maps = segment(scene[0], 4, labels=strokes[:3], **CHOICES)
    assert maps.topic_names == maps.settings.names == ("sky", "glow", "water", "topic 4")


def test_names_in_strokes_are_checked_as_all_names_are(scene, strokes):
    odd = [strokes[0] | {"topic": "s\x1bky"}, *strokes[1:3]]
    with pytest.raises(SettingsError, match="of topic 1 cannot be used: it has characters that cannot be shown"):
        segment(scene[0], 3, labels=odd)
