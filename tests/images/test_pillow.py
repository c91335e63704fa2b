"""PNG and JPEG files, written here in small → what read_image makes of them."""

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest

from pmlda.images import read_image
from tests.images.pictures import HEIGHT, WIDTH, numbers, without_rasterio, write_raster


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
