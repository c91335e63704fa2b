"""A slice of a stack, a time of a series, some of the bands: the same from every format, whole and in windows."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.io
import tifffile
import xarray
import zarr

from pmlda.errors import ImageError
from pmlda.images import open_windowed, picture_size, read_image
from pmlda.images.choice import Choice
from tests.images.pictures import numbers, without_rasterio, write_envi, write_raster

STACK = numbers(3, 4, 2, 11, 13, dtype=np.uint16)  # times, slices, channels, rows, columns
AXES = ("t", "z", "c", "y", "x")


def save_zarr(path, names, array):
    group = zarr.create_group(path)
    layout = {"shape": array.shape, "chunks": (1, *array.shape[1:]), "dtype": array.dtype}
    group.create_array("stack", **layout, dimension_names=names)[...] = array
    return path


def save_hdf5(path, names, array):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        stack = file.create_dataset("stack", data=array)
        for axis, name in enumerate(names):
            stack.dims[axis].label = name
    return path


def save_netcdf(path, names, array):
    xarray.DataArray(array.astype(np.int32), dims=names, name="stack").to_netcdf(path, engine="scipy")
    return path


def save_ome(path, names, array, **options):
    tifffile.imwrite(path, array, ome=True, metadata={"axes": "".join(names).upper()}, **options)
    return path


def save_imagej(path, names, array, **options):
    order = [names.index(name) for name in "tzcyx"]
    tifffile.imwrite(path, array.transpose(order), imagej=True, metadata={"axes": "TZCYX"}, **options)
    return path


SOURCES = {
    "zarr": lambda folder, *stack: save_zarr(folder / "a.zarr", *stack),
    "hdf5": lambda folder, *stack: save_hdf5(folder / "a.h5", *stack),
    "netcdf": lambda folder, *stack: save_netcdf(folder / "a.nc", *stack),
    "ome": lambda folder, *stack: save_ome(folder / "a.ome.tif", *stack),
    "packed ome": lambda folder, *stack: save_ome(folder / "a.ome.tif", *stack, compression="zlib", tile=(16, 16)),
    "imagej": lambda folder, *stack: save_imagej(folder / "a.tif", *stack),
    "packed imagej": lambda folder, *stack: save_imagej(folder / "a.tif", *stack, compression="zlib"),
    "xarray": lambda folder, names, array: xarray.DataArray(array, dims=names),
    "dask": lambda folder, names, array: xarray.DataArray(array, dims=names).chunk(5),
}
CHOICES = {
    "numbers": ({"z": 2, "t": 3}, STACK[2, 1]),
    "maximum": ({"z": "max", "t": 1}, STACK[0].max(axis=0)),
    "mean": ({"z": "mean", "t": 2}, STACK[1].mean(axis=0).astype(np.float32)),
    "mean of maxima": ({"z": "max", "t": "mean"}, STACK.max(axis=1).mean(axis=0).astype(np.float32)),
}


@pytest.mark.parametrize("asked", CHOICES)
@pytest.mark.parametrize("kind", SOURCES)
def test_slices_and_times_are_chosen_in_every_format_whole_and_in_windows(tmp_path, kind, asked):
    choice, planes = CHOICES[asked]
    expected = np.moveaxis(planes, 0, 2)
    source = SOURCES[kind](tmp_path, AXES, STACK)
    image, picture = read_image(source, **choice), open_windowed(source, **choice)
    picture = pickle.loads(pickle.dumps(picture))  # as a worker gets it
    np.testing.assert_array_equal(image.pixels, expected)
    np.testing.assert_array_equal(picture.read(slice(None), slice(None)).pixels, expected)
    np.testing.assert_array_equal(picture.read(slice(2, 7), slice(3, 13)).pixels, expected[2:7, 3:13])
    assert picture.shape == image.pixels.shape == picture_size(source, **choice)[0]
    assert picture.dtype == image.pixels.dtype == picture_size(source, **choice)[1]
    assert len([note for note in image.notes if "was read" in note or "was taken" in note]) == 2


@pytest.mark.parametrize("names", ["yxczt", "ctzxy", "zyxct"])
@pytest.mark.parametrize("kind", ["zarr", "hdf5", "netcdf", "xarray"])
def test_any_order_of_named_axes_will_do(tmp_path, kind, names):
    stack = np.ascontiguousarray(STACK.transpose([AXES.index(name) for name in names]))
    source = SOURCES[kind](tmp_path, tuple(names), stack)
    for read in (read_image, lambda *a, **k: open_windowed(*a, **k).read(slice(None), slice(None))):
        np.testing.assert_array_equal(read(source, z="max", t=2).pixels, np.moveaxis(STACK[1].max(axis=0), 0, 2))


def test_slices_of_a_packed_tiff_are_read_without_rasterio(tmp_path, monkeypatch):
    without_rasterio(monkeypatch)
    source = save_imagej(tmp_path / "a.tif", AXES, STACK, compression="zlib")
    np.testing.assert_array_equal(read_image(source, z="max", t=3).pixels, np.moveaxis(STACK[2].max(axis=0), 0, 2))


@pytest.mark.parametrize("kind", ["ome", "packed ome", "zarr", "hdf5", "xarray"])
def test_a_projection_has_no_more_than_a_few_slices_in_memory(tmp_path, kind):
    stack = numbers(64, 256, 256, dtype=np.uint16)
    source = SOURCES[kind](tmp_path, ("z", "y", "x"), stack)
    read_image(source, z=1)  # what libraries keep for themselves
    tracemalloc.start()
    read_image(source, z="max")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < stack.nbytes / 3


def test_pages_of_a_plain_tiff_are_slices_if_slices_are_asked_for(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", STACK[0, :, 0], photometric="minisblack")
    image = read_image(tmp_path / "a.tif", z=4)
    np.testing.assert_array_equal(image.pixels[..., 0], STACK[0, 3, 0])
    assert image.notes[0].startswith("The file does not say what its 4 pages are; they were taken for slices")
    assert read_image(tmp_path / "a.tif").pixels.shape == (11, 13, 4)  # bands, as before


def test_a_picture_without_slices_is_the_first_and_the_maximum_of_one(tmp_path):
    write_raster(tmp_path / "a.png", numbers(11, 13, 3), driver="PNG")
    for z in (1, "max", "mean"):
        np.testing.assert_array_equal(read_image(tmp_path / "a.png", z=z).pixels, numbers(11, 13, 3))
    with pytest.raises(ImageError, match=r"has 1 slice, and z=2 is not there"):
        read_image(tmp_path / "a.png", z=2)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_slice_beyond_the_stack_is_refused_with_how_many_there_are(tmp_path, kind):
    source = SOURCES[kind](tmp_path, AXES, STACK)
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match=r"has 4 slices, and z=5 is not there. Give a number from 1 to 4"):
            read(source, z=5, t=1)
        with pytest.raises(ImageError, match=r"has 3 times, and t=4 is not there"):
            read(source, z=1, t=4)
        with pytest.raises(ImageError, match=r"Choose one (slice with z|time with t) .* and one"):
            read(source)


@pytest.mark.parametrize("z", [0, -1, "min", 1.5, True, "3"])
def test_a_choice_that_cannot_be_is_refused(z):
    with pytest.raises(ImageError, match="give a whole number from 1, 'max' or 'mean'"):
        read_image(numbers(4, 5), z=z)


@pytest.mark.parametrize("kind", ["npy", "npz", "mat", "array"])
def test_axes_without_names_are_told_and_what_to_do(tmp_path, kind):
    stack = numbers(12, 95, 156)
    path = tmp_path / f"a.{kind}"
    if kind == "mat":
        scipy.io.savemat(path, {"stack": stack})
    elif kind != "array":
        (np.save if kind == "npy" else np.savez)(path, stack)
    source = stack if kind == "array" else path
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match=r"3 axes without names, shape \(12, 95, 156\), so z=max cannot be found"):
            read(source, z="max")


def test_a_strange_name_is_not_taken_for_bands_where_slices_are_asked_for():
    stack = xarray.DataArray(numbers(4, 11, 13), dims=("storey", "y", "x"))
    with pytest.raises(ImageError, match=r"none of which is called z. If storey counts slices, rename it to z"):
        read_image(stack, z="max")


@pytest.mark.parametrize(("how", "expected"), [("max", [4.0, 7.0, np.nan]), ("mean", [3.0, 7.0, np.nan])])
def test_projections_leave_out_what_has_no_data(how, expected):
    series = np.array([[[2.0, np.nan, np.nan]], [[4.0, 7.0, -1.0]], [[-1.0, -1.0, np.nan]]])
    stack = xarray.DataArray(series, dims=("time", "y", "x"))
    image = read_image(stack, t=how, nodata=-1)
    np.testing.assert_array_equal(image.valid[0], [True, True, False])
    np.testing.assert_array_equal(image.pixels[0, :2, 0], expected[:2])
    whole = stack.fillna(-1).astype(np.int16).assign_attrs(_FillValue=-1)
    np.testing.assert_array_equal(read_image(whole, t=how).valid[0], [True, True, False])


# ── bands ──────────────────────────────────────────────────────────────────────────────────────────────────────────
CUBE = numbers(6, 9, 5, dtype=np.uint16)
WAVES = ["wavelength = {450, 550.5, 650, 750, 850}", "wavelength units = Nanometers"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("3,1", [2, 0]),
        ([3, 1], [2, 0]),
        (2, [1]),
        ("2-4", [1, 2, 3]),
        ("4-2", [3, 2, 1]),
        ("650nm, 0.55um,450 nm", [2, 1, 0]),
        ("600-800nm", [2, 3]),
        ("0.6-0.8 µm,1", [2, 3, 0]),
        ("550.5 nm", [1]),
    ],
)
def test_bands_are_read_in_the_order_asked_for(tmp_path, asked, chosen):
    path = write_envi(tmp_path / "a.img", CUBE, WAVES)
    waves = read_image(path).bands
    image, picture = read_image(path, bands=asked), open_windowed(path, bands=asked)
    np.testing.assert_array_equal(image.pixels, CUBE[:, :, chosen])
    np.testing.assert_array_equal(picture.read(slice(1, 4), slice(2, 9)).pixels, CUBE[1:4, 2:9, chosen])
    assert image.bands == picture.bands == tuple(waves[band] for band in chosen)
    assert picture.shape == (6, 9, len(chosen))
    assert image.notes == picture.notes
    assert f"{len(chosen)} of 5 bands" in image.notes[-1]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("6", "a has no band 6: it has 5 bands"),
        ("0", "a has no band 0"),
        ("3-9", "a has no band 9: it has 5 bands"),
        ("1200nm", "no band at 1200 nm: its wavelengths reach from 450 to 850 nm, and the nearest is 850 nm"),
        ("900-950nm", "no band from 900 to 950 nm: its wavelengths reach from 450 to 850 nm"),
        ("650nm,651nm", "asks for band 3 twice"),
        ("red", "no band of this name. Give numbers from 1"),
        ("1,,2", "has an empty place"),
        ("0.65", "neither a whole number nor a wavelength"),
        ([1.5], "give numbers from 1, wavelengths or names"),
    ],
)
def test_bands_that_are_not_there_are_refused_with_those_that_are(tmp_path, asked, says):
    path = write_envi(tmp_path / "a.img", CUBE, WAVES)
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match=says):
            read(path, bands=asked)


def test_wavelengths_of_a_picture_that_has_none_are_refused():
    with pytest.raises(ImageError, match="is a wavelength, and the bands of array have none: band 1, band 2"):
        read_image(CUBE, bands="650nm")


def test_bands_are_counted_as_the_file_counts_them(tmp_path):
    path = write_envi(tmp_path / "a.img", CUBE, ["bbl = {1, 0, 1, 1, 1}"])
    for image in (read_image(path, bands="4,1"), open_windowed(path, bands="4,1").read(slice(None), slice(None))):
        np.testing.assert_array_equal(image.pixels, CUBE[:, :, [3, 0]])
        assert image.bands == ("band 4", "band 1")
    assert read_image(path, bands="1-3").bands == ("band 1", "band 3")
    with pytest.raises(ImageError, match="no band 2: it has 4 bands, numbered up to 5 with gaps"):
        read_image(path, bands="2")


def test_channels_are_chosen_by_their_names(tmp_path):
    names = {"axes": "CYX", "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(tmp_path / "a.ome.tif", STACK[0, 0], ome=True, metadata=names)
    image = read_image(tmp_path / "a.ome.tif", bands="gfp")
    np.testing.assert_array_equal(image.pixels[..., 0], STACK[0, 0, 1])
    assert image.bands == ("GFP",)


def test_bands_that_are_not_read_do_not_say_what_has_no_data(tmp_path):
    cube = CUBE.copy()
    cube[2, 3, 4], cube[4, 5, 0] = 0, 0
    path = write_raster(tmp_path / "a.tif", cube, nodata=0)
    for image in (read_image(path, bands="1,2"), open_windowed(path, bands="1,2").read(slice(None), slice(None))):
        assert np.argwhere(~image.valid).tolist() == [[4, 5]]


@pytest.mark.parametrize("kind", ["zarr", "netcdf", "xarray"])
def test_wavelengths_come_from_coordinates_with_their_unit(tmp_path, kind):
    along = ("wavelength", np.array([0.45, 0.55, 0.65, 0.75, 0.85]), {"units": "um"})
    cube = xarray.DataArray(
        CUBE.astype(np.int32), dims=("y", "x", "wavelength"), coords={"wavelength": along}, name="r"
    )
    source = cube
    if kind == "netcdf":
        source = tmp_path / "a.nc"
        cube.to_netcdf(source, engine="scipy")
    elif kind == "zarr":
        source = tmp_path / "a.zarr"
        cube.to_dataset().to_zarr(source, zarr_format=3, consolidated=False)
    image = read_image(source, bands="650nm,450nm")
    assert image.bands == ("0.65 µm", "0.45 µm")
    np.testing.assert_array_equal(image.pixels, CUBE[:, :, [2, 0]])


@pytest.mark.parametrize("waves", [[450.5, 550.5, 650.5], [450, 550, 650], [0.45, 0.55, 0.65]])
def test_coordinates_called_wavelength_need_no_unit(waves):
    cube = xarray.DataArray(CUBE[:, :, :3], dims=("y", "x", "wavelength"), coords={"wavelength": waves})
    np.testing.assert_array_equal(read_image(cube, bands="650nm,0.45um").pixels, CUBE[:, :, [2, 0]])


@pytest.mark.parametrize("kind", ["zarr", "hdf5", "netcdf", "ome", "xarray"])
def test_a_stack_of_one_channel_and_one_time_needs_no_more_axes(tmp_path, kind):
    source = SOURCES[kind](tmp_path, ("z", "y", "x"), STACK[0, :, 0])
    np.testing.assert_array_equal(read_image(source, z="max").pixels[..., 0], STACK[0, :, 0].max(axis=0))
    assert read_image(source).pixels.shape == (11, 13, 4)  # bands, as before


def test_a_stack_of_colour_pictures_keeps_its_colours(tmp_path):
    colours = numbers(4, 11, 13, 3)
    tifffile.imwrite(tmp_path / "a.tif", colours, imagej=True, metadata={"axes": "ZYXS"})
    image = read_image(tmp_path / "a.tif", z="max")
    np.testing.assert_array_equal(image.pixels, colours.max(axis=0))
    assert image.bands == ("red", "green", "blue")


# ── variables ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_key_that_is_not_there_is_refused_with_the_keys_that_are(tmp_path):
    h5py = pytest.importorskip("h5py")
    arrays = {"radiance": CUBE, "quality": CUBE[:, :, 0]}
    scipy.io.savemat(tmp_path / "a.mat", arrays)
    np.savez(tmp_path / "a.npz", **arrays)
    with h5py.File(tmp_path / "a.h5", "w") as flat, h5py.File(tmp_path / "deep.h5", "w") as deep:
        for name, array in arrays.items():
            flat[name] = array
        deep["radiance"], deep["quality"] = STACK, CUBE
    group = zarr.create_group(tmp_path / "a.zarr")
    for name, array in arrays.items():
        group.create_array(name, shape=array.shape, dtype=array.dtype)[...] = array
    dims = ("y", "x", "band")
    variables = {name: (dims[: array.ndim], array.astype(np.int32)) for name, array in arrays.items()}
    xarray.Dataset(variables).to_netcdf(tmp_path / "a.nc", engine="scipy")
    for name in ("a.mat", "a.npz", "a.h5", "deep.h5", "a.zarr", "a.nc"):
        for read in (read_image, open_windowed, picture_size):
            for key in ("depth", None):
                with pytest.raises(ImageError, match="radiance") as refused:
                    read(tmp_path / name, key=key)
                assert "quality" in str(refused.value)
                assert "key" in str(refused.value)


@pytest.mark.parametrize("kind", ["zarr", "hdf5", "netcdf"])
def test_the_only_variable_may_be_named_and_no_other(tmp_path, kind):
    source = SOURCES[kind](tmp_path, ("c", "y", "x"), STACK[0, 0])
    for read in (read_image, lambda *a, **k: open_windowed(*a, **k).read(slice(None), slice(None))):
        np.testing.assert_array_equal(read(source, key="stack").pixels, np.moveaxis(STACK[0, 0], 0, 2))
        with pytest.raises(ImageError, match=r"key='stock' is not .*: stack"):
            read(source, key="stock")


def test_a_choice_says_what_it_is_for_the_fingerprint_of_a_picture():
    assert Choice("cube", 3, "max").describe() == ["key cube", "t max", "z 3"]
    parts = [open_windowed(CUBE, **asked).fingerprint for asked in ({}, {"bands": "1"}, {"bands": "2"})]
    assert len(set(parts)) == 3
