"""Images → the colours that the screen shows."""

import numpy as np

from pmlda.images import read_image, to_rgb
from tests.images.pictures import HEIGHT, WIDTH, numbers


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
