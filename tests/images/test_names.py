"""Files whose names are not UTF-8, or not ASCII where the locale knows nothing else: they are read like any other."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pmlda.images import open_windowed, picture_size, read_image
from tests.mutations import examples, parts_of

STEMS = {"latin-1": b"caf\xe9", "utf-8": "été 漢".encode()}


def copy_as(path, folder, stem):
    """A copy of a picture, with all its parts, whose name begins with these bytes."""
    folder.mkdir(parents=True)
    named = [(part, folder / (os.fsdecode(stem) + "".join(part.suffixes))) for part in (path, *parts_of(path)[1:])]
    if path.is_dir():
        return shutil.copytree(*named[0])
    for part, copy in named:
        shutil.copy(part, copy)
    return named[0][1]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return examples(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("stem", STEMS)
def test_every_kind_of_picture_is_read_whatever_bytes_its_name_is_made_of(pictures, tmp_path, stem):
    for kind, path in pictures.items():
        copy = copy_as(path, tmp_path / kind.replace(" ", "-"), STEMS[stem])
        expected, image = read_image(path), read_image(copy)
        np.testing.assert_array_equal(image.pixels, expected.pixels, err_msg=kind)
        windows = open_windowed(copy).read(slice(3, 9), slice(2, 20))
        np.testing.assert_array_equal(windows.pixels, expected.pixels[3:9, 2:20], err_msg=kind)
        assert image.georeference == expected.georeference
        assert picture_size(copy) == picture_size(path)


def test_the_name_of_such_a_picture_is_text_that_can_be_written(pictures, tmp_path):
    image = read_image(copy_as(pictures["grey png"], tmp_path / "a", STEMS["latin-1"]))
    assert image.name == "caf\\xe9"
    assert open_windowed(copy_as(pictures["grey png"], tmp_path / "b", STEMS["utf-8"])).name == "été 漢"


@pytest.mark.parametrize("environment", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=["C", "plain C"])
def test_names_are_read_in_the_locale_of_the_language_c(pictures, tmp_path, environment):
    kinds = ("geotiff", "lzw tif", "envi bil", "zarr 3", "colour png")
    copies = [
        copy_as(pictures[kind], tmp_path / f"{kind} {stem}".replace(" ", "-"), STEMS[stem])
        for kind in kinds
        for stem in STEMS
    ]
    code = (
        "import sys; from pmlda.images import read_image; print([read_image(p).pixels.shape[:2] for p in sys.argv[1:]])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, *copies],
        capture_output=True,
        env=os.environ | {"LC_ALL": "C"} | environment,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.decode().strip() == str([(37, 29)] * len(copies))
