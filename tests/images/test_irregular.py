"""Pipes, sockets and devices, as a picture, as a mask or inside or beside one: refused at once, in one line."""

import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
import zarr

from pmlda.errors import ImageError
from pmlda.images import open_windowed, read_image
from tests.images.pictures import HEIGHT, WIDTH, geotiff, numbers, write_envi


def pipe(path):
    os.mkfifo(path)
    return path


def save_picture(path):
    PIL.Image.fromarray(numbers(HEIGHT, WIDTH, 3)).save(path)
    return path


def run_program(*arguments, **options):
    command = [sys.executable, "-m", "pmlda", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize("out", ["maps", "maps.zarr"])
def test_the_program_does_not_wait_for_a_pipe(tmp_path, out):
    result = run_program("segment", pipe(tmp_path / "a.png"), "--out", tmp_path / out)
    assert result.returncode == 2
    assert "is a named pipe, not a regular file" in " ".join(result.stderr.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png"]


@pytest.mark.parametrize("read", [read_image, open_windowed])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_devices_are_no_pictures_and_no_masks(tmp_path, read, device):
    if not os.path.exists(device):
        pytest.skip(f"there is no {device}")
    (tmp_path / "a.npy").symlink_to(device)
    with pytest.raises(ImageError, match=r"a\.npy is a device, not a regular file"):
        read(tmp_path / "a.npy")
    with pytest.raises(ImageError, match=r"is a device, not a regular file"):
        read(save_picture(tmp_path / "b.png"), mask=device)


@pytest.mark.parametrize("read", [read_image, open_windowed])
@pytest.mark.parametrize("which", ["a.img", "a.hdr"])
def test_neither_file_of_an_envi_pair_may_be_a_pipe(tmp_path, read, which):
    path = write_envi(tmp_path / "a.img", numbers(HEIGHT, WIDTH, 2))
    (tmp_path / which).unlink()
    pipe(tmp_path / which)
    for given in (path, path.with_suffix(".hdr")):
        with pytest.raises(ImageError):
            read(given)


@pytest.mark.parametrize("read", [read_image, open_windowed])
@pytest.mark.parametrize("name", ["c/0/0/0", "c/1/0/0", "extra"])
def test_nothing_inside_a_zarr_may_be_a_pipe(tmp_path, read, name):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8, 3), chunks=(4, 8, 3), dtype="u1")
    array[...] = numbers(8, 8, 3)
    (tmp_path / "a.zarr" / name).unlink(missing_ok=True)
    pipe(tmp_path / "a.zarr" / name)
    with pytest.raises(ImageError, match=f"{name} is a named pipe"):
        read(tmp_path / "a.zarr")


@pytest.mark.parametrize("beside", ["a.tif.aux.xml", "a.tif.msk", "a.aux"])
def test_what_gdal_opens_beside_a_picture_may_not_be_a_pipe(tmp_path, beside):
    path, _ = geotiff(tmp_path / "a.tif")
    pipe(tmp_path / beside)
    with pytest.raises(ImageError, match=f"{beside} is a named pipe"):
        read_image(path)


def test_a_link_to_a_picture_is_read(tmp_path):
    save_picture(tmp_path / "a.png")
    (tmp_path / "link.png").symlink_to("a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "link.png").pixels, read_image(tmp_path / "a.png").pixels)
