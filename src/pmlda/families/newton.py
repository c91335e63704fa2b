"""Newton's step of topics feature by feature, where features are independent given the memberships.

The second derivatives of E[A] couple topics but not features, so that the best step solves one small system for each.
"""

import numpy as np

from pmlda.types import FloatArray

# Curvatures below this part of the largest of a feature count as no less, so that there is a step.
LEAST_CURVATURE = 1e-6


def mirror(bends: FloatArray) -> FloatArray:
    """(n, n, p) symmetric matrices, from their lower triangles."""
    lower = np.tril(np.ones(bends.shape[:2], bool))[:, :, None]
    return np.where(lower, bends, np.swapaxes(bends, 0, 1))


def step_by_feature(bends: FloatArray, slopes: FloatArray, longest: float) -> FloatArray:
    """(n, p) steps H⁻¹g: g = slopes (n, p), H the symmetric matrices of which bends (n, n, p) has the lower triangles.

    longest : no number moves farther; the step of a feature is shortened as a whole, so that it still leads uphill
    """
    matrices = np.moveaxis(mirror(bends), 2, 0)
    diagonal = np.abs(np.einsum("pii->pi", matrices))
    root = np.sqrt(np.maximum(diagonal, LEAST_CURVATURE * diagonal.max(axis=1, keepdims=True) + 1e-300))
    values, vectors = np.linalg.eigh(matrices / (root[:, :, None] * root[:, None]))
    values = np.maximum(np.abs(values), LEAST_CURVATURE)
    along = np.einsum("pij,pi->pj", vectors, slopes.T / root) / values
    steps = np.einsum("pij,pj->pi", vectors, along) / root
    steps *= np.minimum(1.0, longest / np.maximum(np.abs(steps).max(axis=1, keepdims=True), 1e-300))
    return np.ascontiguousarray(steps.T)
