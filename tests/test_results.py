"""Every public member of a result works, wherever its maps are: in memory, in a folder, in a Zarr group, in TIFFs."""

import inspect

import numpy as np
import pytest
from matplotlib.figure import Figure

from pmlda import Segmentation, segment
from pmlda.errors import InputError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.settings import Settings
from pmlda.types import Verdict

ASKED = {"documents": "windows:32", "block": 64, "refits": 3}
SHAPE = (96, 130)


@pytest.fixture(scope="module")
def plain():
    return segment(smooth_scene(*SHAPE, 3, 0.05, 0)[0], 3, **ASKED)


@pytest.fixture(scope="module", params=["in memory", "folder", "zarr", "tif", "loaded zarr", "loaded tif"])
def found(request, plain, tmp_path_factory):
    """The same maps in every kind of result."""
    if request.param == "in memory":
        return plain
    place = tmp_path_factory.mktemp("results")
    name = {"folder": "maps", "zarr": "maps.zarr", "loaded zarr": "maps.zarr"}.get(request.param, "maps.tif")
    made = segment(smooth_scene(*SHAPE, 3, 0.05, 0)[0], 3, out=place / name, **ASKED)
    return Segmentation.load(place / name) if request.param in ("folder", "loaded zarr", "loaded tif") else made


def same(maps, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(maps), expected, atol=tolerance)


CLAIMS = {
    "memberships": lambda found, plain: same(found.memberships, plain.memberships),
    "uncertainty": lambda found, plain: same(found.uncertainty, plain.uncertainty, 1e-3),  # kept in float16
    "labels": lambda found, plain: same(found.labels, plain.labels),
    "documents": lambda found, plain: same_regions(np.asarray(found.documents), plain.documents),
    "topics": lambda found, plain: same(found.topics, plain.topics),
    "topic_names": lambda found, plain: found.topic_names == plain.topic_names,
    "feature_names": lambda found, plain: found.feature_names == ("red", "green", "blue"),
    "proportions": lambda found, plain: same(found.proportions[of_pixels(found)], plain.proportions[of_pixels(plain)]),
    "scales": lambda found, plain: np.testing.assert_allclose(
        found.scales[of_pixels(found)], plain.scales[of_pixels(plain)], rtol=1e-6
    ),
    "interval": lambda found, plain: (
        [same(a, b, 5e-3) for a, b in zip(found.interval(), plain.interval(), strict=True)] == [None, None]
    ),
    "alternatives": lambda found, plain: found.alternatives == [],
    "transition": lambda found, plain: same(found.transition(0.3, 0.7), plain.transition(0.3, 0.7)),
    "ask": lambda found, plain: len(found.ask(4)) == 4 and np.ptp(found.ask(4), axis=0).max() > 16,
    "ask_map": lambda found, plain: found.ask_map.shape == plain.ask_map.shape and float(found.ask_map.max()) == 1.0,
    "worth": lambda found, plain: found.worth().gain.shape == found.worth().regions.shape == plain.ask_map.shape,
    "overview_step": lambda found, plain: found.overview_step(0) == 1,
    "pixel_labels": lambda found, plain: not any(found.pixel_labels),
    "labels_of": lambda found, plain: found.labels_of(0) is None,
    "labelled": lambda found, plain: found.labelled() is None,
    "agreement": lambda found, plain: len(found.agreement) == 0,
    "choice": lambda found, plain: found.choice is None,
    "agreement_of": lambda found, plain: len(found.agreement_of(0)) == 0,
    "left_out": lambda found, plain: found.left_out == (),
    "agreements": lambda found, plain: not any(found.agreements),
    "shares": lambda found, plain: same_shares(found.shares, plain.shares),
    "shares_of": lambda found, plain: same_shares(found.shares_of(0), plain.shares),
    "share_rows": lambda found, plain: len(found.share_rows) == 1,
    "topic_values": lambda found, plain: same([v.std for v in found.topic_values], [v.std for v in plain.topic_values]),
    "residual": lambda found, plain: same(found.residual, plain.residual, 5e-3),  # kept in float16
    "residual_of": lambda found, plain: found.residual_of(0).shape == SHAPE,
    "residual_maps": lambda found, plain: len(found.residual_maps) == 1,
    "novelty": lambda found, plain: same(found.novelty, plain.novelty),
    "novelty_of": lambda found, plain: found.novelty_of(0).shape == SHAPE,
    "novelty_maps": lambda found, plain: len(found.novelty_maps) == 1,
    "fit_checks": lambda found, plain: [check.state for check in found.fit_checks] == ["fits"],
    "applied": lambda found, plain: found.applied is False,
    "inverse_transform": lambda found, plain: same(found.inverse_transform(), plain.inverse_transform()),
    "match": lambda found, plain: refuses_a_library(found),
    "matches": lambda found, plain: found.matches == (),
    "to_xarray": lambda found, plain: same(found.to_xarray().memberships, plain.memberships),
    "settings": lambda found, plain: isinstance(found.settings, Settings) and found.settings.block == 64,
    "verdict": lambda found, plain: isinstance(found.verdict, Verdict) and found.verdict.state == "converged",
    "has_uncertainty": lambda found, plain: found.has_uncertainty,
    "overview": lambda found, plain: isinstance(found.overview().membership_maps[0], np.ndarray),
    "in_memory": lambda found, plain: same(found.in_memory().memberships, plain.memberships),
    "apply": lambda found, plain: same(found.apply(plain.images[0]).memberships, plain.memberships, 1e-5),
    "plot": lambda found, plain: isinstance(found.plot(), Figure),
    "save": lambda found, plain: True,  # below
    "load": lambda found, plain: True,  # by the fixture
    "images": lambda found, plain: len(found.images[0].bands) == 3 and found.images[0].pixels.ndim == 3,
    "recipe": lambda found, plain: found.recipe.model.n_components == 3,
    "membership_maps": lambda found, plain: len(found.membership_maps) == 1,
    "uncertainty_maps": lambda found, plain: len(found.uncertainty_maps) == 1,
    "document_maps": lambda found, plain: len(found.document_maps) == 1,
    "several": lambda found, plain: found.several is False,
    "timings": lambda found, plain: found.timings["maps"] > 0,
    "interrupted": lambda found, plain: found.interrupted is False,
    "path": lambda found, plain: found.path is None or found.path.exists(),
    "record": lambda found, plain: found.path is None or found.record["tiles"] == 4,
}


def of_pixels(found):
    """The document of each pixel: how documents are numbered differs between tiles and a whole picture."""
    return np.asarray(found.documents)


def refuses_a_library(found):
    """Topics of colours are no spectra."""
    with pytest.raises(InputError, match="are no spectra"):
        found.match({"red": [1.0, 0.0, 0.0]})


def same_shares(shares, expected):
    """Intervals, too: those of a picture in tiles come from the same pixels."""
    for one, other in zip(shares, expected, strict=True):
        assert one[1:5] == pytest.approx(other[1:5], abs=1e-4)


def same_regions(one, other):
    """Whether two label images have the same regions."""
    pairs = np.unique(np.stack([one.ravel(), other.ravel()]), axis=1)
    assert pairs.shape[1] == len(np.unique(one)) == len(np.unique(other))


def public_members():
    fields = set(Segmentation.__dataclass_fields__)
    return {name for name, _ in inspect.getmembers(Segmentation)} | fields


@pytest.mark.parametrize("member", sorted(name for name in public_members() if not name.startswith("_")))
def test_every_public_member_works(member, found, plain):
    assert CLAIMS[member](found, plain) in (True, None)


def test_a_result_can_be_saved_to_a_folder_and_loaded(found, plain, tmp_path):
    folder = found.save(tmp_path / "saved")
    again = Segmentation.load(folder)
    same(again.memberships, plain.memberships)
    assert (folder / "report.html").stat().st_size > 50_000


def test_the_representation_is_short(found):
    assert len(repr(found)) < 250
    assert repr(found).startswith("Segmentation(96 × 130 pixels, 3 topics")


def test_maps_on_disk_are_sliced_like_arrays(found, plain):
    for maps, expected in (
        (found.memberships, plain.memberships),
        (found.labels, plain.labels),
        (found.transition(), plain.transition()),
    ):
        assert maps.shape == expected.shape
        same(maps[10:20, 60:70], expected[10:20, 60:70])
        same(maps[::7, 5:90:9], expected[::7, 5:90:9])
