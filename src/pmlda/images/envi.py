"""ENVI data file or its header → Content, without bad bands, with wavelengths as names."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.bands import UNITS
from pmlda.images.checks import check_size, require
from pmlda.images.choice import Choice
from pmlda.images.content import Content, Window, number_bands
from pmlda.images.gdal import read_raster

DATA_SUFFIXES = ("", ".img", ".dat", ".bil", ".bip", ".bsq", ".raw", ".bin")

INTERLEAVES = ("bsq", "bil", "bip")

# What the numbers of data types mean.
TYPES = {"1": "u1", "2": "i2", "3": "i4", "4": "f4", "5": "f8", "6": "c8", "9": "c16", "12": "u2", "13": "u4"}
TYPES |= {"14": "i8", "15": "u8"}


def read_envi(path: Path, choice: Choice, window: Window | None = None) -> Content:
    """An ENVI cube from either of its two files, or a window of it, without the bands that its header calls bad."""
    choice.require_single(path)
    data, header = find_pair(path)
    fields = _read_fields(header)
    n_bands = _check_complete(data, fields, window)[2]
    bad, notes = _bad_bands(listed(fields.get("bbl", "")), n_bands)
    require(len(bad) < n_bands, f"{data}: its header calls all {n_bands} bands bad (bbl). Correct the header.")
    # Bad bands are left out from the start: often they hold nothing but the no-data number.
    content = read_raster(data, None, "ENVI", bad, window).with_notes(*notes)
    names = _wavelengths(fields)
    if len(names) != n_bands:
        if content.bands:
            return content
        names = number_bands(n_bands)
    return content._replace(bands=tuple(name for band, name in enumerate(names) if band not in bad))


def envi_size(path: Path, choice: Choice) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a cube without its bad bands, from its header."""
    choice.require_single(path)
    data, header = find_pair(path)
    fields = _read_fields(header)
    height, width, n_bands = _check_complete(data, fields, (slice(0, 1), slice(0, 1)))
    bad, _ = _bad_bands(listed(fields.get("bbl", "")), n_bands)
    return (height, width, n_bands - len(bad)), np.dtype(TYPES[fields["data type"]])


def find_pair(path: Path) -> tuple[Path, Path]:
    """The data file and the header of a cube, from either of them."""
    data = _find_data(path) if path.suffix.lower() == ".hdr" else path
    header = find_header(data)
    if header is None:
        raise ImageError(f"{data} has no ENVI header next to it. Put {data.name}.hdr there.")
    return data, header


def find_header(data: Path) -> Path | None:
    """scene.img → scene.hdr or scene.img.hdr."""
    names = [data.with_suffix(suffix) for suffix in (".hdr", ".HDR")]
    names += [data.with_name(data.name + suffix) for suffix in (".hdr", ".HDR")]
    return next((one for one in names if one.is_file()), None)


def _find_data(header: Path) -> Path:
    """scene.hdr → scene, scene.img, … whichever is there; scene.img.hdr → scene.img."""
    base = header.with_suffix("")
    suffixes = [*DATA_SUFFIXES, *(suffix.upper() for suffix in DATA_SUFFIXES[1:])]
    for candidate in (base.with_name(base.name + suffix) for suffix in suffixes):
        if candidate.is_file():
            return candidate
    raise ImageError(f"{header} has no data file next to it. Put {base.name}.img or {base.name} there.")


def _read_fields(header: Path) -> dict[str, str]:
    return parse_fields(header.read_text(encoding="utf-8", errors="replace"), header)


def parse_fields(text: str, header: Path) -> dict[str, str]:
    """The text of a header as {field: value}; a value in braces can run over several lines."""
    require(text.lstrip().startswith("ENVI"), f"{header} is not an ENVI header: it does not start with ENVI.")
    found = re.findall(r"^[ \t]*([^=\n{}]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n]*)", text, flags=re.MULTILINE)
    return {name.lower(): value.strip() for name, value in found}


def listed(value: str) -> list[str]:
    """The items of a value in braces."""
    return [item.strip() for item in value.strip("{}").split(",") if item.strip()]


def _check_layout(data: Path, fields: dict[str, str]) -> None:
    """Refuse an order of numbers or bytes that is none: GDAL would take one of its own and mix the bands up."""
    interleave = fields.get("interleave", "bsq" if fields.get("bands") == "1" else "nothing")
    require(
        interleave.lower() in INTERLEAVES,
        f"The header of {data} has interleave = {interleave}, expected bsq, bil or bip. Correct the header.",
    )
    order = fields.get("byte order", "0")
    require(order in ("0", "1"), f"The header of {data} has byte order = {order}, expected 0 or 1. Correct the header.")


def _check_complete(data: Path, fields: dict[str, str], window: Window | None) -> tuple[int, int, int]:
    """(lines, samples, bands), if all are there. GDAL fills what is missing with zeros, which would look like data."""
    _check_layout(data, fields)
    try:
        shape = tuple(int(fields[name]) for name in ("lines", "samples", "bands"))
        offset = int(fields.get("header offset", "0"))
        expected = offset + math.prod(shape) * np.dtype(TYPES[fields["data type"]]).itemsize
    except (KeyError, ValueError):
        raise ImageError(f"The header of {data} lacks lines, samples, bands or data type. Export it again.") from None
    require(offset >= 0, f"The header of {data} has header offset = {offset}, expected 0 or more. Correct the header.")
    if window is None:
        check_size(shape, str(data))
    size, packed = data.stat().st_size, fields.get("file compression", "0") != "0"
    whole = packed or size >= expected
    require(whole, f"{data} is cut short: {size} bytes, but its header asks for {expected}. Get it again.")
    return shape[0], shape[1], shape[2]


def _wavelengths(fields: dict[str, str]) -> tuple[str, ...]:
    """Band names such as "450.5 nm"."""
    unit = fields.get("wavelength units", "")
    unit = UNITS.get(unit.lower(), "" if unit.lower() == "unknown" else unit)
    return tuple(f"{value} {unit}".strip() for value in listed(fields.get("wavelength", "")))


def _bad_bands(flags: list[str], n_bands: int) -> tuple[list[int], list[str]]:
    """Bands whose entry in the list of bad bands, `bbl`, is 0, and what to say about them."""
    if flags and len(flags) != n_bands:
        return [], [f"The list of bad bands (bbl) has {len(flags)} entries for {n_bands} bands and was not used."]
    bad = [band for band, flag in enumerate(flags) if float(flag) == 0]
    return bad, [f"{len(bad)} of {n_bands} bands dropped, which the header calls bad (bbl)."] if bad else []
