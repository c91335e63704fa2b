"""Which dimension is what: names decide in every reader that has them, and guesses are said."""

import numpy as np
import pytest
import scipy.io
import xarray
import zarr

from pmlda.errors import ImageError
from pmlda.images import open_windowed, read_image, variables
from pmlda.images.axes import find_axes
from pmlda.images.windowed import HELD
from tests.images.pictures import PLACE, numbers

ORDERS = [("y", "x", "wavelength"), ("wavelength", "y", "x"), ("y", "wavelength", "x"), ("x", "y", "wavelength")]
CUBE = numbers(6, 9, 4, dtype=np.float32)
WAVELENGTHS = [450.5, 550.5, 650.5, 750.5]


def ordered(names):
    """The cube with its dimensions in this order."""
    return np.ascontiguousarray(CUBE.transpose(["yxw".index(name[0]) for name in names]))


def data_array(names):
    return xarray.DataArray(ordered(names), dims=names, coords={"wavelength": WAVELENGTHS}, name="reflectance")


def save_netcdf(path, names):
    data_array(names).to_netcdf(path, engine="scipy")
    return path


def save_zarr(path, names, zarr_format):
    group = zarr.create_group(path, zarr_format=zarr_format)
    for name, values, dimensions in (
        ("reflectance", ordered(names), names),
        ("wavelength", np.array(WAVELENGTHS), ("wavelength",)),
    ):
        named = {"dimension_names": dimensions} if zarr_format == 3 else {}
        attributes = {} if zarr_format == 3 else {"_ARRAY_DIMENSIONS": list(dimensions)}
        where = {"shape": values.shape, "dtype": values.dtype, "attributes": attributes}
        group.create_array(name, **where, **named)[...] = values
    return path


def save_hdf5(path, names, scales=True):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        cube = file.create_dataset("reflectance", data=ordered(names))
        for axis, name in enumerate(names if scales else ()):
            length = cube.shape[axis]
            line = file.create_dataset(name, data=np.array(WAVELENGTHS if name == "wavelength" else np.arange(length)))
            line.make_scale(name)
            cube.dims[axis].attach_scale(line)
    return path


SOURCES = {
    "netcdf": lambda folder, names: save_netcdf(folder / "a.nc", names),
    "hdf5": lambda folder, names: save_hdf5(folder / "a.h5", names),
    "zarr 3": lambda folder, names: save_zarr(folder / "a.zarr", names, 3),
    "zarr 2": lambda folder, names: save_zarr(folder / "a.zarr", names, 2),
    "xarray": lambda folder, names: data_array(names),
}


@pytest.mark.parametrize("names", ORDERS, ids=" ".join)
@pytest.mark.parametrize("kind", SOURCES)
def test_names_decide_in_any_order_whole_and_in_windows(tmp_path, kind, names):
    source = SOURCES[kind](tmp_path, names)
    image, picture = read_image(source), open_windowed(source)
    np.testing.assert_array_equal(image.pixels, CUBE)
    assert picture.shape == CUBE.shape
    np.testing.assert_array_equal(picture.read(slice(None), slice(None)).pixels, CUBE)
    np.testing.assert_array_equal(picture.read(slice(1, 4), slice(2, 9)).pixels, CUBE[1:4, 2:9])
    assert image.bands == picture.bands == ("450.5", "550.5", "650.5", "750.5")
    assert [note for note in (*image.notes, *picture.notes) if note != HELD] == []


def test_a_netcdf_whose_columns_come_before_its_rows_is_turned(tmp_path):
    xarray.DataArray(CUBE[:, :, 0].T, dims=("lon", "lat"), name="height").to_netcdf(tmp_path / "a.nc", engine="scipy")
    np.testing.assert_array_equal(read_image(tmp_path / "a.nc").pixels, CUBE[:, :, :1])


def test_a_netcdf_turned_by_its_names_keeps_its_place(tmp_path):
    where = {"x": 101 + 2 * np.arange(9.0), "y": 39 - 2 * np.arange(6.0)}
    where["spatial_ref"] = ((), 0, {"GeoTransform": "100 2 0 40 0 -2", "crs_wkt": PLACE.crs})
    cube = xarray.DataArray(
        CUBE, dims=("y", "x", "band"), coords=where, name="r", attrs={"grid_mapping": "spatial_ref"}
    )
    cube.to_netcdf(tmp_path / "a.nc", engine="scipy")
    image = read_image(tmp_path / "a.nc")
    np.testing.assert_array_equal(image.pixels, CUBE)
    assert image.georeference == (PLACE.crs, (2.0, 0.0, 100.0, 0.0, -2.0, 40.0))
    assert image.notes == ()


def test_hdf5_without_names_says_how_it_was_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    for shape, where in (((95, 156, 10), "last"), ((10, 95, 156), "first")):
        with h5py.File(tmp_path / f"{where}.h5", "w") as file:
            file["cube"] = numbers(*shape)
        for picture in (read_image(tmp_path / f"{where}.h5"), open_windowed(tmp_path / f"{where}.h5")):
            assert picture.notes[0].startswith(f"Read as 95 × 156 pixels with 10 bands; the {where} of its 3 axes")


@pytest.mark.parametrize("kind", ["npy", "npz", "mat"])
def test_arrays_in_files_may_have_their_bands_first_and_it_is_said(tmp_path, kind):
    cube = numbers(95, 156, 10)
    for where, array in (("last", cube), ("first", np.ascontiguousarray(np.moveaxis(cube, 2, 0)))):
        path = tmp_path / f"{where}.{kind}"
        if kind == "mat":
            scipy.io.savemat(path, {"cube": array})
        else:
            (np.save if kind == "npy" else np.savez)(path, array)
        picture = open_windowed(path)
        for image in (read_image(path), picture.read(slice(None), slice(None))):
            np.testing.assert_array_equal(image.pixels, cube)
            assert image.notes[0].startswith(f"Read as 95 × 156 pixels with 10 bands; the {where} of its 3 axes")
        np.testing.assert_array_equal(picture.read(slice(3, 40), slice(5, 9)).pixels, cube[3:40, 5:9])


def test_an_array_in_memory_is_height_width_bands_as_it_is_documented():
    image = read_image(numbers(3, 95, 156))
    assert (image.pixels.shape, image.notes) == ((3, 95, 156), ())


def test_half_known_names_are_refused_rather_than_guessed():
    with pytest.raises(ImageError, match="Rename those of the plane to y and x"):
        find_axes(("y", "something", "wavelength"), (6, 9, 4), "The cube")


def test_a_damaged_file_that_the_library_would_read_for_ever_is_refused(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "cube.h5"
    with h5py.File(path, "w") as file:
        cube = file.create_dataset("cube", data=np.zeros((7, 9, 4), np.float32))
        rows = file.create_dataset("y", data=np.arange(7.0))
        rows.make_scale("y")
        cube.dims[0].attach_scale(rows)
    data = bytearray(path.read_bytes())
    length = data.find(b"GCOL") + 24  # of the first entry in the heap that holds the lists of dimensions
    data[length : length + 8] = bytes(8)
    path.write_bytes(data)
    monkeypatch.setattr(variables, "TRIAL_SECONDS", 5)
    with pytest.raises(ImageError, match="lists of dimensions are damaged"):
        read_image(path)
