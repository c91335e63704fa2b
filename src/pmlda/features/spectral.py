"""Image of many bands → its spectra: as they are, of length one, or as a few principal components."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.base import Feature, Learnt
from pmlda.features.moments import Moments, blocks, join_moments, moments
from pmlda.types import FloatArray, Image
from pmlda.validate import real_array, require


class Spectral(Feature):
    """All bands. Principal components are learnt once, from valid pixels, and then kept for other images."""

    name = "spectral"
    summary = "all bands; unit: spectra of length one; pcaN: N principal components"
    options = ("unit", "pcaN")

    def __init__(self, option: str = "") -> None:
        super().__init__(option)
        parts = option.split(",") if option else []
        components = [part for part in parts if part.startswith("pca")]
        known = all(
            part == "unit" or (part[:3] == "pca" and part[3:].isdecimal() and int(part[3:]) > 0) for part in parts
        )
        require(
            known and len(parts) == len(set(parts)) and len(components) <= 1,
            f"features={self.spec!r} is not known. "
            "Write 'spectral', 'spectral:unit', 'spectral:pca5' or 'spectral:unit,pca5'.",
        )
        self.unit = "unit" in parts
        self.n_components = int(components[0][3:]) if components else 0

    def check(self, image: Image) -> None:
        n_bands = image.pixels.shape[2]
        require(
            self.n_components <= n_bands,
            f"features={self.spec!r} asks for {self.n_components} components, but {image.name} has {n_bands} bands: "
            f"use at most 'pca{n_bands}', or 'spectral' for all bands.",
        )

    def survey(self, image: Image) -> Learnt:
        n_bands = image.pixels.shape[2]
        if not self.n_components:
            return {"bands": np.array([float(n_bands)])}
        n, mean, scatter = moments(map(self._spectra, blocks(image.pixels[image.valid])))
        return {"bands": np.array([float(n_bands)]), "n": np.array([float(n)]), "mean": mean, "scatter": scatter}

    def settle(self, surveys: Sequence[Learnt]) -> Learnt:
        counts = sorted({int(each["bands"][0]) for each in surveys})
        require(len(counts) == 1, f"The images have different numbers of bands, {counts}: give images of one kind.")
        learnt = {"bands": np.array([float(counts[0])])}
        if self.n_components:
            parts = [Moments(int(each["n"][0]), each["mean"], each["scatter"]) for each in surveys]
            learnt["mean"], learnt["axes"] = self._principal_axes(join_moments(parts))
        return learnt

    def recall(self, saved: Mapping[str, Any]) -> Learnt:
        learnt = {"bands": real_array("bands", saved["bands"], (1,))}
        n_bands = int(learnt["bands"][0])
        if self.n_components:
            learnt["mean"] = real_array("mean", saved["mean"], (n_bands,))
            learnt["axes"] = real_array("axes", saved["axes"], (self.n_components, n_bands))
        return learnt

    def names(self, image: Image, learnt: Learnt) -> tuple[str, ...]:
        if self.n_components:
            return tuple(f"component_{i + 1}" for i in range(self.n_components))
        n_bands = image.pixels.shape[2]
        return image.bands if len(image.bands) == n_bands else tuple(f"band_{i + 1}" for i in range(n_bands))

    def compute(self, image: Image, learnt: Learnt) -> NDArray[np.floating]:
        height, width, n_bands = image.pixels.shape
        expected = int(learnt["bands"][0])
        require(
            n_bands == expected,
            f"{image.name} has {n_bands} bands, but features={self.spec!r} was fixed on images of {expected}: "
            "give images of one kind.",
        )
        values = np.empty((height * width, self.n_components or n_bands), np.float32)
        done = 0
        for rows in blocks(image.pixels.reshape(-1, n_bands)):
            spectra = self._spectra(rows)
            if self.n_components:
                spectra = (spectra - learnt["mean"]) @ learnt["axes"].T
            values[done : done + len(rows)] = spectra
            done += len(rows)
        return values.reshape(height, width, -1)

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

    def _spectra(self, rows: FloatArray) -> FloatArray:
        """Rows of length one, if asked for; a spectrum of zeros stays so."""
        if not self.unit:
            return rows
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0, length, 1.0)
