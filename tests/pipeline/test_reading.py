"""What to read of pictures is a setting: the same maps from every format, in tiles, after a pause, and applied."""

import json
import warnings

import numpy as np
import pytest
import scipy.io
import tifffile
import xarray
import zarr

import pmlda
from pmlda.errors import ImageError, InputError, LeftOutWarning, SettingsError
from pmlda.images import read_image
from pmlda.pipeline.collect import collect
from pmlda.settings import make_settings, read_settings
from tests.images.pictures import write_envi, write_raster

QUICK = {"documents": "windows:16", "refits": 0, "sample": 300}
NAMES = ("y", "x", "wavelength")
WAVES = [450.0, 550.0, 650.0, 750.0, 850.0]
ORDERS = ["yxw", "ywx", "xyw", "xwy", "wyx", "wxy"]


def make_cube(height=40, width=48):
    """Three materials in five bands, whole numbers."""
    rng = np.random.default_rng(0)
    spectra = np.array([[200, 300, 500, 900, 950], [800, 700, 600, 300, 200], [100, 900, 200, 800, 100]])
    y, x = np.mgrid[:height, :width] / (height, width)[0]
    shares = np.stack([x**2, (1 - x) * y, 1 + 0 * x], axis=2)
    shares /= shares.sum(axis=2, keepdims=True)
    return (shares @ spectra + rng.normal(scale=10.0, size=(height, width, 5))).astype(np.int16)


CUBE = make_cube()


def ordered(order):
    return np.ascontiguousarray(CUBE.transpose(["yxw".index(letter) for letter in order]))


def named(order):
    """The cube with its axes in this order, by name."""
    names = tuple(NAMES["yxw".index(letter)] for letter in order)
    return xarray.DataArray(ordered(order), dims=names, coords={"wavelength": WAVES}, name="cube")


def save_hdf5(path, order):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        cube = file.create_dataset("cube", data=ordered(order))
        for axis, name in enumerate(named(order).dims):
            cube.dims[axis].label = name
    return path


def save_zarr(path, order):
    array = ordered(order)
    group = zarr.create_group(path)
    group.create_array("cube", shape=array.shape, dtype=array.dtype, dimension_names=named(order).dims)[...] = array
    return path


def save_netcdf(path, order):
    named(order).to_netcdf(path, engine="scipy")
    return path


@pytest.fixture(scope="module")
def expected():
    return pmlda.segment(CUBE, 2, **QUICK).memberships


def files_of_cube(folder):
    """The cube in every format, and in every order of axes where they have names or their lengths tell."""
    for order in ORDERS:
        yield save_netcdf(folder / f"{order}.nc", order)
        yield save_hdf5(folder / f"{order}.h5", order)
        yield save_zarr(folder / f"{order}.zarr", order)
    for order in ("yxw", "wyx"):
        scipy.io.savemat(folder / f"{order}.mat", {"cube": ordered(order), "wavelength": WAVES})
        np.savez(folder / f"{order}.npz", cube=ordered(order), wavelength=WAVES)
        yield from (folder / f"{order}.mat", folder / f"{order}.npz")
    for interleave, order in (("bsq", "wyx"), ("bil", "ywx"), ("bip", "yxw")):
        path = write_envi(folder / f"{interleave}.img", CUBE, [f"interleave = {interleave}"])
        path.write_bytes(ordered(order).tobytes())
        header = path.with_suffix(".hdr")
        header.write_text(header.read_text().replace("interleave = bsq\n", "", 1))
        yield path


def test_one_cube_gives_the_same_bits_from_every_format_and_order_of_axes(tmp_path, expected):
    found = {path.name: pmlda.segment(path, 2, **QUICK).memberships for path in files_of_cube(tmp_path)}
    assert len(found) == 3 * len(ORDERS) + 4 + 3
    for name, memberships in found.items():
        assert memberships.tobytes() == expected.tobytes(), name


def test_a_key_chooses_the_same_variable_of_several_files(tmp_path, expected):
    arrays = {"cube": CUBE, "other": CUBE[:, ::-1]}
    scipy.io.savemat(tmp_path / "a.mat", arrays)
    np.savez(tmp_path / "b.npz", **arrays)
    paths = [tmp_path / "a.mat", tmp_path / "b.npz"]
    found = pmlda.segment(paths, 2, key="cube", **QUICK)
    assert found.settings.key == "cube"
    np.testing.assert_array_equal(found.images[1].pixels, CUBE)
    with pytest.raises(ImageError, match="Choose one with key: cube"):
        pmlda.segment(paths, 2, **QUICK)


# ── a stack with a variable too many, in memory, in tiles, resumed and applied ─────────────────────────────────────
ASKED = {"key": "stack", "z": "max", "t": 2, "bands": "3,1,2"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Two times and two slices of the cube, one of the four brighter than the others, and another variable."""
    path = tmp_path_factory.mktemp("stack") / "stack.zarr"
    planes = np.stack([[CUBE // 2, CUBE // 3], [CUBE // 4, CUBE]])
    group = zarr.create_group(path)
    names = ("t", "z", "y", "x", "c")
    group.create_array("stack", shape=planes.shape, dtype=planes.dtype, dimension_names=names)[...] = planes
    group.create_array("other", shape=(5, 5), dtype="u1")[...] = 1
    return path


def test_a_slice_of_a_variable_is_that_picture(stack):
    alone = pmlda.segment(CUBE[:, :, [2, 0, 1]], 2, features="spectral", **QUICK)
    found = pmlda.segment(stack, 2, features="spectral", **ASKED, **QUICK)
    np.testing.assert_array_equal(found.memberships, alone.memberships)
    assert found.images[0].bands == ("band 3", "band 1", "band 2")


def test_what_was_read_is_in_all_records_and_an_interrupted_run_reads_it_again(stack, tmp_path):
    settings = ASKED | QUICK | {"n_topics": 2, "features": "spectral"}
    whole = pmlda.segment(stack, out=tmp_path / "maps", **settings)
    assert {name: read_settings(tmp_path / "maps" / "settings.toml")[name] for name in ASKED} == ASKED
    assert {name: json.loads((tmp_path / "maps" / "run.json").read_text())["settings"][name] for name in ASKED} == ASKED

    def stop(stage):
        if stage == "maps":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="resume with"):
        pmlda.segment(stack, out=tmp_path / "tiles.zarr", stage=stop, **settings)
    found = pmlda.resume(tmp_path / "tiles.zarr")
    assert {name: found.record["settings"][name] for name in ASKED} == ASKED
    assert found.images[0].bands == whole.images[0].bands
    np.testing.assert_array_equal(np.asarray(found.memberships), whole.memberships)


def test_a_model_reads_other_pictures_as_its_own_unless_told_otherwise(stack, expected):
    found = pmlda.segment(stack, 2, features="spectral", **ASKED, **QUICK)
    np.testing.assert_array_equal(found.apply(stack).memberships, found.memberships)
    # An array has neither variables nor slices: it is the picture. Its bands are chosen alike.
    np.testing.assert_array_equal(found.apply(CUBE).memberships, found.memberships)
    np.testing.assert_array_equal(found.apply(found.images[0]).memberships, found.memberships)
    other = found.apply(stack, t=1, z=1)
    assert (other.settings.t, other.settings.z, other.settings.key) == (1, 1, "stack")
    np.testing.assert_array_equal(other.images[0].pixels, CUBE[:, :, [2, 0, 1]] // 2)
    with pytest.raises(InputError, match="apply\\(\\) takes key, z, t and bands, not topics"):
        found.apply(stack, topics=3)
    with pytest.raises(ImageError, match="key='cube' chooses inside a file"):
        found.apply(CUBE, key="cube")


def test_an_image_that_was_read_is_not_read_again():
    with pytest.raises(InputError, match="was read already, so bands cannot be chosen any more"):
        pmlda.segment(read_image(CUBE), 2, bands="1", **QUICK)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"z": 0}, "Setting z = 0 cannot be used"),
        ({"z": "min"}, "Setting z = 'min' cannot be used"),
        ({"t": -2}, "Setting t = -2 cannot be used"),
        ({"bands": ""}, "Setting bands = '' cannot be used"),
        ({"key": 1.5}, "Setting key = 1.5 cannot be used"),
    ],
)
def test_reading_settings_that_cannot_be_used_are_one_sentence(table, says):
    with pytest.raises(SettingsError, match=says):
        make_settings(table)


def test_reading_settings_take_what_code_and_command_line_give():
    settings = make_settings({"key": 2, "z": "3", "t": None, "bands": [5, 4, "650nm"]})
    assert settings.reading == {"key": "2", "z": 3, "t": None, "bands": "5,4,650nm"}
    assert set(make_settings({}).reading.values()) == {None}


# ── folders and patterns ───────────────────────────────────────────────────────────────────────────────────────────
def write_pictures(folder, *names):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        write_raster(folder / name, np.roll(CUBE[:24, :24, :3] // 4, number, axis=1).astype(np.uint8), driver="PNG")
    return folder


def test_a_folder_and_a_pattern_are_their_pictures_in_natural_order(tmp_path):
    folder = write_pictures(
        tmp_path / "scans", "b10.png", "b2.png", "a.png", "b2_mask.png", "labels.png", ".hidden.png"
    )
    (folder / "notes.txt").write_text("no picture")
    (folder / "inner").mkdir()
    write_envi(folder / "cube.img", CUBE)
    for given in (folder, str(folder), folder / "*"):
        assert [path.name for path in collect([given]).pictures] == ["a.png", "b2.png", "b10.png", "cube.hdr"]
    assert [path.name for path in collect([folder / "b*.png", folder / "*.hdr"]).pictures] == [
        "b2.png",
        "b10.png",
        "cube.hdr",
    ]
    assert [path.name for path in collect([folder], [folder / "a.png"]).pictures] == ["b2.png", "b10.png", "cube.hdr"]
    assert collect([folder / "b2_mask.png"]) == ([folder / "b2_mask.png"], ())  # a name is always meant
    assert collect([folder, folder / "b*"]).pictures == collect([folder]).pictures  # each once
    again = collect([folder / "b2.png", folder, folder / "a.png"])
    assert [path.name for path in again.pictures] == ["b2.png", "a.png", "b10.png", "cube.hdr"]
    assert [path.name for path in again.found] == ["b10.png", "cube.hdr"]  # the others are named, and must be readable
    zarr.create_group(folder / "store.zarr").create_array("inner", shape=(4, 5), dtype="u1")
    assert [path.name for path in collect([str(folder / "**")]).pictures][-1] == "store.zarr"


def test_a_name_with_the_letters_of_a_pattern_is_a_name(tmp_path):
    write_pictures(tmp_path, "scan[1].png", "scan1.png")
    assert collect([tmp_path / "scan[1].png"]) == ([tmp_path / "scan[1].png"], ())


def test_results_of_earlier_runs_are_not_taken_for_pictures(tmp_path):
    folder = write_pictures(tmp_path / "scans", "a.png")
    for out in ("maps", "maps.zarr", "maps.tif"):
        pmlda.segment(folder / "a.png", 2, out=folder / out, **QUICK)
    assert [path.name for path in collect([folder]).pictures] == ["a.png"]
    assert [path.name for path in collect([str(folder / "**")]).pictures] == ["a.png"]
    with pytest.raises(InputError, match=r"holds no pictures, only '.pmlda-files.json', 'documents.csv'"):
        collect([folder / "maps"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("*.tif", "No file matches '.*\\*.tif'. Check the folder and the pattern"),
        ("*_mask.png", "No picture matches .* only 'a_mask.png'. Labels, masks and results are not taken"),
        ("empty", "The folder .* holds no pictures. Give a picture"),
    ],
)
def test_nothing_found_is_an_error(tmp_path, given, says):
    write_pictures(tmp_path, "a_mask.png")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=says):
        pmlda.segment(tmp_path / given, 2)


def test_pictures_that_cannot_be_read_are_left_out_and_named(tmp_path):
    folder = write_pictures(tmp_path / "scans", "a.png", "c.png")
    (folder / "b.png").write_bytes(b"\x89PNG damaged")
    tifffile.imwrite(folder / "grey.tif", CUBE[:24, :24, 0])
    with pytest.warns(LeftOutWarning, match=r"2 pictures were left out. .*b.png cannot be read as PNG.*grey.tif"):
        found = pmlda.segment(folder, 2, out=tmp_path / "maps", checkpoint=60.0, **QUICK)
    assert [image.name for image in found.images] == ["a", "c"]
    assert pmlda.Segmentation.load(tmp_path / "maps").left_out == found.left_out
    record = json.loads((tmp_path / "maps" / "run.json").read_text())
    assert [each["path"] for each in record["left_out"]] == [str(folder / "b.png"), str(folder / "grey.tif")]
    assert record["left_out"][1]["reason"] == "Most pictures have 3 bands, this one has 1."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        assert len(found.apply(str(folder / "*.png")).memberships) == 2
    with pytest.raises(ImageError, match="cannot be read as PNG"):  # a name is an error
        pmlda.segment([folder / "a.png", folder / "b.png"], 2, **QUICK)
    with pytest.raises(InputError, match="None of the 1 pictures can be read"):
        pmlda.segment(folder / "b*", 2, **QUICK)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_resumed_run_still_names_what_was_left_out(tmp_path):
    folder, out = write_pictures(tmp_path / "scans", "a.png", "c.png"), tmp_path / "maps"
    (folder / "b.png").write_bytes(b"\x89PNG damaged")

    def stop(stage):
        if stage == "writing":
            raise KeyboardInterrupt

    sampled = QUICK | {"engine": "gibbs", "sweeps": 12, "checkpoint": 1e-6, "out": out}
    with pytest.raises(KeyboardInterrupt, match="resume with"):
        pmlda.segment(folder, 2, stage=stop, **sampled)
    write_pictures(folder, "d.png")  # came too late
    found = pmlda.resume(out)
    assert [image.name for image in found.images] == ["a", "c"]
    assert [each["path"] for each in found.record["left_out"]] == [str(folder / "b.png")]
