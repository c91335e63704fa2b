"""Values (n, p) → words in comparable units, and back: standard, whiten, none, or with noise of one size."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import PmldaError
from pmlda.features.moments import blocks, moments
from pmlda.types import FloatArray
from pmlda.validate import choice, covariance_matrix, positive_array, real_array, require

KINDS = ("standard", "whiten", "none")
NOISE = "noise"  # for features with a last value of their own

# Features are float32: a spread of less than this share of their size is rounding, not information.
LEAST_SPREAD = 1e-6
# Directions with less than this share of a standardised feature's variance are not stretched any further.
LEAST_EIGENVALUE = 1e-6
# Noise is nowhere taken to be smaller than this share of what it is at the mean, and topics lie where it is at most the
# inverse of the second.
LEAST_NOISE, LEAST_INVERSE = 0.1, 0.01
# Numbers next to each other that are tried until a limit is on the right side.
ROUNDINGS = 8


class Scaling:
    """How features are brought to comparable units. Learnt once, then the same for every image.

    kind : "standard" centres each feature and divides it by its standard deviation (constant ones by 1);
        "whiten" also removes correlations, so that the covariance becomes the identity; "none" changes nothing.
        "noise" is for features t of one unit whose last value is not one of them but the size of the noise: words are
        t / h(t), where h = 1 + slope·t is the size of the noise by least squares. Straight lines stay straight under
        this projection, and noise gets the same size everywhere. Mixtures t = Σ aₖ mₖ become Σ wₖ mₖ / hₖ, so that
        aₖ ∝ wₖ / hₖ.

    >>> scaling = Scaling().fit(np.array([[0.0, 5.0], [4.0, 5.0]]))
    >>> scaling.apply(np.array([[4.0, 6.0]])).tolist()
    [[1.0, 1.0]]
    >>> scaling.undo(np.array([[1.0, 1.0]])).tolist()
    [[4.0, 6.0]]
    """

    def __init__(self, kind: str = "standard") -> None:
        choice("scaling", kind, (*KINDS, NOISE))
        self.kind = kind
        self.centre: FloatArray | None = None
        """(p,) what becomes 0."""
        self.spread: FloatArray | None = None
        """(p,) what becomes 1."""
        self.mixing: FloatArray | None = None
        """(p, p) symmetric square root of the standardised features' covariance; kind "whiten" only."""
        self.slope: FloatArray | None = None
        """(p − 1,) by how much the noise grows with each feature; kind "noise" only."""

        self.size: float | None = None
        """Median of the size of the noise, divided by h; kind "noise" only. Earlier model files lack it."""

    def fit(self, values: NDArray[np.generic]) -> Self:
        """Learn from values (n, p)."""
        right = values.ndim == 2 and values.size > 0 and values.dtype.kind in "biuf"
        require(right, f"values have shape {values.shape} and type {values.dtype}: give real numbers (n, p), n ≥ 1.")
        found = moments(blocks(values))
        mean, covariance = found.mean, found.covariance
        finite = bool(np.isfinite(mean).all() and np.isfinite(covariance).all())
        require(finite, "values contain NaN or infinity. Give finite numbers.")
        p = len(mean)
        self.centre, self.spread, self.mixing, self.slope = np.zeros(p), np.ones(p), None, None
        if self.kind == "none":
            return self
        if self.kind == NOISE:
            return self._fit_noise(values)
        deviation = np.sqrt(np.diag(covariance))
        constant = deviation <= LEAST_SPREAD * np.abs(mean)
        self.centre, self.spread = mean, np.where(constant, 1.0, deviation)
        if self.kind == "whiten":
            self.mixing = _root(covariance / np.outer(self.spread, self.spread), constant)
        return self

    def _fit_noise(self, values: NDArray[Any]) -> Self:
        """Kind "noise": one unit for all features, in which the most spread of them has a standard deviation of 1."""
        p = values.shape[1] - 1
        require(p > 0, "values have no features beside the size of the noise: give at least two columns.")
        self.slope = noise_slope(values)
        self.size = float(np.median(_relative_noise(values, self.slope)))
        largest = float(_projected(values, self.slope).std(axis=0, dtype=np.float64).max())
        self.centre, self.spread = np.zeros(p), np.full(p, largest if largest > 0 else 1.0)
        return self

    def apply(self, values: NDArray[np.generic]) -> NDArray[np.floating]:
        """Values (…, p) in the new units; float32 stays float32. Kind "noise" leaves the last one out."""
        if self.slope is not None:
            require(
                values.shape[-1] == len(self.slope) + 1,
                f"values have shape {values.shape}, but scaling was fitted on {len(self.slope) + 1} features.",
            )
            values = _projected(values, self.slope)
        centre, spread = self._checked(values)
        unmixing = None if self.mixing is None else np.linalg.inv(self.mixing)
        out = np.empty(values.shape, np.float32 if values.dtype == np.float32 else np.float64)
        rows, done = out.reshape(-1, len(centre)), 0
        for block in blocks(values.reshape(-1, len(centre))):
            scaled = (block - centre) / spread
            rows[done : done + len(block)] = scaled if unmixing is None else scaled @ unmixing
            done += len(block)
        require(bool(np.isfinite(out).all()), "Features are too large for the units of the model. Rescale the image.")
        return out

    def relative_noise(self, values: NDArray[np.generic]) -> FloatArray | None:
        """(n,) the size of the noise of values (n, p), 1 where it is as large as is usual at such features.

        None where nothing is known of it.
        """
        if self.slope is None or not self.size:
            return None
        return _relative_noise(values, self.slope) / self.size

    def undo(self, values: NDArray[np.generic]) -> FloatArray:
        """The inverse of apply: topics in units of the features, always float64."""
        centre, spread = self._checked(values)
        mixed: FloatArray = values.astype(np.float64)
        if self.mixing is not None:
            mixed = mixed @ self.mixing
        mixed = mixed * spread + centre
        return mixed if self.slope is None else mixed / _inverse_noise(mixed, self.slope)[..., None]

    def apply_limits(self, limits: FloatArray) -> FloatArray | None:
        """(2, p) limits of features in the new units; None where features mix, so that a box does not stay one.

        Rounded so that what lies between them lies between the given limits after undo.
        """
        if self.mixing is not None or self.slope is not None:
            return None
        centre, spread = self._checked(limits)
        low, high = (limits - centre) / spread
        for _ in range(ROUNDINGS):
            low = np.where(self.undo(low) < limits[0], np.nextafter(low, np.inf), low)
            high = np.where(self.undo(high) > limits[1], np.nextafter(high, -np.inf), high)
        return np.array([low, high])

    def share_weights(self, words: FloatArray) -> FloatArray | None:
        """(K,) 1 / hₖ of topics at these words (K, p): memberships times these are shares; None if all are 1."""
        return None if self.slope is None else _inverse_noise(self._checked(words)[1] * words, self.slope)

    def state(self) -> dict[str, Any]:
        """Everything that was learnt: the kind, and arrays of numbers."""
        if self.centre is None or self.spread is None:
            raise PmldaError(_UNFITTED)
        arrays = {"centre": self.centre, "spread": self.spread, "mixing": self.mixing, "slope": self.slope}
        arrays["size"] = None if self.size is None else np.array([self.size])
        return {"kind": self.kind} | {name: array.copy() for name, array in arrays.items() if array is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The scaling that state() came from."""
        scaling = cls(state["kind"])
        p = len(np.atleast_1d(state["centre"]))
        scaling.centre = real_array("centre", state["centre"], (p,))
        scaling.spread = positive_array("spread", state["spread"], (p,))
        scaling.mixing = covariance_matrix("mixing", state["mixing"], p) if scaling.kind == "whiten" else None
        scaling.slope = real_array("slope", state["slope"], (p,)) if scaling.kind == NOISE else None
        if scaling.kind == NOISE and "size" in state:
            scaling.size = float(real_array("size", state["size"], (1,))[0])
            require(scaling.size >= 0, "The size of the noise is negative.")
        return scaling

    @property
    def n_words(self) -> int:
        """How many numbers a word has."""
        return 0 if self.centre is None else len(self.centre)

    @property
    def n_values(self) -> int:
        """How many values become a word: kind "noise" leaves the last one out."""
        return self.n_words + (self.slope is not None)

    def _checked(self, values: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Centre and spread, if values fit to them."""
        if self.centre is None or self.spread is None:
            raise PmldaError(_UNFITTED)
        right = values.ndim >= 1 and values.shape[-1] == len(self.centre)
        require(right, f"values have shape {values.shape}, but scaling was fitted on {len(self.centre)} features.")
        return self.centre, self.spread


_UNFITTED = "Scaling is not fitted yet: call fit(values) first."


def noise_slope(values: NDArray[np.generic]) -> FloatArray:
    """(p − 1,) slope of 1 + slope·t, to which the size of the noise, the last of values (n, p), is proportional.

    It is less steep than by least squares where noise would otherwise vanish or be negative for some of the values.

    >>> at = np.linspace(-1.0, 1.0, 50)
    >>> noise_slope(np.column_stack([at, 3.0 + 1.5 * at])).round(6).tolist()
    [0.5]
    """
    t, size = values[:, :-1].astype(np.float64), values[:, -1].astype(np.float64)
    none: FloatArray = np.zeros(t.shape[1])
    if size.mean() <= LEAST_SPREAD * np.abs(t).max(initial=0.0):
        return none
    fitted = np.linalg.lstsq(np.column_stack([np.ones(len(t)), t]), size, rcond=None)[0]
    if fitted[0] <= 0:
        return none
    slope = fitted[1:] / fitted[0]
    least = float((t @ slope).min())
    return np.asarray(slope if least >= LEAST_NOISE - 1.0 else slope * (LEAST_NOISE - 1.0) / least)


def _inverse_noise(projected: FloatArray, slope: FloatArray) -> FloatArray:
    """(…,) 1 / h of features t, given t / h: from h = 1 + slope·t follows 1 / h = 1 − slope·t / h."""
    return np.asarray(np.maximum(1.0 - projected @ slope, LEAST_INVERSE))


def _projected(values: NDArray[Any], slope: FloatArray) -> NDArray[np.floating]:
    """(…, p − 1) t / h(t) of values (…, p), without the last, which is the size of the noise."""
    t = values[..., :-1]
    size = np.maximum(1.0 + t @ slope.astype(t.dtype), LEAST_NOISE)
    return np.asarray(t / size[..., None])


def _relative_noise(values: NDArray[Any], slope: FloatArray) -> FloatArray:
    """(n,) the last of values (n, p), which is the size of the noise, divided by h; a row at a time to the bit."""
    height = np.ones(len(values))
    for column, each in zip(values.T, slope, strict=False):
        height += column.astype(np.float64) * each
    return np.asarray(values[:, -1].astype(np.float64) / np.maximum(height, LEAST_NOISE))


def _root(correlation: FloatArray, constant: NDArray[np.bool_]) -> FloatArray:
    """The symmetric square root, tiny eigenvalues raised; constant features stay by themselves."""
    correlation = np.where(constant[:, None] | constant[None], np.eye(len(constant)), correlation)
    eigenvalues, vectors = np.linalg.eigh(correlation)
    root: FloatArray = (vectors * np.sqrt(np.maximum(eigenvalues, LEAST_EIGENVALUE))) @ vectors.T
    return root
