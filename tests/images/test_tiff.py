"""TIFF files of every order and colour, written here in small → what read_image makes of them."""

import numpy as np
import PIL.Image
import pytest
import tifffile

from pmlda.errors import ImageError
from pmlda.images import read_image
from tests.images.pictures import HEIGHT, WIDTH, numbers, without_rasterio


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
