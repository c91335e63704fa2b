"""Where to label next: large documents that are uncertain throughout, places apart, and places that are truly wrong."""

import dataclasses

import numpy as np
import pytest

from pmlda import segment
from pmlda.errors import InputError
from pmlda.evaluation.scenes import seabed, smooth_scene, sunset
from pmlda.labels.asking import best_places, regions_of, worth_of
from pmlda.metrics import match_topics
from pmlda.output.report import render
from pmlda.pipeline import maps as pipeline_maps


def windows(height, width, side):
    y, x = np.mgrid[:height, :width]
    return y // side * -(-width // side) + x // side


def flat(height, width, std):
    return np.full((height, width, 2), std, np.float32)


def test_a_document_that_is_uncertain_throughout_is_worth_more_than_one_noisy_pixel():
    documents, std = windows(40, 60, 10), flat(40, 60, 0.05)
    std[20:30, 30:40] = 0.1
    std[5, 5] = 0.45
    worth = worth_of(std, documents)
    row, column = best_places([worth], 1)[0][0]
    assert documents[row, column] == documents[25, 35]


def test_of_two_documents_that_are_equally_uncertain_the_larger_one_is_asked_for():
    documents = windows(40, 60, 10)
    documents[:10, 10:20] = documents[0, 0]
    worth = worth_of(flat(40, 60, 0.1), np.unique(documents, return_inverse=True)[1].reshape(40, 60))
    row, column = best_places([worth], 1)[0][0]
    assert row < 10
    assert column < 20


def test_places_are_apart_and_in_documents_without_a_label():
    documents, rng = windows(60, 60, 10), np.random.default_rng(0)
    worth = worth_of(0.1 * rng.random((60, 60, 3)).astype(np.float32), documents)
    first = best_places([worth], 1)[0][0]
    labelled = np.zeros((60, 60), bool)
    labelled[first] = True
    places = np.array(best_places([worth], 8, [labelled])[0])
    assert len({documents[tuple(place)] for place in places} - {documents[first]}) == len(places) == 8
    distances = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(8, 1)]
    assert distances.min() >= 10


def test_pixels_without_data_are_not_asked_for():
    documents, std = windows(40, 40, 10), flat(40, 40, 0.1)
    documents[:, :20], std[:, :20] = -1, np.nan
    worth = worth_of(std, documents)
    assert np.isnan(worth.gain[:, :20]).all()
    assert np.isfinite(worth.gain[:, 20:]).all()
    assert all(column >= 20 for _, column in best_places([worth], 20)[0])


def test_a_document_that_is_the_whole_picture_is_asked_for_in_parts():
    regions = regions_of(np.zeros((50, 70), np.int64))
    sizes = np.bincount(regions.ravel())
    assert sizes[sizes > 0].max() <= 1.2 * 50 * 70 / 20
    assert len(best_places([worth_of(flat(50, 70, 0.1), np.zeros((50, 70), np.int64))], 5)[0]) == 5


@pytest.fixture(scope="module")
def found():
    return segment(smooth_scene(48, 64, 3, 0.04, 0)[0], 3, documents="windows:8")


def test_the_best_place_is_the_brightest_of_the_map(found):
    (x, y), *others = found.ask(4)
    assert found.ask_map.shape == (48, 64)
    assert found.ask_map[y, x] == found.ask_map.max() == 1.0
    assert found.ask_map.min() >= 0.0
    assert all(found.ask_map[b, a] < 1.0 for a, b in others)


def test_several_pictures_share_the_places(found):
    pictures = [smooth_scene(40, 48, 2, 0.04, 0)[0], smooth_scene(32, 40, 2, 0.04, 1)[0]]
    both = segment(pictures, 2, documents="windows:8", refits=0)
    places = both.ask(6)
    assert [len(each) > 0 for each in places].count(True) >= 1
    assert sum(map(len, places)) == 6
    assert [each.shape for each in both.ask_map] == [(40, 48), (32, 40)]
    assert max(float(each.max()) for each in both.ask_map) == 1.0


def test_maps_on_disk_are_asked_in_pixels_of_the_whole_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_maps, "OVERVIEW_PIXELS", 800)
    picture = smooth_scene(96, 128, 2, 0.04, 0)[0]
    stored = segment(picture, 2, documents="windows:16", refits=0, block=64, out=tmp_path / "maps.zarr")
    assert stored.ask_map.shape == (24, 32)
    (x, y), *_ = places = stored.ask(3)
    assert stored.ask_map[y // 4, x // 4] == 1.0
    assert max(np.ravel(places)) > 32
    assert f"1: ({x}, {y})" in (tmp_path / "maps.zarr" / "report.html").read_text(encoding="utf-8")


def test_the_report_marks_the_places(found):
    page = render(found)
    (x, y), *_ = found.ask()
    assert "Where to label next" in page
    assert f"1: ({x}, {y})" in page
    assert page.count("<circle ") == 5


def test_a_model_without_uncertainty_cannot_ask_and_its_report_does_not():
    crisp = segment(smooth_scene(24, 32, 2, 0.04, 0)[0], 2, model="kmeans", documents="windows:8")
    with pytest.raises(InputError, match="have no uncertainty, so nothing tells where a label would help"):
        crisp.ask()
    assert "Where to label next" not in render(crisp)


@pytest.mark.parametrize("n", [0, -1, 2.5, "five"])
def test_places_are_asked_for_by_a_whole_number(found, n):
    with pytest.raises(InputError, match="give a whole number of at least 1"):
        found.ask(n)


def test_certain_maps_have_no_place_to_ask_for(found):
    sure = dataclasses.replace(found, uncertainty_maps=[np.zeros_like(found.uncertainty)])
    with pytest.raises(InputError, match="no uncertainty"):
        sure.ask()


def error_around(places, error, radius=3):
    """Mean of a map within discs."""
    y, x = np.ogrid[: error.shape[0], : error.shape[1]]
    return np.mean([error[(x - a) ** 2 + (y - b) ** 2 <= radius**2].mean() for a, b in places])


def test_maps_are_wrong_where_they_ask_for_labels():
    """RMSE within 3 pixels of five places, over that of the whole picture, which random places have on average.

    Of 300 draws of random places in these 15 pictures none came to a mean above 1.17; theirs is 0.98 ± 0.06.
    """
    ratios = []
    for seed in range(5):
        scenes = [
            (sunset(48, 64, seed), "auto"),
            (smooth_scene(48, 64, 3, 0.04, seed), "auto"),
            (seabed(80, seed), "sonar"),
        ]
        for (picture, truth), features in scenes:
            maps = segment(picture, 3, features=features)
            order = match_topics(maps.memberships, truth)
            error = ((maps.memberships[..., order] - truth) ** 2).mean(axis=2)
            ratios.append(np.sqrt(error_around(maps.ask(5), error) / error.mean()))
    assert np.mean(ratios) > 1.18
