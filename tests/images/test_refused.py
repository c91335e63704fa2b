"""Arrays, options and files that are no pictures → the errors that say so."""

import numpy as np
import PIL.Image
import pytest
import rasterio
import scipy.io
import tifffile
import xarray
from rasterio import Affine

from pmlda.errors import ImageError
from pmlda.images import checks, read_image
from tests.images.pictures import HEIGHT, UTM, WIDTH, geotiff, numbers, write_envi, write_raster


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
        (xarray.DataArray(np.ones((2, 3, 2, 2)), dims=("time", "band", "y", "x")), "Choose one time with t"),
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
        r"axes \{Z: 3, C: 2, Y: 6, X: 9\}. Choose one slice with z",
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
    monkeypatch.setattr(checks, "MOST_VALUES", cube.size)
    assert read_image(path).pixels.shape == cube.shape
    monkeypatch.setattr(checks, "MOST_VALUES", cube.size - 1)

    def fail(*_, **__):
        raise AssertionError("decoded")

    for owner, method in ((PIL.Image.Image, "convert"), (tifffile.TiffPageSeries, "asarray"), (np, "load")):
        monkeypatch.setattr(owner, method, fail)
    monkeypatch.setattr(scipy.io, "loadmat", fail)
    with pytest.raises(ImageError, match=r"162 numbers, above the limit of 161.*MOST_VALUES"):
        read_image(path)


def test_a_netcdf_header_that_claims_gigabytes_is_refused_before_gdal_sees_it(tmp_path, monkeypatch):
    with scipy.io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", HEIGHT)
        file.createDimension("x", WIDTH)
        file.createVariable("scene", "f4", ("y", "x"))[:] = 1.0
    data = bytearray((tmp_path / "a.nc").read_bytes())
    data[16:20] = (2**31 - 9).to_bytes(4, "big")  # the length of the name of the first dimension
    (tmp_path / "a.nc").write_bytes(data)
    monkeypatch.setattr(rasterio, "open", lambda *_, **__: pytest.fail("GDAL saw it"))
    with pytest.raises(ImageError, match="cannot be read as NetCDF"):
        read_image(tmp_path / "a.nc")


def test_a_netcdf_header_for_which_there_is_no_memory_is_damaged(tmp_path, monkeypatch):
    (tmp_path / "a.nc").write_bytes(b"CDF\x01" + bytes(60))

    def run_out(*_, **__):
        raise MemoryError

    monkeypatch.setattr(scipy.io, "netcdf_file", run_out)
    with pytest.raises(ImageError, match="cannot be read as NetCDF: its header is damaged"):
        read_image(tmp_path / "a.nc")


def test_a_key_for_a_file_with_one_picture_is_refused(tmp_path):
    with pytest.raises(ImageError, match=r"key='a', but .* holds a single picture"):
        read_image(save_picture(tmp_path / "a.png"), key="a")
