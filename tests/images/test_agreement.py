"""Damaged pictures of every kind: read whole and in windows, both are refused, or both give the same numbers."""

import logging
import shutil
import warnings

import numpy as np
import pytest
import tifffile

from pmlda.errors import ImageError
from pmlda.images import open_windowed, read_image
from tests.images.pictures import numbers, write_envi
from tests.mutations import change_json, examples, mutate, parts_of

EVERYTHING = (slice(None), slice(None))
ROUNDS = 5  # times the kinds of pictures: more than 150


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return examples(tmp_path_factory.mktemp("pictures"))


def copy_picture(path, folder):
    """A picture with all its parts in an empty folder."""
    if path.is_dir():
        return shutil.copytree(path, folder / path.name)
    for part in parts_of(path):
        shutil.copy(part, folder / part.name)
    return folder / path.name


def damage(path, rng):
    """Damage one of the files of a picture."""
    parts = parts_of(path)
    chosen = parts[int(rng.integers(len(parts)))]
    data = chosen.read_bytes()
    is_json = data.startswith(b"{") and rng.random() < 0.5
    chosen.write_bytes(change_json(data, rng) if is_json else mutate(data, rng))


def attempt(read, path):
    """What was read, or None if it was refused. Any other exception is a fault."""
    try:
        image = read(path)
    except ImageError:
        return None
    return image if image.valid.any() else None  # a picture without any data is refused only as a whole


def read_windows(path):
    return open_windowed(path).read(*EVERYTHING)


def assert_agreement(path, what):
    whole, windows = attempt(read_image, path), attempt(read_windows, path)
    assert (whole is None) == (windows is None), what
    if whole is not None:
        assert whole.pixels.dtype == windows.pixels.dtype, what
        np.testing.assert_array_equal(whole.pixels, windows.pixels, err_msg=what)
        np.testing.assert_array_equal(whole.valid, windows.valid, err_msg=what)
    return whole is not None


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_damaged_pictures_are_read_alike_whole_and_in_windows(pictures, tmp_path, seed):
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    outcomes = []
    for number, (kind, path) in enumerate(pictures.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        copy = copy_picture(path, folder)
        damage(copy, np.random.default_rng([seed, number]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes.append(assert_agreement(copy, f"{kind}, seed {seed}"))
    assert len(outcomes) * ROUNDS > 150
    assert 0 < sum(outcomes) < len(outcomes)  # some damage shows and some does not


def test_undamaged_pictures_are_all_read(pictures):
    for kind, path in pictures.items():
        assert assert_agreement(path, kind), kind


def change_tag(path, code, count=None, value=None):
    """Change how many values a tag of the first page has, or its value."""
    with tifffile.TiffFile(path) as tiff:
        at = tiff.pages.first.tags[code].offset
    data = bytearray(path.read_bytes())
    for place, number in ((at + 4, count), (at + 8, value)):
        if number is not None:
            data[place : place + 4] = number.to_bytes(4, "little")
    path.write_bytes(data)


@pytest.mark.parametrize("offset", [0, 3, 300, 2**31, 2**32 - 2])
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}], ids=["plain", "deflate"])
def test_a_damaged_strip_offset_is_read_alike(tmp_path, offset, options):
    tifffile.imwrite(tmp_path / "a.tif", numbers(37, 29), **options)
    change_tag(tmp_path / "a.tif", 273, value=offset)
    assert_agreement(tmp_path / "a.tif", f"offset {offset}")


@pytest.mark.parametrize("kind", ["plain tif", "strips tif", "tiles tif", "planar tif", "geotiff"])
def test_offsets_past_the_end_are_refused_in_both_ways(pictures, tmp_path, kind):
    path = copy_picture(pictures[kind], tmp_path)
    with tifffile.TiffFile(path) as tiff:
        tags = tiff.pages.first.tags
        tag = tags.get(273) or tags.get(324)
        at, width = tag.valueoffset, {3: 2, 4: 4, 16: 8}[int(tag.dtype)]
    data = bytearray(path.read_bytes())
    data[at : at + width] = (2 ** (8 * width - 1) - 1).to_bytes(width, "little")
    path.write_bytes(data)
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match="cannot be read as TIFF"):
            read(path)


@pytest.mark.parametrize("kind", ["plain tif", "strips tif", "deflate strips tif", "tiles tif", "geotiff"])
def test_a_length_for_which_there_are_no_numbers_is_refused_in_both_ways(pictures, tmp_path, kind):
    """GDAL fills what is missing with zeros: gigabytes for a file of kilobytes."""
    path = copy_picture(pictures[kind], tmp_path)
    change_tag(path, 257, value=60000)
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match="fewer pixels than its 60000 × 29"):
            read(path)


def test_tags_that_contradict_each_other_are_refused_in_both_ways(pictures, tmp_path):
    """GDAL decodes such a file into memory that nobody has written to, differently each time."""
    path = copy_picture(pictures["tiled geotiff"], tmp_path)
    change_tag(path, 277, value=1)  # samples in a pixel; there are two
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match="a pixel has 1 samples, but BitsPerSample has 2 values"):
            read(path)


def test_tiles_that_are_far_larger_than_the_picture_are_refused_in_both_ways(pictures, tmp_path):
    """One of them would have to be in memory."""
    path = copy_picture(pictures["tiles tif"], tmp_path)
    change_tag(path, 323, value=65520)
    change_tag(path, 322, value=65520)
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match="tiles of 65520 × 65520 pixels are far larger than its 37 × 29 pixels"):
            read(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("interleave = bsx", "interleave = bsx, expected bsq, bil or bip"),
        ("byte order = 7", "byte order = 7, expected 0 or 1"),
        ("header offset = -4", "header offset = -4, expected 0 or more"),
    ],
)
def test_a_layout_that_envi_does_not_have_is_refused_in_both_ways(tmp_path, line, problem):
    path = write_envi(tmp_path / "a.img", numbers(37, 29, 3), [line])
    for read in (read_image, open_windowed):
        with pytest.raises(ImageError, match=problem):
            read(path)
