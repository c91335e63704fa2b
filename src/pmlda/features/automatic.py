"""features="auto": which features a picture with so many bands gets."""


def auto_features(n_bands: int) -> str:
    """Colour for three bands, intensity for one, all bands otherwise.

    >>> auto_features(3)
    'color'
    """
    return {1: "intensity", 3: "color"}.get(n_bands, "spectral")
