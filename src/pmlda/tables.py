"""What a result says in numbers → rows of tables, which pmlda.output.tables writes as CSV."""

from collections.abc import Sequence

import numpy as np

from pmlda.engines.posterior import beta_interval, variance_between
from pmlda.images.area import pixel_area
from pmlda.images.bands import wavelengths_of
from pmlda.recipe import Recipe
from pmlda.types import FloatArray, Georeference, PictureShares, Share, TopicValue

# Draws of a sampler from which standard deviations of topics are found.
MOST_DRAWS = 200
LEVEL = 0.9
"""Probability of the intervals of shares."""


def share_rows(found: PictureShares, names: Sequence[str], place: Georeference | None) -> tuple[Share, ...]:
    """A row for each topic; intervals are the shortest of beta distributions with these means and deviations.

    That of a topic which few refits have found is nearly nothing or all, and is widened to hold what was found:

    >>> rare, rest = share_rows(PictureShares(np.array([0.02, 0.98]), np.array([0.13, 0.13]), 1000), ["a", "b"], None)
    >>> [round(float(end), 2) for end in (rare.low, rare.high, rest.low, rest.high)]
    [0.0, 0.02, 0.98, 1.0]
    """
    low, high = (None, None) if found.std is None else beta_interval(found.share, found.std, LEVEL, few=True)
    if low is not None and high is not None:
        low, high = np.minimum(low, found.share), np.maximum(high, found.share)
    ground = pixel_area(place)
    rows = []
    for k, name in enumerate(names):
        share = float(found.share[k])
        pixels = share * found.n_pixels
        ends = (None, None) if low is None or high is None else (float(low[k]), float(high[k]))
        area = None if ground.area is None else pixels * ground.area
        rows.append(Share(name, share, ends[0], ends[1], pixels, area, ground.unit))
    return tuple(rows)


def topic_rows(recipe: Recipe) -> tuple[TopicValue, ...]:
    """A row for each topic and feature, in units of the features; of spectra, in those of the bands."""
    means, std, features = recipe.topics, topic_std(recipe), recipe.feature_names
    at = wavelengths_of(features)
    return tuple(
        TopicValue(
            topic,
            feature,
            None if at is None else float(at[j]),
            float(means[k, j]),
            None if std is None else float(std[k, j]),
        )
        for k, topic in enumerate(recipe.settings.topic_names)
        for j, feature in enumerate(features)
    )


def topic_std(recipe: Recipe) -> FloatArray | None:
    """(K, p) how sure the means of topics are, from refits or draws; None where there are neither."""
    refits, draws = (getattr(recipe.model, name, None) for name in ("refits_", "draws_"))
    if refits is not None:
        answers, drawn = refits.means, bool(refits.drawn)
    elif draws is not None and len(draws.means) > 1:
        answers, drawn = draws.means[:: -(-len(draws.means) // MOST_DRAWS)], True
    else:
        return None
    undone = [recipe.to_features(means) for means in (recipe.model.topic_means_, *answers)]
    return np.sqrt(variance_between(np.array(undone), drawn=drawn))
