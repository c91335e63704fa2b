"""Interchangeable topic distributions, each an exponential family behind the interface of families.base."""

from pmlda.families.additive import AdditivePoisson
from pmlda.families.base import Conjugate, Family, Terms
from pmlda.families.counts import Bernoulli, Categorical, Gamma, Poisson
from pmlda.families.gaussian import Gaussian
from pmlda.families.means import NormalMeans
from pmlda.families.noise import NOISES, DiagonalNoise, FullNoise, IsotropicNoise
from pmlda.families.topic_gaussian import TopicDiagonalGaussian, TopicFullGaussian
from pmlda.storage.archive import register
from pmlda.validate import choice

__all__ = [
    "AdditivePoisson",
    "Bernoulli",
    "Categorical",
    "Conjugate",
    "DiagonalNoise",
    "Family",
    "FullNoise",
    "Gamma",
    "Gaussian",
    "IsotropicNoise",
    "NormalMeans",
    "Poisson",
    "Terms",
    "TopicDiagonalGaussian",
    "TopicFullGaussian",
    "find_family",
]

register(
    AdditivePoisson,
    Bernoulli,
    Categorical,
    DiagonalNoise,
    FullNoise,
    Gamma,
    Gaussian,
    IsotropicNoise,
    NormalMeans,
    Poisson,
    TopicDiagonalGaussian,
    TopicFullGaussian,
    in_models=True,
)

_PER_TOPIC: dict[str, type[Family]] = {"topic-diagonal": TopicDiagonalGaussian, "topic-full": TopicFullGaussian}
_OTHERS: dict[str, type[Family]] = {cls.name: cls for cls in (Poisson, AdditivePoisson, Bernoulli, Gamma, Categorical)}


def find_family(family: str | Family, covariance: str = "isotropic") -> Family:
    """The family of that name (and covariance, for Gaussians); a Family object is returned as it is.

    >>> find_family("gaussian", "full").noise.name
    'full'
    >>> find_family("poisson").name
    'poisson'
    """
    choice("covariance", covariance, (*NOISES, *_PER_TOPIC))
    if isinstance(family, Family):
        return family
    choice("family", family, ("gaussian", *_OTHERS))
    if family in _OTHERS:
        return _OTHERS[family]()
    return Gaussian(noise=NOISES[covariance]()) if covariance in NOISES else _PER_TOPIC[covariance]()
