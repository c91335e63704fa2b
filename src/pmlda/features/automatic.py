"""What "auto" means: which features a picture gets, and which scaling, covariance and scale rate suit them.

docs/experiments.md has the measurements under "unmixing".
"""

from pmlda.features.stack import Features
from pmlda.settings import Settings

# Spectra: a full covariance would take mixing for noise, and scaling each feature by itself noise for a feature. Their
# windows are small, so that the prior of a scale must weigh more to count as much.
FOR_SPECTRA = {"covariance": "isotropic", "scale_rate": 4.0}
FOR_OTHERS = {"covariance": "full", "scale_rate": 0.5}


def auto_features(n_bands: int) -> str:
    """Colour for three bands, intensity for one, spectra otherwise.

    >>> auto_features(3)
    'color'
    """
    return {1: "intensity", 3: "color"}.get(n_bands, "spectral")


def complete_features(spec: str, n_bands: int, settings: Settings) -> str:
    """The features that a name means for pictures with n_bands bands.

    Spectra that mix K materials have K − 1 components, on the plane if that suits them. As many materials as bands
    leave nothing by which noise could be told from mixing: then all bands stay as they are.

    >>> complete_features("auto", 156, Settings(topics=3)), complete_features("auto", 4, Settings(topics=4))
    ('spectral:auto,pca2,noise', 'spectral:raw')
    >>> complete_features("spectral:plane", 156, Settings(topics=4))
    'spectral:plane,pca3,noise'
    """
    spec = auto_features(n_bands) if spec == "auto" else spec
    name, _, form = spec.replace(" ", "").partition(":")
    if name != "spectral" or form not in ("", "auto", "plane"):
        return spec
    if settings.topics >= n_bands:
        return "spectral:raw" if form != "plane" else spec
    noise = ",noise" if settings.scaling == "auto" else ""
    return f"spectral:{form or 'auto'},pca{max(settings.topics - 1, 1)}{noise}"


def complete_settings(settings: Settings, features: Features) -> Settings:
    """Settings with "auto" replaced by what suits the features."""
    chosen = {"scaling": "none"} | FOR_SPECTRA if features.one_unit else {"scaling": "standard"} | FOR_OTHERS
    if features.has_noise:
        chosen["scaling"] = "noise"
    return settings.model_copy(
        update={name: value for name, value in chosen.items() if getattr(settings, name) == "auto"}
    )
