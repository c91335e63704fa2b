"""Maps written block by block into a Zarr group, and what xarray and read_image find in it."""

import warnings

import numpy as np
import pytest
import xarray

from pmlda.errors import ImageError
from pmlda.images import open_windowed, read_image
from pmlda.images.zarrs import create_maps, read_block, write_block
from pmlda.types import Georeference
from tests.disks import small_files
from tests.images.pictures import PLACE

SHAPE, CHUNK, NAMES = (50, 37, 3), 16, ("sänd", "rock", "2")
TURNED = Georeference("", (1.0, 0.5, 10.0, -0.5, 1.0, 20.0))


def some_maps():
    rng = np.random.default_rng(0)
    maps = {
        "memberships": rng.random(SHAPE, dtype=np.float32),
        "uncertainty": rng.random(SHAPE).astype(np.float16),
        "dominant": rng.integers(0, 3, SHAPE[:2]).astype(np.int16),
        "documents": rng.integers(0, 2**31, SHAPE[:2]).astype(np.int32),
    }
    for values in maps.values():
        nothing = np.nan if values.dtype.kind == "f" else -1
        values[10:20, 5:9] = nothing
        values[16:32, 16:32] = nothing  # a block without data
    return maps


def blocks():
    for top in range(0, SHAPE[0], CHUNK):
        for left in range(0, SHAPE[1], CHUNK):
            yield slice(top, min(top + CHUNK, SHAPE[0])), slice(left, min(left + CHUNK, SHAPE[1]))


def write_all(folder, maps, **options):
    create_maps(folder, SHAPE, CHUNK, NAMES, **options)
    for rows, columns in blocks():
        write_block(folder, rows, columns, **{name: values[rows, columns] for name, values in maps.items()})


def test_blocks_come_back_as_they_were_written(tmp_path):
    maps = some_maps()
    write_all(tmp_path / "maps.zarr", maps)
    for name, values in maps.items():
        for rows, columns in [*blocks(), (slice(3, 45), slice(0, 37)), (slice(16, 32), slice(16, 32))]:
            block = read_block(tmp_path / "maps.zarr", name, rows, columns)
            assert block.dtype == values.dtype
            np.testing.assert_array_equal(block, values[rows, columns])


def test_blocks_not_yet_written_have_no_data(tmp_path):
    folder = tmp_path / "maps.zarr"
    create_maps(folder, SHAPE, CHUNK, NAMES)
    assert np.isnan(read_block(folder, "memberships", slice(0, 50), slice(0, 37))).all()
    assert np.isnan(read_block(folder, "uncertainty", slice(0, 50), slice(0, 37))).all()
    for name in ("dominant", "documents"):
        assert (read_block(folder, name, slice(0, 50), slice(0, 37)) == -1).all()
    assert not open_windowed(folder).read(slice(0, 16), slice(0, 16)).valid.any()


def test_a_block_without_data_replaces_one_with_data(tmp_path):
    folder, rows, columns = tmp_path / "maps.zarr", slice(0, 16), slice(16, 32)
    create_maps(folder, SHAPE, CHUNK, NAMES)
    write_block(folder, rows, columns, memberships=np.ones((16, 16, 3)))
    write_block(folder, rows, columns, memberships=np.full((16, 16, 3), np.nan))
    assert np.isnan(read_block(folder, "memberships", rows, columns)).all()


@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_opens_maps_with_names_and_place(tmp_path, consolidated):
    maps = some_maps()
    write_all(tmp_path / "maps.zarr", maps, georeference=PLACE, attributes={"title": "how much", "seed": 3})
    with xarray.open_zarr(tmp_path / "maps.zarr", consolidated=consolidated) as found:
        assert found.memberships.dims == ("c", "y", "x")
        assert found.dominant.dims == ("y", "x")
        assert found.c.values.tolist() == list(NAMES)
        assert {name: value for name, value in found.attrs.items() if name != "ome"} == {"title": "how much", "seed": 3}
        assert set(found.coords) == {"c", "x", "y", "spatial_ref"}
        for name, values in maps.items():
            assert found[name].dtype == values.dtype
            np.testing.assert_array_equal(found[name].transpose("y", "x", ...).values, values)
        a, _, c, _, e, f = PLACE.transform
        assert found.x.values[:2].tolist() == [c + a / 2, c + 3 * a / 2]
        assert found.y.values[:2].tolist() == [f + e / 2, f + 3 * e / 2]
        assert found.spatial_ref.attrs["crs_wkt"] == PLACE.crs
        assert [float(number) for number in found.spatial_ref.attrs["GeoTransform"].split()] == [c, a, 0, f, 0, e]
        assert found.memberships.encoding.get("grid_mapping", found.memberships.attrs.get("grid_mapping")) == (
            "spatial_ref"
        )
        assert read_image(found.memberships).georeference == PLACE


@pytest.mark.parametrize("place", [None, PLACE, TURNED], ids=["nowhere", "placed", "turned"])
def test_maps_are_read_as_a_picture(tmp_path, place):
    maps = some_maps()
    write_all(tmp_path / "maps.zarr", maps, georeference=place)
    image = read_image(tmp_path / "maps.zarr")
    np.testing.assert_array_equal(image.pixels, maps["memberships"])
    np.testing.assert_array_equal(image.valid, np.isfinite(maps["memberships"]).all(axis=2))
    assert image.bands == NAMES
    assert image.georeference == place
    assert "key chooses another array: documents, dominant, novelty, residual, uncertainty" in image.notes[0]
    dominant = read_image(tmp_path / "maps.zarr", key="dominant", nodata=-1)
    np.testing.assert_array_equal(dominant.pixels[:, :, 0], maps["dominant"])
    assert (dominant.georeference, dominant.bands) == (place, ("band 1",))


def test_a_chunk_is_whole_or_not_there(tmp_path):
    """zarr writes a chunk under another name and renames it; should it ever stop, a killed run leaves half a chunk."""
    import zarr.storage._local as local

    folder = tmp_path / "maps.zarr"
    create_maps(folder, SHAPE, CHUNK, NAMES)
    with pytest.MonkeyPatch.context() as patch:

        def stop(*_, **__):
            raise OSError("no space left")

        patch.setattr(local.Path, "replace", stop)
        with pytest.raises(OSError, match="no space left"):
            write_block(folder, slice(0, 16), slice(0, 16), memberships=np.ones((16, 16, 3)))
    assert not (folder / "memberships" / "c" / "0" / "0" / "0").exists()
    assert np.isnan(read_block(folder, "memberships", slice(0, 16), slice(0, 16))).all()


def test_a_chunk_that_rotted_is_an_error_and_not_numbers(tmp_path):
    folder = tmp_path / "maps.zarr"
    write_all(folder, some_maps())
    chunk = folder / "memberships" / "c" / "2" / "0" / "1"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(ImageError, match="cannot be read as Zarr"):
        open_windowed(folder).read(slice(0, 16), slice(16, 32))


def write_with(**change):
    def write(folder):
        arguments = {"shape": SHAPE, "chunk": CHUNK, "names": NAMES} | change
        create_maps(folder, **arguments)

    return write


def write_part(rows, columns, **maps):
    def write(folder):
        create_maps(folder, SHAPE, CHUNK, NAMES)
        write_block(folder, rows, columns, **maps)

    return write


BLOCK = np.ones((16, 16, 3))


@pytest.mark.parametrize(
    ("write", "fragment"),
    [
        (write_with(shape=(0, 3, 3)), "at least 1"),
        (write_with(chunk=0), "at least 1"),
        (write_with(names=["a"]), "Give one name for each map"),
        (write_part(slice(1, 17), slice(0, 16), memberships=BLOCK), "is not one block of memberships"),
        (write_part(slice(0, 32), slice(0, 16), memberships=np.ones((32, 16, 3))), "is not one block"),
        (write_part(slice(0, 16), slice(0, 16), memberships=BLOCK[:3]), r"shape \(3, 16, 3\), expected \(16, 16, 3\)"),
        (write_part(slice(0, 16), slice(0, 16), mood=BLOCK), "has no map 'mood'"),
        (lambda folder: (write_with()(folder), write_with()(folder)), "exists already"),
    ],
)
def test_maps_and_blocks_that_do_not_fit(tmp_path, write, fragment):
    with pytest.raises(ImageError, match=fragment):
        write(tmp_path / "maps.zarr")


def test_an_error_of_the_disk_names_what_was_written(tmp_path):
    """zarr writes through open files, whose errors name nothing."""
    folder, maps = tmp_path / "maps.zarr", some_maps()
    with small_files(100), pytest.raises(OSError, match="File too large") as told:
        create_maps(folder, SHAPE, CHUNK, NAMES)
    assert told.value.filename == str(folder)
    create_maps(tmp_path / "others.zarr", SHAPE, CHUNK, NAMES)
    with small_files(100), pytest.raises(OSError, match="File too large") as told:
        write_block(tmp_path / "others.zarr", *next(blocks()), memberships=maps["memberships"][:CHUNK, :CHUNK])
    assert told.value.filename == str(tmp_path / "others.zarr" / "memberships" / "c" / "0" / "0" / "0")


def test_writing_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_all(tmp_path / "maps.zarr", some_maps(), georeference=PLACE)
