"""Image of many bands → its spectra: as they are, without brightness, or as a few principal components.

Pixels that mix K materials lie on K − 1 axes: x = l Σ aₖ eₖ + noise, with spectra eₖ, shares aₖ that sum to one, and
the light l. Forms of spectra differ in what becomes of the light. Divided by their mean over bands, spectra lie on a
plane and the light is gone, while mixtures stay straight: y = Σ wₖ cₖ with cₖ on the plane and wₖ ∝ aₖ / ‖cₖ‖, if
materials are taken to be equally long. Scaled to length one, the light is gone too, but mixtures bulge off the lines
between materials.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Feature, Learnt
from pmlda.features.moments import Moments, blocks, join_moments, moments
from pmlda.types import FloatArray, Image
from pmlda.validate import positive_array, real_array, require

FORMS = ("raw", "unit", "plane")
AUTO, NOISE = "auto", "noise"
MOST_BANDS = 100_000
# On the plane, the noise of a dark material is scaled up. Where the axes then hold less than this share of the
# variance, and less than they hold of spectra as they are, these stay so. It is 0.99 in light and shade, made up and
# real, and 0.72 to 0.88 with dark water.
LEAST_HELD = 0.95
SPELLINGS = (
    "'spectral', 'spectral:raw', 'spectral:plane,pca2', 'spectral:unit', 'spectral:pca5' or 'spectral:unit,pca5'"
)


class Spectral(Feature):
    """All bands. Principal components are learnt once, from valid pixels, and then kept for other images."""

    name = "spectral"
    summary = (
        "spectra, in as many components as topics can span. raw: all bands as they are; plane: divided by their mean; "
        "unit: of length one; pcaN: N principal components; noise: and what they leave out"
    )
    options = ("plane", "unit", "pcaN", "pcaN,noise")

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        parts = option.split(",") if option else []
        forms = [part for part in parts if part in (AUTO, *FORMS)]
        components = [part for part in parts if part[:3] == "pca" and part[3:].isdecimal() and int(part[3:]) > 0]
        has_noise = NOISE in parts
        known = len(parts) == len(set(parts)) == len(forms) + len(components) + has_noise
        require(
            known and len(forms) <= 1 and len(components) <= 1,
            f"features={self.spec!r} is not known. Write {SPELLINGS}.",
        )
        self.form = forms[0] if forms else "raw"
        self.n_components = int(components[0][3:]) if components else 0
        self.has_noise = has_noise
        require(
            self.n_components > 0 or not (has_noise or self.form == AUTO),
            f"features={self.spec!r} needs a number of components: write features='{self.spec},pca2'.",
        )

    @property
    def one_unit(self) -> bool:
        """Bands as they are may be of several units."""
        return self.form != "raw" or self.n_components > 0

    def check(self, image: Image) -> None:
        n_bands = image.pixels.shape[2]
        require(
            self.n_components <= n_bands,
            f"features={self.spec!r} asks for {self.n_components} components, but {image.name} has {n_bands} bands: "
            f"use at most 'pca{n_bands}', or 'spectral:raw' for all bands.",
        )

    # ── what is learnt ─────────────────────────────────────────────────────────────────────────────────────────────
    def survey(self, image: Image) -> Learnt:
        spectra = image.pixels[image.valid]
        found = {"bands": np.array([float(image.pixels.shape[2])]), "n": np.array([float(len(spectra))])}
        if self.form != "raw":
            lengths = [np.linalg.norm(rows, axis=1).sum() for rows in blocks(spectra)]
            found["length"] = np.array([np.sum(lengths) / max(len(spectra), 1)])
        if self.n_components:
            for form in self._candidates:
                n, mean, scatter = moments(to_form(lit(rows, form), form) for rows in blocks(spectra))
                found |= {f"{form}.n": np.array([float(n)]), f"{form}.mean": mean, f"{form}.scatter": scatter}
        return found

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        counts = sorted({int(each["bands"][0]) for each in surveys})
        require(len(counts) == 1, f"The images have different numbers of bands, {counts}: give images of one kind.")
        learnt = {"bands": np.array([float(counts[0])])}
        if self.form != "raw":
            sizes = np.array([each["n"][0] for each in surveys])
            mean = float(sizes @ [each["length"][0] for each in surveys] / max(sizes.sum(), 1.0))
            learnt["length"] = np.array([mean if mean > 0 else 1.0])
        if self.n_components:
            joined = {form: join_moments(_moments_of(each, form) for each in surveys) for form in self._candidates}
            form = self.form if self.form != AUTO else suitable_form(joined["plane"], joined["raw"], self.n_components)
            require(
                joined[form].n > 0, f"features={self.spec!r} need light, and every spectrum has a mean of 0 or less."
            )
            learnt["mean"], learnt["axes"] = self._principal_axes(joined[form])
            learnt["form"] = np.array([float(FORMS.index(form))])
        return learnt

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        learnt = {"bands": real_array("bands", saved["bands"], (1,))}
        n_bands = int(learnt["bands"][0])
        require(
            n_bands == learnt["bands"][0] and 1 <= n_bands <= MOST_BANDS,
            f"{self.spec} has {learnt['bands'][0]:g} bands, expected a whole number from 1 to {MOST_BANDS}.",
        )
        if "length" in saved:
            learnt["length"] = positive_array("length", saved["length"], (1,))
        if self.n_components:
            learnt["mean"] = real_array("mean", saved["mean"], (n_bands,))
            learnt["axes"] = real_array("axes", saved["axes"], (self.n_components, n_bands))
        if "form" in saved:
            learnt["form"] = real_array("form", saved["form"], (1,))
            require(learnt["form"][0] in range(len(FORMS)), f"The form of {self.spec} is none of {', '.join(FORMS)}.")
        return learnt

    @property
    def _candidates(self) -> tuple[str, ...]:
        return ("raw", "plane") if self.form == AUTO else (self.form,)

    def _principal_axes(self, spectra: Moments) -> tuple[FloatArray, FloatArray]:
        """(B,) mean and (N, B) axes of the valid spectra; the largest entry of each axis is positive.

        The first of those that are equally large but for rounding, which depends on how a picture is cut.
        """
        _, vectors = np.linalg.eigh(spectra.covariance)
        axes = vectors[:, ::-1].T[: self.n_components]
        sizes = np.abs(axes)
        first = (sizes >= (1.0 - 1e-6) * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
        largest = np.take_along_axis(axes, first[:, None], axis=1)
        return spectra.mean, axes * np.where(largest < 0, -1.0, 1.0)

    # ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        if self.n_components:
            components = tuple(f"component_{i + 1}" for i in range(self.n_components))
            return (*components, "left_out") if self.has_noise else components
        return band_names(image)

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        height, width, n_bands = image.pixels.shape
        expected = int(learnt["bands"][0])
        require(
            n_bands == expected,
            f"{image.name} has {n_bands} bands, but features={self.spec!r} was fixed on images of {expected}: "
            "give images of one kind.",
        )
        values = np.empty((height * width, (self.n_components or n_bands) + self.has_noise), np.float32)
        form, done = self._settled_form(learnt), 0
        for rows in blocks(image.pixels.reshape(-1, n_bands)):
            spectra = to_form(rows, form)
            if self.n_components:
                spectra = self._components(spectra, learnt)
                if form == "plane":
                    spectra[~has_light(rows)] = 0.0  # like the mean, since it says nothing
            values[done : done + len(rows)] = spectra
            done += len(rows)
        return values.reshape(height, width, -1)

    def _components(self, spectra: FloatArray, learnt: Learnt) -> FloatArray:
        """(n, N) components, and the length of what they leave out if that is asked for."""
        centred = spectra - learnt["mean"]
        found = centred @ learnt["axes"].T
        if not self.has_noise:
            return found
        return np.column_stack([found, np.linalg.norm(centred - found @ learnt["axes"], axis=1)])

    def _settled_form(self, learnt: Learnt) -> str:
        return FORMS[int(learnt["form"][0])] if "form" in learnt else self.form

    # ── back to bands ──────────────────────────────────────────────────────────────────────────────────────────────
    def undo(self, values: FloatArray, learnt: Learnt) -> FloatArray:
        """(n, B) spectra in the units of the bands; without brightness, all are as long as spectra are on average."""
        spectra = self._spectra(values, learnt)
        if self._settled_form(learnt) == "raw" or "length" not in learnt:
            return spectra
        return learnt["length"] * to_form(spectra, "unit")

    def undone_names(self, bands: tuple[str, ...], learnt: Learnt) -> tuple[str, ...]:
        n_bands = int(learnt["bands"][0])
        return bands if len(bands) == n_bands else tuple(f"band_{i + 1}" for i in range(n_bands))

    def share_weights(self, values: FloatArray, learnt: Learnt) -> FloatArray | None:
        """(n,) ‖cₖ‖ on the plane: memberships times these are shares of materials that are equally long."""
        if self._settled_form(learnt) != "plane":
            return None
        return np.asarray(np.linalg.norm(self._spectra(values, learnt), axis=1))

    def _spectra(self, values: FloatArray, learnt: Learnt) -> FloatArray:
        """(n, B) spectra in their form."""
        if not self.n_components:
            return values
        return np.asarray(values[:, : self.n_components] @ learnt["axes"] + learnt["mean"])


def to_form(spectra: FloatArray, form: str) -> FloatArray:
    """(n, B) spectra as they are (raw), of length one (unit), or of mean one (plane).

    A spectrum of zeros stays so, and so does one whose mean is not positive, on the plane.

    >>> to_form(np.array([[3.0, 4.0], [0.0, 0.0]]), "unit").tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    >>> to_form(np.array([[1.0, 3.0]]), "plane").tolist()
    [[0.5, 1.5]]
    """
    if form == "raw":
        return spectra
    size = np.linalg.norm(spectra, axis=1) if form == "unit" else spectra.mean(axis=1)
    return np.asarray(spectra / np.where(size > 0, size, 1.0)[:, None])


def lit(spectra: FloatArray, form: str) -> FloatArray:
    """The spectra that can be brought to the form: on the plane, those with a positive mean."""
    return spectra[has_light(spectra)] if form == "plane" else spectra


def has_light(spectra: FloatArray) -> NDArray[np.bool_]:
    """(n,) which spectra have a positive mean, so that they can be divided by it."""
    return np.asarray(spectra.mean(axis=1) > 0)


def suitable_form(plane: Moments, raw: Moments, n_axes: int) -> str:
    """The plane, on which light does not matter, unless that makes noise of dark spectra. No truth is needed.

    plane, raw : of the spectra that have light, and of all
    """
    if plane.n == 0 or plane.n < LEAST_HELD * raw.n:
        return "raw"
    return "plane" if held(plane, n_axes) >= min(LEAST_HELD, held(raw, n_axes)) else "raw"


def held(spectra: Moments, n_axes: int) -> float:
    """The share of the variance that so many principal axes hold.

    >>> round(held(Moments(2, np.zeros(2), np.diag([3.0, 1.0])), 1), 2)
    0.75
    """
    variances = np.linalg.eigvalsh(spectra.covariance)[::-1]
    total = float(variances.sum())
    return float(variances[:n_axes].sum()) / total if total > 0 else 1.0


def band_names(image: Image) -> tuple[str, ...]:
    """The names of all bands, numbered where the image has none."""
    n_bands = image.pixels.shape[2]
    return image.bands if len(image.bands) == n_bands else tuple(f"band_{i + 1}" for i in range(n_bands))


def _moments_of(survey: Learnt, form: str) -> Moments:
    return Moments(int(survey[f"{form}.n"][0]), survey[f"{form}.mean"], survey[f"{form}.scatter"])
