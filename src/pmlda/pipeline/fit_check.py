"""Whether topics explain a picture: sums over its pixels → a judgement in numbers and in a sentence.

With enough pixels every real picture differs from every model, so that nothing is tested here. What counts is how much
of the picture the topics leave unexplained, because only that would look different under another choice:

- structure: what is left should be noise, and noise does not go on from one place to the next. Products of what is left
  at two pixels, farther from each other than the windows of features reach, are compared with those of the words. The
  share of the structure of the picture that is not explained is what more topics, or other features, could explain.
- novelty: the share of pixels that no mixture of the topics explains, in patches of them. Where topics are applied to
  another picture, that is judged by what was usual where they were learnt; where they are learnt, by the less far half
  of the same picture.
- variance: families without a variance of their own say how much pixels vary. Gaussians have the same noise everywhere,
  while real noise may grow with the brightness.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pmlda.families import Gamma
from pmlda.families.base import Family
from pmlda.howmany import UNEXPLAINED
from pmlda.pipeline.fit_sums import Sums
from pmlda.recipe import Recipe
from pmlda.types import FitCheck

# Where the share UNEXPLAINED of the structure of a picture is not explained, and at least this part of what is left is
# structure rather than noise, another choice changes maps visibly: the authors' sunset has 0.24, 0.04 and 0.002 with 2,
# 3 and 4 topics of colour. Of generated pictures that fit (seeds 10 to 13 and 300 to 304), those with more than
# UNEXPLAINED had at most 0.21 of this, but for textures; those with a topic missing had 0.26 and more.
STRUCTURED = 0.25
# So many pixels in patches that are new are too many, and so many in patches that are far; next to none is usual.
MOST_NEW, MOST_FAR = 0.05, 0.02
# Variances may differ from what a family says by this factor, and so may noise at the two ends of the brightness.
MOST_TIMES = 1.5
# Pixels are said to be bright or dark if they are so many standard deviations from the mean, on average.
NOTABLE = 0.5


class Figures(NamedTuple):
    """How well topics explain a picture; NaN where that cannot be told.

    new : share of pixels in patches that are new, compared with those that topics were learnt from
    far : share of pixels in patches that are far, compared with the less far half of them
    unexplained : share of the structure of the picture that is not explained
    structured : share of structure in what is left; the rest is noise
    times : variance of pixels, in units of what the family says
    growth : how many times as large noise is where features are high as where they are low
    light : brightness of the pixels that are new, or far, less the mean, in standard deviations of all
    """

    new: float
    far: float
    unexplained: float
    structured: float
    times: float
    growth: float
    light: tuple[float, float]


def judge_picture(facts: Iterable[Mapping[str, Any]], recipe: Recipe, *, applied: bool) -> FitCheck:
    """The judgement on a picture, from the facts of its tiles, as the step for maps returns them.

    applied : whether the topics were learnt elsewhere
    """
    tables = [each["fit"] for each in facts if each.get("fit") is not None]
    if not tables:
        return FitCheck("unknown", {})
    figures = figures_of(
        Sums(*(np.sum(each, axis=0) for each in zip(*(Sums(**t) for t in tables), strict=True))), recipe
    )
    sentence, advice = judge_applied(figures, recipe) if applied else judge_learnt(figures, recipe)
    table = {name: value for name, value in figures._asdict().items() if name != "light" and np.isfinite(value)}
    return FitCheck("does_not_fit" if sentence else "fits", table, sentence, advice)


def figures_of(sums: Sums, recipe: Recipe) -> Figures:
    """The figures of a picture."""
    n, pairs = sums.n[0], max(float(sums.n_pairs), 1.0)
    left = max(float(sums.left.sum()) / pairs, 0.0)
    left_out = np.sqrt(max(_covariance(sums.outside, pairs), 0.0))
    structure = float(sum(max(_covariance(each, pairs), 0.0) for each in sums.words.T)) + left_out
    unexplained = (left + left_out) / structure if structure > 0 else np.nan
    all_left = float(sums.squares.sum()) / n
    light = sums.light / np.maximum(sums.n, 1.0)
    deviation = np.sqrt(max(sums.light_squared[0] / n - light[0] ** 2, 0.0)) or 1.0
    return Figures(
        new=float(sums.n[1] / n),
        far=float(sums.n[2] / n),
        unexplained=min(float(unexplained), 1.0),
        structured=min(float((left + left_out) / all_left), 1.0) if all_left > 0 else np.nan,
        times=_times(float(sums.misfit) / n, recipe),
        growth=_growth(sums, recipe),
        light=(float((light[1] - light[0]) / deviation), float((light[2] - light[0]) / deviation)),
    )


def _covariance(sums: Any, pairs: float) -> float:
    """Of the first and the second pixels of pairs, from the sums of products, of the first and of the second."""
    product, first, second = (float(each) / pairs for each in sums)
    return product - first * second


def _times(misfit: float, recipe: Recipe) -> float:
    """How much pixels vary in units of what the family says; NaN where the variance was learnt from them.

    Memberships that are fitted to a pixel take up some of its noise: half of what its K − 1 free ones could.
    """
    model: Any = recipe.model
    family: Family = model.family_
    if family.has_location:
        return float(np.nan)
    n_topics, n_features = model.topic_means_.shape
    return float(misfit / (1.0 - min(0.5 * (n_topics - 1) / n_features, 0.5)))


def _growth(sums: Sums, recipe: Recipe) -> float:
    """How many times as large the noise of high values is as that of low ones; NaN where values have no low end.

    It must be so in every feature: what is missing in one of them is no noise. Noise is how much neighbours differ.
    """
    model: Any = recipe.model
    family: Family = model.family_
    features = recipe.features
    are_bands = features.names == features.undone_names and features.footprint == 1
    if not (family.has_location and are_bands) or sums.by_level[:, 0].min() < 1:
        return float(np.nan)
    low, high = sums.by_level[:, 1] / sums.by_level[:, 0]
    return float(np.min(high / np.maximum(low, np.finfo(np.float64).tiny)))


# ── figures in words ───────────────────────────────────────────────────────────────────────────────────────────────
def judge_applied(figures: Figures, recipe: Recipe) -> tuple[str, str]:
    """What is wrong where topics are applied to another picture, and what to do; empty if nothing is."""
    n_topics, advice = len(recipe.order), "Learn topics on pictures of this kind, and look at its novelty."
    if figures.new > MOST_NEW:
        return f"{_percent(figures.new)} of the pixels {_unlike(n_topics, figures.light[0])}.", advice
    if _lacks_structure(figures):
        return f"The topics leave {_percent(figures.unexplained)} of the structure of this picture unexplained.", advice
    return "", ""


def judge_learnt(figures: Figures, recipe: Recipe) -> tuple[str, str]:
    """The same where the topics were learnt from the picture."""
    n_topics, settings = len(recipe.order), recipe.settings
    more = f"Try {n_topics + 1} topics (--topics {n_topics + 1})"
    if figures.far > MOST_FAR:
        return f"{_percent(figures.far)} of the pixels {_unlike(n_topics, figures.light[1])}.", f"{more}."
    if _lacks_structure(figures):
        share = _percent(figures.unexplained)
        return (
            f"{n_topics} topics leave {share} of the structure of the picture unexplained.",
            f"{more}, or other features.",
        )
    if figures.times > MOST_TIMES or figures.times < 1.0 / MOST_TIMES / MOST_TIMES:
        said = f"Pixels vary {figures.times:.2g} times as much as family {settings.family!r} says."
        if settings.family == Gamma.name:
            looks = settings.looks / figures.times
            return said, f"Give the looks of the picture, about {looks:.2g} (--looks {looks:.2g})."
        return said, "Try --family gaussian, which learns how much pixels vary."
    if figures.growth > MOST_TIMES:
        return (
            f"Noise is {figures.growth:.2g} times as large where the picture is bright as where it is dark.",
            "Try --family gamma if that is speckle, or additive-poisson if pixels are counts.",
        )
    return "", ""


def _lacks_structure(figures: Figures) -> bool:
    return figures.unexplained > UNEXPLAINED and figures.structured > STRUCTURED


def _unlike(n_topics: int, light: float) -> str:
    """What is said of pixels that are new, whose brightness differs by so many standard deviations."""
    kind = ", most of them bright" if light > NOTABLE else ", most of them dark" if light < -NOTABLE else ""
    return f"are explained by no mixture of the {n_topics} topics{kind}"


def _percent(share: float) -> str:
    """A share in per cent, as exactly as it matters.

    >>> _percent(0.1234), _percent(0.0212)
    ('12 %', '2.1 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
