"""ENVI files, written here in small → what read_image makes of them."""

import numpy as np
import pytest

from pmlda.images import read_image
from tests.images.pictures import HEIGHT, WIDTH, numbers, write_envi


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
