"""Topics that are spectra, and a spectral library → the materials that each topic is most like, by spectral angle.

The angle between two spectra, as vectors of bands, does not depend on how bright they are, nor on the unit of their
values: reflectance from 0 to 1 is compared with digital numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pmlda.errors import InputError
from pmlda.images.library import MOST_ENTRIES, Spectra, as_spectra
from pmlda.recipe import Recipe
from pmlda.types import FloatArray, IntArray, Match
from pmlda.validate import require

# Entries of the library that are named for each topic, best first.
BEST = 3
# A library must cover at least this share of the bands, and two of them: one band has no angle.
LEAST_COVERED, LEAST_BANDS = 0.5, 2


def match_topics_to_library(recipe: Recipe, library: Any, n: int = BEST) -> tuple[tuple[Match, ...], ...]:
    """For each topic the n entries of a library at the smallest angles.

    library : a path, {name: spectrum} or Spectra, as known topics are given
    """
    check_features(recipe.features.spec, is_spectral(recipe))
    found = as_spectra(library, MOST_ENTRIES)
    used, entries = at_common_bands(found, recipe.feature_names, len(recipe.feature_names))
    angles = spectral_angles(recipe.topics[:, used], entries)
    order = np.argsort(angles, axis=1, kind="stable")[:, :n]
    return tuple(
        tuple(Match(found.names[i], float(angles[k, i]), len(used)) for i in best) for k, best in enumerate(order)
    )


def is_spectral(recipe: Recipe) -> bool:
    """Whether topics are spectra in the bands of the picture."""
    return recipe.features.one_spectrum


def check_features(spec: str, spectral: bool) -> None:
    """Refuse a library where topics are no spectra."""
    require(
        spectral,
        f"A library of spectra was given, but topics of features={spec!r} are no spectra. Use features='spectral'.",
    )


def at_common_bands(library: Spectra, bands: Sequence[str], n_bands: int) -> tuple[IntArray, FloatArray]:
    """Which bands of a picture the library covers, and its spectra there."""
    used, there = library.at_bands(bands, n_bands, "the library", "the picture")
    if len(used) < max(LEAST_BANDS, LEAST_COVERED * n_bands):
        raise InputError(
            f"The library covers {len(used)} of {n_bands} bands, for it reaches {library.reach(bands, 'the picture')}. "
            "Give a library for these wavelengths; check its unit."
        )
    return used, there.spectra


def spectral_angles(topics: FloatArray, entries: FloatArray) -> FloatArray:
    """(K, M) degrees between spectra of topics (K, B) and of a library (M, B).

    >>> spectral_angles(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).round(6).tolist()
    [[0.0, 45.0]]
    """
    lengths = [np.linalg.norm(each, axis=1) for each in (topics, entries)]
    if min(length.min() for length in lengths) <= 0:
        raise InputError("A spectrum is 0 in all bands, so it has no angle to others. Leave it out of the library.")
    units = [each / length[:, None] for each, length in zip((topics, entries), lengths, strict=True)]
    return np.asarray(np.degrees(np.arccos(np.clip(units[0] @ units[1].T, -1.0, 1.0))))
