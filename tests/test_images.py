"""Files of every format, written here in small → what read_image makes of them; maps written and read again."""

import json
import warnings

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
import rasterio
import rasterio.shutil
import scipy.io
import tifffile
import xarray
from rasterio import Affine

from pmlda import images
from pmlda.images import ImageError, read_image, to_rgb, write_maps
from pmlda.types import Georeference, Image

HEIGHT, WIDTH = 6, 9  # no side of a picture equals its number of bands, so that mixed-up axes show
UTM = rasterio.crs.CRS.from_epsg(32633)
PLACE = Georeference(UTM.to_wkt(), (2.0, 0.0, 500000.0, 0.0, -2.0, 4100000.0))


def numbers(*shape, dtype=np.uint8, seed=0):
    """Different numbers everywhere, none of them zero."""
    most = 250 if np.dtype(dtype).itemsize == 1 else 60000
    return np.random.default_rng(seed).integers(1, most, shape).astype(dtype)


def write_raster(path, cube, driver="GTiff", names=(), **options):
    """A cube (H, W, B) through rasterio."""
    height, width, count = cube.shape
    size = {"height": height, "width": width, "count": count, "dtype": cube.dtype.name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver=driver, **size, **options) as dataset:
            dataset.write(np.moveaxis(cube, 2, 0))
            for band, name in enumerate(names):
                dataset.set_band_description(band + 1, name)
    return path


def write_envi(path, cube, lines=()):
    """A band-sequential cube with a header written by hand."""
    height, width, bands = cube.shape
    kinds = {"uint8": 1, "int16": 2, "float32": 4, "uint16": 12, "complex64": 6}
    path.write_bytes(np.moveaxis(cube, 2, 0).tobytes())
    header = ["ENVI", f"samples = {width}", f"lines = {height}", f"bands = {bands}", "header offset = 0"]
    header += [f"data type = {kinds[cube.dtype.name]}", "interleave = bsq", "byte order = 0", *lines]
    path.with_suffix(".hdr").write_text("\n".join(header) + "\n")
    return path


def without_rasterio(monkeypatch):
    monkeypatch.setattr(images, "_rasterio", lambda: None)


# ── arrays ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_array_is_read_as_it_is():
    cube = numbers(HEIGHT, WIDTH, 4, dtype=np.float32)
    image = read_image(cube)
    assert isinstance(image, Image)
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.pixels.dtype == np.float32
    assert image.valid.all()
    assert image.bands == ("band 1", "band 2", "band 3", "band 4")
    assert (image.name, image.georeference, image.notes) == ("array", None, ())


def test_a_picture_does_not_share_memory_with_the_array_it_came_from():
    cube = numbers(HEIGHT, WIDTH)
    assert not np.shares_memory(read_image(cube).pixels, cube)


def test_true_and_false_become_one_and_zero():
    image = read_image(np.array([[True, False]]))
    assert image.pixels.dtype == np.uint8
    assert image.pixels[:, :, 0].tolist() == [[1, 0]]


def test_numbers_in_foreign_byte_order_are_turned():
    cube = numbers(HEIGHT, WIDTH, dtype=np.uint16)
    image = read_image(cube.astype(">u2"))
    assert image.pixels.dtype.isnative
    np.testing.assert_array_equal(image.pixels[:, :, 0], cube)


@pytest.mark.parametrize("bands", [None, 3])
def test_masked_pixels_have_no_data(bands):
    cube = numbers(HEIGHT, WIDTH, bands) if bands else numbers(HEIGHT, WIDTH)
    masked = np.ma.array(cube)
    masked[(1, 2, 0) if bands else (1, 2)] = np.ma.masked
    image = read_image(masked)
    assert np.argwhere(~image.valid).tolist() == [[1, 2]]
    np.testing.assert_array_equal(image.pixels.reshape(cube.shape), cube)


def test_nan_or_infinity_in_any_band_is_no_data():
    cube = np.ones((HEIGHT, WIDTH, 2))
    cube[0, 1, 0], cube[2, 3, 1] = np.nan, -np.inf
    image = read_image(cube)
    assert np.argwhere(~image.valid).tolist() == [[0, 1], [2, 3]]
    assert image.notes == ("2 of 54 pixels have no data.",)


def test_mask_nodata_and_nan_are_combined():
    cube = np.ones((HEIGHT, WIDTH, 2), dtype=np.float32)
    cube[0, 0, 1], cube[0, 1, 0] = np.nan, -9999
    mask = np.full((HEIGHT, WIDTH), 7)
    mask[0, 2] = 0
    image = read_image(cube, mask=mask, nodata=-9999)
    assert np.argwhere(~image.valid).tolist() == [[0, 0], [0, 1], [0, 2]]
    assert image.notes == ("3 of 54 pixels have no data.",)


def test_a_number_that_the_pixels_cannot_hold_marks_none():
    assert read_image(numbers(HEIGHT, WIDTH), nodata=-9999).valid.all()
    assert read_image(numbers(HEIGHT, WIDTH, dtype=np.float32), nodata=1e300).valid.all()


def test_a_mask_can_be_a_file(tmp_path):
    mask = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    mask[2:4, 3:5] = 255
    PIL.Image.fromarray(mask).save(tmp_path / "mask.png")
    image = read_image(numbers(HEIGHT, WIDTH), mask=tmp_path / "mask.png")
    np.testing.assert_array_equal(image.valid, mask > 0)


# ── xarray ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band"), ("x", "band", "y")])
def test_a_dataarray_is_read_in_any_order_of_its_dimensions(dims):
    cube = numbers(HEIGHT, WIDTH, 3, dtype=np.float32)
    cube[1, 2, 0] = np.nan
    source = xarray.DataArray(
        cube,
        dims=("y", "x", "band"),
        coords={"band": ["blue", "green", "red"], "y": 99.0 - 2 * np.arange(HEIGHT), "x": 11.0 + 2 * np.arange(WIDTH)},
        name="scene",
    )
    source = source.assign_coords(spatial_ref=0)
    source.coords["spatial_ref"].attrs["crs_wkt"] = UTM.to_wkt()
    image = read_image(source.transpose(*dims))
    np.testing.assert_array_equal(image.pixels, cube)
    assert np.argwhere(~image.valid).tolist() == [[1, 2]]
    assert image.bands == ("blue", "green", "red")
    assert image.name == "scene"
    assert image.georeference == Georeference(UTM.to_wkt(), (2.0, 0.0, 10.0, 0.0, -2.0, 100.0))


def test_a_plane_of_a_dataarray_may_have_dimensions_of_length_one():
    cube = numbers(HEIGHT, WIDTH)
    image = read_image(xarray.DataArray(cube[None, None], dims=("time", "band", "lat", "lon")))
    np.testing.assert_array_equal(image.pixels[:, :, 0], cube)
    assert image.georeference is None


def test_the_fill_value_of_a_dataarray_is_no_data():
    cube = numbers(HEIGHT, WIDTH, dtype=np.int16)
    cube[0, 3] = -1
    image = read_image(xarray.DataArray(cube, dims=("y", "x"), attrs={"_FillValue": -1}))
    assert np.argwhere(~image.valid).tolist() == [[0, 3]]


# ── PNG and JPEG ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_png_colours(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3)
    PIL.Image.fromarray(cube).save(tmp_path / "colour.png")
    image = read_image(str(tmp_path / "colour.png"))
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.bands == ("red", "green", "blue")
    assert (image.name, image.notes) == ("colour", ())


def test_png_grey_of_16_bits_is_kept(tmp_path):
    cube = numbers(HEIGHT, WIDTH, dtype=np.uint16)
    PIL.Image.fromarray(cube).save(tmp_path / "deep.png")
    image = read_image(tmp_path / "deep.png")
    assert image.pixels.dtype == np.uint16
    np.testing.assert_array_equal(image.pixels[:, :, 0], cube)


def test_png_colours_of_16_bits_are_kept(tmp_path, monkeypatch):
    cube = numbers(HEIGHT, WIDTH, 4, dtype=np.uint16)
    cube[2, 1, 3] = 0
    write_raster(tmp_path / "deep.png", cube, driver="PNG")
    image = read_image(tmp_path / "deep.png")
    np.testing.assert_array_equal(image.pixels, cube[:, :, :3])
    assert np.argwhere(~image.valid).tolist() == [[2, 1]]
    assert (image.bands, image.georeference) == (("red", "green", "blue"), None)
    without_rasterio(monkeypatch)
    shallow = read_image(tmp_path / "deep.png")
    assert shallow.pixels.dtype == np.uint8
    assert "Colours of 16 bits read as 8" in shallow.notes[0]


def test_png_palette_becomes_colours(tmp_path):
    indices = numbers(HEIGHT, WIDTH) % 3
    palette = np.array([[255, 0, 0], [0, 200, 10], [7, 8, 9]], dtype=np.uint8)
    picture = PIL.Image.fromarray(indices, mode=None).convert("P")
    picture.putdata(indices.ravel().tolist())
    picture.putpalette(palette.ravel().tolist())
    picture.save(tmp_path / "palette.png", transparency=1)
    image = read_image(tmp_path / "palette.png")
    np.testing.assert_array_equal(image.pixels, palette[indices])
    np.testing.assert_array_equal(image.valid, indices != 1)
    assert "Colours converted from a palette to RGB." in image.notes


@pytest.mark.parametrize("bands", [2, 4])
def test_transparent_pixels_have_no_data(tmp_path, bands):
    cube = numbers(HEIGHT, WIDTH, bands)
    cube[3, 4, -1] = 0
    PIL.Image.fromarray(cube).save(tmp_path / "alpha.png")
    image = read_image(tmp_path / "alpha.png")
    np.testing.assert_array_equal(image.pixels, cube[:, :, :-1])
    assert np.argwhere(~image.valid).tolist() == [[3, 4]]
    assert image.notes == ("1 of 54 pixels has no data.",)


def test_a_colour_that_png_calls_transparent_has_no_data(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3)
    cube[5, 8] = 1, 2, 3
    PIL.Image.fromarray(cube).save(tmp_path / "key.png", transparency=(1, 2, 3))
    image = read_image(tmp_path / "key.png")
    np.testing.assert_array_equal(image.pixels, cube)
    assert np.argwhere(~image.valid).tolist() == [[5, 8]]


def test_a_black_and_white_png(tmp_path):
    bits = numbers(HEIGHT, WIDTH) % 2 == 0
    PIL.Image.fromarray(bits).save(tmp_path / "bits.png")
    np.testing.assert_array_equal(read_image(tmp_path / "bits.png").pixels[:, :, 0], bits * np.uint8(255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_jpeg_is_turned_upright(tmp_path, orientation):
    path = tmp_path / "turned.jpg"
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    PIL.Image.fromarray(numbers(16, 24, 3)).save(path, exif=exif, quality=95)
    with PIL.Image.open(path) as picture:
        upright = np.array(PIL.ImageOps.exif_transpose(picture))
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, upright)
    assert image.valid.shape == upright.shape[:2]
    said = [note for note in image.notes if f"orientation tag {orientation}" in note]
    assert len(said) == (orientation != 1)


def test_jpeg_in_cmyk_becomes_rgb(tmp_path):
    PIL.Image.new("CMYK", (WIDTH, HEIGHT), (0, 255, 255, 0)).save(tmp_path / "print.jpg", quality=100)
    image = read_image(tmp_path / "print.jpg")
    assert image.bands == ("red", "green", "blue")
    assert np.abs(image.pixels.astype(int) - [255, 0, 0]).max() < 8  # JPEG is not exact
    assert image.notes == ("Colours converted from CMYK to RGB.",)


def test_a_png_called_jpg_is_read_as_png(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3)
    PIL.Image.fromarray(cube).save(tmp_path / "wrong.jpg", format="PNG")
    np.testing.assert_array_equal(read_image(tmp_path / "wrong.jpg").pixels, cube)


def test_the_limit_of_pillow_does_not_count(tmp_path, monkeypatch):
    PIL.Image.fromarray(numbers(HEIGHT, WIDTH)).save(tmp_path / "large.png")
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 5)
    assert read_image(tmp_path / "large.png").pixels.shape == (HEIGHT, WIDTH, 1)


# ── TIFF ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize("planarconfig", ["contig", "separate"])
def test_tiff_bands_in_either_order(tmp_path, dtype, planarconfig):
    cube = numbers(HEIGHT, WIDTH, 5, dtype=dtype)
    stored = cube if planarconfig == "contig" else np.moveaxis(cube, 2, 0)
    tifffile.imwrite(tmp_path / "bands.tif", stored, photometric="minisblack", planarconfig=planarconfig)
    image = read_image(tmp_path / "bands.tif")
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.pixels.dtype == dtype
    assert image.bands[4] == "band 5"


def test_tiff_colours_with_transparency(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 4)
    cube[1, 1, 3] = 0
    tifffile.imwrite(tmp_path / "alpha.tif", cube, photometric="rgb")
    image = read_image(tmp_path / "alpha.tif")
    np.testing.assert_array_equal(image.pixels, cube[:, :, :3])
    assert np.argwhere(~image.valid).tolist() == [[1, 1]]
    assert image.bands == ("red", "green", "blue")
    assert "transparency" in image.notes[0]


@pytest.mark.parametrize("metadata", [None, {}])
def test_tiff_pages_are_bands(tmp_path, metadata):
    cube = numbers(HEIGHT, WIDTH, 4, dtype=np.uint16)
    with tifffile.TiffWriter(tmp_path / "pages.tif") as writer:
        for band in range(4):
            writer.write(np.ascontiguousarray(cube[:, :, band]), metadata=metadata)
    np.testing.assert_array_equal(read_image(tmp_path / "pages.tif").pixels, cube)


def test_tiff_pages_of_several_sizes_need_a_key(tmp_path):
    first, second = numbers(HEIGHT, WIDTH), numbers(4, 20)
    with tifffile.TiffWriter(tmp_path / "sizes.tif") as writer:
        writer.write(first, metadata=None)
        writer.write(second, metadata=None)
    with pytest.raises(ImageError, match=r"several sizes.*0: \(6, 9\), 1: \(4, 20\)"):
        read_image(tmp_path / "sizes.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "sizes.tif", key=1).pixels[:, :, 0], second)


def test_smaller_copies_are_left_out_and_that_is_said(tmp_path):
    cube = numbers(32, 32)
    with tifffile.TiffWriter(tmp_path / "pyramid.tif") as writer:
        writer.write(cube, metadata=None)
        writer.write(np.ascontiguousarray(cube[::2, ::2]), metadata=None)
    image = read_image(tmp_path / "pyramid.tif")
    np.testing.assert_array_equal(image.pixels[:, :, 0], cube)
    assert "Smaller copies" in image.notes[0]


def test_a_cube_saved_as_pages_by_mistake_is_put_right(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.float32)
    tifffile.imwrite(tmp_path / "cube.tif", cube, photometric="minisblack")
    image = read_image(tmp_path / "cube.tif")
    np.testing.assert_array_equal(image.pixels, cube)
    assert "Read as 2 bands" in image.notes[0]


def test_ome_channels_are_bands_with_names(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.uint16)
    metadata = {"axes": "CYX", "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(tmp_path / "cells.ome.tif", np.moveaxis(cube, 2, 0), ome=True, metadata=metadata)
    image = read_image(tmp_path / "cells.ome.tif")
    np.testing.assert_array_equal(image.pixels, cube)
    assert (image.bands, image.name) == (("DAPI", "GFP"), "cells")


def test_ome_depths_are_bands_and_that_is_said(tmp_path):
    stack = numbers(4, HEIGHT, WIDTH)
    tifffile.imwrite(tmp_path / "depth.ome.tif", stack, ome=True, metadata={"axes": "ZYX"})
    image = read_image(tmp_path / "depth.ome.tif")
    np.testing.assert_array_equal(image.pixels, np.moveaxis(stack, 0, 2))
    assert image.notes == ("The depths of the file were read as bands.",)


def test_tiff_palette_becomes_colours(tmp_path):
    indices = numbers(HEIGHT, WIDTH)
    colormap = np.arange(3 * 256, dtype=np.uint16).reshape(3, 256) * 80
    tifffile.imwrite(tmp_path / "palette.tif", indices, photometric="palette", colormap=colormap)
    image = read_image(tmp_path / "palette.tif")
    np.testing.assert_array_equal(image.pixels, np.moveaxis(colormap[:, indices] >> 8, 0, 2))


def test_tiff_in_cmyk_becomes_rgb(tmp_path):
    PIL.Image.new("CMYK", (WIDTH, HEIGHT), (0, 255, 255, 0)).save(tmp_path / "print.tif")
    assert (read_image(tmp_path / "print.tif").pixels == [255, 0, 0]).all()


@pytest.mark.parametrize("geo", [True, False])
@pytest.mark.parametrize("shape", [(HEIGHT, WIDTH), (HEIGHT, WIDTH, 3)])
def test_tiff_compressed_with_lzw(tmp_path, monkeypatch, geo, shape):
    cube = numbers(*shape)
    PIL.Image.fromarray(cube).save(tmp_path / "lzw.tif", compression="tiff_lzw")
    if not geo:
        without_rasterio(monkeypatch)
    np.testing.assert_array_equal(read_image(tmp_path / "lzw.tif").pixels.reshape(shape), cube)


def test_tiff_orientation_is_applied(tmp_path):
    cube = numbers(HEIGHT, WIDTH)
    tifffile.imwrite(tmp_path / "turned.tif", cube, extratags=[(274, 3, 1, 6, True)])
    image = read_image(tmp_path / "turned.tif")
    np.testing.assert_array_equal(image.pixels[:, :, 0], np.rot90(cube, -1))
    assert "orientation tag 6" in image.notes[0]


# ── through rasterio ───────────────────────────────────────────────────────────────────────────────────────────────


def geotiff(path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.int16)
    cube[2, 5, 1] = -9999
    place = {"crs": UTM, "transform": Affine(*PLACE.transform), "nodata": -9999}
    return write_raster(path, cube, names=("red edge", "infrared"), **place), cube


def test_geotiff_keeps_place_names_and_nodata(tmp_path):
    path, cube = geotiff(tmp_path / "scene.tif")
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.georeference == PLACE
    assert image.bands == ("red edge", "infrared")
    assert np.argwhere(~image.valid).tolist() == [[2, 5]]


def test_geotiff_without_rasterio_is_read_and_says_what_is_missing(tmp_path, monkeypatch):
    path, cube = geotiff(tmp_path / "scene.tif")
    without_rasterio(monkeypatch)
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.georeference is None
    assert np.argwhere(~image.valid).tolist() == [[2, 5]]
    assert "GeoTIFF tags" in image.notes[0]
    assert 'pip install "pmlda[geo]"' in image.notes[0]


def test_geotiff_transparency_and_mask(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 4)
    cube[0, 7, 3] = 0
    place = {"crs": UTM, "transform": Affine(1, 0, 5, 0, -1, 7)}
    image = read_image(write_raster(tmp_path / "alpha.tif", cube, photometric="rgb", alpha="yes", **place))
    assert image.pixels.shape == (HEIGHT, WIDTH, 3)
    assert np.argwhere(~image.valid).tolist() == [[0, 7]]
    path = write_raster(tmp_path / "masked.tif", cube[:, :, :1], **place)
    mask = np.full((HEIGHT, WIDTH), 255, dtype=np.uint8)
    mask[4, 4] = 0
    with rasterio.open(path, "r+") as dataset:
        dataset.write_mask(mask)
    assert np.argwhere(~read_image(path).valid).tolist() == [[4, 4]]


def test_geotiff_pages_are_bands_or_chosen_by_key(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3, dtype=np.uint16)
    scale = (33550, 12, 3, (2.0, 2.0, 0.0), True)
    with tifffile.TiffWriter(tmp_path / "pages.tif") as writer:
        for band in range(3):
            writer.write(np.ascontiguousarray(cube[:, :, band]), metadata=None, extratags=[scale])
    np.testing.assert_array_equal(read_image(tmp_path / "pages.tif").pixels, cube)
    np.testing.assert_array_equal(read_image(tmp_path / "pages.tif", key=2).pixels, cube[:, :, 2:])


@pytest.mark.parametrize("given", ["data", "header"])
@pytest.mark.parametrize("suffix", [".img", ""])
def test_envi_from_either_file(tmp_path, given, suffix):
    cube = numbers(HEIGHT, WIDTH, 4, dtype=np.int16)
    cube[:, :, 2] = -9999  # as bad bands often are; it must not spoil the others
    lines = [
        "data ignore value = -9999",
        "wavelength units = Nanometers",
        "wavelength = {450.5, 550.0,",
        " 650.0, 1400.25}",
        "bbl = {1, 1, 0, 1}",
    ]
    data = write_envi(tmp_path / f"scene{suffix}", cube, lines)
    image = read_image(data if given == "data" else tmp_path / "scene.hdr")
    np.testing.assert_array_equal(image.pixels, cube[:, :, [0, 1, 3]])
    assert image.valid.all()
    assert image.bands == ("450.5 nm", "550.0 nm", "1400.25 nm")
    assert image.notes == ("1 of 4 bands dropped, which the header calls bad (bbl).",)
    assert image.name == "scene"


def test_envi_nodata_and_list_of_bad_bands_that_does_not_fit(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.float32)
    cube[3, 3] = -50
    image = read_image(write_envi(tmp_path / "scene.dat", cube, ["data ignore value = -50", "bbl = {1, 0, 1}"]))
    np.testing.assert_array_equal(image.pixels, cube)
    assert np.argwhere(~image.valid).tolist() == [[3, 3]]
    assert "3 entries for 2 bands" in image.notes[0]


def test_nitf(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3)
    np.testing.assert_array_equal(read_image(write_raster(tmp_path / "scene.ntf", cube, driver="NITF")).pixels, cube)


def write_netcdf(path, **planes):
    with scipy.io.netcdf_file(path, "w") as file:
        file.createDimension("z", 4)
        file.createDimension("y", HEIGHT)
        file.createDimension("x", WIDTH)
        for name, plane in planes.items():
            variable = file.createVariable(name, "f4", ("z", "y", "x")[-plane.ndim :])
            variable[:] = plane
    return path


def test_netcdf_by_key(tmp_path):
    height, depth = numbers(HEIGHT, WIDTH, dtype=np.float32), numbers(4, HEIGHT, WIDTH, dtype=np.float32, seed=1)
    path = write_netcdf(tmp_path / "sea.nc", height=height, depth=depth)
    np.testing.assert_array_equal(read_image(path, key="height").pixels[:, :, 0], height)
    np.testing.assert_array_equal(read_image(path, key="depth").pixels, np.moveaxis(depth, 0, 2))
    with pytest.raises(ImageError, match=r"holds 2 pictures. Choose one with key: height, depth"):
        read_image(path)
    with pytest.raises(ImageError, match=r"key='width' is not in .*Choose one of: height, depth"):
        read_image(path, key="width")


def test_netcdf_with_a_single_picture_needs_no_key(tmp_path):
    height = numbers(HEIGHT, WIDTH, dtype=np.float32)
    path = write_netcdf(tmp_path / "sea.nc", height=height)
    np.testing.assert_array_equal(read_image(path).pixels[:, :, 0], height)


def test_netcdf_with_coordinates_has_north_on_top_and_a_place(tmp_path):
    height = numbers(HEIGHT, WIDTH, dtype=np.float32)
    with scipy.io.netcdf_file(tmp_path / "sea.nc", "w") as file:
        for name, length in (("lat", HEIGHT), ("lon", WIDTH)):
            file.createDimension(name, length)
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = 10.5 + np.arange(length)
            axis.units = f"degrees_{'north' if name == 'lat' else 'east'}"
        file.createVariable("height", "f4", ("lat", "lon"))[:] = height
    image = read_image(tmp_path / "sea.nc")
    np.testing.assert_array_equal(image.pixels[:, :, 0], height[::-1])
    assert image.georeference.transform == pytest.approx((1, 0, 10, 0, -1, 10 + HEIGHT))


def test_hdf5_by_key(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.float32)
    # A NetCDF file of version 4 is an HDF5 file, and nothing else here can write one.
    write_raster(tmp_path / "scene.tif", cube)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"driver": "netCDF", "FORMAT": "NC4", "WRITE_BOTTOMUP": "NO"}
        rasterio.shutil.copy(tmp_path / "scene.tif", tmp_path / "scene.nc", **options)
    path = (tmp_path / "scene.nc").rename(tmp_path / "scene.h5")
    with pytest.raises(ImageError, match=r"Choose one with key: .*Band1, Band2"):
        read_image(path)
    np.testing.assert_array_equal(read_image(path, key="Band2").pixels[:, :, 0], cube[:, :, 1])


@pytest.mark.parametrize("suffix", [".ntf", ".nc", ".h5", ".img"])
def test_without_rasterio_other_formats_say_what_to_install(tmp_path, monkeypatch, suffix):
    path = write_envi(tmp_path / f"scene{suffix}", numbers(HEIGHT, WIDTH, 2))
    without_rasterio(monkeypatch)
    with pytest.raises(ImageError, match=r'pip install "pmlda\[geo\]"'):
        read_image(path)


# ── arrays in files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_npy(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3, dtype=np.float64)
    np.save(tmp_path / "cube.npy", cube)
    image = read_image(tmp_path / "cube.npy")
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.name == "cube"


def test_npz_takes_the_only_picture_or_the_one_chosen(tmp_path):
    cube, other = numbers(HEIGHT, WIDTH, 3), numbers(4, 5)
    np.savez_compressed(tmp_path / "one.npz", cube=cube, wavelengths=np.arange(3), title=np.array("scene"))
    np.testing.assert_array_equal(read_image(tmp_path / "one.npz").pixels, cube)
    np.savez(tmp_path / "two.npz", cube=cube, other=other)
    np.testing.assert_array_equal(read_image(tmp_path / "two.npz", key="other").pixels[:, :, 0], other)
    with pytest.raises(ImageError, match=r"holds 2 arrays.*key: cube \(6, 9, 3\), other \(4, 5\)"):
        read_image(tmp_path / "two.npz")
    with pytest.raises(ImageError, match=r"key='third' is not in .*cube \(6, 9, 3\), other \(4, 5\)"):
        read_image(tmp_path / "two.npz", key="third")


def test_matlab_takes_the_only_picture_or_the_one_chosen(tmp_path):
    cube, truth = numbers(HEIGHT, WIDTH, 3, dtype=np.uint16), numbers(HEIGHT, WIDTH) % 2 == 0
    scipy.io.savemat(tmp_path / "one.mat", {"cube": cube, "scale": 2.0, "wavelengths": np.arange(3.0), "who": "me"})
    image = read_image(tmp_path / "one.mat")
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.pixels.dtype == np.uint16
    scipy.io.savemat(tmp_path / "two.mat", {"cube": cube, "truth": truth})
    np.testing.assert_array_equal(read_image(tmp_path / "two.mat", key="truth").pixels[:, :, 0], truth)
    with pytest.raises(ImageError, match=r"holds 2 arrays.*cube \(6, 9, 3\), truth \(6, 9\)"):
        read_image(tmp_path / "two.mat")


# ── maps ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", [None, PLACE], ids=["plain", "geo"])
@pytest.mark.parametrize("n_maps", [1, 2, 3, 4, 5])
def test_maps_come_back_as_they_were_written(tmp_path, place, n_maps):
    maps = np.random.default_rng(0).random((HEIGHT, WIDTH, n_maps))
    valid = np.ones((HEIGHT, WIDTH), dtype=bool)
    valid[1, 2] = False
    names = [f"sand µ {number}" for number in range(n_maps)]
    path = tmp_path / "maps.tif"
    write_maps(path, maps, names, valid=valid, georeference=place, description="how much")
    image = read_image(path)
    assert image.pixels.dtype == np.float32
    np.testing.assert_array_equal(image.pixels[valid], maps.astype(np.float32)[valid])
    assert np.isnan(image.pixels[1, 2]).all()
    np.testing.assert_array_equal(image.valid, valid)
    assert image.bands == tuple(names)
    assert image.georeference == place
    with tifffile.TiffFile(path) as tiff:
        assert tiff.pages.first.compression == tifffile.COMPRESSION.ADOBE_DEFLATE
        about = tiff.pages.first.description
    assert about == ("how much" if place else json.dumps({"names": names, "description": "how much"}))


def test_writing_maps_leaves_the_array_alone(tmp_path):
    maps = np.ones((HEIGHT, WIDTH, 2), dtype=np.float32)
    write_maps(tmp_path / "maps.tif", maps, ["a", "b"], valid=np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) > 3)
    assert np.isfinite(maps).all()


def test_a_turned_place_without_coordinate_system_comes_back(tmp_path):
    place = Georeference("", (1.0, 0.5, 10.0, -0.5, 1.0, 20.0))
    write_maps(tmp_path / "maps.tif", np.ones((HEIGHT, WIDTH)), ["a"], georeference=place)
    assert read_image(tmp_path / "maps.tif").georeference == place


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"maps": np.ones(3)}, r"maps have shape \(3,\)"),
        ({"names": ["a"]}, "Give one name for each map"),
        ({"names": "ab"}, "Give one name for each map"),
        ({"valid": np.ones((2, 2), dtype=bool)}, r"valid has shape \(2, 2\)"),
        ({"path": "maps.png"}, "written as TIFF"),
        ({"path": "nowhere/maps.tif"}, "does not exist"),
        ({"georeference": Georeference("nonsense", PLACE.transform)}, "nonsense"),
    ],
)
def test_maps_that_cannot_be_written(tmp_path, change, fragment):
    arguments = {"path": "maps.tif", "maps": np.ones((HEIGHT, WIDTH, 2)), "names": ["a", "b"]} | change
    with pytest.raises(ImageError, match=fragment):
        write_maps(tmp_path / arguments.pop("path"), arguments.pop("maps"), arguments.pop("names"), **arguments)


# ── colours for the screen ─────────────────────────────────────────────────────────────────────────────────────────


def test_colours_in_8_bits_are_shown_as_they_are_and_missing_ones_light_grey():
    cube = numbers(HEIGHT, WIDTH, 3)
    mask = np.ones((HEIGHT, WIDTH))
    mask[0, 0] = 0
    colours = to_rgb(read_image(cube, mask=mask))
    assert colours.dtype == np.uint8
    assert colours[0, 0].tolist() == [230, 230, 230]
    np.testing.assert_array_equal(colours[mask > 0], cube[mask > 0])


def test_the_stretch_runs_between_percentiles_of_valid_pixels():
    band = np.arange(101, dtype=np.float64).reshape(1, 101)
    colours = to_rgb(read_image(np.concatenate([band, np.full((1, 101), np.nan)])))
    assert (colours[0] == colours[0, :, :1]).all()  # grey
    assert colours[0, [0, 2, 50, 98, 100], 0].tolist() == [0, 0, 128, 255, 255]
    assert (colours[1] == 230).all()


def test_which_bands_are_shown():
    ramp = np.linspace(0, 1, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    flat = np.zeros((HEIGHT, WIDTH))
    spread = to_rgb(read_image(np.stack([ramp, flat, flat, flat, ramp[::-1, ::-1]], axis=2)))
    np.testing.assert_array_equal(spread[:, :, 0], spread[::-1, ::-1, 2])
    assert (spread[:, :, 1] == 128).all()
    named = read_image(np.stack([flat, ramp, flat, flat], axis=2))._replace(bands=("B", "G", "R", "IR"))
    colours = to_rgb(named)
    assert np.ptp(colours, axis=(0, 1)).tolist() == [0, 255, 0]
    two = to_rgb(read_image(np.stack([flat, ramp], axis=2)))
    assert np.ptp(two, axis=(0, 1)).tolist() == [0, 255, 255]


# ── bad input ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        (np.ones((2, 2, 2, 2)), r"4 dimensions, shape \(2, 2, 2, 2\)"),
        (np.ones(3), "1 dimensions"),
        (np.ones((0, 4)), r"no pixels: its shape is \(0, 4\)"),
        (np.ones((4, 3, 0)), "no pixels"),
        (np.ones((2, 2), dtype=complex), "complex numbers.*magnitude"),
        (np.array([[1, None]], dtype=object), "holds objects"),
        (np.array([["a", "b"]]), "holds text"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "holds dates"),
        (np.zeros((2, 2), dtype=[("a", float)]), "holds records"),
        (np.full((2, 2), np.nan), "no pixel with data left"),
        ([[1, 2]], "cannot be read from list"),
        (None, "cannot be read from NoneType"),
        (xarray.DataArray(np.ones((2, 3)), dims=("a", "b")), "Rename those of the plane to y and x"),
        (xarray.DataArray(np.ones((2, 3, 2, 2)), dims=("time", "band", "y", "x")), "more than 3 dimensions"),
        (xarray.Dataset(), "cannot be read from Dataset"),
    ],
)
def test_arrays_that_are_no_pictures(source, fragment):
    with pytest.raises(ImageError, match=fragment):
        read_image(source)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"mask": np.ones((2, 2))}, r"mask has 2 × 2 pixels, the picture 6 × 9"),
        ({"mask": np.zeros((HEIGHT, WIDTH))}, "no pixel with data left"),
        ({"mask": np.array([["a"]])}, "mask array holds text"),
        ({"mask": "no such mask.png"}, "does not exist"),
        ({"nodata": "zero"}, "nodata='zero' is not a number"),
        ({"nodata": True}, "nodata=True is not a number"),
        ({"key": "a"}, "Leave key out"),
    ],
)
def test_options_that_do_not_fit(options, fragment):
    with pytest.raises(ImageError, match=fragment):
        read_image(numbers(HEIGHT, WIDTH), **options)


def cut(path, share=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def save_picture(path, **options):
    PIL.Image.fromarray(numbers(64, 64, 3)).save(path, **options)
    return path


def save_tiff(path, share=None, **options):
    tifffile.imwrite(path, numbers(64, 64), **options)
    return cut(path, share) if share else path


def save_text(path, text="not a picture, but quite some text\n" * 20):
    path.write_text(text)
    return path


def save_array(path, array):
    np.save(path, array)
    return path


def save_pages_and_lose_the_last(path):
    with tifffile.TiffWriter(path) as writer:
        for _ in range(2):
            writer.write(numbers(HEIGHT, WIDTH), metadata=None)
    with tifffile.TiffFile(path) as tiff:
        second = tiff.pages[1].offset
    path.write_bytes(path.read_bytes()[:second])
    return path


def make_folder(path):
    path.mkdir()
    return path


def save_matlab_7_3(path):
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b" "))
    return path


def save_without_data(path):
    write_envi(path.with_suffix(".img"), numbers(HEIGHT, WIDTH, 2)).unlink()
    return path


BAD_FILES = {
    "missing": (lambda folder: folder / "gone.png", "gone.png does not exist"),
    "folder": (lambda folder: make_folder(folder / "pictures.png"), "is a folder"),
    "empty": (lambda folder: save_text(folder / "a.png", ""), r"is empty \(0 bytes\)"),
    "cut png": (lambda folder: cut(save_picture(folder / "a.png")), "cannot be read as PNG.*cut short"),
    "cut jpeg": (lambda folder: cut(save_picture(folder / "a.jpg")), "cannot be read as JPEG.*cut short"),
    "cut tiff": (lambda folder: save_tiff(folder / "a.tif", 0.6), "cannot be read as TIFF.*cut short"),
    "cut deflate": (lambda folder: save_tiff(folder / "a.tif", 0.6, compression="zlib"), "cannot be read as TIFF"),
    "cut tiff head": (lambda folder: save_tiff(folder / "a.tif", 0.001), "cannot be read as TIFF"),
    "lost page": (lambda folder: save_pages_and_lose_the_last(folder / "a.tif"), "point past its end"),
    "cut geotiff": (lambda folder: cut(geotiff(folder / "a.tif")[0], 0.8), "cannot be read as TIFF"),
    "cut lzw": (lambda folder: cut(save_picture(folder / "a.tif", compression="tiff_lzw")), "cannot be read as TIFF"),
    "text png": (lambda folder: save_text(folder / "a.png"), "cannot be read as PNG"),
    "text jpeg": (lambda folder: save_text(folder / "a.jpg"), "cannot be read as JPEG"),
    "text tiff": (lambda folder: save_text(folder / "a.tif"), "cannot be read as TIFF"),
    "text nitf": (lambda folder: save_text(folder / "a.ntf"), "cannot be read as NITF"),
    "text netcdf": (lambda folder: save_text(folder / "a.nc"), "cannot be read as NetCDF"),
    "text hdf5": (lambda folder: save_text(folder / "a.h5"), "cannot be read as HDF5"),
    "text npy": (lambda folder: save_text(folder / "a.npy"), "not a .npy file"),
    "text npz": (lambda folder: save_text(folder / "a.npz"), "not a whole .npz file"),
    "text mat": (lambda folder: save_text(folder / "a.mat"), "cannot be read as MATLAB"),
    "text hdr": (lambda folder: save_text(folder / "a.hdr"), "has no data file next to it"),
    "unknown": (lambda folder: save_text(folder / "a.docx"), r"unknown kind \(\.docx\).*\.png .*\.tif"),
    "no extension": (lambda folder: save_text(folder / "a"), "no extension"),
    "cut npy": (lambda folder: cut(save_array(folder / "a.npy", np.ones((50, 50)))), "cannot be read as NPY"),
    "npy 4-D": (lambda folder: save_array(folder / "a.npy", np.ones((2, 2, 2, 2))), "4 dimensions"),
    "npy objects": (lambda folder: save_array(folder / "a.npy", np.array([[None]])), "holds objects"),
    "npy text": (lambda folder: save_array(folder / "a.npy", np.array([["a"]])), "holds text"),
    "matlab 7.3": (lambda folder: save_matlab_7_3(folder / "a.mat"), "MATLAB v7.3.*-v7"),
    "cut envi": (lambda folder: cut(write_envi(folder / "a.img", numbers(HEIGHT, WIDTH, 2))), "is cut short: 64 bytes"),
    "envi complex": (
        lambda folder: write_envi(folder / "a.img", numbers(HEIGHT, WIDTH, 2, dtype=np.complex64)),
        "complex numbers",
    ),
    "envi all bad": (
        lambda folder: write_envi(folder / "a.img", numbers(HEIGHT, WIDTH, 2), ["bbl = {0, 0}"]),
        "calls all 2 bands bad",
    ),
    "envi without data": (lambda folder: save_without_data(folder / "a.hdr"), "has no data file next to it"),
    "ome 4-D": (
        lambda folder: save_stack(folder / "a.ome.tif"),
        r"4 dimensions, ZCYX = \(3, 2, 6, 9\)",
    ),
}


def save_stack(path):
    tifffile.imwrite(path, numbers(3, 2, HEIGHT, WIDTH), ome=True, metadata={"axes": "ZCYX"})
    return path


@pytest.mark.parametrize("kind", BAD_FILES)
def test_files_that_are_no_pictures(tmp_path, kind):
    make, fragment = BAD_FILES[kind]
    with pytest.raises(ImageError, match=fragment):
        read_image(make(tmp_path))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "geo.tif", "a.img", "a.npy", "a.npz", "a.mat"])
def test_pictures_that_are_too_large_are_refused_before_they_are_decoded(tmp_path, monkeypatch, name):
    cube, path = numbers(HEIGHT, WIDTH, 3), tmp_path / name
    if name in ("a.png", "a.jpg"):
        PIL.Image.fromarray(cube).save(path)
    elif name == "a.tif":
        tifffile.imwrite(path, cube, photometric="rgb")
    elif name == "geo.tif":
        write_raster(path, cube, crs=UTM, transform=Affine(1, 0, 5, 0, -1, 7))
    elif name == "a.img":
        write_envi(path, cube)
    elif name == "a.mat":
        scipy.io.savemat(path, {"cube": cube})
    else:
        np.savez(path, cube) if name == "a.npz" else np.save(path, cube)
    monkeypatch.setattr(images, "MOST_VALUES", cube.size)
    assert read_image(path).pixels.shape == cube.shape
    monkeypatch.setattr(images, "MOST_VALUES", cube.size - 1)

    def fail(*_, **__):
        raise AssertionError("decoded")

    for owner, method in ((PIL.Image.Image, "convert"), (tifffile.TiffPageSeries, "asarray"), (np, "load")):
        monkeypatch.setattr(owner, method, fail)
    monkeypatch.setattr(scipy.io, "loadmat", fail)
    with pytest.raises(ImageError, match=r"162 numbers, above the limit of 161.*MOST_VALUES"):
        read_image(path)


def test_a_key_for_a_file_with_one_picture_is_refused(tmp_path):
    with pytest.raises(ImageError, match=r"key='a', but .* holds a single picture"):
        read_image(save_picture(tmp_path / "a.png"), key="a")
