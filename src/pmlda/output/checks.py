"""Maps and documents of a result, as read from files that anyone may have written → nothing, or InputError."""

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray
from pmlda.validate import ROUNDING, require


def check_memberships(maps: NDArray[np.floating]) -> None:
    """(H, W, K) numbers from 0 to 1 that sum to 1, or NaN for all topics where there are no data."""
    known = ~np.isnan(maps).all(axis=-1)
    found = maps[known].astype(np.float32, copy=False)
    low, high = found.min(initial=0.0), found.max(initial=0.0)
    require(bool(low >= 0.0 and high <= 1.0 + ROUNDING), "its memberships are not all between 0 and 1")
    away = np.abs(found.sum(axis=-1, dtype=np.float64) - 1.0).max(initial=0.0)
    require(bool(away <= ROUNDING), "its memberships do not sum to 1 over topics")


def check_uncertainty(std: NDArray[np.floating], maps: NDArray[np.floating]) -> None:
    """(H, W, K) numbers from 0 to 1 where there are memberships."""
    found = std[~np.isnan(maps).all(axis=-1)]
    require(bool(((found >= 0.0) & (found <= 1.0)).all()), "its uncertainty is not all between 0 and 1")


def check_labels(labels: IntArray, n_documents: int) -> None:
    """(H, W) numbers of documents, −1 where there are no data."""
    least, most = labels.min(initial=-1), labels.max(initial=-1)
    require(bool(least >= -1 and most < n_documents), f"its pixels are not all of its {n_documents} documents")


def check_documents(scales: FloatArray, proportions: FloatArray) -> None:
    """s (D,) above 0, and π (D, K) from 0 to 1 that sum to 1."""
    require(bool(np.isfinite(scales).all() and (scales > 0).all()), "its documents.csv has scales that are not above 0")
    away = np.abs(proportions.sum(axis=1) - 1.0)
    right = np.isfinite(proportions).all() and (proportions >= 0).all() and (away <= ROUNDING).all()
    require(bool(right), "its documents.csv has proportions that are negative or do not sum to 1")
