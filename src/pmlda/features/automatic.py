"""What "auto" means: which features a picture gets, and which scaling, covariance and scale rate suit them.

docs/experiments.md has the measurements under "unmixing".
"""

from typing import Any

from pmlda.features.stack import Features
from pmlda.settings import Settings

# Spectra: a full covariance would take mixing for noise, and scaling each feature by itself noise for a feature. Their
# windows are small, so that the prior of a scale must weigh more to count as much.
FOR_SPECTRA: dict[str, Any] = {"covariance": "isotropic", "scale_rate": 4.0}
FOR_OTHERS: dict[str, Any] = {"covariance": "full", "scale_rate": 0.5}


def auto_features(n_bands: int) -> str:
    """Colour for three bands, intensity for one, spectra otherwise.

    >>> auto_features(3)
    'color'
    """
    return {1: "intensity", 3: "color"}.get(n_bands, "spectral")


def complete_features(spec: str, n_bands: int, settings: Settings, *, as_measured: bool = False) -> str:
    """The features that a name means for pictures with n_bands bands.

    as_measured : whether words must be the numbers of the bands, such as counts, so that nothing may be made of them

    Spectra that mix K materials have K − 1 components, on the plane if that suits them. As many materials as bands
    leave nothing by which noise could be told from mixing: then all bands stay as they are.

    >>> complete_features("auto", 156, Settings(topics=3)), complete_features("auto", 4, Settings(topics=4))
    ('spectral:auto,pca2,noise', 'spectral:raw')
    >>> complete_features("spectral:plane", 156, Settings(topics=4))
    'spectral:plane,pca3,noise'
    >>> complete_features("auto", 3, Settings(), as_measured=True)
    'spectral:raw'
    """
    if as_measured and spec.replace(" ", "") in ("auto", "spectral", "spectral:auto"):
        return "intensity" if n_bands == 1 and spec == "auto" else "spectral:raw"
    spec = auto_features(n_bands) if spec == "auto" else spec
    name, _, form = spec.replace(" ", "").partition(":")
    if name != "spectral" or form not in ("", "auto", "plane"):
        return spec
    if settings.n_topics >= n_bands:
        return "spectral:raw" if form != "plane" else spec
    noise = ",noise" if settings.scaling == "auto" else ""
    return f"spectral:{form or 'auto'},pca{max(settings.n_topics - 1, 1)}{noise}"


def complete_settings(settings: Settings, features: Features, *, as_measured: bool = False) -> Settings:
    """Settings with "auto" replaced by what suits the features. as_measured : as in complete_features"""
    chosen = FOR_SPECTRA if features.one_unit else FOR_OTHERS
    chosen = chosen | {"scaling": "none" if features.one_unit or as_measured else "standard"}
    if features.has_noise:
        chosen["scaling"] = "noise"
    return settings.model_copy(
        update={name: value for name, value in chosen.items() if getattr(settings, name) == "auto"}
    )
