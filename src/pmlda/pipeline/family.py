"""Settings → the family of topic distributions; what is asked for together with it, and the pixels, must suit it."""

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import InputError
from pmlda.families import Gamma, Gaussian, find_family
from pmlda.families.base import Family
from pmlda.features.stack import Features
from pmlda.settings import Settings
from pmlda.validate import require

ANY_COVARIANCE = "isotropic"


def choose_family(settings: Settings) -> str | Family:
    """The family as PMLDA takes it: with the looks of speckle, for gamma."""
    return Gamma(shape=settings.looks) if settings.family == Gamma.name else settings.family


def family_of(settings: Settings) -> Family:
    """The family, whose prior is still open. A covariance that "auto" leaves open makes no difference here."""
    covariance = ANY_COVARIANCE if settings.covariance == "auto" else settings.covariance
    return find_family(choose_family(settings), covariance)


def as_measured(settings: Settings) -> bool:
    """Whether words must be numbers as they were measured: counts, speckle and symbols have no other units.

    Features of families that have a location, the Gaussians, may be centred, scaled and turned.
    """
    return not family_of(settings).has_location


def means_add(settings: Settings) -> bool:
    """Whether counts of a pixel are sums over its topics, rather than natural parameters that mix."""
    return family_of(settings).additive


def in_small_windows(settings: Settings, features: Features) -> bool:
    """Whether documents are small windows by "auto": those of spectra, and of pixels as they were measured.

    Superpixels follow the noise of counts and speckle, and borders of symbols are none between their numbers.
    """
    return features.one_unit or as_measured(settings)


def check_family(settings: Settings) -> None:
    """Refuse a family that is not known, or that other settings do not suit."""
    family, name = family_of(settings), settings.family
    require(
        settings.model == "pmlda" or name == Gaussian.name,
        f"family={name!r} was given, but model={settings.model!r} has no families. Use model='pmlda', or leave family "
        "out.",
    )
    require(
        settings.model == "pmlda" or not settings.fixed,
        f"fixed={settings.fixed!r} was given, but model={settings.model!r} fixes nothing. Use model='pmlda', or leave "
        "fixed out.",
    )
    require(
        name == Gaussian.name or settings.covariance == "auto",
        f"covariance={settings.covariance!r} was given, but family={name!r} has none. Leave covariance out, or use "
        "family='gaussian'.",
    )
    require(
        name == Gamma.name or settings.looks == Settings.model_fields["looks"].default,
        f"looks={settings.looks:g} was given, but family={name!r} has none. Use family='gamma', or leave looks out.",
    )
    require(
        family.has_location or settings.scaling in ("auto", "none"),
        f"scaling={settings.scaling!r} was given, but family={name!r} needs numbers as they were measured. Leave "
        "scaling out, or use family='gaussian'.",
    )


def check_pixels(family: Family, values: NDArray[np.floating], features: str, picture: str) -> None:
    """Refuse the features of a picture that a family cannot produce.

    values : (n, p) features of valid pixels, as the family takes them
    features, picture : what they are called
    """
    try:
        family.check_words(values)
    except InputError as error:
        raise InputError(f"{picture}, features={features!r}: {error}") from None
