"""Cows on grass: the topic that finds them, what rivals make of the same features, and folders that do not fit."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from pmlda.errors import DataError
from pmlda.evaluation.experiments import msrc, msrc_files, msrc_models
from pmlda.evaluation.experiments.msrc_files import COW, GRASS, SKY, VOID, Photograph, make_set, pasture, read_sets
from pmlda.images import read_image

REAL = Path(__file__).parents[4] / "shared" / "data" / "msrc"


@pytest.fixture(scope="module")
def outcome():
    return msrc.run(None, 2, True)


def row_of(outcome, model):
    return next(row for row in outcome.rows if row["model"] == model)


# ── pictures that are made up ─────────────────────────────────────────────────────────────────────────────────────


def test_pm_lda_finds_the_animals_and_ldas_point_lies_below_its_curve(outcome):
    assert row_of(outcome, "PM-LDA")["AUC"] > 0.97
    assert outcome.details["sets"]["pastures"]["winn:energy"]["LDA below the curve"]["paper"]


def test_transitions_lie_at_borders_more_often_than_other_pixels(outcome):
    found = outcome.details["sets"]["pastures"]["winn:energy"]["transitions"]
    assert 0 < found["pixels"] < 0.2
    assert found["near"] > 1.5 * found["all near"]


def test_every_model_has_a_row_and_the_figures_are_the_papers(outcome):
    assert [row["model"] for row in outcome.rows] == list(msrc.MODELS)
    assert set(outcome.figures) == {"pastures_roc", "pastures_maps_1"}
    titles = [axis.get_title() for axis in outcome.figures["pastures_maps_1"].axes[:7]]
    assert titles[1:] == [
        "PM-LDA: grass", "PM-LDA: the rest", "PM-LDA: cow", "transition, 0.4 to 0.6", "PM-LDA: largest", "LDA, paper",
    ]  # fmt: skip


def test_rivals_are_at_the_best_of_their_settings(outcome):
    tried = outcome.details["sets"]["pastures"]["winn:energy"]["all settings"]
    for model in msrc.MODELS:
        assert row_of(outcome, model)["AUC"] == max(each["AUC"] for each in tried if each["model"] == model)


def test_a_pasture_mixes_three_materials_softly():
    picture, shares = pasture(60, 90, 3)
    assert picture.dtype == np.uint8
    assert (np.bincount(shares.argmax(axis=2).ravel(), minlength=3) > 100).all()
    mixed = ((shares > 0.2) & (shares < 0.8)).any(axis=2)
    assert 0.01 < mixed.mean() < 0.2


# ── measures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_topic_for_cows_is_that_of_largest_area_over_all_pictures_together():
    cow = np.array([True, False, True, False])
    question = msrc.Question(cow, np.array([True, True, True, True]), np.array([0, 0, 1, 1]), ["a", "b"])
    rows = np.array([[0.6, 0.4], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])  # topic 0 is right in each, not between them
    found = question.score(rows)
    assert (found.topic, found.area) == (0, 0.75)
    assert found.areas == {"a": 1.0, "b": 1.0}
    assert found.point == (0.5, 0.5)


def test_void_pixels_and_pictures_without_cows_do_not_count_alone():
    cow = np.array([True, False, False, False])
    question = msrc.Question(cow, np.array([True, True, True, False]), np.array([0, 0, 1, 1]), ["a", "b"])
    found = question.score(np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [1.0, 0.0]]))
    assert found.area == 1.0
    assert list(found.areas) == ["a"]


def test_transitions_are_counted_near_borders_of_the_truth():
    truth = np.full((40, 60), GRASS)
    truth[:, 30:] = COW
    truth[:, :3] = VOID
    maps = np.zeros((40, 60, 2), np.float32)
    maps[..., 0] = 1.0
    maps[:, 30] = 0.5  # at the border
    maps[:, 50] = 0.5  # far from it
    maps[:, 1] = 0.5  # nobody knows
    picture = Photograph(read_image(np.zeros((40, 60, 3), np.uint8)), truth)
    found = msrc.transitions([maps], [picture])
    assert found["near"] == 0.5
    assert found["pixels"] == round(2 / 57, 4)
    # Borders at columns 2 (of void) and 29; 8 pixels to either side of them, void left out.
    assert found["all near"] == round((8 + 17) / 57, 4)


def test_a_document_too_small_for_a_sampled_word_gets_the_average_of_the_others():
    pictures = make_set(1, 48, 72)
    labels = np.zeros((48, 72), np.int64)
    labels[:, 36:] = 1
    labels[1, 1] = 2  # no pixel of the grid
    images = [picture.image for picture in pictures]
    corpus = msrc_models.Corpus(images, [labels], labels.ravel())
    values = msrc_models.features_of(corpus, "winn:energy")
    assert 2 not in corpus.groups[corpus.every(4)]
    (maps,) = msrc_models.soft_maps(corpus, values, True)
    assert maps.shape == (48, 72, 3)
    assert np.allclose(maps.sum(axis=2), 1.0, atol=1e-5)


# ── folders ───────────────────────────────────────────────────────────────────────────────────────────────────────


def write(folder, name="1_1_s", truth=None, size=(24, 30)):
    """A photograph with labels in a palette."""
    folder.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(np.zeros((*size, 3), np.uint8)).save(folder / f"{name}.png")
    if truth is None:
        truth = np.full(size, GRASS, np.uint8)
        truth[:5], truth[10:15] = SKY, COW
    labels = Pillow.fromarray(np.asarray(truth, np.uint8))
    labels.putpalette([value for index in range(256) for value in (index, 255 - index, 128)])
    labels.save(folder / f"{name}_gt.png")


def test_sets_are_read_from_the_folder_itself_or_from_paper_and_dev(tmp_path):
    write(tmp_path / "paper")
    write(tmp_path / "dev", "a_s")
    write(tmp_path / "dev", "b_s")
    found = read_sets(tmp_path)
    assert {name: [picture.name for picture in pictures] for name, pictures in found.items()} == {
        "paper": ["1_1_s"],
        "dev": ["a_s", "b_s"],
    }
    assert set(np.unique(found["paper"][0].truth)) == {GRASS, COW, SKY}
    assert list(read_sets(tmp_path / "dev")) == ["dev"]


def nothing(folder):
    (folder / "cat.jpg").touch()


def no_truth(folder):
    write(folder)
    write(folder, "2_2_s")
    (folder / "2_2_s_gt.png").unlink()


def no_picture(folder):
    write(folder)
    (folder / "1_1_s.png").unlink()


def another_size(folder):
    write(folder, truth=np.full((7, 9), COW))


def truth_in_colour(folder):
    write(folder)
    Pillow.fromarray(np.zeros((24, 30, 3), np.uint8)).save(folder / "1_1_s_gt.png")


def grey_picture(folder):
    write(folder)
    Pillow.fromarray(np.zeros((24, 30), np.uint8)).save(folder / "1_1_s.png")


def no_cow(folder):
    write(folder, truth=np.full((24, 30), GRASS))


def nothing_but_cow(folder):
    write(folder, truth=np.full((24, 30), COW))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (nothing, ["no labelled photograph", "NAME_gt.png", "paper and dev", "Found: cat.jpg"]),
        (no_truth, ["lacks 2_2_s_gt.png", "Found: 1_1_s.png"]),
        (no_picture, ["lacks 1_1_s.png", "Found: 1_1_s_gt.png"]),
        (another_size, ["24 × 30", "7 × 9", "Expected the same"]),
        (truth_in_colour, ["1_1_s_gt.png", "one number for each pixel"]),
        (grey_picture, ["1_1_s.png", "1 band", "red, green and blue"]),
        (no_cow, ["classes 2", "Expected 4 (cow)"]),
        (nothing_but_cow, ["classes 4", "others"]),
    ],
)
def test_folders_that_do_not_fit_say_what_was_expected_and_found(tmp_path, spoil, expected):
    spoil(tmp_path)
    with pytest.raises(DataError) as raised:
        read_sets(tmp_path)
    assert all(text in str(raised.value) for text in expected), raised.value


# ── real photographs ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not REAL.is_dir(), reason="there are no photographs in ../shared/data/msrc")
def test_cows_in_two_real_photographs():
    two = msrc_files.read_set(REAL / "paper")[:2]
    corpus = msrc_models.cut([picture.image for picture in two], msrc_models.DOCUMENTS)
    maps = msrc_models.soft_maps(corpus, msrc_models.features_of(corpus, msrc.FEATURES[0]), False)
    found = msrc.ask(corpus, two).score(msrc_models.pooled(maps, corpus.images, msrc_models.DENSE))
    assert found.area > 0.95
    near = msrc.transitions(maps, two)
    assert near["near"] > 1.5 * near["all near"]
