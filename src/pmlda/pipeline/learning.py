"""Words of all tiles → a recipe: scaling, model, and the order of topics in the maps."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.diagnostics import Remedy
from pmlda.engines.documents import LABELLED_PART
from pmlda.engines.labels import told_apart
from pmlda.engines.parameters import MOST_START_SWEEPS, START_ENGINE
from pmlda.engines.registry import find_engine
from pmlda.families.base import Family
from pmlda.families.rows import count_distinct
from pmlda.features import Features
from pmlda.features.automatic import complete_settings
from pmlda.features.scaling import Scaling
from pmlda.images.library import Spectra
from pmlda.labels import PixelLabels
from pmlda.pipeline.family import as_measured, choose_family, family_of, means_add
from pmlda.pipeline.known import known_words
from pmlda.recipe import Model, Recipe, find_model, share_weights
from pmlda.settings import Settings
from pmlda.types import BoolArray, FloatArray, IntArray, Labels
from pmlda.validate import require

# Draws from which the pixels follow that a sampler has not visited.
MAP_DRAWS = 20
# Rate λ of scales for counts whose means add, where fewer photons need a stronger prior. Errors at 0.5, 1, 2, 4, 16 are
# 0.133 0.118 0.125 0.143 0.194 for 2 photons in a pixel, 0.095 0.093 0.100 0.111 0.144 for 5, 0.057 0.058 0.061 0.065
# 0.076 for 20, on three pictures each by which it was chosen (scenes.photon_counts, 64 × 64 pixels, seeds 10 to 12); on
# three others 0.150 0.125 0.130 0.145 0.191, 0.098 0.094 0.098 0.105 0.132 and 0.057 0.057 0.058 0.061 0.070.
WHERE_MEANS_ADD = 1.0
ON_PICTURES = Remedy(
    "give sweeps={sweeps} (--set sweeps={sweeps})",
    "use engine='variational', whose refits cover several optima, or give fewer topics",
    either=True,
)
"""What to do about chains that have not mixed, for who segments a picture."""


class Learning(NamedTuple):
    """Options of learning.

    n_jobs, verbose : as in PMLDA
    checkpoint : a folder or a pmlda.Checkpoint, see PMLDA.fit
    start_only : whether the topics are only the initial values of a sampler over all tiles
    design_effect : how many words repeat each other, see PMLDA
    thinning : one pixel in so many is visited by the sampler, and the others follow from its draws; None if all are
    thinning_beside_labels : topics are learnt from one pixel in so many, and from all that have labels
    known : spectra of topics that are known, the first ones of the maps
    """

    n_jobs: int | None = None
    verbose: int = 0
    checkpoint: Any = None
    start_only: bool = False
    design_effect: float = 1.0
    thinning: float | None = None
    thinning_beside_labels: float = 1.0
    known: Spectra | None = None


def thins_words(settings: Settings) -> bool:
    """Whether the engine visits no more pixels than tell something new; design_effect=1 says that all of them do."""
    return settings.model == "pmlda" and settings.design_effect != 1 and find_engine(settings.engine).thins_words


def thin_beside_labels(labels: Sequence[PixelLabels | None], n_valid: int, design_effect: float) -> float:
    """One pixel in how many topics are learnt from, beside those with labels; 1 is all of them.

    Strokes are few: among hundreds of thousands of pixels that repeat each other, the topics that the user means would
    be outvoted. Pixels are left out until LABELLED_PART of those that remain have labels, but no more than repeat
    others.
    """
    n_labelled = sum(len(each.pixel) for each in labels if each is not None)
    return 1.0 if n_labelled == 0 else float(np.clip(LABELLED_PART * n_valid / n_labelled, 1.0, design_effect))


def learn_recipe(
    values: NDArray[np.floating],
    groups: IntArray,
    features: Features,
    settings: Settings,
    how: Learning,
    told: Mapping[str, Labels | None] | None = None,
) -> Recipe:
    """Learn topics from the features of pixels (n, p) and the document of each.

    told : labels of pixels and documents, as arguments of PMLDA.fit; topics are then numbered as labels say
    """
    chosen, family = complete_for_family(settings, features), family_of(settings)
    scaling = Scaling(chosen.scaling).fit(values)
    words = scaling.apply(values)
    check_words(words, settings.n_topics, family)
    require(
        "proportions" not in settings.fixed or share_weights(words[:1].astype(np.float64), features, scaling) is None,
        f"Proportions are fixed, but features={features.spec!r} do not mix as shares do. Use features='spectral:raw' "
        "with scaling='standard', or leave proportions out.",
    )
    kept = {} if how.checkpoint is None else {"checkpoint": how.checkpoint}
    known = chosen.model_copy(update={"design_effect": how.design_effect})
    bounds = bounds_of(chosen, features, scaling)
    means = None if how.known is None else known_words(how.known, settings, features, scaling, bounds)
    model = make_model(start_settings(known) if how.start_only else known, how.n_jobs, how.verbose, bounds, means)
    model.fit(words, groups=groups, **kept, **(told or {}))
    if how.thinning is not None:
        sampled: Any = model  # a PMLDA: no other thins words
        sampled.follow_draws(MAP_DRAWS)
    numbered, labelled = known_first(how.known, settings.n_topics), told_apart(*(told or {}).values())
    numbered = (numbered if labelled is None else numbered | labelled) | ("proportions" in settings.fixed)
    order = canonical_order(family.mean_words(model.topic_means_), features, scaling, numbered)
    return Recipe(features, scaling, model, order, settings, how.thinning)


def complete_for_family(settings: Settings, features: Features) -> Settings:
    """Settings with "auto" replaced by what suits the features and the family."""
    if settings.scale_rate == "auto" and means_add(settings):
        settings = settings.model_copy(update={"scale_rate": WHERE_MEANS_ADD})
    return complete_settings(settings, features, as_measured=as_measured(settings))


def note_on_words(recipe: Recipe, n_pixels: int) -> tuple[str, ...]:
    """Sentences on features, and on how many pixels a sampler has visited, if it has not visited all of them."""
    if recipe.thinning is None:
        return recipe.features.notes
    n, engine = int(recipe.model.document_sizes_.sum()), recipe.settings.engine
    if n == n_pixels:
        return recipe.features.notes
    every = f"one in {n_pixels / n:.0f}; other pixels follow from its draws"
    return (*recipe.features.notes, f"Engine {engine} sampled {n:,} of {n_pixels:,} pixels, {every}.")


def bounds_of(settings: Settings, features: Features, scaling: Scaling) -> tuple[FloatArray, FloatArray] | None:
    """The bounds that settings, which are complete, ask for."""
    bounded = settings.bounds == "auto" and family_of(settings).can_be_bounded
    return topic_bounds(features, scaling) if bounded else None


def topic_bounds(features: Features, scaling: Scaling) -> tuple[FloatArray, FloatArray] | None:
    """(p,) each, between which words are possible; None where nothing is known of any feature."""
    limits = None if features.possible is None else scaling.apply_limits(features.possible)
    return None if limits is None or np.isinf(limits).all() else (limits[0], limits[1])


def start_settings(settings: Settings) -> Settings:
    """Settings for the initial topics of a sampler over tiles."""
    return settings.model_copy(update={"engine": START_ENGINE, "sweeps": MOST_START_SWEEPS, "refits": 0})


def make_model(
    settings: Settings,
    n_jobs: int | None = None,
    verbose: int = 0,
    bounds: tuple[FloatArray, FloatArray] | None = None,
    known: dict[str, Any] | None = None,
) -> Model:
    """The model that was chosen, with the settings that apply to it.

    bounds : of topics, in the units of words
    known : what is known of topics, as known_words returns it
    """
    worth = 1.0 if settings.design_effect == "auto" else settings.design_effect
    of_pmlda: dict[str, Any] = {
        "covariance": settings.covariance,
        "alpha": settings.alpha,
        "scale_rate": settings.scale_rate,
        "engine": settings.engine,
        "n_sweeps": settings.sweeps,
        "n_jobs": n_jobs,
    }
    options: dict[str, dict[str, Any]] = {
        "pmlda": of_pmlda
        | {"family": choose_family(settings), "n_init": settings.n_init, "fixed": dict(settings.fixed) or None}
        | {"design_effect": worth, "n_refits": settings.refits, "topic_bounds": bounds, "verbose": verbose}
        | (known or {}),
        "lda": {"dictionary": settings.dictionary},
        "fcm": {"fuzzifier": settings.fuzzifier},
        "bpm": of_pmlda,
        "bfc": {"fuzzifier": settings.fuzzifier, "n_sweeps": settings.sweeps},
    }
    own = options.get(settings.model, {})
    made = find_model(settings.model)(settings.n_topics, random_state=settings.seed, **own)
    if settings.model == "pmlda":
        made.remedy = ON_PICTURES
    model: Model = made
    return model


def check_words(words: NDArray[np.floating], n_topics: int, family: Family) -> None:
    """Refuse more topics than there are distinct pixels, unless topics are no points among them."""
    found = count_distinct(words, max(n_topics, 2))
    require(
        found > 1,
        "All pixels have the same features, so there is nothing to tell apart. "
        "Give a picture with more than one colour, or choose other features.",
    )
    require(
        found >= n_topics or not family.means_among_words,
        f"The features of the picture take only {found} different values, too few for {n_topics} topics. "
        "Ask for fewer topics, or choose other features.",
    )


def known_first(known: Spectra | None, n_topics: int) -> BoolArray:
    """(K,) topics that are known, which are the first."""
    return np.arange(n_topics) < (0 if known is None else len(known.names))


def canonical_order(means: FloatArray, features: Features, scaling: Scaling, numbered: BoolArray) -> IntArray:
    """Order of topics from low to high features, dark to bright in a photograph, independent of the fit.

    means : (K, p) of words
    numbered : (K,) topics that stay where they are
    """
    if features.can_undo:
        means = features.undo(scaling.undo(means))
    elif features.is_brightness:
        means = scaling.undo(means)
    order, free = np.arange(len(means)), np.flatnonzero(~numbered)
    order[free] = free[np.argsort(means[free].mean(axis=1), kind="stable")]
    return order
