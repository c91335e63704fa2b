"""Interchangeable models to compare with, all with the estimator's face (peers.base)."""

from typing import Any

import numpy as np

from pmlda.peers.base import Peer
from pmlda.peers.bfc import Bfc
from pmlda.peers.bpm import Bpm
from pmlda.peers.fcm import Fcm
from pmlda.peers.gmm import Gmm
from pmlda.peers.kmeans import Kmeans
from pmlda.peers.lda import Lda
from pmlda.validate import nearest, require

__all__ = ["BY_NAME", "Bfc", "Bpm", "Fcm", "Gmm", "Kmeans", "Lda", "Peer", "make_peer"]

BY_NAME: dict[str, type[Peer]] = {kind.name: kind for kind in (Lda, Fcm, Bpm, Bfc, Gmm, Kmeans)}


def make_peer(
    name: str, n_topics: int = 3, *, random_state: int | np.random.RandomState | None = 0, **options: Any
) -> Peer:
    """The model of that name, not yet fitted.

    >>> make_peer("fcm", 2, fuzzifier=2.0)
    Fcm(fuzzifier=2.0, n_components=2, random_state=0)
    """
    kind = find_peer(name)
    known = [option for option in kind._get_param_names() if option not in ("n_components", "random_state")]
    for option in options:
        hint = nearest(option, known)
        require(option in known, f"{name} has no option {option!r}. {hint}There are: {', '.join(known)}.")
    return kind(n_components=n_topics, random_state=random_state, **options)


def find_peer(name: str) -> type[Peer]:
    """The class of that name."""
    known = isinstance(name, str) and name in BY_NAME
    hint = nearest(name.lower(), list(BY_NAME)) if isinstance(name, str) else ""
    require(known, f"There is no model {name!r}. {hint}There are: {', '.join(BY_NAME)}.")
    return BY_NAME[name]
