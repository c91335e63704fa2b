"""Segmentation: what a run makes of a picture — soft maps, their uncertainty, crisp labels, transitions, topics.

pmlda.pipeline.api makes it, pmlda.output.figures draws it, pmlda.output.folder writes it to a folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmlda.estimator import PMLDA
from pmlda.features import Features
from pmlda.features.scaling import Scaling
from pmlda.peers import Peer
from pmlda.settings import Settings
from pmlda.types import FloatArray, Image, IntArray, Verdict
from pmlda.validate import require

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

Map = NDArray[np.float32]
Item = TypeVar("Item")


class Chain(NamedTuple):
    """What was learnt, enough to treat another picture alike.

    features, scaling : pixels → words
    model : words → memberships, topics in its own order
    order : (K,) topic j of the maps is topic order[j] of the model
    settings : what was asked for
    """

    features: Features
    scaling: Scaling
    model: PMLDA | Peer
    order: IntArray
    settings: Settings

    @property
    def topics(self) -> FloatArray:
        """(K, p) mean of each topic in units of the features, in the order of the maps."""
        return self.scaling.undo(self.model.topic_means_)[self.order]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Soft maps of one picture, or of several that share topics.

    Maps are (H, W, …) with NaN, or −1, where a picture has no data. For a list of pictures every attribute that is a
    map is a list of maps.

    memberships : (H, W, K) how much of each topic
    uncertainty : (H, W, K) standard deviation of each membership, topics taken as known; zero where a model has none
    labels : (H, W) the largest topic
    documents : (H, W) the document of each pixel
    topics : (K, p) mean of each topic in units of the features
    feature_names : (p,)
    proportions, scales : (D, K) and (D,) π and s of each document; of other models than PM-LDA see Peer.describe
    verdict : whether the fit can be trusted, see pmlda.types.Verdict
    timings : seconds of each stage
    images, chain : what went in, and what was learnt
    """

    images: list[Image]
    chain: Chain
    membership_maps: list[Map]
    uncertainty_maps: list[Map]
    document_maps: list[IntArray]
    proportions: FloatArray
    scales: FloatArray
    several: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def memberships(self) -> Map | list[Map]:
        return self._given(self.membership_maps)

    @property
    def uncertainty(self) -> Map | list[Map]:
        return self._given(self.uncertainty_maps)

    @property
    def documents(self) -> IntArray | list[IntArray]:
        return self._given(self.document_maps)

    @property
    def labels(self) -> IntArray | list[IntArray]:
        return self._given([crisp(maps) for maps in self.membership_maps])

    @property
    def topics(self) -> FloatArray:
        return self.chain.topics

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.chain.features.names

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(f"topic {k + 1}" for k in range(len(self.chain.order)))

    @property
    def settings(self) -> Settings:
        return self.chain.settings

    @property
    def verdict(self) -> Verdict:
        return self.chain.model.verdict_

    @property
    def has_uncertainty(self) -> bool:
        """Whether the model knows any: fuzzy c-means, for one, does not."""
        return any(bool((maps > 0).any()) for maps in self.uncertainty_maps)

    def transition(self, low: float = 0.4, high: float = 0.6) -> NDArray[np.bool_] | list[NDArray[np.bool_]]:
        """(H, W) where some membership lies between low and high: neither one topic nor another."""
        require(0.0 <= low <= high <= 1.0, f"low={low!r}, high={high!r}: give 0 ≤ low ≤ high ≤ 1.")
        return self._given([between(maps, low, high) for maps in self.membership_maps])

    def apply(self, image: Any, *, mask: Any = None) -> Segmentation:
        """The same topics in another picture."""
        from pmlda.pipeline.api import apply  # late: the pipeline makes these objects

        return apply(self.chain, image, mask=mask)

    def plot(self, index: int = 0) -> Figure:
        """Picture, membership maps, labels, transition and uncertainty side by side."""
        from pmlda.output.figures import overview

        return overview(self, index)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Maps, figures, report, model and settings in a folder: all of it, or nothing."""
        from pmlda.output.folder import save

        return save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Segmentation:
        """What save wrote: all maps, to draw, to report or to apply; the picture as it was shown, in 8 bits."""
        from pmlda.output.folder import load

        return load(folder)

    def _given(self, items: list[Item]) -> Item | list[Item]:
        """A list for a list of pictures, and what is in it for one picture."""
        return items if self.several else items[0]


def crisp(maps: Map) -> IntArray:
    """(H, W) the largest topic, −1 where there is no data."""
    valid = np.isfinite(maps[..., 0])
    return np.where(valid, np.argmax(np.where(valid[..., None], maps, 0.0), axis=-1), -1)


def between(maps: Map, low: float, high: float) -> NDArray[np.bool_]:
    """(H, W) where some membership lies between low and high."""
    with np.errstate(invalid="ignore"):
        return np.asarray(((maps >= low) & (maps <= high)).any(axis=-1))
