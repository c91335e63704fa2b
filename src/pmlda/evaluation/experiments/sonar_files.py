"""A folder with sonar pictures → pictures, and where each bottom is known to be."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from pmlda.errors import DataError
from pmlda.evaluation.experiments.outcome import contents, need_files, read_arrays

Region = NDArray[np.bool_]

SIDESCAN_CLASSES = {0: "flat", 1: "rock", 2: "ripple"}
# Rectangles under other names; None is for what is no bottom, or between two.
RENAMED = {"dark_flat": "flat", "bright_flat": "bright", "bright_ridge": "bright", "bumps": "rough"}
LEFT_OUT = ("transition", "shadow_object")


class Labelled(NamedTuple):
    """A picture (H, W), and for each bottom where it is (H, W); pixels of no region do not count."""

    name: str
    pixels: NDArray[Any]
    regions: dict[str, Region]
    sonar: str = "synthetic aperture"

    @property
    def counted(self) -> Region:
        return np.asarray(np.any(list(self.regions.values()), axis=0))

    @property
    def bottoms(self) -> list[str]:
        """Those that are somewhere in the picture."""
        return [name for name, region in self.regions.items() if region.any()]


def read_folder(data: Path) -> list[Labelled]:
    """All pictures of the folder `sonar`, or of the folder above it, in which two bottoms or more are labelled."""
    pictures = [
        picture
        for folder in (data, data / "sonar", data / "authors")
        for picture in (*read_snippets(folder / "sas"), *read_strips(folder / "sidescan"), *read_authors(folder))
    ]
    if not pictures:
        raise DataError(
            f"The folder {str(data)!r} has no labelled sonar picture. Expected, here or in its folders sonar and "
            "authors: sas/weak_regions.json with sas/dev/NAME.png, sidescan/dev/NAME.png with NAME_gt.png, or "
            f"sas_hf.npz with sas_hf_weak_regions.json. Found: {contents(data)}."
        )
    mixed = [picture for picture in pictures if len(picture.bottoms) > 1]
    if not mixed:
        found = "; ".join(f"{picture.name}: {', '.join(picture.bottoms) or 'none'}" for picture in pictures[:8])
        raise DataError(
            f"No sonar picture in {str(data)!r} has labels of more than one bottom, so there is nothing to tell apart. "
            f"Expected two of {', '.join(SIDESCAN_CLASSES.values())} in one picture. Found: {found}."
        )
    return mixed


def read_strips(folder: Path) -> list[Labelled]:
    """Sidescan strips: the index of NAME_gt.png is the class."""
    pictures = []
    names = sorted({path.with_name(path.stem.removesuffix("_gt")) for path in folder.glob("*/*.png")})
    for name in names:
        path, truth_path = (name.with_name(name.name + ending) for ending in (".png", "_gt.png"))
        need_files(name.parent, [path.name, truth_path.name])
        pixels, truth = read_indices(path), read_indices(truth_path)
        if pixels.shape != truth.shape:
            raise DataError(f"{str(path)!r} has shape {pixels.shape}, but its truth {truth.shape}. Expected the same.")
        regions = {name: truth == index for index, name in SIDESCAN_CLASSES.items()}
        pictures.append(Labelled(path.stem, pixels, regions, "side scan"))
    return pictures


def read_snippets(folder: Path) -> list[Labelled]:
    """Synthetic aperture sonar: rectangles drawn by eye in weak_regions.json."""
    pictures = []
    if folder.is_dir():
        need_files(folder, ["weak_regions.json"])
    for name, rectangles in _read_rectangles(folder / "weak_regions.json").items():
        paths = sorted(folder.glob(f"*/{name}.png"))
        if not paths:
            raise DataError(f"{str(folder / 'weak_regions.json')!r} names {name!r}, but there is no */{name}.png.")
        pixels = read_indices(paths[0])
        pictures.append(Labelled(name, pixels, _fill(rectangles, pixels.shape)))
    return pictures


def read_authors(folder: Path) -> list[Labelled]:
    """The authors' own sonar picture."""
    path = folder / "sas_hf.npz"
    rectangles = _read_rectangles(folder / "sas_hf_weak_regions.json")
    if not path.is_file() or "sas_hf" not in rectangles:
        return []
    (pixels,) = read_arrays(path, ["image"])
    return [Labelled("sas_hf", pixels, _fill(rectangles["sas_hf"], pixels.shape))]


def read_indices(path: Path) -> NDArray[np.uint8]:
    """Grey levels, or the indices of a palette, as they are in the file."""
    try:
        with PillowImage.open(path) as picture:
            values = np.asarray(picture)
    except (OSError, SyntaxError) as error:
        raise DataError(f"{str(path)!r} cannot be read as a picture ({error}). Expected PNG.") from None
    if values.ndim != 2:
        raise DataError(f"{str(path)!r} has shape {values.shape}. Expected one number for each pixel.")
    return values


def _read_rectangles(path: Path) -> dict[str, dict[str, list[list[int]]]]:
    """Picture → region → [row0, row1, column0, column1], half open."""
    if not path.is_file():
        return {}
    try:
        regions: dict[str, dict[str, list[list[int]]]] = json.loads(path.read_text(encoding="utf-8"))["regions"]
    except (ValueError, LookupError, TypeError):
        raise DataError(
            f'{str(path)!r} cannot be read. Expected JSON with "regions": name → region → rectangles.'
        ) from None
    return regions


def _fill(rectangles: dict[str, list[list[int]]], shape: tuple[int, ...]) -> dict[str, Region]:
    regions: dict[str, Region] = {}
    for given, boxes in rectangles.items():
        if given in LEFT_OUT:
            continue
        region = regions.setdefault(RENAMED.get(given, given), np.zeros(shape, bool))
        for box in boxes:
            if len(box) != 4 or not (0 <= box[0] < box[1] <= shape[0] and 0 <= box[2] < box[3] <= shape[1]):
                raise DataError(
                    f"Region {given!r} has the rectangle {box}. Expected [row, end row, column, end column] inside the "
                    f"picture, which has shape {shape}."
                )
            region[box[0] : box[1], box[2] : box[3]] = True
    return regions
