"""Spectral libraries, written here in small → spectra at the bands of a picture, or one clear line."""

import os

import numpy as np
import pytest
import xarray as xr

from pmlda import segment
from pmlda.errors import PmldaError
from pmlda.images.library import Spectra, as_spectra, read_library, wavelengths_of

AT = np.array([400.0, 500.0, 700.0, 1000.0])
WATER, SOIL = np.array([4.0, 3.0, 1.0, 0.0]), np.array([1.0, 2.0, 4.0, 7.0])


def write_csv(path, head="wavelength (nm),water,soil", at=AT, between=","):
    rows = zip(at, WATER, SOIL, strict=True)
    path.write_text("\n".join([head, *(between.join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def write_sli(path, *lines, dtype="<f4", kind=4, order=0, spectra=(WATER, SOIL)):
    """An ENVI spectral library with a header written by hand."""
    values = np.array(spectra).astype(dtype)
    path.write_bytes(values.tobytes())
    header = ["ENVI", f"samples = {values.shape[1]}", f"lines = {len(values)}", "bands = 1", "header offset = 0"]
    header += ["file type = ENVI Spectral Library", f"data type = {kind}", "interleave = bsq", f"byte order = {order}"]
    path.with_suffix(".hdr").write_text("\n".join([*header, *lines]) + "\n", encoding="utf-8")
    return path


NAMED = ("spectra names = {water,", " soil}")
IN_MICROMETRES = ("wavelength units = Micrometers", "wavelength = {0.4, 0.5,", " 0.7, 1.0}")


def check(found):
    assert found.names == ("water", "soil")
    np.testing.assert_allclose(found.wavelengths, AT)
    np.testing.assert_array_equal(found.spectra, [WATER, SOIL])


@pytest.mark.parametrize(
    ("head", "factor", "between"),
    [
        ("wavelength (nm),water,soil", 1.0, ","),
        ("Wavelength [µm];water;soil", 1e-3, ";"),
        ("wavelength_um\twater\tsoil", 1e-3, "\t"),
        ("wavelengths,water,soil", 1.0, ","),
        ("\ufeffwavelength, water , soil", 1e-3, ","),
    ],
)
def test_a_csv_has_a_column_for_each_material(tmp_path, head, factor, between):
    """Units are in the head; without one, their size tells."""
    check(read_library(write_csv(tmp_path / "library.csv", head, AT * factor, between)))


@pytest.mark.parametrize(("dtype", "kind", "order"), [("<f4", 4, 0), (">f8", 5, 1), ("<i2", 2, 0), (">u2", 12, 1)])
@pytest.mark.parametrize("given", ["library.sli", "library.hdr"])
def test_an_envi_library_is_read_from_either_file(tmp_path, given, dtype, kind, order):
    write_sli(tmp_path / "library.sli", *NAMED, *IN_MICROMETRES, dtype=dtype, kind=kind, order=order)
    check(read_library(tmp_path / given))


def test_wavelengths_in_any_order_are_sorted(tmp_path):
    path = tmp_path / "library.csv"
    path.write_text("wavelength (nm),water\n700,1\n400,4\n500,3\n", encoding="utf-8")
    found = read_library(path)
    assert found.wavelengths.tolist() == [400.0, 500.0, 700.0]
    assert found.spectra.tolist() == [[4.0, 3.0, 1.0]]


def test_spectra_are_found_at_the_bands_of_a_picture(tmp_path):
    library = read_library(write_csv(tmp_path / "library.csv"))
    used, at = library.at_bands(("450 nm", "0.6 µm", "1000.00001 nm", "1100 nm"), 4, "it", "cube")
    assert used.tolist() == [0, 1, 2]
    np.testing.assert_allclose(at.spectra, [[3.5, 2.0, 0.0], [1.5, 3.0, 7.0]])
    _, alike = library.at_bands(("a", "b", "c", "d"), 4, "it", "cube")
    np.testing.assert_array_equal(alike.spectra, library.spectra)
    bands = ("450 nm", "500 nm", "550 nm", "600 nm")
    _, without = as_spectra({"water": WATER}).at_bands(bands, 4, "it", "cube")
    np.testing.assert_array_equal(without.spectra, [WATER])
    by_band = read_library(write_csv(tmp_path / "bands.csv", "band,water,soil", [1, 2, 3, 4]))
    assert by_band.wavelengths is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            Spectra(("soil",), np.array([SOIL]), AT + 1000.0),
            "reach from 1400 to 2000 nm, but the bands of array from 400",
        ),
        (Spectra(("soil",), np.array([SOIL]), AT + 10.0), "reach from 410 to 1010 nm, but the bands of array from 400"),
        (
            Spectra(("soil",), np.array([SOIL[:3]])),
            "have 3 values each, array has 4 bands, and there are no wavelengths of known topics",
        ),
    ],
)
def test_known_topics_that_do_not_cover_the_bands_are_refused(given, said):
    cube = np.random.default_rng(0).random((8, 8, 4))
    picture = xr.DataArray(cube, dims=("y", "x", "band"), coords={"band": ("band", AT, {"units": "nm"})})
    with pytest.raises(PmldaError, match=said):
        segment(picture, 2, topics=given)


def test_names_of_bands_are_wavelengths_only_with_a_unit():
    assert wavelengths_of(("1", "2", "3")) is None
    assert wavelengths_of(("1.2.3 nm",)) is None
    assert wavelengths_of(()) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        ("material,400,500\nwater,1,2\n", "begins with 'material'"),
        ("wavelength (nm)\n400\n", "begins with 'wavelength"),
        ("wavelength (nm),a\n400,1,2\n", "rows of 2 to 3 cells"),
        ("wavelength (nm),a\n400,\n", "no numbers"),
        ("wavelength (nm),a\n400,nan\n", "no value for 'a' at 1 place"),
        ("wavelength (nm),a\n400,-1.23e34\n", "no value for 'a' at 1 place"),
        ("wavelength (nm),a\n400,1\n400,2\n", "occur twice"),
        ("wavelength (nm),a\n-400,1\n", "not positive"),
        ("wavelength (furlong),a\n400,1\n", "wavelengths in 'furlong'"),
        ("wavelength (nm),a,a\n400,1,2\n", "name 'a' twice"),
        (
            "wavelength (nm)," + ",".join(f"m{i}" for i in range(300)) + "\n400" + ",1" * 300,
            "300 spectra, more than 255",
        ),
    ],
)
def test_a_csv_that_is_no_library_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "library.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PmldaError, match=said) as error:
        read_library(path)
    assert "\n" not in str(error.value)
    assert "library.csv" in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("Spectral Library", "Standard"), "file type = ENVI Standard"),
        (lambda text: text.replace("lines = 2", "lines = 3"), "32 bytes, but its header asks for 3 spectra"),
        (lambda text: text.replace("lines = 2", "lines = many"), "lacks lines, samples or data type"),
        (lambda text: text.replace("data type = 4", "data type = 6"), "real numbers"),
        (lambda text: text.replace(" soil", " soil, tree"), "3 names and 4 wavelengths"),
        (lambda text: text.replace("0.7", "far"), "wavelengths that are no numbers"),
        (lambda text: text.replace("ENVI\n", "PNG\n", 1), "not an ENVI header"),
    ],
)
def test_an_envi_library_that_is_none_is_refused_in_one_line(tmp_path, change, said):
    path = write_sli(tmp_path / "library.sli", *NAMED, *IN_MICROMETRES)
    header = path.with_suffix(".hdr")
    header.write_text(change(header.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(PmldaError, match=said) as error:
        read_library(path)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_or_no_files_are_refused(tmp_path):
    with pytest.raises(PmldaError, match="no spectral library"):
        read_library(tmp_path / "library.csv")
    write_sli(tmp_path / "library.sli", *NAMED).with_suffix(".hdr").unlink()
    with pytest.raises(PmldaError, match="not complete"):
        read_library(tmp_path / "library.sli")
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("pipe.csv", "."):
        with pytest.raises(PmldaError, match=r"regular file|cannot be read"):
            read_library(tmp_path / name)


@pytest.mark.parametrize(
    "given", [{}, {"water": "wet"}, {1: WATER}, {"a": WATER, "b": WATER[:2]}, 7, {"a": [1.0, np.nan]}]
)
def test_what_is_no_table_of_spectra_is_refused(given):
    with pytest.raises(PmldaError, match=r"[Kk]nown topic"):
        as_spectra(given)
