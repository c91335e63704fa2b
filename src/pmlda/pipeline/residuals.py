"""How far pixels are from what their memberships predict, in standard deviations of the noise.

The root of the mean over features of squared deviations: about 1 where the model fits, more where a pixel is neither
one of the topics nor a mixture of them. Spectra become words of few components; what these leave out counts as well.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.features.scaling import Scaling
from pmlda.parallel.threads import each_in_turn
from pmlda.pipeline.blending import Scaled
from pmlda.recipe import Recipe
from pmlda.types import FloatArray

ROWS_AT_ONCE = 2**15


def residuals(
    recipe: Recipe,
    values: NDArray[np.floating],
    words: Scaled | NDArray[np.floating],
    memberships: NDArray[np.floating],
    n_jobs: int | None = None,
) -> NDArray[np.float32] | None:
    """(N,) of pixels with these features (N, q), words (N, p) and memberships (N, K), topics in the model's order.

    None where the model has no distribution of words.
    """
    model: Any = recipe.model
    family = getattr(model, "family_", None)
    if family is None or family.misfit(words[:1], np.asarray(memberships[:1], np.float64), model.topics_) is None:
        return None
    found = np.empty(len(memberships), np.float32)

    def of_rows(rows: slice) -> None:
        x = words[rows]
        misfit = family.misfit(x, np.asarray(memberships[rows], np.float64), model.topics_)
        n_left = recipe.features.n_undone - x.shape[1]
        found[rows] = np.sqrt(with_left_out(misfit, x.shape[1], recipe.scaling, values[rows], n_left))

    starts = range(0, len(memberships), ROWS_AT_ONCE)
    each_in_turn(of_rows, [slice(first, first + ROWS_AT_ONCE) for first in starts], n_jobs)
    return found


def with_left_out(
    misfit: FloatArray, n_words: int, scaling: Scaling, values: NDArray[np.floating], n_left: int
) -> FloatArray:
    """(N,) mean squared deviations over all bands, from those over components and the size of what these leave out."""
    outside = scaling.relative_noise(values)
    if outside is None or n_left <= 0:
        return misfit
    return (n_words * misfit + n_left * outside**2) / (n_words + n_left)
