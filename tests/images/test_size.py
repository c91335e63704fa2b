"""The size of a picture is known before anything of it is decoded, and what would unpack to far more is refused."""

import io
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import PIL.Image
import PIL.PngImagePlugin
import pytest
import scipy.io
import tifffile
import xarray

from pmlda.errors import ImageError
from pmlda.images import checks, open_windowed, picture_size, read_image
from tests.images.pictures import numbers, write_envi
from tests.mutations import examples


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return examples(tmp_path_factory.mktemp("pictures"))


def test_every_kind_of_file_tells_its_size_as_it_will_be_read(pictures):
    assert len(pictures) > 25
    for kind, path in pictures.items():
        image = read_image(path)
        assert picture_size(path) == (image.pixels.shape, image.pixels.dtype), kind


def test_odd_pictures_tell_their_size_too(tmp_path):
    PIL.Image.fromarray(numbers(6, 9)).convert("P").save(tmp_path / "palette.png")
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.fromarray(numbers(6, 9, 3)).save(tmp_path / "turned.jpg", exif=exif)
    PIL.Image.fromarray(numbers(6, 9)).convert("P").save(tmp_path / "palette.tif")
    tifffile.imwrite(tmp_path / "turned.tif", numbers(6, 9, 3), photometric="rgb", extratags=[(274, 3, 1, 6, True)])
    tifffile.imwrite(tmp_path / "alpha.tif", numbers(6, 9, 4), photometric="rgb", extrasamples=["unassalpha"])
    write_envi(tmp_path / "bad.img", numbers(6, 9, 3), ["bbl = {1, 0, 1}"])
    np.savez(tmp_path / "two.npz", a=numbers(4, 9, 3), b=numbers(6, 9))
    scipy.io.savemat(tmp_path / "truth.mat", {"truth": numbers(6, 9) > 100})
    for name in ("palette.png", "turned.jpg", "palette.tif", "turned.tif", "alpha.tif", "bad.img", "truth.mat"):
        image = read_image(tmp_path / name)
        assert picture_size(tmp_path / name) == (image.pixels.shape, image.pixels.dtype), name
    assert picture_size(tmp_path / "two.npz", key="a") == ((4, 9, 3), np.uint8)


def test_arrays_tell_their_size():
    assert picture_size(numbers(6, 9, 2)) == ((6, 9, 2), np.uint8)
    assert picture_size(read_image(numbers(6, 9))) == ((6, 9, 1), np.uint8)
    assert picture_size(xarray.DataArray(numbers(2, 6, 9), dims=("band", "y", "x"))) == ((6, 9, 2), np.uint8)
    assert picture_size([1, 2]) is None


def test_the_size_of_huge_pictures_takes_next_to_no_memory(tmp_path):
    """16000² zeros pack into little, as one strip and as a PNG; they would need 256 MB each in memory."""
    side = 16000
    zeros = np.zeros((side, side), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", zeros, compression="zlib", rowsperstrip=side)
    ihdr = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + ihdr + struct.pack(">I", zlib.crc32(b"IHDR" + ihdr))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT\x35\xaf\x06\x1e")
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float64, (side, side, 3)).flush()
    code = (
        "import resource, sys; from pmlda.images import picture_size; import tifffile, PIL.PngImagePlugin, rasterio\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print([picture_size(path)[0] for path in sys.argv[1:]])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    files = [str(tmp_path / name) for name in ("a.tif", "a.png", "a.npy")]
    told = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True).stdout
    sizes, grown = told.splitlines()
    assert sizes == str([(side, side, 1), (side, side, 3), (side, side, 3)])
    assert int(grown) < 60_000  # kilobytes


# ── files that unpack to far more than they say ────────────────────────────────────────────────────────────────────


def save_npz_bomb(path, header):
    """An array whose header comes before two hundred megabytes that its shape does not ask for."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("cube.npy", "w") as file:
        file.write(header)
        for _ in range(12):
            file.write(bytes(2**24))
    return path


def test_an_npz_with_more_than_its_shape_asks_for_is_refused(tmp_path):
    start = io.BytesIO()
    np.save(start, np.zeros((4, 5)))
    path = save_npz_bomb(tmp_path / "a.npz", start.getvalue())
    with pytest.raises(ImageError, match=r"cube in .*has 201326880 bytes, expected 160"):
        read_image(path)


def test_an_npz_whose_header_claims_to_be_huge_is_not_unpacked(tmp_path, monkeypatch):
    path = save_npz_bomb(tmp_path / "a.npz", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{")
    taken = []
    real = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda file, n=-1: taken.append(n) or real(file, n))
    with pytest.raises(ImageError, match="cannot be read as NPZ"):
        read_image(path)
    assert taken
    assert max(taken) <= 2**16
    assert min(taken) >= 0


@pytest.mark.parametrize("part", ["numbers", "name"])
def test_a_mat_file_that_unpacks_to_more_than_its_shape_asks_for_is_refused(tmp_path, part):
    length = 2**27
    flags, shape = struct.pack("<IIII", 6, 8, 6, 0), struct.pack("<IIii", 5, 8, 4, 5)
    name = struct.pack("<II", 1, length) if part == "name" else struct.pack("<II", 1, 8) + b"cubecube"
    numbers_of = b"" if part == "name" else struct.pack("<II", 9, length)
    start = flags + shape + name + numbers_of
    packer = zlib.compressobj()
    inner = packer.compress(struct.pack("<II", 14, len(start) + length) + start)
    inner += packer.compress(bytes(length)) + packer.flush()
    header = b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(header + struct.pack("<II", 15, len(inner)) + inner)
    with pytest.raises(ImageError, match="claims more than its shape asks for"):
        read_image(tmp_path / "a.mat")


def test_a_png_whose_text_unpacks_to_megabytes_is_refused(tmp_path):
    info = PIL.PngImagePlugin.PngInfo()
    info.add_text("comment", "0" * 2**24, zip=True)
    PIL.Image.fromarray(numbers(6, 9)).save(tmp_path / "a.png", pnginfo=info)
    assert (tmp_path / "a.png").stat().st_size < 2**16
    with pytest.raises(ImageError, match="cannot be read as PNG: Decompressed data too large"):
        read_image(tmp_path / "a.png")


# ── advice ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "kind", ["colour png", "colour jpg", "cube npz", "cube mat", "netcdf", "cube npy", "tiles tif"]
)
def test_advice_on_pictures_that_are_too_large_is_true_for_their_kind(pictures, monkeypatch, kind):
    in_parts = kind in ("cube npy", "tiles tif")
    windowed = open_windowed(pictures[kind])
    assert ("was read whole" in " ".join(windowed.notes)) != in_parts
    monkeypatch.setattr(checks, "MOST_VALUES", 100)
    with pytest.raises(ImageError, match=r"above the limit of 100\. Cut out a part") as caught:
        read_image(pictures[kind])
    assert ("save it as a tiled TIFF, .npy or Zarr" in str(caught.value)) != in_parts
