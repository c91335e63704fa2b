"""Pictures read window by window → what read_image makes of them whole; and sources that are refused."""

import pickle
import shutil
import subprocess
import sys

import dask.array
import numpy as np
import PIL.Image
import pytest
import tifffile
import xarray
import zarr
from rasterio import Affine

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images import checks, open_windowed, read_image
from pmlda.images.windowed import HELD
from tests.images.pictures import PLACE, UTM, numbers, without_rasterio, write_envi, write_raster

HEIGHT, WIDTH, STEP = 70, 90, 32
EVERYTHING = (slice(None), slice(None))


def cube(n_bands=3, dtype=np.float32):
    """Different numbers, some without data."""
    pixels = numbers(HEIGHT, WIDTH, n_bands, dtype=dtype)
    if np.dtype(dtype).kind == "f":
        pixels[3, 4, -1], pixels[40:, 60:, 0] = np.nan, np.inf
    return pixels


def placed(pixels):
    """A DataArray as rioxarray would give it."""
    a, _, c, _, e, f = PLACE.transform
    coords = {
        "band": ["blue", "green", "red"],
        "y": f + e * (np.arange(HEIGHT) + 0.5),
        "x": c + a * (np.arange(WIDTH) + 0.5),
    }
    source = xarray.DataArray(pixels, dims=("y", "x", "band"), coords=coords, name="scene")
    source = source.assign_coords(spatial_ref=0)
    source.coords["spatial_ref"].attrs["crs_wkt"] = UTM.to_wkt()
    return source


def save_npy(path, pixels):
    np.save(path, pixels)
    return path


def save_png(path, **options):
    PIL.Image.fromarray(numbers(HEIGHT, WIDTH, 4)).save(path, **options)
    return path


def save_tiff(path, pixels=None, **options):
    tifffile.imwrite(path, cube() if pixels is None else pixels, **options)
    return path


def save_geotiff(path, **options):
    pixels = cube(dtype=np.int16)
    pixels[10, 20:50, 1] = -9999
    place = {"crs": UTM, "transform": Affine(*PLACE.transform), "nodata": -9999}
    return write_raster(path, pixels, names=("a", "b", "c"), **place, **options)


def save_zarr(path, pixels, chunks=None, attributes=None, key=None, **options):
    group = zarr.open_group(path, mode="a", zarr_format=options.pop("zarr_format", 3)) if key else None
    where = {"name": key} if key else {"store": path}
    make = group.create_array if key else zarr.create_array
    shape = {"shape": pixels.shape, "dtype": pixels.dtype, "chunks": chunks or tuple(min(n, 32) for n in pixels.shape)}
    array = make(**where, **shape, attributes=attributes or {}, **options)
    array[...] = pixels
    return path


def planes(pixels):
    return np.ascontiguousarray(np.moveaxis(pixels, 2, 0))


def palette(path):
    picture = PIL.Image.fromarray(numbers(HEIGHT, WIDTH)).convert("P")
    picture.putpalette(list(range(256)) * 3)
    picture.save(path)
    return path


def two_pages(path):
    with tifffile.TiffWriter(path) as writer:
        for page in planes(cube(2, np.uint16)):
            writer.write(page, metadata=None, compression="zlib", tile=(32, 32))
    return path


RGBA = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
OME = {"ome": True, "metadata": {"axes": "CYX", "Channel": {"Name": ["a", "b", "c"]}}}
FILES = {
    "npy": lambda folder: save_npy(folder / "a.npy", cube()),
    "npy 2-D, columns first": lambda folder: save_npy(folder / "a.npy", np.asfortranarray(cube(1)[:, :, 0])),
    "npy of truth values": lambda folder: save_npy(folder / "a.npy", cube() > 30000),
    "png with transparency": lambda folder: save_png(folder / "a.png"),
    "palette tiff": lambda folder: palette(folder / "a.tif"),
    "plain tiff": lambda folder: save_tiff(folder / "a.tif", photometric="rgb"),
    "other byte order": lambda folder: save_tiff(folder / "a.tif", byteorder=">", photometric="rgb"),
    "tiled tiff": lambda folder: save_tiff(folder / "a.tif", photometric="rgb", compression="zlib", tile=(32, 16)),
    "strips": lambda folder: save_tiff(folder / "a.tif", photometric="rgb", compression="zlib", rowsperstrip=8),
    "tiff in planes": lambda folder: save_tiff(
        folder / "a.tif", planes(cube()), photometric="minisblack", planarconfig="separate", compression="zlib"
    ),
    "half precision": lambda folder: save_tiff(
        folder / "a.tif", cube(1)[:, :, 0].astype(np.float16) / 8, tile=(32, 32)
    ),
    "tiff with transparency": lambda folder: save_tiff(folder / "a.tif", cube(4, np.uint8) % 7, tile=(32, 32), **RGBA),
    "turned tiff": lambda folder: save_tiff(folder / "a.tif", photometric="rgb", extratags=[(274, 3, 1, 6, True)]),
    "no axes named": lambda folder: save_tiff(folder / "a.tif", cube(), photometric="minisblack", metadata=None),
    "pages": lambda folder: two_pages(folder / "a.tif"),
    "ome tiff": lambda folder: save_tiff(folder / "a.ome.tif", planes(cube()), compression="zlib", **OME),
    "lzw": lambda folder: save_png(folder / "a.tif", compression="tiff_lzw"),
    "geotiff": lambda folder: save_geotiff(folder / "a.tif"),
    "tiled geotiff": lambda folder: save_geotiff(folder / "a.tif", tiled=True, blockxsize=16, blockysize=32),
    "envi": lambda folder: write_envi(folder / "a.img", cube(), ["bbl = {1, 0, 1}", "data ignore value = 77"]),
    "zarr": lambda folder: save_zarr(folder / "a.zarr", cube()),
    "zarr inside a group": lambda folder: save_zarr(folder / "a.zarr", cube(), key="scene"),
}


def assert_alike(windowed, image):
    """The whole as it was, and the windows of it, in a copy that went through another process's eyes."""
    windowed = pickle.loads(pickle.dumps(windowed))
    assert windowed.shape == image.pixels.shape
    assert windowed.dtype == image.pixels.dtype
    assert windowed.bands == image.bands
    whole = windowed.read(*EVERYTHING)
    assert whole.pixels.dtype == image.pixels.dtype
    assert (whole.bands, whole.name, whole.georeference) == (image.bands, image.name, image.georeference)
    assert tuple(note for note in whole.notes if note != HELD) == image.notes
    pixels, valid = np.zeros_like(image.pixels), np.zeros_like(image.valid)
    for top in range(0, windowed.shape[0], STEP):
        for left in range(0, windowed.shape[1], STEP):
            rows, columns = slice(top, top + STEP), slice(left, left + STEP)
            part = windowed.read(rows, columns)
            pixels[rows, columns], valid[rows, columns] = part.pixels, part.valid
    for found, expected in ((whole.pixels, image.pixels), (pixels, image.pixels)):
        np.testing.assert_array_equal(found, expected)
    for found in (whole.valid, valid):
        np.testing.assert_array_equal(found, image.valid)


@pytest.mark.parametrize("kind", FILES)
def test_windows_put_together_are_what_read_image_reads(tmp_path, kind):
    path = FILES[kind](tmp_path)
    assert_alike(open_windowed(path), read_image(path))


@pytest.mark.parametrize("kind", ["tiled tiff", "tiff in planes", "half precision", "ome tiff", "tiled geotiff"])
def test_tiffs_are_read_in_windows_without_rasterio(tmp_path, monkeypatch, kind):
    path = FILES[kind](tmp_path)
    without_rasterio(monkeypatch)
    assert_alike(open_windowed(path), read_image(path))


@pytest.mark.parametrize(
    "lazy",
    [
        lambda: dask.array.from_array(cube(), chunks=(30, 40, 2)),
        lambda: dask.array.from_array(cube(), chunks=(70, 90, 1)).rechunk((20, 20, 3)) + 1,
        lambda: np.ma.masked_equal(cube(dtype=np.int16), 200),
        cube,
    ],
    ids=["dask", "computed", "masked", "numpy"],
)
def test_arrays_are_read_as_numpy_arrays_are(lazy):
    source = lazy()
    whole = source.compute() if isinstance(source, dask.array.Array) else source
    assert_alike(open_windowed(source), read_image(whole))


@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band"), ("x", "band", "y")])
def test_lazy_dataarrays_are_read_in_any_order_of_their_dimensions(dims):
    source = placed(cube()).transpose(*dims)
    source.attrs["nodata"] = float(cube()[8, 8, 0])
    lazy = source.chunk({"y": 16, "x": 48})
    assert open_windowed(lazy).chunks == (16, 48)
    assert_alike(open_windowed(lazy), read_image(source))
    assert_alike(open_windowed(source), read_image(source))


def test_of_a_lazy_array_only_the_window_is_computed():
    computed = []

    def block(numbers, block_info=None):
        computed.append(block_info[0]["chunk-location"])
        return numbers

    lazy = dask.array.from_array(cube(), chunks=(10, 10, 3)).map_blocks(
        block, dtype=np.float32, meta=np.empty((0, 0, 0))
    )
    picture = open_windowed(lazy)
    assert computed == []
    picture.read(slice(20, 40), slice(30, 35))
    assert sorted(computed) == [(2, 3, 0), (3, 3, 0)]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band")])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_zarr_that_xarray_wrote_keeps_names_place_and_fill_value(tmp_path, zarr_format, dims):
    source = placed(cube(dtype=np.int16))
    fill = int(source.values[5, 6, 1])
    source.attrs["_FillValue"] = fill
    encoding = {"scene": {"_FillValue": fill}}
    stored = source.drop_attrs(deep=False).transpose(*dims).to_dataset(name="scene")
    stored.to_zarr(tmp_path / "scene.zarr", zarr_format=zarr_format, encoding=encoding)
    assert not read_image(source).valid[5, 6]
    assert_alike(open_windowed(tmp_path / "scene.zarr"), read_image(source))
    assert_alike(open_windowed(tmp_path / "scene.zarr", key="scene"), read_image(tmp_path / "scene.zarr"))


@pytest.mark.parametrize(("zarr_format", "wrap"), [(2, lambda about: about), (3, lambda about: {"ome": about})])
def test_ome_zarr_gives_its_largest_level(tmp_path, zarr_format, wrap):
    path, pixels = tmp_path / "cells.ome.zarr", cube(2, np.uint16)
    for level, step in enumerate((1, 2)):
        whole = planes(pixels[::step, ::step])[None, :, None]
        save_zarr(path, whole, chunks=(1, 1, 1, 32, 32), key=str(level), zarr_format=zarr_format)
    axes = [{"name": name, "type": "space" if name in "zyx" else "other"} for name in "tczyx"]
    levels = {"axes": axes, "datasets": [{"path": "0"}, {"path": "1"}]}
    channels = {"channels": [{"label": "nuclei"}, {"label": "membranes"}]}
    group = zarr.open_group(path, mode="r+")
    group.attrs.update(wrap({"multiscales": [levels], "omero": channels}))
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, pixels)
    assert image.bands == ("nuclei", "membranes")
    assert image.name == "cells"
    assert image.notes == ("Smaller copies in the store were left out; the largest was read.",)
    assert_alike(open_windowed(path), image)
    assert open_windowed(path, key="1").shape == (35, 45, 2)


@pytest.mark.parametrize(
    ("pixels", "names", "shape", "note"),
    [
        (cube(), None, (70, 90, 3), "Read as 70 × 90 pixels with 3 bands; the last of its 3 axes"),
        (planes(cube()), None, (70, 90, 3), "Read as 70 × 90 pixels with 3 bands; the first of its 3 axes"),
        (cube(20), None, (70, 90, 20), "with 20 bands; the last"),
        (cube()[:, :, 0], None, (70, 90, 1), None),
        (planes(cube()), ("wavelength", "y", "x"), (70, 90, 3), None),
        (cube(), ("lat", "lon", "c"), (70, 90, 3), None),
        (cube()[:4, :, :], ("x", "y", "band"), (90, 4, 3), None),
        (cube(), ("dim_0", "dim_1", "dim_2"), (70, 90, 3), "with 3 bands; the last"),
    ],
)
def test_which_axis_of_a_zarr_is_what_is_read_from_its_names_or_said(tmp_path, pixels, names, shape, note):
    picture = open_windowed(save_zarr(tmp_path / "a.zarr", pixels, dimension_names=names))
    assert picture.shape == shape
    assert (note in picture.notes[0]) if note else not picture.notes
    assert picture.chunks == tuple(min(n, 32) for n in shape[:2])


def test_a_window_lies_where_it_lies(tmp_path):
    part = open_windowed(save_geotiff(tmp_path / "a.tif")).read(slice(10, 20), slice(30, 33))
    a, b, c, d, e, f = PLACE.transform
    assert part.georeference == PLACE._replace(transform=(a, b, c + 30 * a, d, e, f + 10 * e))


def test_a_window_without_data_is_no_error():
    part = open_windowed(cube()).read(slice(40, 70), slice(60, 90))
    assert not part.valid.any()
    assert part.notes == ("900 of 900 pixels have no data.",)


def test_a_window_of_a_picture_in_memory_counts_its_own_pixels_without_data():
    whole = read_image(cube())
    picture = open_windowed(whole._replace(notes=("Turned upright.", *whole.notes)))
    assert picture.notes == ("Turned upright.",)
    part = picture.read(slice(40, 70), slice(60, 90))
    assert part.notes == ("Turned upright.", "900 of 900 pixels have no data.")


@pytest.mark.parametrize("kind", ["array", "png", "tiff", "zarr", "dask"])
def test_mask_and_nodata_leave_out_what_they_leave_out_of_the_whole(tmp_path, kind):
    use = (numbers(HEIGHT, WIDTH, seed=3) > 60).astype(np.uint8)
    mask = {
        "array": lambda: use,
        "png": lambda: PIL.Image.fromarray(use).save(tmp_path / "mask.png") or tmp_path / "mask.png",
        "tiff": lambda: save_tiff(tmp_path / "mask.tif", use, compression="zlib", tile=(32, 32)),
        "zarr": lambda: save_zarr(tmp_path / "mask.zarr", use),
        "dask": lambda: dask.array.from_array(use, chunks=20),
    }[kind]()
    path, nodata = save_npy(tmp_path / "a.npy", cube()), float(cube()[1, 1, 1])
    image = read_image(path, mask=use, nodata=nodata)
    assert not image.valid[1, 1]
    assert_alike(open_windowed(path, mask=mask, nodata=nodata), image)


CHILD = """
import pickle, sys
picture = pickle.load(sys.stdin.buffer)
pickle.dump(picture.read(slice(30, 50), slice(0, 20)), sys.stdout.buffer)
"""


@pytest.mark.parametrize("kind", ["zarr", "tiled geotiff", "png with transparency"])
def test_a_path_is_sent_to_another_process_as_a_path(tmp_path, kind):
    picture = open_windowed(FILES[kind](tmp_path), mask=FILES["npy"](tmp_path))
    picture.read(*EVERYTHING)  # whatever that opens is not sent
    sent = pickle.dumps(picture)
    assert len(sent) < 6000
    answer = subprocess.run([sys.executable, "-c", CHILD], input=sent, capture_output=True, check=True).stdout
    here, there = picture.read(slice(30, 50), slice(0, 20)), pickle.loads(answer)
    np.testing.assert_array_equal(here.pixels, there.pixels)
    np.testing.assert_array_equal(here.valid, there.valid)
    assert here[2:] == there[2:]


def test_the_fingerprint_changes_with_picture_mask_and_nodata(tmp_path):
    path, mask = save_zarr(tmp_path / "a.zarr", cube()), np.ones((HEIGHT, WIDTH))
    first = open_windowed(path).fingerprint
    assert open_windowed(path).fingerprint == first
    found = [first, open_windowed(path, nodata=3).fingerprint, open_windowed(path, mask=mask).fingerprint]
    found.append(open_windowed(path, mask=mask * 2).fingerprint)
    zarr.open_array(path, mode="r+")[:16] = 1
    found.append(open_windowed(path).fingerprint)
    array = cube()
    found.append(open_windowed(array).fingerprint)
    array[9, 9, 0] += 1
    found.append(open_windowed(array).fingerprint)
    found.append(open_windowed(dask.array.from_array(array)).fingerprint)
    found.append(open_windowed(FILES["geotiff"](tmp_path)).fingerprint)
    assert len(set(found)) == len(found)
    assert open_windowed(array.copy()).fingerprint == open_windowed(array).fingerprint


def test_pictures_above_the_limit_are_read_in_windows_below_it(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "MOST_VALUES", STEP * STEP * 3)
    for kind in ("zarr", "npy", "tiled tiff", "tiled geotiff", "envi"):
        path = FILES[kind](tmp_path)
        picture = open_windowed(path)
        assert picture.read(slice(0, STEP), slice(0, STEP)).pixels.shape[:2] == (STEP, STEP)
        with pytest.raises(ImageError, match=r"above the limit.*a name that ends in \.zarr"):
            read_image(path)


# ── what is refused ────────────────────────────────────────────────────────────────────────────────────────────────


def make_folder(path, name=None):
    path.mkdir()
    if name:
        (path / name).write_text("no metadata")
    return path


def cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return path


def two_arrays(folder):
    for key in ("before", "after"):
        save_zarr(folder / "a.zarr", cube(), key=key)
    return folder / "a.zarr"


def no_arrays(folder):
    zarr.open_group(folder / "a.zarr", mode="w")
    return folder / "a.zarr"


BAD = {
    "missing": (lambda folder: folder / "gone.zarr", "gone.zarr does not exist"),
    "empty folder": (lambda folder: make_folder(folder / "a.zarr"), "is not a Zarr"),
    "other folder": (lambda folder: make_folder(folder / "a"), "is a folder"),
    "damaged": (lambda folder: make_folder(folder / "a.zarr", "zarr.json"), "cannot be read as Zarr"),
    "several": (two_arrays, r"holds 2 arrays.*Choose one with key: after \(70, 90, 3\), before \(70, 90, 3\)"),
    "none": (no_arrays, "holds 0 arrays"),
    "1-D": (lambda folder: save_zarr(folder / "a.zarr", np.ones(4)), "has 1 dimensions"),
    "4-D": (lambda folder: save_zarr(folder / "a.zarr", np.ones((2, 2, 2, 2))), "has 4 dimensions"),
    "4-D named": (
        lambda folder: save_zarr(folder / "a.zarr", np.ones((2, 2, 3, 4)), dimension_names=("t", "c", "y", "x")),
        "Choose one time with t",
    ),
    "no plane": (
        lambda folder: save_zarr(folder / "a.zarr", np.ones((3, 4)), dimension_names=("a", "b")),
        "Rename those of the plane to y and x",
    ),
    "complex": (lambda folder: save_zarr(folder / "a.zarr", np.ones((3, 4), dtype=complex)), "complex numbers"),
    "no pixels": (lambda folder: save_zarr(folder / "a.zarr", np.ones((0, 4)), chunks=(1, 1)), "no pixels"),
    "complex npy": (lambda folder: save_npy(folder / "a.npy", np.ones((3, 4), dtype=complex)), "complex numbers"),
    "cut npy": (lambda folder: cut(save_npy(folder / "a.npy", cube())), "cannot be read as NPY"),
    "text npy": (lambda folder: (folder / "a.npy").write_text("text") and folder / "a.npy", "not a .npy file"),
    "cut tiff": (lambda folder: cut(FILES["plain tiff"](folder)), "cut short"),
    "cut tiled tiff": (lambda folder: cut(FILES["tiled tiff"](folder)), "cut short"),
    "cut geotiff": (lambda folder: cut(FILES["tiled geotiff"](folder)), "cut short"),
    "cut envi": (lambda folder: cut(FILES["envi"](folder)), "cut short"),
    "list": (lambda folder: [[1, 2]], "cannot be read from list"),
    "1-D dask": (lambda folder: dask.array.ones(4), "has 1 dimensions"),
    "complex dask": (lambda folder: dask.array.ones((4, 4), dtype=complex), "complex numbers"),
    "unknown lengths": (lambda folder: (x := dask.array.ones((4, 4)))[x[:, 0] > 0], "compute_chunk_sizes"),
}


@pytest.mark.parametrize("kind", BAD)
def test_sources_that_are_no_pictures(tmp_path, kind):
    make, fragment = BAD[kind]
    with pytest.raises(ImageError, match=fragment):
        open_windowed(make(tmp_path))


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"mask": np.ones((2, 2))}, r"mask has 2 × 2 pixels, the picture 70 × 90"),
        ({"mask": dask.array.ones((90, 70))}, r"mask has 90 × 70 pixels"),
        ({"mask": np.array([["a"]])}, "mask array holds text"),
        ({"mask": "no such mask.zarr"}, "does not exist"),
        ({"nodata": "zero"}, "nodata='zero' is not a number"),
        ({"key": "a"}, "Leave key out"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, fragment):
    for source in (cube(), save_zarr(tmp_path / "a.zarr", cube())):
        with pytest.raises(ImageError, match=fragment):
            open_windowed(source, **options)


def test_a_key_that_is_not_in_the_group_is_refused(tmp_path):
    with pytest.raises(ImageError, match=r"key='now' is not an array.*after"):
        open_windowed(two_arrays(tmp_path), key="now")
    assert open_windowed(tmp_path / "a.zarr", key="after").shape == (HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("rows", [slice(5, 5), slice(80, 90), slice(0, 10, 2), slice(9, 3)])
def test_a_window_outside_the_picture_is_refused(rows):
    with pytest.raises(ImageError, match=r"holds no rows of the 70"):
        open_windowed(cube()).read(rows, slice(None))


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    path, tiff = FILES["zarr"](tmp_path), FILES["tiled tiff"](tmp_path)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingLibraryError, match=r'pip install "pmlda\[scale\]"'):
        open_windowed(path)
    without_rasterio(monkeypatch)
    with pytest.raises(MissingLibraryError, match=r'pip install "pmlda\[geo\]" or "pmlda\[scale\]"'):
        open_windowed(tiff)


def test_a_picture_that_goes_away_is_an_error_that_names_it(tmp_path):
    picture = open_windowed(FILES["zarr"](tmp_path))
    shutil.rmtree(tmp_path / "a.zarr")
    with pytest.raises(ImageError, match=r"a\.zarr"):
        picture.read(*EVERYTHING)
