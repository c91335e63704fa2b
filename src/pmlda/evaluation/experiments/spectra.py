"""Pictures of many bands whose pixels mix materials: read from a folder or made up."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.decomposition import PCA

from pmlda.errors import DataError
from pmlda.evaluation.experiments.outcome import inner, need_files, read_arrays
from pmlda.evaluation.scenes import equal_shares, smooth_field
from pmlda.features.spectral import to_form
from pmlda.types import FloatArray

FILES = {"Samson": "samson.npz", "Moffett": "moffett.npz"}
ARRAYS = ["cube", "abundances", "endmembers", "names"]
# Abundances in files may miss a sum of one by rounding.
ROUNDING = 1e-3


class Cube(NamedTuple):
    """pixels (H, W, B), abundances (H, W, K) that sum to one, endmembers (K, B) and the names of the materials."""

    name: str
    pixels: FloatArray
    abundances: FloatArray
    endmembers: FloatArray
    materials: tuple[str, ...]

    @property
    def spectra(self) -> FloatArray:
        """(N, B)."""
        return self.pixels.reshape(-1, self.pixels.shape[2])


def principal_axes(spectra: FloatArray, n_materials: int) -> PCA:
    """The K − 1 principal components: K materials that mix span no more dimensions."""
    return PCA(n_materials - 1, svd_solver="covariance_eigh").fit(spectra)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_cubes(data: Path) -> list[Cube]:
    """Both pictures of the folder `hsi`, or of the one above it."""
    paths = need_files(inner(data, "hsi"), list(FILES.values()))
    return [read_cube(path, name) for name, path in zip(FILES, paths, strict=True)]


def read_cube(path: Path, name: str) -> Cube:
    """One picture, with arrays that fit each other."""
    pixels, truth, endmembers, names = read_arrays(path, ARRAYS)
    found = f"cube {pixels.shape}, abundances {truth.shape}, endmembers {endmembers.shape}, names {names.shape}"
    fit = (
        pixels.ndim == truth.ndim == 3
        and truth.shape == (*pixels.shape[:2], len(names))
        and endmembers.shape == (len(names), pixels.shape[2])
    )
    if not fit or len(names) < 2:
        raise DataError(
            f"{str(path)!r} has arrays that do not fit each other: {found}. Expected cube (H, W, bands), abundances "
            "(H, W, K), endmembers (K, bands) and names (K,)."
        )
    if not all(array.dtype.kind in "iuf" and np.isfinite(array).all() for array in (pixels, truth, endmembers)):
        raise DataError(f"{str(path)!r} has NaN, infinity or no numbers in cube, abundances or endmembers.")
    if np.abs(truth.sum(axis=2) - 1.0).max() > ROUNDING or truth.min() < -ROUNDING:
        raise DataError(f"{str(path)!r} has abundances that are negative or do not sum to 1 in every pixel.")
    pixels, truth, endmembers = (array.astype(np.float64) for array in (pixels, truth, endmembers))
    return Cube(name, pixels, truth, endmembers, tuple(str(each) for each in names))


# ── made up ───────────────────────────────────────────────────────────────────────────────────────────────────────

MATERIALS = ("soil", "tree", "water")
N_BANDS = 80
NOISE = 0.004
# So that four pixels in ten have less than 0.9 of any material; in Samson there are five, in Moffett three.
PURITY = 1.5


class Kind(NamedTuple):
    """What makes one kind of picture harder than another.

    light : how bright the light is, this to the power of a smooth random field
    water : how bright water is, other materials being 1; in the near infrared it is nearly black
    variety : how much a material's spectrum differs from pixel to pixel, as a share of its length
    """

    light: float
    water: float
    variety: float


KINDS = {
    "shade": Kind(light=1.6, water=1.0, variety=0.0),
    "dark water": Kind(light=1.08, water=0.06, variety=0.0),
    "variety": Kind(light=1.6, water=1.0, variety=0.03),
}


def made_up_cube(size: int, kind: str, seed: int) -> Cube:
    """A picture whose spectra are shares of three materials, times the light of the pixel, and noise.

    >>> cube = made_up_cube(16, "shade", 0)
    >>> cube.pixels.shape, cube.abundances.shape
    ((16, 16, 80), (16, 16, 3))
    """
    light, water, variety = KINDS[kind]
    rng = np.random.default_rng(seed)
    spectra = material_spectra(rng) * np.array([1.0, 1.0, water])[:, None]
    shares = equal_shares(PURITY * np.stack([smooth_field(rng, size, size / 8.0) for _ in MATERIALS], axis=-1))
    clean = shares @ spectra
    for k, each in enumerate(spectra):
        changes = rng.normal(size=(size, size, 2)) @ smooth_directions(rng, 2)
        clean += variety * np.linalg.norm(each) * shares[..., [k]] * changes
    clean *= (light ** smooth_field(rng, size, size / 16.0))[..., None]
    pixels = np.maximum(clean + NOISE * rng.normal(size=clean.shape), 0.0)
    return Cube(kind, pixels, shares, spectra, MATERIALS)


def smooth_directions(rng: np.random.Generator, n: int) -> FloatArray:
    """(n, B) smooth random vectors of length one."""
    return to_form(gaussian_filter1d(rng.normal(size=(n, N_BANDS)), 0.1 * N_BANDS, axis=1), "unit")


def material_spectra(rng: np.random.Generator) -> FloatArray:
    """(3, B) smooth spectra of length one: soil rises, trees have a green bump and a red edge, water falls."""
    at = np.linspace(0.0, 1.0, N_BANDS)  # from blue to near infrared
    edge, bump = rng.uniform(0.5, 0.6), rng.uniform(0.25, 0.35)
    soil = 0.2 + 0.8 * at ** rng.uniform(0.6, 1.0)
    tree = 0.08 + 0.10 * np.exp(-(((at - bump) / 0.06) ** 2)) + 0.8 / (1.0 + np.exp((edge - at) / 0.03))
    water = 0.05 + np.exp(-at / rng.uniform(0.2, 0.3))
    return to_form(np.stack([soil, tree, water]), "unit")
