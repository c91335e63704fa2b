"""A folder of photographs with labels, or none → sets of pictures in which the class of every pixel is known."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import DataError
from pmlda.evaluation.experiments.outcome import contents, need_files
from pmlda.evaluation.experiments.sonar_files import read_indices
from pmlda.images import read_image
from pmlda.types import Image, IntArray

VOID, GRASS, COW, SKY = 0, 2, 4, 7
TRUTH = "_gt.png"
# Of the folder that holds the sets: the paper's pictures, and more of the kind.
SETS = ("paper", "dev")


class Photograph(NamedTuple):
    """A picture, and the class of each of its pixels (H, W); VOID is where nobody knows."""

    image: Image
    truth: IntArray

    @property
    def name(self) -> str:
        return self.image.name


def read_sets(data: Path) -> dict[str, list[Photograph]]:
    """Name → pictures, of the folders `paper` and `dev`, or of the folder that was given if it has labels itself."""
    if any(data.glob("*" + TRUTH)):
        return {data.name: read_set(data)}
    found = {name: read_set(data / name) for name in SETS if any((data / name).glob("*" + TRUTH))}
    if not found:
        raise DataError(
            f"The folder {str(data)!r} has no labelled photograph. Expected NAME.png with NAME{TRUTH}, here or in its "
            f"folders {' and '.join(SETS)}. Found: {contents(data)}."
        )
    return found


def read_set(folder: Path) -> list[Photograph]:
    """All pictures of one folder, each with its labels."""
    stems = sorted({path.name.removesuffix(TRUTH).removesuffix(".png") for path in folder.glob("*.png")})
    need_files(folder, [stem + ending for stem in stems for ending in (".png", TRUTH)])
    pictures = [read_photograph(folder / f"{stem}.png", folder / (stem + TRUTH)) for stem in stems]
    check_class(pictures, folder)
    return pictures


def read_photograph(path: Path, truth_path: Path) -> Photograph:
    image, truth = read_image(path), read_indices(truth_path).astype(np.int64)
    height, width, n_bands = image.pixels.shape
    if truth.shape != (height, width):
        raise DataError(
            f"{str(path)!r} has {height} × {width} pixels, but its truth {truth_path.name!r} has "
            f"{truth.shape[0]} × {truth.shape[1]}. Expected the same."
        )
    if n_bands != 3:
        raise DataError(f"{str(path)!r} has {n_bands} band(s). Expected red, green and blue.")
    return Photograph(image, truth)


def check_class(pictures: list[Photograph], folder: Path) -> None:
    """Some pixels are of a cow and some are not: without both there is nothing to detect."""
    classes = np.unique(np.concatenate([np.unique(picture.truth) for picture in pictures]))
    known = [int(each) for each in classes if each != VOID]
    if COW not in known or len(known) < 2:
        raise DataError(
            f"The labels in {str(folder)!r} have the classes {', '.join(map(str, known)) or 'none'}. Expected {COW} "
            f"(cow) and others, such as {GRASS} (grass) and {SKY} (sky); {VOID} is void."
        )


# ── pictures that are made up ─────────────────────────────────────────────────────────────────────────────────────

# Classes of the layers, from back to front.
LAYERS = (SKY, GRASS, COW)
# Coats, in red, green and blue: brown, black, pale. Each animal has patches of two of them.
COATS = np.array([[0.45, 0.24, 0.12], [0.13, 0.12, 0.13], [0.62, 0.58, 0.54]])
MEADOW, HEAVEN = (0.36, 0.47, 0.16), (0.66, 0.76, 0.90)


def pasture(height: int, width: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(H, W, 3) an animal on grass under the sky, and the shares (H, W, 3) of LAYERS: colours mix as shares do.

    Grass and the animal's coat are photographs of grass and gravel, tinted, at most 256 pixels wide. Light differs from
    picture to picture and from place to place. Borders are soft: about 3 pixels for the animal, more for the horizon.

    >>> picture, shares = pasture(40, 60, 0)
    >>> picture.shape, bool(np.allclose(shares.sum(axis=2), 1.0, atol=1e-6))
    ((40, 60, 3), True)
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    row, column = np.indices((height, width), dtype=np.float64)
    hills = gaussian_filter(rng.normal(size=width), 0.1 * width)
    horizon = height * (rng.uniform(0.2, 0.35) + 0.03 * hills / hills.std())
    ground = gaussian_filter((row > horizon).astype(np.float64), 2.0)
    top, left = height * rng.uniform(0.5, 0.65), width * rng.uniform(0.35, 0.65)
    body = np.hypot((row - top) / (0.19 * height), (column - left) / (0.21 * width))
    body += 0.12 * _field(rng, row.shape, 0.06 * height)
    animal = gaussian_filter((body < 1.0).astype(np.float64), 1.2)
    shares = np.stack([(1.0 - animal) * (1.0 - ground), (1.0 - animal) * ground, animal], axis=-1)
    patches = _field(rng, row.shape, 0.07 * height)[..., None] > 0.0
    one, other = COATS[rng.permutation(len(COATS))[:2]]
    coat = np.where(patches, one, other)
    sky = np.array(HEAVEN) * (0.9 + 0.15 * row / height)[..., None]
    meadow = _tinted(rng, "grass", 0.7, np.array(MEADOW), row.shape)
    materials = [sky, meadow, _tinted(rng, "gravel", 0.5, coat, row.shape)]
    light = rng.uniform(0.8, 1.1) + 0.12 * _field(rng, row.shape, 0.25 * height)
    mixed = light[..., None] * sum(shares[..., [k]] * material for k, material in enumerate(materials))
    noisy = mixed + 0.01 * rng.normal(size=mixed.shape)
    return (255.0 * np.clip(noisy, 0.0, 1.0) + 0.5).astype(np.uint8), shares.astype(np.float32)


def make_set(count: int, height: int, width: int) -> list[Photograph]:
    """Pictures that are made up; the class of a pixel is the one with the largest share."""
    made = [(f"pasture_{seed}", *pasture(height, width, seed)) for seed in range(count)]
    classes = np.array(LAYERS)
    return [
        Photograph(read_image(pixels)._replace(name=name), classes[shares.argmax(axis=2)])
        for name, pixels, shares in made
    ]


def _field(rng: np.random.Generator, shape: tuple[int, ...], reach: float) -> NDArray[np.float64]:
    """(H, W) a smooth random field of spread 1."""
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(rng.normal(size=shape), reach)
    return np.asarray(field / field.std())


def _tinted(
    rng: np.random.Generator, texture: str, contrast: float, colour: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """(H, W, 3) a random part of one of scikit-image's textures at half its size, of this colour on average."""
    from skimage import data

    plane = getattr(data, texture)().reshape(256, 2, 256, 2).mean(axis=(1, 3))
    top, left = (rng.integers(size - wanted + 1) for size, wanted in zip(plane.shape, shape, strict=True))
    part = plane[top : top + shape[0], left : left + shape[1]]
    return np.asarray((1.0 + contrast * (part / part.mean() - 1.0))[..., None] * colour)
