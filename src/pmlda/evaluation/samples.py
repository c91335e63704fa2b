"""`pmlda simulate`: made-up pictures of several fields, in the files that people of each field have.

A sample is a picture, its true memberships, and what belongs to it, such as the library of its spectra.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.evaluation.scenes import BOTTOMS, cells, photon_counts, seabed, smooth_scene, speckle, tissue
from pmlda.images import write_maps
from pmlda.validate import require

# Pixels of spectra: their side in metres, the corner of the picture in UTM zone 33 north, and the number without data.
GROUND, CORNER, NO_DATA = 2.0, (400_000.0, 5_800_000.0), -9999.0
FIRST_BAND, LAST_BAND = 400.0, 1000.0  # nanometres
# Side of a square of plastic, a material of which there is too little for a topic, and of columns without data, as
# shares of the side of the picture.
PLASTIC, MARGIN = 0.08, 0.05
# A bright object on the seabed, and behind it the ground that no sound reaches.
SHADOW_LEVEL, SHADOW_LOOKS = 4.0, 1.0
# Fields of one bottom reach 30 pixels, whatever the size of the picture.
SMALLEST_SEABED = 64


class Place(NamedTuple):
    """Where the files of one sample go: the folder, and what their names end in."""

    folder: Path
    number: str = ""

    def file(self, name: str, suffix: str) -> Path:
        """picture.png, or picture-2.png of several."""
        return self.folder / f"{name}{self.number}{suffix}"

    def write_truth(self, truth: ArrayLike, names: Sequence[str], valid: NDArray[np.bool_] | None = None) -> None:
        """True memberships (H, W, K); NaN where nothing can be known."""
        write_maps(self.file("truth", ".tif"), truth, names, valid=valid)


def write_colours(place: Place, size: int, seed: int, n_topics: int = 3, noise: float = 0.05) -> Path:
    """Smoothly mixed colours, picture.png."""
    from PIL import Image as Pillow

    picture, truth = smooth_scene(size, size, n_topics, noise, seed)
    Pillow.fromarray(picture).save(path := place.file("picture", ".png"))
    place.write_truth(truth, [f"topic {k + 1}" for k in range(n_topics)])
    return path


def write_seabed(place: Place, size: int, seed: int) -> Path:
    """Sonar intensities with ripples that fade and an object that casts a shadow, picture.png."""
    from PIL import Image as Pillow

    require(size >= SMALLEST_SEABED, f"A seabed of {size} pixels is too small: give --size {SMALLEST_SEABED} or more.")
    picture, truth = seabed(size, seed)
    rng = np.random.default_rng([seed, 1])
    side = max(size // 10, 2)
    row, column = rng.integers(size // 8, size // 2, 2)
    rows, shadow = slice(row, row + side), slice(column + side, column + 4 * side)
    dark = SHADOW_LEVEL * rng.gamma(SHADOW_LOOKS, 1.0 / SHADOW_LOOKS, picture[rows, shadow].shape)
    picture[rows, shadow] = dark.astype(np.uint8)
    picture[rows, column : column + side] = 255
    valid = np.ones(picture.shape, bool)
    valid[rows, column : column + 4 * side] = False
    Pillow.fromarray(picture).save(path := place.file("picture", ".png"))
    place.write_truth(truth, BOTTOMS, valid)
    return path


def write_speckle(place: Place, size: int, seed: int) -> Path:
    """Radar intensities of three polarisations with speckle of four looks, picture.tif."""
    picture, truth = speckle(size, 4.0, "harmonic", seed)
    write_maps(path := place.file("picture", ".tif"), picture, ("HH", "HV", "VV"))
    place.write_truth(truth, ("water", "forest", "town"))
    return path


def write_photons(place: Place, size: int, seed: int) -> Path:
    """Few photons of three dyes in four channels, picture.ome.tif."""
    picture, truth = photon_counts(size, 5.0, "arithmetic", seed)
    path = place.file("picture", ".ome.tif")
    _write_ome(path, picture.transpose(2, 0, 1), "CYX", ("blue", "green", "yellow", "red"))
    place.write_truth(truth, ("DAPI", "GFP", "Cy5"))
    return path


def write_cells(place: Place, size: int, seed: int) -> Path:
    """A stack of five slices of cells in four channels, from a 12-bit camera, picture.ome.tif."""
    stack, truth = cells(size, seed)
    path = place.file("picture", ".ome.tif")
    _write_ome(path, stack, "ZCYX", ("DAPI", "GFP", "mCherry", "Cy5"), micrometres=0.2)
    place.write_truth(truth, ("background", "cytoplasm", "nucleus"))
    return path


def write_tissue(place: Place, size: int, seed: int) -> Path:
    """Counts of 40 genes in a tissue of three kinds of cells, picture.ome.tif with genes as channels."""
    counts, truth, genes = tissue(size, seed)
    path = place.file("picture", ".ome.tif")
    _write_ome(path, counts.transpose(2, 0, 1), "CYX", genes, micrometres=50.0)
    place.write_truth(truth, ("cortex", "fibre", "vessel"))
    return path


def write_spectra(place: Place, size: int, seed: int) -> Path:
    """A hyperspectral picture with light and shade, picture.hdr and picture.img (ENVI), and library.csv."""
    from pmlda.evaluation.experiments.spectra import made_up_cube

    cube = made_up_cube(size, "shade", seed)
    wavelengths = np.linspace(FIRST_BAND, LAST_BAND, cube.pixels.shape[2])
    plastic = cube.endmembers.max() * (0.55 + 0.4 * np.sin(wavelengths / 45.0))
    pixels = cube.pixels.copy()
    side, margin = max(round(PLASTIC * size), 2), max(round(MARGIN * size), 1)
    valid = np.ones((size, size), bool)
    valid[size // 2 : size // 2 + side, size // 2 : size // 2 + side] = False
    pixels[~valid] = plastic
    valid[:, :margin] = False
    pixels[:, :margin] = NO_DATA
    path = place.file("picture", ".hdr")
    pixels.transpose(2, 0, 1).astype("<f4").tofile(path.with_suffix(".img"))
    path.write_text(_envi_header(pixels.shape, wavelengths), encoding="ascii")
    spectra = dict(zip(cube.materials, cube.endmembers, strict=True)) | {"plastic": plastic}
    _write_library(place.file("library", ".csv"), wavelengths, spectra)
    place.write_truth(cube.abundances, cube.materials, valid)
    return path


KINDS: dict[str, Callable[..., Path]] = {
    "colours": write_colours,
    "seabed": write_seabed,
    "speckle": write_speckle,
    "photons": write_photons,
    "cells": write_cells,
    "spectra": write_spectra,
    "tissue": write_tissue,
}


def _write_ome(
    path: Path, pixels: NDArray[np.integer], axes: str, channels: Sequence[str], *, micrometres: float | None = None
) -> None:
    """Whole numbers with named channels, and the side of a pixel where it is known."""
    from tifffile import imwrite

    about: dict[str, object] = {"axes": axes, "Channel": {"Name": list(channels)}}
    if micrometres is not None:
        for axis in "XY":
            about |= {f"PhysicalSize{axis}": micrometres, f"PhysicalSize{axis}Unit": "µm"}
    imwrite(path, pixels, ome=True, metadata=about, photometric="minisblack", compression="zlib")


def _envi_header(shape: tuple[int, ...], wavelengths: NDArray[np.float64]) -> str:
    """The header of a cube (H, W, B) of 32-bit numbers, band after band, on a map."""
    height, width, n_bands = shape
    west, north = CORNER
    lines = ["ENVI", f"samples = {width}", f"lines = {height}", f"bands = {n_bands}", "header offset = 0"]
    lines += ["file type = ENVI Standard", "data type = 4", "interleave = bsq", "byte order = 0"]
    lines.append(f"map info = {{UTM, 1, 1, {west}, {north}, {GROUND}, {GROUND}, 33, North, WGS-84, units=Meters}}")
    lines += ["wavelength units = Nanometers", f"wavelength = {{{', '.join(f'{each:.1f}' for each in wavelengths)}}}"]
    return "\n".join(lines) + "\n"


def _write_library(path: Path, wavelengths: NDArray[np.float64], spectra: dict[str, NDArray[np.float64]]) -> None:
    """One row for each wavelength, one column for each material."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["wavelength (nm)", *spectra])
        for row in zip(wavelengths, *spectra.values(), strict=True):
            table.writerow([f"{value:.6g}" for value in row])
