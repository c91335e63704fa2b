"""Topics of pictures that are known by their spectra: in memory, in tiles, resumed, and from the command line."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pmlda import Segmentation, resume, segment
from pmlda.errors import PmldaError
from pmlda.evaluation.experiments.spectra import made_up_cube, read_cubes
from pmlda.evaluation.scenes import smooth_scene
from pmlda.pipeline.tiled import TiledRun
from tests.images.pictures import write_envi
from tests.program import run

REAL = Path(__file__).parents[3] / "shared" / "data" / "hsi"
AT = np.linspace(400.0, 2500.0, 80)


@pytest.fixture(scope="module")
def cube():
    return made_up_cube(32, "shade", 0)


@pytest.fixture(scope="module")
def files(cube, tmp_path_factory):
    """The cube with its wavelengths, and a library of one of its materials with others."""
    folder = tmp_path_factory.mktemp("spectra")
    bands = f"wavelength = {{{', '.join(f'{value:.2f}' for value in AT)}}}"
    write_envi(folder / "cube.img", cube.pixels.astype(np.float32), ["wavelength units = Nanometers", bands])
    finer = np.linspace(0.35, 2.6, 400)
    tree = np.interp(finer, AT / 1000.0, cube.endmembers[1])
    lines = [f"{at:.5f},{value:.6f}" for at, value in zip(finer, tree, strict=True)]
    (folder / "library.csv").write_text("\n".join(["wavelength (µm),tree", *lines]) + "\n", encoding="utf-8")
    return folder


def errors(found, cube):
    """(K,) root mean squared error of the shares of each material; topics that are free are matched."""
    z, truth = (np.asarray(each, float).reshape(-1, 3) for each in (found.memberships, cube.abundances))
    return np.sqrt(((z[:, :, None] - truth[:, None]) ** 2).mean(axis=0))


@pytest.mark.parametrize("number", range(3))
def test_known_topics_come_first_and_the_others_are_learnt_beside_them(cube, number):
    name, spectrum = cube.materials[number], cube.endmembers[number]
    found = segment(cube.pixels, 3, topics={name: spectrum}, refits=0)
    assert errors(found, cube)[0, number] < 0.03
    others = [k for k in range(3) if k != number]
    rest = errors(found, cube)[1:, others]
    assert min(rest[0, 0] + rest[1, 1], rest[0, 1] + rest[1, 0]) < 0.08
    brightness = found.topics[1:].mean(axis=1)
    assert brightness[0] <= brightness[1]
    known = found.topics[0] / np.linalg.norm(found.topics[0])
    assert known @ spectrum / np.linalg.norm(spectrum) > 0.999


@pytest.mark.skipif(not REAL.is_dir(), reason="needs Samson and Moffett in ../shared/data/hsi")
@pytest.mark.parametrize("number", range(3))
def test_one_known_spectrum_of_published_pictures_gives_good_shares_of_all(number):
    for cube, most in zip(read_cubes(REAL), (0.035, 0.030), strict=True):
        found = segment(cube.pixels, 3, topics={cube.materials[number]: cube.endmembers[number]}, refits=0)
        each = errors(found, cube)
        others = [k for k in range(3) if k != number]
        best = min(([0, *order] for order in ([1, 2], [2, 1])), key=lambda o: each[o, [number, *others]].sum())
        assert np.sqrt((each[best, [number, *others]] ** 2).mean()) <= most


def test_all_topics_may_be_known_and_a_spread_lets_them_move(cube):
    given = dict(zip(cube.materials, cube.endmembers, strict=True))
    exact, rough = (segment(cube.pixels, 3, topics=given, topic_spread=spread, refits=0) for spread in (0.0, 0.02))
    assert np.diag(errors(exact, cube)).max() < 0.03
    assert np.diag(errors(rough, cube)).max() < 0.03
    assert not np.allclose(exact.recipe.model.topic_means_, rough.recipe.model.topic_means_, atol=1e-4)
    np.testing.assert_array_equal(exact.recipe.order, [0, 1, 2])


def test_a_colour_is_known_in_the_units_of_the_picture():
    picture, truth = smooth_scene(40, 40, 3, 0.03, 0)
    colour = picture[truth[..., 0] > 0.97].mean(axis=0)
    found = segment(picture, 3, topics={"first": colour}, documents="slic:20")
    assert np.sqrt(((found.memberships[..., 0] - truth[..., 0]) ** 2).mean()) < 0.08
    np.testing.assert_allclose(found.topics[0] * 255.0, colour, atol=0.5)


def test_a_library_is_resampled_to_the_wavelengths_of_the_cube(cube, files, tmp_path):
    """The real program, and the same from Python: in tiles, and of an array with a value for each band."""
    words = ["segment", files / "cube.hdr", "--known", files / "library.csv", "-k", 3, "--set", "refits=0"]
    by_program = run(*words, "--set", "known_spread=0", "--json", "--jobs", 1, "--out", tmp_path / "maps")
    assert by_program.returncode == 0, by_program.stderr
    loaded = Segmentation.load(tmp_path / "maps")
    assert errors(loaded, cube)[0, 1] < 0.03
    assert loaded.topic_names == ("tree", "topic 2", "topic 3")
    in_tiles = segment(
        files / "cube.hdr", 3, topics=files / "library.csv", refits=0, block=64, out=tmp_path / "maps.zarr"
    )
    np.testing.assert_allclose(np.asarray(in_tiles.memberships), loaded.memberships, atol=1e-3)
    of_array = segment(cube.pixels.astype(np.float32), 3, topics={"tree": cube.endmembers[1]}, refits=0)
    np.testing.assert_allclose(of_array.memberships, loaded.memberships, atol=0.02)


@pytest.mark.parametrize("engine", ["gibbs", "paper"])
def test_samplers_over_tiles_hold_what_is_known(files, tmp_path, engine):
    spread = {"design_effect": 1, "sweeps": 6, "block": 64, "documents": "windows:8"}
    found = segment(
        files / "cube.hdr", 3, topics=files / "library.csv", engine=engine, out=tmp_path / "m.zarr", **spread
    )
    model = found.recipe.model
    np.testing.assert_allclose(model.topic_means_[0], model.known_topics[0], rtol=1e-9)
    assert found.recipe.order[0] == 0


def test_a_run_is_resumed_with_its_library_and_not_with_another(files, tmp_path, monkeypatch):
    library, out = Path(shutil.copy(files / "library.csv", tmp_path / "library.csv")), tmp_path / "maps.zarr"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TiledRun, "_finish", stop)
        with pytest.raises(KeyboardInterrupt, match="resume"):
            segment(files / "cube.hdr", 3, topics=library, refits=0, out=out)
    text = library.read_text(encoding="utf-8")
    library.write_text(text.replace("tree", "bush"), encoding="utf-8")
    with pytest.raises(
        PmldaError, match=r"the picture, its mask or known topics have changed since it was begun.*library\.csv"
    ):
        resume(out)
    library.write_text(text, encoding="utf-8")
    assert resume(out).memberships.shape == (32, 32, 3)


def test_a_library_is_never_replaced_by_a_result(files, tmp_path):
    library = Path(shutil.copy(files / "library.csv", tmp_path / "maps.zarr"))
    with pytest.raises(PmldaError, match=r"maps\.zarr"):
        segment(files / "cube.hdr", 3, topics=library, out=library, overwrite=True)
    assert library.read_bytes() == (files / "library.csv").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "fcm"}, "model 'fcm' cannot make use of it"),
        ({"n_topics": 1, "topics": {"a": np.ones(80), "b": np.ones(80)}}, "2 topics are known.* 1 were asked for"),
        ({"features": "spectral+texture"}, "depend on more than one pixel"),
        ({"features": lambda pixels: pixels[..., :2]}, "depend on more than one pixel"),
        ({"topics": {"a": np.ones(7)}}, "7 values each, array has 80 bands"),
        ({"topic_spread": -1.0}, "known_spread"),
        ({"topics": "nowhere.csv"}, "no spectral library"),
    ],
)
def test_what_cannot_be_known_of_a_picture_is_refused(cube, options, said):
    given = {"n_topics": 3, "topics": {"tree": cube.endmembers[1]}} | options
    with pytest.raises(PmldaError, match=said):
        segment(cube.pixels, **given)


def test_a_colour_that_no_pixel_can_have_is_refused():
    with pytest.raises(PmldaError, match=r"'red' has values that no pixel of the picture can have"):
        segment(smooth_scene(32, 32, 2, 0.05, 0)[0], 2, topics={"red": [300.0, 0.0, 0.0]})


def test_the_program_says_in_one_line_what_is_wrong_with_a_library(files, tmp_path):
    short = tmp_path / "short.csv"
    short.write_text("wavelength (nm),tree\n400,0.1\n1000,0.3\n", encoding="utf-8")
    answer = run("segment", files / "cube.hdr", "--known", short, "--out", tmp_path / "maps")
    assert answer.returncode == 2
    assert "reach from 400 to 1000 nm, but the bands of cube from 400 to 2500 nm" in " ".join(answer.stderr.split())
    assert not (tmp_path / "maps").exists()
