"""How far pixels are from what their memberships predict, in standard deviations of the noise.

The root of the mean over features of squared deviations: about 1 where the model fits, more where a pixel is neither
one of the topics nor a mixture of them. Spectra become words of few components; what these leave out counts as well.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.scaling import Scaling
from pmlda.recipe import Recipe
from pmlda.types import FloatArray

ROWS_AT_ONCE = 2**15


def residuals(
    recipe: Recipe, values: NDArray[np.floating], words: NDArray[np.floating], memberships: NDArray[np.floating]
) -> NDArray[np.float32] | None:
    """(N,) of pixels with these features (N, q), words (N, p) and memberships (N, K), topics in the model's order.

    None where the model has no distribution of words.
    """
    model: Any = recipe.model
    family = getattr(model, "family_", None)
    found = np.empty(len(words), np.float32)
    for first in range(0, len(words), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        z = np.asarray(memberships[rows], np.float64)
        misfit = None if family is None else family.misfit(words[rows], z, model.topics_)
        if misfit is None:
            return None
        n_left = recipe.features.n_undone - words.shape[1]
        found[rows] = np.sqrt(with_left_out(misfit, words.shape[1], recipe.scaling, values[rows], n_left))
    return found


def with_left_out(
    misfit: FloatArray, n_words: int, scaling: Scaling, values: NDArray[np.floating], n_left: int
) -> FloatArray:
    """(N,) mean squared deviations over all bands, from those over components and the size of what these leave out."""
    outside = scaling.relative_noise(values)
    if outside is None or n_left <= 0:
        return misfit
    return (n_words * misfit + n_left * outside**2) / (n_words + n_left)
