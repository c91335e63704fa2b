"""Arrays, in memory and in .npy, .npz and MATLAB files → what read_image makes of them."""

import numpy as np
import PIL.Image
import pytest
import scipy.io

from pmlda.errors import ImageError
from pmlda.images import read_image
from tests.images.pictures import HEIGHT, WIDTH, numbers


def test_an_array_is_read_as_it_is():
    cube = numbers(HEIGHT, WIDTH, 4, dtype=np.float32)
    image = read_image(cube)
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
