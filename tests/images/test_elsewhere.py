"""Maps opened by the libraries behind QGIS, Fiji and napari: names, place, size of pixels and smaller copies."""

import warnings

import numpy as np
import ome_types
import pytest
import rasterio
import tifffile
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader
from rio_cogeo import cog_validate

from pmlda.images import open_windowed, read_image, write_labels, write_maps
from pmlda.images.shrink import halve
from pmlda.images.tiles import write_tiled
from pmlda.images.zarrs import build_pyramid, create_maps, write_block
from pmlda.types import PixelSize
from tests.images.pictures import PLACE

NAMES = ["sänd & <mud>", '"wet", μ\'s', "岩 🪨"]
SHAPE = (1100, 530, 3)  # shrinks twice, with odd sides
SIZE = PixelSize(0.65, 0.325, "µm")
COLOURS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]


def some_maps():
    maps = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], SHAPE[:2]).astype(np.float32)
    maps[:40, :33] = np.nan
    return maps


def write(kind, path, maps, **options):
    """In memory and part by part."""
    if kind == "whole":
        write_maps(path, maps, NAMES, **options)
    else:
        write_tiled(path, maps.shape, NAMES, lambda rows, band: maps[rows, :, band], **options)


@pytest.mark.parametrize("kind", ["whole", "tiled"])
def test_a_map_with_a_place_is_a_cloud_optimized_geotiff(tmp_path, kind):
    maps, path = some_maps(), tmp_path / "maps.tif"
    write(kind, path, maps, georeference=PLACE)
    assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
    with rasterio.open(path) as dataset:
        assert dataset.descriptions == tuple(NAMES)
        assert dataset.crs.to_wkt() == PLACE.crs
        assert tuple(dataset.transform)[:6] == PLACE.transform
        assert np.isnan(dataset.nodata)
        assert [dataset.overviews(band) for band in (1, 2, 3)] == [[2, 4]] * 3
        np.testing.assert_array_equal(np.moveaxis(dataset.read(), 0, 2), maps)
    with rasterio.open(path, overview_level=0) as small:
        halves = small.read()
    assert halves.shape == (3, 550, 265)
    np.testing.assert_allclose(halves, halve(np.moveaxis(maps, 2, 0)), atol=1e-6)
    np.testing.assert_allclose(np.nansum(halves, axis=0)[np.isfinite(halves[0])], 1.0, atol=1e-5)


def test_labels_with_a_place_shrink_without_becoming_others(tmp_path):
    labels = np.random.default_rng(1).integers(-1, 5, SHAPE[:2])
    write_labels(tmp_path / "labels.tif", labels, georeference=PLACE, name="document")
    assert cog_validate(tmp_path / "labels.tif", strict=True, quiet=True)[0]
    with rasterio.open(tmp_path / "labels.tif") as dataset:
        assert (dataset.nodata, dataset.descriptions, dataset.dtypes) == (-1, ("document",), ("int32",))
        assert dataset.overviews(1) == [2, 4]
        np.testing.assert_array_equal(dataset.read(1), labels)
    with rasterio.open(tmp_path / "labels.tif", overview_level=1) as small:
        assert set(np.unique(small.read(1))) <= set(range(-1, 5))
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "labels.tif"), labels)


@pytest.mark.parametrize("kind", ["whole", "tiled"])
def test_a_map_without_a_place_is_an_ome_tiff_of_named_channels(tmp_path, kind):
    maps, path = some_maps(), tmp_path / "maps.tif"
    write(kind, path, maps, pixel_size=SIZE, colours=COLOURS)
    pixels = ome_types.from_tiff(path).images[0].pixels
    assert [channel.name for channel in pixels.channels] == NAMES
    assert [channel.color.as_rgb_tuple() for channel in pixels.channels] == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    assert (pixels.size_x, pixels.size_y, pixels.size_c, pixels.type.value) == (530, 1100, 3, "float")
    assert (pixels.physical_size_y, pixels.physical_size_x) == SIZE[:2]
    assert pixels.physical_size_x_unit.value == pixels.physical_size_y_unit.value == "µm"
    with tifffile.TiffFile(path) as tiff:
        (series,) = tiff.series
        assert (tiff.is_ome, series.axes, len(tiff.pages)) == (True, "CYX", 3)
        # Bio-Formats drops references, and reads the characters themselves.
        assert b"&#" not in tiff.pages.first.tags["ImageDescription"].value.encode()
        levels = [level.asarray() for level in series.levels]
        # ImageJ without plugins opens strips only.
        assert tiff.pages.first.is_tiled == (kind == "tiled")
        assert tiff.pages.first.get_resolution("CENTIMETER") == pytest.approx((1e4 / 0.325, 1e4 / 0.65))
    np.testing.assert_array_equal(levels[0], np.moveaxis(maps, 2, 0))
    assert len(levels) == (3 if kind == "tiled" else 1)
    for level, above in zip(levels[1:], levels, strict=False):
        np.testing.assert_array_equal(level, halve(above))
    for image in (read_image(path), open_windowed(path).read(slice(0, 9), slice(0, 9))):
        assert (image.bands, image.pixel_size) == (tuple(NAMES), SIZE)


def test_files_are_the_same_bytes_every_time(tmp_path):
    maps = some_maps()
    for place in (None, PLACE):
        for number in range(2):
            write("tiled", tmp_path / f"{number}.tif", maps, georeference=place)
        written = [(tmp_path / f"{number}.tif").read_bytes() for number in range(2)]
        assert written[0].replace(b'Name="0"', b'Name="1"') == written[1]


def test_characters_that_xml_cannot_hold_become_signs(tmp_path):
    write_maps(tmp_path / "maps.tif", np.ones((5, 6, 2)), ["a\x00b", "c\udc80"])
    assert read_image(tmp_path / "maps.tif").bands == ("a\ufffdb", "c\ufffd")


# ── OME-Zarr ───────────────────────────────────────────────────────────────────────────────────────────────────────


def write_group(path, maps, **options):
    create_maps(path, maps.shape, 300, NAMES, colours=COLOURS, **options)
    for top in range(0, SHAPE[0], 300):
        for left in range(0, SHAPE[1], 300):
            here = slice(top, min(top + 300, SHAPE[0])), slice(left, min(left + 300, SHAPE[1]))
            write_block(path, *here, memberships=maps[here], uncertainty=maps[here] / 4)
    build_pyramid(path)


@pytest.mark.parametrize(
    ("options", "scale", "unit"),
    [
        ({"pixel_size": SIZE}, (0.65, 0.325), "micrometer"),
        ({"georeference": PLACE}, (2.0, 2.0), "meter"),
        ({}, (1.0, 1.0), None),
    ],
    ids=["size", "place", "neither"],
)
def test_a_group_is_an_ome_zarr_with_a_pyramid_of_named_channels(tmp_path, options, scale, unit):
    maps, path = some_maps(), tmp_path / "maps.zarr"
    write_group(path, maps, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr, about text
        (node,) = Reader(parse_url(path))()
    assert node.metadata["channel_names"] == NAMES
    assert node.metadata["contrast_limits"] == [[0.0, 1.0]] * 3
    assert [colour[1] for colour in node.metadata["colormap"]] == [list(colour) for colour in COLOURS]
    assert [(axis["name"], axis["type"], axis.get("unit")) for axis in node.metadata["axes"]] == [
        ("c", "channel", None),
        ("y", "space", unit),
        ("x", "space", unit),
    ]
    levels = [np.asarray(level) for level in node.data]
    np.testing.assert_array_equal(levels[0], np.moveaxis(maps, 2, 0))
    assert [level.shape for level in levels] == [(3, 1100, 530), (3, 550, 265), (3, 275, 133)]
    for level, above in zip(levels[1:], levels, strict=False):
        np.testing.assert_array_equal(level, halve(above))
    for number, steps in enumerate(node.metadata["coordinateTransformations"]):
        assert steps[0] == {"type": "scale", "scale": [1.0, *(length * 2**number for length in scale)]}
        shifts = [step["translation"] for step in steps[1:]]  # the middle of the pixels that make one of this level
        assert shifts == ([[0.0, *(length * (2**number - 1) / 2 for length in scale)]] if number else [])


def test_what_an_ome_zarr_says_follows_the_rules_of_its_format(tmp_path):
    write_group(tmp_path / "maps.zarr", some_maps(), pixel_size=SIZE)
    group = zarr.open_group(tmp_path / "maps.zarr", mode="r")
    about = group.attrs["ome"]
    assert about["version"] == "0.5"
    assert [scales["name"] for scales in about["multiscales"]] == ["memberships", "uncertainty"]
    for scales in about["multiscales"]:
        arrays = [group[level["path"]] for level in scales["datasets"]]
        assert {array.metadata.zarr_format for array in arrays} == {3}
        assert {array.metadata.dimension_names for array in arrays} == {tuple(axis["name"] for axis in scales["axes"])}
        assert len({array.dtype for array in arrays}) == 1
        sizes = [array.shape[1] * array.shape[2] for array in arrays]
        assert sizes == sorted(sizes, reverse=True)
    # Viewers look for masks in a group of this name.
    assert "labels" not in group
    assert read_image(tmp_path / "maps.zarr", key="uncertainty").bands == tuple(NAMES)
    assert read_image(tmp_path / "maps.zarr").pixel_size == SIZE


def test_a_pyramid_that_was_left_half_built_is_built_again(tmp_path):
    path = tmp_path / "maps.zarr"
    write_group(path, some_maps())
    level = zarr.open_array(path / "pyramid" / "2" / "memberships", mode="r+")
    expected = level[:]
    level[:] = 7.0
    build_pyramid(path)
    np.testing.assert_array_equal(level[:], expected)


# ── the size of pixels, as microscopes write it ────────────────────────────────────────────────────────────────────

PICTURE = np.arange(60, dtype=np.uint8).reshape(1, 6, 10)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ome": True, "metadata": {"PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25}}, PixelSize(0.25, 0.5, "µm")),
        (
            {
                "ome": True,
                "metadata": {
                    "PhysicalSizeX": 3,
                    "PhysicalSizeXUnit": "nm",
                    "PhysicalSizeY": 2,
                    "PhysicalSizeYUnit": "nm",
                },
            },
            PixelSize(2.0, 3.0, "nm"),
        ),
        ({"ome": True, "metadata": {"PhysicalSizeX": 0.5}}, None),
        ({"ome": True, "metadata": {"PhysicalSizeX": -1, "PhysicalSizeY": 1}}, None),
        ({"ome": True, "metadata": {"PhysicalSizeX": 1, "PhysicalSizeXUnit": "pixel", "PhysicalSizeY": 1}}, None),
        ({"imagej": True, "resolution": (4.0, 2.0), "metadata": {"unit": "um"}}, PixelSize(0.5, 0.25, "µm")),
        ({"imagej": True, "resolution": (4.0, 2.0), "metadata": {"unit": "\\u00B5m"}}, PixelSize(0.5, 0.25, "µm")),
        ({"imagej": True, "resolution": (4.0, 2.0), "metadata": {"unit": "pixel"}}, None),
        ({"resolution": (72.0, 72.0), "resolutionunit": "INCH"}, None),
    ],
)
def test_pixels_are_as_large_as_the_file_says(tmp_path, options, expected):
    tifffile.imwrite(tmp_path / "picture.tif", PICTURE, photometric="minisblack", **options)
    assert read_image(tmp_path / "picture.tif").pixel_size == expected
    assert open_windowed(tmp_path / "picture.tif").pixel_size == expected
