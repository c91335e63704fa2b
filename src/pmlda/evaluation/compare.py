"""Several models on one picture, the same features and documents for each → their maps, times and scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.images import read_image, to_rgb
from pmlda.metrics import auc, crisp_iou, membership_rmse, soft_iou
from pmlda.output.figures import comparison
from pmlda.partitions import read_labels
from pmlda.pipeline.api import segment
from pmlda.segmentation import Map, Segmentation, crisp
from pmlda.settings import MODELS
from pmlda.types import Image, IntArray
from pmlda.validate import nearest, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Models that the paper shows as labels, not as maps.
CRISP = ("lda", "kmeans")


class Comparison(NamedTuple):
    """What each model made of the picture.

    found : by name of the model
    rows : a table, one row for each model: seconds of the fit and of the maps, and scores where there is a truth
    truth : what was known
    """

    found: dict[str, Segmentation]
    rows: list[dict[str, Any]]
    truth: Truth | None = None


class Truth(NamedTuple):
    """What is known of a picture: memberships (H, W, K), or labels (H, W) with −1 where nothing is known."""

    memberships: Map | None
    labels: IntArray

    @property
    def drawn(self) -> Map | IntArray:
        """Memberships, or labels without gaps between their numbers."""
        if self.memberships is not None:
            return self.memberships
        known = self.labels >= 0
        return np.where(known, np.searchsorted(np.unique(self.labels[known]), self.labels), -1)


def compare(
    image: Any,
    models: tuple[str, ...] = ("pmlda", "lda", "fcm", "gmm"),
    n_topics: int = 3,
    *,
    truth: Any = None,
    **settings: Any,
) -> Comparison:
    """Segment one picture with each of the models.

    Parameters
    ----------
    image : path or array
    models : names, see pmlda.peers
    n_topics : how many topics, for every model
    truth : memberships (H, W, K) or labels (H, W), an array or a file (TIFF of several bands, or a label image)
    **settings : as for segment

    >>> rng = np.random.default_rng(0)
    >>> picture = np.linspace(0.0, 1.0, 24)[None, :, None] + 0.03 * rng.normal(size=(16, 24, 3))
    >>> [row["model"] for row in compare(picture, ("pmlda", "kmeans"), 2, documents="whole").rows]
    ['pmlda', 'kmeans']
    """
    require(len(models) > 0, f"There is no model to compare. Name some of {', '.join(MODELS)}.")
    for name in models:
        require(name in MODELS, f"There is no model {name!r}. {nearest(name, MODELS)}There are: {', '.join(MODELS)}.")
    require(len(set(models)) == len(models), f"A model is named twice: {', '.join(models)}.")
    picture = image if isinstance(image, Image) else read_image(image)
    known = None if truth is None else read_truth(truth, picture, n_topics)
    found, rows = {}, []
    for name in models:
        made = segment(picture, n_topics, model=name, **settings)
        seconds = made.timings["fit"] + made.timings["maps"]
        found[name] = made
        rows.append({"model": name, "seconds": round(seconds, 3)} | ({} if known is None else scores(made, known)))
    return Comparison(found, rows, known)


def comparison_figure(compared: Comparison) -> Figure:
    """The paper's figure: the picture, maps of the soft models, labels of the crisp ones, and the truth if any."""
    first = next(iter(compared.found.values()))
    shown: dict[str, Map | IntArray] = {}
    for name, found in compared.found.items():
        maps = found.membership_maps[0]
        shown[name] = crisp(maps) if name in CRISP else maps
    if compared.truth is not None:
        shown["truth"] = compared.truth.drawn
    return comparison(to_rgb(first.images[0]), shown, topic_names=first.topic_names)


def read_truth(truth: Any, picture: Image, n_topics: int) -> Truth:
    """Memberships or labels of every pixel of the picture."""
    array = _array(truth)
    shape = picture.valid.shape
    require(
        array.ndim in (2, 3) and array.shape[:2] == shape,
        f"The truth has shape {array.shape} but the picture has {shape}: give memberships (H, W, K) or labels (H, W) "
        "of the same picture.",
    )
    if array.ndim == 2:
        require(
            array.dtype.kind in "biu",
            f"The truth has one band of type {array.dtype}: give whole numbers as labels, or one band for each topic.",
        )
        labels = np.where(picture.valid, array.astype(np.int64), -1)
        n_classes = len(np.unique(labels[labels >= 0]))
        require(n_classes > 1, f"The truth has {n_classes} class(es), so there is nothing to tell apart.")
        return Truth(None, labels)
    require(
        array.shape[2] <= n_topics,
        f"The truth has {array.shape[2]} topics, but {n_topics} are looked for. Ask for as many as there are.",
    )
    maps = array.astype(np.float32)
    valid = picture.valid & np.isfinite(maps).all(axis=2)
    require(bool(valid.any()), "The truth has no pixel without NaN where the picture has data.")
    low, high = float(maps[valid].min()), float(maps[valid].max())
    require(
        low >= 0.0 and high <= 1.0,
        f"The truth has {array.shape[2]} bands from {low:g} to {high:g}: give memberships between 0 and 1, or a label "
        "image of one band.",
    )
    return Truth(np.where(valid[..., None], maps, np.nan), np.where(valid, maps.argmax(axis=2), -1))


def _array(truth: Any) -> NDArray[np.generic]:
    if not isinstance(truth, str | Path):
        return np.asarray(truth)
    path = Path(truth)
    if path.suffix.lower() in (".tif", ".tiff") and (bands := read_image(path).pixels).shape[2] > 1:
        return bands
    return read_labels(path)


def scores(found: Segmentation, truth: Truth) -> dict[str, float]:
    """How close the maps are to the truth, topics matched to it.

    Of labels, the AUC of each class is that of the topic that tells it best, for every model alike.
    """
    maps = found.membership_maps[0]
    known = (truth.labels >= 0) & np.isfinite(maps[..., 0])
    overlap = float(crisp_iou(crisp(maps), truth.labels, mask=known).mean())
    if truth.memberships is not None:
        return {
            "membership_rmse": membership_rmse(maps, truth.memberships, mask=known),
            "soft_iou": float(soft_iou(maps, truth.memberships, mask=known).mean()),
            "crisp_iou": overlap,
        }
    each = {}
    for label in np.unique(truth.labels[known]):
        here = truth.labels == label
        each[f"auc_{label}"] = max(auc(maps[..., k], here, mask=known) for k in range(maps.shape[2]))
    return each | {"crisp_iou": overlap}
