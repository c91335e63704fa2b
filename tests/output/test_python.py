"""A result in Python: HTML for notebooks, and xarray."""

import numpy as np
import pytest

from pmlda import segment
from pmlda.evaluation.scenes import smooth_scene
from pmlda.types import Georeference, Image

NAME = "<script>alert(1)</script>.png"


@pytest.fixture(scope="module")
def found():
    place = Georeference("EPSG:32632", (2.0, 0.0, 500_000.0, 0.0, -3.0, 5_300_000.0))
    valid = np.ones((30, 40), bool)
    valid[0, 0] = False
    image = Image(smooth_scene(30, 40, 2, 0.04, 0)[0], valid, ("red", "green", "blue"), NAME, place)
    return segment(image, 2, names=["<b>deep</b>", "sand & mud"])


def test_notebooks_show_thumbnails_and_shares_and_run_nothing(found):
    page = found._repr_html_()
    assert len(page) < 60_000
    assert page.count('<img src="data:image/') == 2
    assert "http" not in page
    assert "<script" not in page
    assert "&lt;b&gt;deep&lt;/b&gt;" in page
    assert f"{100 * found.shares[1].share:.1f} %" in page
    assert repr(found).count("\n") == 0


def test_several_pictures_are_shown_below_each_other():
    several = segment([smooth_scene(20, 20, 2, 0.04, seed)[0] for seed in range(5)], 2)
    assert "and 1 more picture" in several._repr_html_()
    assert [each.sizes["topic"] for each in several.to_xarray()] == [2] * 5


def test_xarray_has_names_and_place(found):
    pytest.importorskip("xarray")
    maps = found.to_xarray()
    assert maps.memberships.dims == ("y", "x", "topic")
    assert maps.topic.values.tolist() == ["<b>deep</b>", "sand & mud"]
    assert (float(maps.x[0]), float(maps.y[0]), float(maps.y[1])) == (500_001.0, 5_299_998.5, 5_299_995.5)
    assert maps.attrs["crs"] == maps.spatial_ref.attrs["crs_wkt"] == "EPSG:32632"
    np.testing.assert_array_equal(maps.uncertainty, found.uncertainty)
    np.testing.assert_array_equal(maps.document, found.documents)
    assert int(np.isnan(maps.residual).sum()) == 1
    assert float(maps.memberships.sel(topic="sand & mud").mean()) == pytest.approx(found.shares[1].share, abs=1e-6)


def test_xarray_of_maps_on_disk_reads_them(tmp_path):
    found = segment(smooth_scene(70, 80, 2, 0.04, 0)[0], 2, block=64, out=tmp_path / "maps.zarr")
    maps = found.to_xarray()
    np.testing.assert_array_equal(maps.memberships, np.asarray(found.memberships[:]))
    assert maps.x.values.tolist() == list(range(80))
