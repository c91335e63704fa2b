"""Spectral libraries: a CSV or an ENVI file, or {name: spectrum} → spectra of materials, at the bands of a picture.

A CSV has one row for each wavelength and one column for each material, as plots and spreadsheets export spectra. The
first column is headed "wavelength", perhaps with its unit, or "band" where only the order of the bands is known.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import ImageError, InputError, MissingFileError
from pmlda.images.bands import IN_NANOMETRES, LARGEST_MICROMETRES, UNITS, wavelengths_of
from pmlda.images.checks import require
from pmlda.images.envi import TYPES, find_header, listed, parse_fields
from pmlda.storage.tables import read_small
from pmlda.types import FloatArray, IntArray
from pmlda.validate import brief

# A hundred materials with a thousand wavelengths have some 1 MB as text. There are no more topics than materials.
MOST_BYTES, MOST_HEADER_BYTES, MOST_MATERIALS = 2**26, 2**22, 255
# Entries of a library that topics are compared with: those of geologists have thousands.
MOST_ENTRIES = 10_000
# Headers write wavelengths with a few digits: libraries may begin and end by so much, relative, after and before them.
ROUNDING = 1e-4
# Libraries write numbers such as -1.23e34 where nothing was measured.
LARGEST = 1e30


class Spectra(NamedTuple):
    """Spectra of materials.

    names : (M,)
    spectra : (M, B)
    wavelengths : (B,) ascending, in nanometres; None if they are not known
    """

    names: tuple[str, ...]
    spectra: FloatArray
    wavelengths: FloatArray | None = None

    def at_bands(self, bands: Sequence[str], n_bands: int, whose: str, source: str) -> tuple[IntArray, "Spectra"]:
        """Which bands of a picture lie within the wavelengths, and the spectra there: linearly between wavelengths.

        Where either has no wavelengths, values belong to the bands in their order.
        whose, source : of the spectra and of the bands, for the error
        """
        wanted, at = wavelengths_of(bands) if len(bands) == n_bands else None, self.wavelengths
        if wanted is None or at is None:
            n_values = self.spectra.shape[1]
            require(
                n_values == n_bands,
                f"The spectra of {whose} have {n_values} values each, {source} has {n_bands} bands, and there are no "
                f"wavelengths of {source if wanted is None else whose} to match them by. Give one value for each band.",
            )
            return np.arange(n_bands), self._replace(wavelengths=None)
        slack = ROUNDING * wanted
        used = np.flatnonzero((wanted >= at[0] - slack) & (wanted <= at[-1] + slack))
        there = wanted[used]
        return used, Spectra(self.names, np.array([np.interp(there, at, each) for each in self.spectra]), there)

    def reach(self, bands: Sequence[str], source: str) -> str:
        """From where to where the spectra and the bands of a picture reach, for the error where they do not overlap."""
        assert self.wavelengths is not None
        wanted = wavelengths_of(bands)
        assert wanted is not None
        return (
            f"from {self.wavelengths[0]:g} to {self.wavelengths[-1]:g} nm, but the bands of {source} from "
            f"{wanted.min():g} to {wanted.max():g} nm"
        )


def as_spectra(given: Any, most: int = MOST_MATERIALS) -> Spectra:
    """What is known of topics: the path of a library, or {name: values of the bands}. most : how many are allowed"""
    if isinstance(given, Spectra):
        return given
    if isinstance(given, str | os.PathLike):
        return read_library(given, most)
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"Known topics are {brief(given)}: give the path of a spectral library, or {{name: values}}.")
    for name, values in given.items():
        array = np.asarray(values)
        right = isinstance(name, str) and array.dtype.kind in "biuf" and array.ndim == 1
        if not right:
            raise InputError(f"The known topic {brief(name)} is {brief(values)}: give a name, and one number a band.")
    lengths = sorted({len(values) for values in given.values()})
    if len(lengths) > 1:
        raise InputError(f"Known topics have {lengths} values. Give as many for each: one for each band.")
    rows = np.array([np.asarray(values, dtype=np.float64) for values in given.values()])
    return _checked(tuple(given), rows, None, "Known topics", most)


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def read_library(path: str | os.PathLike[str], most: int = MOST_MATERIALS) -> Spectra:
    """All spectra of a library, a CSV or an ENVI file (.sli with its .hdr)."""
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"There is no spectral library {str(path)!r}.")
    try:
        if path.suffix.lower() in (".sli", ".hdr"):
            return _read_envi(path, most)
        return _read_csv(path, most)
    except OSError as error:
        raise ImageError(f"The spectral library {str(path)!r} cannot be read: {error.strerror}.") from None


def _read_csv(path: Path, most: int) -> Spectra:
    """One row for each wavelength, one column for each material; comma, semicolon or tab between them."""
    name = f"The spectral library {str(path)!r}"
    try:
        text = read_small(path, MOST_BYTES, ImageError).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImageError(f"{name} is neither a text nor an ENVI file (.sli). Export it as CSV.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    require(len(lines) > 1, f"{name} has no rows. Give a header, then a row for each wavelength.")
    separator = max(",;\t", key=lines[0].count)
    try:
        rows = list(csv.reader(lines, delimiter=separator))
    except csv.Error:
        raise ImageError(f"{name} is no table of commas, semicolons or tabs. Export it as CSV.") from None
    head, *rest = [cell.strip() for cell in rows[0]]
    first = re.fullmatch(r"(band|wavelength)s?[^a-zµμ]*([a-zµμ]*)[^a-zµμ]*", head.lower())
    require(
        first is not None and bool(rest),
        f"{name} begins with {brief(head)}. Give a first column 'wavelength (nm)', 'wavelength (µm)' or 'band', then a "
        "column for each material.",
    )
    widths = {len(row) for row in rows}
    require(len(widths) == 1, f"{name} has rows of {min(widths)} to {max(widths)} cells. Give all rows the same.")
    try:
        numbers = np.array([[float(cell) for cell in row] for row in rows[1:]])
    except ValueError:
        raise ImageError(f"{name} has cells that are no numbers. Give one for each wavelength and material.") from None
    assert first is not None
    if first[1] == "band":
        return _checked(tuple(rest), numbers[:, 1:].T, None, name, most)
    return _checked(tuple(rest), numbers[:, 1:].T, _nanometres(numbers[:, 0], first[2], name), name, most)


def _read_envi(path: Path, most: int) -> Spectra:
    """An ENVI spectral library: spectra one after another, described by its header."""
    data = path.with_suffix("") if path.suffix.lower() == ".hdr" else path
    if data != path and not data.is_file():
        data = next((each for each in (path.with_suffix(".sli"), path.with_suffix(".SLI")) if each.is_file()), data)
    header, name = find_header(data), f"The spectral library {str(data)!r}"
    if not data.is_file() or header is None:
        raise ImageError(f"{name} is not complete. Put {data.stem}.sli and {data.stem}.hdr there.")
    fields = parse_fields(read_small(header, MOST_HEADER_BYTES, ImageError).decode("utf-8", "replace"), header)
    kind = fields.get("file type", "nothing")
    require(
        kind.lower() == "envi spectral library",
        f"{name} has file type = {kind}, expected ENVI Spectral Library. A picture is no library.",
    )
    try:
        n_spectra, n_values = int(fields["lines"]), int(fields["samples"])
        offset, order = int(fields.get("header offset", "0")), {"0": "<", "1": ">"}[fields.get("byte order", "0")]
        dtype = np.dtype(order + TYPES[fields["data type"]])
    except (KeyError, ValueError):
        raise ImageError(f"The header of {str(data)!r} lacks lines, samples or data type. Export it again.") from None
    content, expected = read_small(data, MOST_BYTES, ImageError), offset + n_spectra * n_values * dtype.itemsize
    require(
        min(n_spectra, n_values, offset + 1) > 0 and len(content) == expected and dtype.kind in "iuf",
        f"{name} has {len(content)} bytes, but its header asks for {n_spectra} spectra of {n_values} real numbers in "
        f"{expected}. Get it again.",
    )
    spectra = np.frombuffer(content, dtype, n_spectra * n_values, offset).reshape(n_spectra, n_values)
    names = tuple(listed(fields.get("spectra names", ""))) or tuple(f"spectrum {k + 1}" for k in range(n_spectra))
    try:
        at = np.array([float(each) for each in listed(fields.get("wavelength", ""))])
    except ValueError:
        raise ImageError(f"The header of {str(data)!r} has wavelengths that are no numbers. Correct it.") from None
    require(
        len(names) == n_spectra and len(at) in (0, n_values),
        f"{name} has {n_spectra} spectra of {n_values} values, but {len(names)} names and {len(at)} wavelengths.",
    )
    unit = fields.get("wavelength units", "")
    return _checked(names, spectra.astype(np.float64), _nanometres(at, unit, name) if len(at) else None, name, most)


def _nanometres(values: FloatArray, unit: str, name: str) -> FloatArray:
    """Wavelengths in nanometres; without a unit, what their size says."""
    if unit.lower() in ("", "unknown"):
        unit = "µm" if np.nanmax(values) < LARGEST_MICROMETRES else "nm"
    known = UNITS.get(unit.lower().replace("μ", "µ"))  # the letter mu, and the sign micro
    require(known in IN_NANOMETRES, f"{name} has wavelengths in {brief(unit)}, expected nm or µm.")
    return values * IN_NANOMETRES[str(known)]


def _checked(names: tuple[str, ...], spectra: FloatArray, at: FloatArray | None, source: str, most: int) -> Spectra:
    """Spectra with wavelengths that ascend, of materials that can be told apart."""
    require(len(names) <= most, f"{source} has {len(names)} spectra, more than {most}.")
    seen: set[str] = set()
    for name in names:
        require(bool(name.strip()) and name not in seen, f"{source} has the name {brief(name)} twice, or none.")
        seen.add(name)
    bad = ~(np.isfinite(spectra) & (np.abs(spectra) < LARGEST))
    require(
        not bad.any() and spectra.shape[1] > 0,
        f"{source} has no value for {brief(names[int(bad.any(axis=1).argmax())])} at {int(bad.sum())} place(s). Leave "
        "out what was not measured.",
    )
    if at is None:
        return Spectra(names, spectra)
    order = np.argsort(at, kind="stable")
    ascending = bool(np.isfinite(at).all() and (at > 0).all() and (np.diff(at[order]) > 0).all())
    require(ascending, f"{source} has wavelengths that are not positive, or that occur twice. Give each once.")
    return Spectra(names, spectra[:, order], at[order])
