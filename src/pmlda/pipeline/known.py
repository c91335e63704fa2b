"""Spectra of topics that are known, in units of the bands → means of words and their spread, as PMLDA takes them."""

from typing import Any

import numpy as np

from pmlda.features.scaling import Scaling
from pmlda.features.stack import Features
from pmlda.images.library import Spectra
from pmlda.pipeline.family import family_of
from pmlda.settings import Settings
from pmlda.types import FloatArray, Image
from pmlda.validate import brief, require

# Numbers of features are float32: what is outside of bounds by no more than this, in units of words, is rounding.
ROUNDING = 1e-5

Bounds = tuple[FloatArray, FloatArray] | None


def check_known(known: Spectra, settings: Settings, features: Features) -> None:
    """Refuse known topics that the model or the features have no use for, before anything is computed."""
    require(
        settings.model == "pmlda",
        f"Topics are known, but model {settings.model!r} cannot make use of it. Use model 'pmlda'.",
    )
    require(
        len(known.names) <= settings.n_topics,
        f"{len(known.names)} topics are known, {brief(list(known.names))}, but {settings.n_topics} were asked for. Ask "
        f"for at least {len(known.names)}, or leave out some that are known.",
    )
    require(
        family_of(settings).means_among_words,
        f"Topics are known by the values of their bands, but those of family {settings.family!r} are probabilities of "
        "symbols. Leave known topics out, or use another family.",
    )
    require(
        features.reach == 0 and not features.functions,
        f"Topics are known by the values of their bands, but features={features.spec!r} depend on more than one pixel. "
        "Use features='spectral', 'color' or 'intensity'.",
    )


def known_words(
    known: Spectra, settings: Settings, features: Features, scaling: Scaling, bounds: Bounds
) -> dict[str, Any]:
    """known_topics and known_spread of PMLDA. A known spectrum becomes a word by the same map as a pixel.

    A spread holds for every band by itself; that of a word follows from what a change of each band does to it.
    """
    found = np.full((settings.n_topics, scaling.n_words), np.nan)
    spread = np.zeros_like(found)
    for k, spectrum in enumerate(known.spectra):
        moved = spectrum + settings.known_spread * np.eye(len(spectrum))
        words = _to_words(np.vstack([spectrum, moved]), features, scaling)
        found[k], spread[k] = words[0], np.linalg.norm(words[1:] - words[0], axis=0)
    return {"known_topics": _between(found, bounds, known), "known_spread": spread}


def _to_words(spectra: FloatArray, features: Features, scaling: Scaling) -> FloatArray:
    """(n, p) words of pixels with these spectra (n, B)."""
    pixels = Image(spectra[None], np.ones((1, len(spectra)), bool), (), "known topics")
    return scaling.apply(features.compute(pixels).values[0]).astype(np.float64)


def _between(words: FloatArray, bounds: Bounds, known: Spectra) -> FloatArray:
    """Words without what rounding has put outside of the bounds; an error for others."""
    if bounds is None:
        return words
    inside = np.clip(words, *bounds)
    for name, word, nearest in zip(known.names, words, inside, strict=False):
        require(
            bool((np.abs(word - nearest) <= ROUNDING).all()),
            f"The known topic {brief(name)} has values that no pixel of the picture can have. Give them in the units "
            "of its bands, or let topics go anywhere (bounds='none').",
        )
    return inside
