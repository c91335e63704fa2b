"""Values (n, p) → the same in comparable units, and back: standard, whiten or none."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import PmldaError
from pmlda.features.moments import blocks, moments
from pmlda.types import FloatArray
from pmlda.validate import choice, covariance_matrix, positive_array, real_array, require

KINDS = ("standard", "whiten", "none")

# Features are float32: a spread of less than this share of their size is rounding, not information.
LEAST_SPREAD = 1e-6
# Directions with less than this share of a standardised feature's variance are not stretched any further.
LEAST_EIGENVALUE = 1e-6


class Scaling:
    """How features are brought to comparable units. Learnt once, then the same for every image.

    kind : "standard" centres each feature and divides it by its standard deviation (constant ones by 1);
        "whiten" also removes correlations, so that the covariance becomes the identity; "none" changes nothing.

    >>> scaling = Scaling().fit(np.array([[0.0, 5.0], [4.0, 5.0]]))
    >>> scaling.apply(np.array([[4.0, 6.0]])).tolist()
    [[1.0, 1.0]]
    >>> scaling.undo(np.array([[1.0, 1.0]])).tolist()
    [[4.0, 6.0]]
    """

    def __init__(self, kind: str = "standard") -> None:
        choice("scaling", kind, KINDS)
        self.kind = kind
        self.centre: FloatArray | None = None
        """(p,) what becomes 0."""
        self.spread: FloatArray | None = None
        """(p,) what becomes 1."""
        self.mixing: FloatArray | None = None
        """(p, p) symmetric square root of the standardised features' covariance; kind "whiten" only."""

    def fit(self, values: NDArray[np.generic]) -> Self:
        """Learn from values (n, p)."""
        right = values.ndim == 2 and values.size > 0 and values.dtype.kind in "biuf"
        require(right, f"values have shape {values.shape} and type {values.dtype}: give real numbers (n, p), n ≥ 1.")
        found = moments(blocks(values))
        mean, covariance = found.mean, found.covariance
        finite = bool(np.isfinite(mean).all() and np.isfinite(covariance).all())
        require(finite, "values contain NaN or infinity. Give finite numbers.")
        p = len(mean)
        self.centre, self.spread, self.mixing = np.zeros(p), np.ones(p), None
        if self.kind == "none":
            return self
        deviation = np.sqrt(np.diag(covariance))
        constant = deviation <= LEAST_SPREAD * np.abs(mean)
        self.centre, self.spread = mean, np.where(constant, 1.0, deviation)
        if self.kind == "whiten":
            self.mixing = _root(covariance / np.outer(self.spread, self.spread), constant)
        return self

    def apply(self, values: NDArray[np.generic]) -> NDArray[np.floating]:
        """Values (…, p) in the new units; float32 stays float32."""
        centre, spread = self._checked(values)
        unmixing = None if self.mixing is None else np.linalg.inv(self.mixing)
        out = np.empty(values.shape, np.float32 if values.dtype == np.float32 else np.float64)
        rows, done = out.reshape(-1, len(centre)), 0
        for block in blocks(values.reshape(-1, len(centre))):
            scaled = (block - centre) / spread
            rows[done : done + len(block)] = scaled if unmixing is None else scaled @ unmixing
            done += len(block)
        return out

    def undo(self, values: NDArray[np.generic]) -> FloatArray:
        """The inverse of apply: topics in units of the features, always float64."""
        centre, spread = self._checked(values)
        mixed: FloatArray = values.astype(np.float64)
        if self.mixing is not None:
            mixed = mixed @ self.mixing
        return mixed * spread + centre

    def state(self) -> dict[str, Any]:
        """Everything that was learnt: the kind, and arrays of numbers."""
        if self.centre is None or self.spread is None:
            raise PmldaError(_UNFITTED)
        arrays = {"centre": self.centre, "spread": self.spread, "mixing": self.mixing}
        return {"kind": self.kind} | {name: array.copy() for name, array in arrays.items() if array is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The scaling that state() came from."""
        scaling = cls(state["kind"])
        p = len(state["centre"])
        scaling.centre = real_array("centre", state["centre"], (p,))
        scaling.spread = positive_array("spread", state["spread"], (p,))
        scaling.mixing = covariance_matrix("mixing", state["mixing"], p) if scaling.kind == "whiten" else None
        return scaling

    def _checked(self, values: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Centre and spread, if values fit to them."""
        if self.centre is None or self.spread is None:
            raise PmldaError(_UNFITTED)
        right = values.ndim >= 1 and values.shape[-1] == len(self.centre)
        require(right, f"values have shape {values.shape}, but scaling was fitted on {len(self.centre)} features.")
        return self.centre, self.spread


_UNFITTED = "Scaling is not fitted yet: call fit(values) first."


def _root(correlation: FloatArray, constant: NDArray[np.bool_]) -> FloatArray:
    """The symmetric square root, tiny eigenvalues raised; constant features stay by themselves."""
    correlation = np.where(constant[:, None] | constant[None], np.eye(len(constant)), correlation)
    eigenvalues, vectors = np.linalg.eigh(correlation)
    root: FloatArray = (vectors * np.sqrt(np.maximum(eigenvalues, LEAST_EIGENVALUE))) @ vectors.T
    return root
