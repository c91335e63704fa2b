"""Partial Membership Latent Dirichlet Allocation: for every pixel, how much of each topic, and how sure.

>>> from pmlda import PMLDA
>>> PMLDA(n_components=4, covariance="full")
PMLDA(covariance='full', n_components=4)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "PMLDA",
    "Bernoulli",
    "Categorical",
    "Checkpoint",
    "Gamma",
    "Gaussian",
    "ModelFileError",
    "PmldaError",
    "Poisson",
    "Segmentation",
    "__version__",
    "choose_n_topics",
    "read_image",
    "resume",
    "segment",
]

if TYPE_CHECKING:
    from pmlda.errors import ModelFileError, PmldaError
    from pmlda.estimator import PMLDA
    from pmlda.families import Bernoulli, Categorical, Gamma, Gaussian, Poisson
    from pmlda.images import read_image
    from pmlda.pipeline.api import choose_n_topics, resume, segment
    from pmlda.segmentation import Segmentation
    from pmlda.storage.checkpoints import Checkpoint

_HOMES = {
    "Checkpoint": "pmlda.storage.checkpoints",
    "PMLDA": "pmlda.estimator",
    "ModelFileError": "pmlda.errors",
    "PmldaError": "pmlda.errors",
    "Segmentation": "pmlda.segmentation",
    "choose_n_topics": "pmlda.pipeline.api",
    "read_image": "pmlda.images",
    "resume": "pmlda.pipeline.api",
    "segment": "pmlda.pipeline.api",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import pmlda` itself costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'pmlda' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "pmlda.families")), name)


def __dir__() -> list[str]:
    return __all__
