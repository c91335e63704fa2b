"""Grey pictures saved in colour, which is common: their intensity, decided from all pixels of all pictures."""

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda import Segmentation, segment
from pmlda.cli import app
from pmlda.evaluation.scenes import smooth_scene

SMALL = {"documents": "windows:16", "refits": 0}
COLOUR = smooth_scene(48, 140, 2, 0.04, 0)[0]
PLANE = COLOUR.mean(axis=2).astype(np.uint8)
GREY = np.repeat(PLANE[:, :, None], 3, axis=2)
HALF = np.concatenate([GREY[:, :70], COLOUR[:, 70:]], axis=1)  # the first of three tiles is grey
NOTE = "Red, green and blue are the same everywhere"


def notes_of(found):
    return " ".join(note for image in found.images for note in image.notes)


def test_the_program_takes_a_grey_picture_in_colour_for_its_intensity_at_defaults(tmp_path):
    Pillow.fromarray(GREY).save(tmp_path / "grey.png")
    result = CliRunner().invoke(
        app, ["segment", str(tmp_path / "grey.png"), "-k", "2", "--out", str(tmp_path / "maps")]
    )
    assert result.exit_code == 0, result.output
    found = Segmentation.load(tmp_path / "maps")
    assert found.feature_names == ("intensity",)
    assert NOTE in notes_of(found)


def test_it_has_the_maps_of_the_same_picture_in_one_band():
    one, three = segment(PLANE, 2, **SMALL), segment(GREY, 2, **SMALL)
    np.testing.assert_allclose(three.memberships, one.memberships, atol=2e-3)


@pytest.mark.parametrize("option", ["color:lab", "color+texture"])
def test_other_features_with_colour_work_too(option):
    found = segment(GREY, 2, features=option, **SMALL)
    assert np.isfinite(found.memberships).all()
    assert NOTE in notes_of(found)


@pytest.mark.parametrize(("pixels", "names"), [(GREY, ("intensity",)), (HALF, ("red", "green", "blue"))])
def test_tiles_agree_with_memory_even_if_some_of_them_are_grey(tmp_path, pixels, names):
    tiled = segment(pixels, 2, out=tmp_path / "maps.zarr", block=64, **SMALL)
    whole = segment(pixels, 2, **SMALL)
    assert tiled.feature_names == whole.feature_names == names
    np.testing.assert_allclose(np.asarray(tiled.memberships), whole.memberships, atol=1e-3)
    assert (NOTE in notes_of(tiled)) == (NOTE in notes_of(whole)) == (names == ("intensity",))


def test_a_grey_picture_beside_one_in_colour_is_described_in_colour():
    found = segment([GREY, COLOUR], 2, **SMALL)
    assert found.feature_names == ("red", "green", "blue")
    assert NOTE not in notes_of(found)


def test_a_model_keeps_what_it_learnt_when_it_is_applied(tmp_path):
    grey, colour = segment(GREY, 2, **SMALL), segment(COLOUR, 2, **SMALL)
    grey.save(tmp_path / "grey")
    again = Segmentation.load(tmp_path / "grey").apply(GREY)
    assert again.feature_names == ("intensity",)
    np.testing.assert_allclose(again.memberships, grey.memberships, atol=0.02)
    colour.save(tmp_path / "colour")
    assert Segmentation.load(tmp_path / "colour").apply(GREY).feature_names == ("red", "green", "blue")


def test_pixels_without_data_do_not_count():
    pixels, mask = GREY.copy(), np.ones(GREY.shape[:2], bool)
    pixels[:5, :5, 0] += 1
    mask[:5, :5] = False
    assert segment(pixels, 2, mask=mask, **SMALL).feature_names == ("intensity",)
