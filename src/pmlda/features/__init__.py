"""Interchangeable features: Image → feature stack (H, W, p), each behind the interface of features.base."""

from typing import NamedTuple

from pmlda.features.base import Feature
from pmlda.features.find import BY_NAME, Spec, find_parts
from pmlda.features.given import Function, Given
from pmlda.features.scaling import Scaling
from pmlda.features.stack import Features
from pmlda.types import FeatureStack, Image

__all__ = [
    "Feature",
    "FeatureLine",
    "Features",
    "Function",
    "Given",
    "Scaling",
    "Spec",
    "compute_features",
    "find_features",
    "list_features",
]


class FeatureLine(NamedTuple):
    """One line of the list of features."""

    name: str
    summary: str
    options: tuple[str, ...]


def find_features(spec: Spec | Features) -> Features:
    """The features that spec names, not yet fitted; a Features object is returned as it is.

    spec : a name, with an option after a colon ("color:lab"); several joined by "+" ("color+texture"); a function
        pixels (H, W, B) → (H, W) or (H, W, p); or a list of these.

    >>> [part.spec for part in find_features("color:lab+texture").parts]
    ['color:lab', 'texture']
    """
    return spec if isinstance(spec, Features) else Features(find_parts(spec))


def compute_features(spec: Spec, image: Image) -> FeatureStack:
    """The features of one image. For several images use find_features(spec).fit(images), then compute each.

    >>> import numpy as np
    >>> grey = Image(np.full((30, 40, 1), 51, np.uint8), np.ones((30, 40), bool), ("grey",), "flat")
    >>> stack = compute_features("sonar", grey)
    >>> stack.names, stack.values.shape, stack.values[0, 0].tolist()
    (('mean', 'entropy'), (30, 40, 2), [2.0, 0.0])
    """
    return Features(find_parts(spec)).fit_compute(image)


def list_features() -> list[FeatureLine]:
    """Every feature that has a name: the name, one line on what it is, and its options.

    >>> [line.name for line in list_features()][:3]
    ['intensity', 'color', 'sonar']
    """
    return [FeatureLine(name, kind.summary, kind.options) for name, kind in BY_NAME.items()]
