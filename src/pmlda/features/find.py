"""What a user wrote → the features meant, or an error that names the nearest."""

from collections.abc import Sequence

from pmlda.errors import InputError
from pmlda.features.base import Feature
from pmlda.features.color import Color
from pmlda.features.given import Function, Given
from pmlda.features.grain import Grain
from pmlda.features.intensity import Intensity
from pmlda.features.ripple import Ripple
from pmlda.features.sonar import Sonar
from pmlda.features.spectral import Spectral
from pmlda.features.sunset import Sunset
from pmlda.features.texture import Texture
from pmlda.features.winn import Winn
from pmlda.validate import nearest, require

Spec = str | Function | Sequence[str | Function]

BY_NAME: dict[str, type[Feature]] = {
    kind.name: kind for kind in (Intensity, Color, Sonar, Ripple, Sunset, Winn, Texture, Grain, Spectral)
}


def find_parts(spec: Spec) -> list[Feature]:
    """The features of a spec, in its order.

    >>> [part.spec for part in find_parts(["color + sonar:11", len])]
    ['color', 'sonar:11', 'len']
    """
    if isinstance(spec, str):
        return [_find_one(word) for word in spec.split("+")]
    if callable(spec):
        return [Given(spec)]
    is_list = isinstance(spec, list | tuple) and len(spec) > 0
    require(is_list, f"features={spec!r}: give a name, a function, or a list of names and functions.")
    return [part for item in spec for part in find_parts(item)]


def _find_one(word: str) -> Feature:
    """The feature of one name with its option, "name" or "name:option"."""
    name, colon, option = (piece.strip() for piece in word.partition(":"))
    if name not in BY_NAME:
        hint = nearest(name.lower(), list(BY_NAME))
        raise InputError(f"features={word.strip()!r} is not known. {hint}Choose among {', '.join(BY_NAME)}.")
    require(not colon or bool(option), f"features={word.strip()!r}: an option must follow the colon.")
    return BY_NAME[name](option.replace(" ", ""))
