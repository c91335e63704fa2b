"""Interchangeable models to compare with, all with the estimator's interface (peers.base)."""

from importlib import import_module
from typing import Any

import numpy as np

from pmlda.peers.base import Peer
from pmlda.validate import nearest, require

__all__ = ["PEERS", "Peer", "find_peer", "make_peer"]

PEERS: dict[str, str] = {"lda": "Lda", "fcm": "Fcm", "bpm": "Bpm", "bfc": "Bfc", "gmm": "Gmm", "kmeans": "Kmeans"}
"""Names, which are also those of the modules, and classes; a module is imported when its model is used."""


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
    known = isinstance(name, str) and name in PEERS
    hint = nearest(name.lower(), list(PEERS)) if isinstance(name, str) else ""
    require(known, f"There is no model {name!r}. {hint}There are: {', '.join(PEERS)}.")
    kind: type[Peer] = getattr(import_module(f"pmlda.peers.{name}"), PEERS[name])
    return kind
