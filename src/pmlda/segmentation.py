"""Segmentation: the result of a run — soft maps, their uncertainty, crisp labels, transitions, topics.

Maps are arrays, in memory or on disk; what is derived from maps on disk is computed when it is sliced. pmlda.pipeline
makes segmentations, pmlda.output draws and writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmlda.labels.asking import Worth, best_places, worth_of
from pmlda.matching import match_topics_to_library
from pmlda.tables import topic_rows
from pmlda.types import (
    Convergence,
    FitCheck,
    FloatArray,
    Image,
    IntArray,
    LeftOut,
    Match,
    Share,
    TopicValue,
    Verdict,
)
from pmlda.validate import require, whole

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from xarray import Dataset

    from pmlda.howmany import Choice
    from pmlda.labels import PixelLabels
    from pmlda.labels.agreement import Agreement
    from pmlda.recipe import Recipe
    from pmlda.settings import Settings

Map = NDArray[np.float32]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False, repr=False)
class Segmentation:
    """Soft maps of one picture, or of several that share topics.

    Maps are (H, W, …) with NaN, or −1, where a picture has no data. For a list of pictures, every attribute that is a
    map is a list of maps. Maps that were written to a file stay there: slice them, or pass them to np.asarray if they
    fit in memory.

    memberships : (H, W, K) how much of each topic
    uncertainty : (H, W, K) standard deviation of each membership: of the pixel given the topics, of documents and
        topics and of the choice between optima (settings.refits, or draws), and of the window of the features; zero if
        the model has none. interval() gives low and high ends
    labels : (H, W) the largest topic
    documents : (H, W) the document of each pixel
    topics : (K, p) mean of each topic in units of the features; for spectra (K, bands) in units of the bands
    topic_names, feature_names : (K,) and (p,); topics have the names that were given, or numbers
    proportions, scales : (D, K) and (D,) π and s of each document; for other models see Peer.infer_documents
    verdict : whether the fit can be trusted, see pmlda.types.Verdict
    timings : seconds of each stage
    images, recipe : the input, and what was learnt; for maps on disk, the picture at the size of the overview
    path : path of the maps, if they are on disk
    matches : for each topic the spectra of the library that it is most like, if one was given
    pixel_labels : what was said of the pixels of each picture, or None; empty without labels
    fit_checks : for each picture whether the topics explain it, see pmlda.types.FitCheck
    applied : whether the topics were learnt elsewhere
    left_out : pictures that were found in a folder or by a pattern, but could not be read, each with the reason
    choice : how the number of topics was chosen, with n_topics="auto"; see pmlda.howmany.Choice
    """

    images: list[Image]
    recipe: Recipe
    membership_maps: list[Any]
    uncertainty_maps: list[Any]
    document_maps: list[Any]
    proportions: FloatArray
    scales: FloatArray
    several: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
    path: Path | None = None
    record: dict[str, Any] = field(default_factory=dict)
    pixel_labels: tuple[PixelLabels | None, ...] = ()
    agreements: tuple[tuple[Agreement, ...], ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    share_rows: tuple[tuple[Share, ...], ...] = ()
    residual_maps: tuple[Any, ...] = ()
    novelty_maps: tuple[Any, ...] = ()
    fit_checks: tuple[FitCheck, ...] = ()
    applied: bool = False
    matches: tuple[tuple[Match, ...], ...] = ()
    choice: Choice | None = None
    _overview: Callable[[], Segmentation] | None = None
    _keeper: Any = None

    def __repr__(self) -> str:
        sizes = " and ".join(f"{maps.shape[0]} × {maps.shape[1]}" for maps in self.membership_maps[:2])
        more = f" and {len(self.membership_maps) - 2} more" if len(self.membership_maps) > 2 else ""
        where = "" if self.path is None else f" in {str(self.path)!r}"
        settings = self.settings
        return (
            f"Segmentation({sizes}{more} pixels, {len(self.recipe.order)} topics, "
            f"features={settings.features!r}, documents={settings.documents!r}{where})"
        )

    def _repr_html_(self) -> str:
        """The picture, its topics and their shares, for notebooks."""
        from pmlda.output.html import to_html

        return to_html(self)

    def to_xarray(self) -> Dataset | list[Dataset]:
        """The maps as an xarray Dataset: memberships, uncertainty, document, and residual and novelty where known.

        Coordinates are the names of topics, and y and x of pixels on the map; attributes tell its coordinate system.
        Maps on disk are read into memory. For a list of pictures, a list.
        """
        from pmlda.output.xarrays import to_dataset

        return self._given([to_dataset(self, index) for index in range(len(self.images))])

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
        return self._given([derived((maps,), crisp) for maps in self.membership_maps])

    @property
    def topics(self) -> FloatArray:
        return self.recipe.topics

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.recipe.feature_names

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.settings.topic_names

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    @property
    def verdict(self) -> Verdict:
        return judged(self.recipe.model.verdict_, [image.name for image in self.images], self.fit_checks, self.applied)

    @property
    def has_uncertainty(self) -> bool:
        """Whether the model estimates uncertainty; fuzzy c-means, for example, does not."""
        return any(bool((maps > 0).any()) for maps in self.overview().uncertainty_maps)

    def interval(self, level: float = 0.9) -> tuple[Map, Map] | tuple[list[Map], list[Map]]:
        """Low and high ends, (H, W, K) each, between which a membership lies with this probability.

        They contain what uncertainty contains: the shortest intervals of beta distributions with these means and
        standard deviations.
        """
        require(0.0 < level < 1.0, f"level={level!r}: give a probability between 0 and 1, for instance 0.9.")
        pairs = list(zip(self.membership_maps, self.uncertainty_maps, strict=True))
        low, high = (
            [derived(pair, partial(beta_end, level=level, which=end), keeps_topics=True) for pair in pairs]
            for end in (0, 1)
        )
        return (low, high) if self.several else (low[0], high[0])

    def transition(
        self, low: float | None = None, high: float | None = None
    ) -> NDArray[np.bool_] | list[NDArray[np.bool_]]:
        """(H, W) whether some membership lies between low and high: neither one topic nor another.

        None stands for the setting of that name [default: 0.4 and 0.6], as in transition.png.
        """
        low = self.settings.low if low is None else low
        high = self.settings.high if high is None else high
        require(0.0 <= low <= high <= 1.0, f"low={low!r}, high={high!r}: give 0 ≤ low ≤ high ≤ 1.")
        return self._given([derived((maps,), partial(between, low=low, high=high)) for maps in self.membership_maps])

    @property
    def ask_map(self) -> Map | list[Map]:
        """(H, W) from 0 to 1, what one more stroke at each pixel would be worth, see pmlda.labels.asking.

        NaN where there is no data. For maps on disk it has the size of the overview.
        """
        worths = self._worths()
        most = max(each.most for each in worths)
        return self._given([each.as_map(most) for each in worths])

    def ask(self, n: int = 5) -> list[tuple[int, int]] | list[list[tuple[int, int]]]:
        """(x, y), column and row, of the n places to label next, the best first.

        No two of them are in the same document, nor in one with a label; there are fewer if there are fewer documents.
        For a list of pictures, a list for each, with n places in all.
        """
        n = whole("n", n, 1)
        labelled = [self.labelled(index) for index in range(len(self.images))]
        places = best_places(self._worths(), n, labelled)
        steps = [self.overview_step(index) for index in range(len(places))]
        found = [[(column * k, row * k) for row, column in each] for each, k in zip(places, steps, strict=True)]
        return found if self.several else found[0]

    def _worths(self) -> list[Worth]:
        """What a stroke in each picture would be worth."""
        shown = self.overview()
        require(
            shown.has_uncertainty,
            f"These maps of model {self.settings.model!r} have no uncertainty, so nothing tells where a label would "
            "help. Use model 'pmlda'.",
        )
        return [shown.worth(index) for index in range(len(shown.images))]

    def worth(self, index: int = 0) -> Worth:
        """What a stroke in one of the pictures would be worth, at the size of the overview."""
        shown = self.overview()
        return worth_of(shown.uncertainty_maps[index], shown.document_maps[index])

    def labelled(self, index: int = 0) -> NDArray[np.bool_] | None:
        """(H, W) where one of the pictures has labels, at the size of the overview; None if that is not known."""
        labels = self.labels_of(index)
        if labels is None:
            return None
        row, column = (each // self.overview_step(index) for each in np.divmod(labels.pixel, labels.shape[1]))
        found = np.zeros(self.overview().membership_maps[index].shape[:2], bool)
        found[row, column] = True
        return found

    def overview_step(self, index: int) -> int:
        """Step between the rows, and columns, of a map that are in the overview."""
        sides = self.record.get("shape", self.membership_maps[index].shape)[:2]
        small = self.overview().membership_maps[index].shape[:2]
        return max(int(np.ceil(side / shown)) for side, shown in zip(sides, small, strict=True))

    def overview(self) -> Segmentation:
        """The result at a displayable size, in memory; a segmentation in memory is its own overview."""
        return self if self._overview is None else self._overview()

    def apply(self, image: Any, *, mask: Any = None, **reading: Any) -> Segmentation:
        """Find the same topics in another picture. reading : key, z, t or bands, if they are others there"""
        from pmlda.pipeline.api import apply  # late: the pipeline makes these objects

        return apply(self.recipe, image, mask=mask, **reading)

    @property
    def alternatives(self) -> list[Segmentation]:
        """Other answers that the picture supports as well, see verdict; none if all refits agree.

        They are computed when they are asked for; those of a picture on disk, at the size of its overview.
        """
        from pmlda.pipeline.api import apply  # late: the pipeline makes these objects

        models: list[Any] = getattr(self.recipe.model, "alternatives", list)()  # other models than PMLDA have none
        images: Any = self.overview().images if self.several else self.overview().images[0]
        return [apply(self.recipe._replace(model=model), images) for model in models]

    def plot(self, index: int = 0) -> Figure:
        """Draw picture, membership maps, labels, transition and uncertainty side by side."""
        from pmlda.output.figures import overview

        return overview(self.overview(), index)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write maps, figures, report, model and settings to a folder: all of it, or nothing."""
        from pmlda.output.folder import save

        return save(self.in_memory(), folder, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Segmentation:
        """Open a result: a folder, a .zarr or a .tif."""
        from pmlda.output.load import load

        return load(path)

    def in_memory(self) -> Segmentation:
        """The result with all maps in memory; a picture on disk is enlarged from its overview."""
        if self._overview is None:
            return self
        from pmlda.images.windowed import open_windowed  # late: only maps on disk need it

        shown, found = self.overview().images[0], None if self.path is None else open_windowed(self.path)
        maps = np.asarray(self.membership_maps[0])
        rows, columns = (
            np.arange(length) * small // length for length, small in zip(maps.shape, shown.valid.shape, strict=False)
        )
        image = shown._replace(
            pixels=shown.pixels[rows[:, None], columns],
            valid=np.isfinite(maps[..., 0]),
            georeference=None if found is None else found.georeference,
            pixel_size=None if found is None else found.pixel_size,
        )
        return replace(
            self,
            images=[image],
            membership_maps=[maps],
            uncertainty_maps=[np.asarray(self.uncertainty_maps[0], np.float32)],
            document_maps=[np.asarray(self.document_maps[0], np.int64)],
            residual_maps=tuple(np.asarray(maps, np.float32) for maps in self.residual_maps),
            novelty_maps=tuple(np.asarray(maps, np.float32) for maps in self.novelty_maps),
            path=None,
            record={},  # that of maps on disk
            _overview=None,
            _keeper=None,
        )

    @property
    def agreement(self) -> tuple[Agreement, ...] | list[tuple[Agreement, ...]]:
        """For each stroke what it says, what its pixels have without it, and a sentence if the two contradict.

        Of a result that was loaded, of the thousand strokes that agree least.
        """
        return self._given([self.agreement_of(index) for index in range(len(self.images))])

    def agreement_of(self, index: int) -> tuple[Agreement, ...]:
        """The same of one of the pictures."""
        return self.agreements[index] if self.agreements else ()

    @property
    def residual(self) -> Map | list[Map]:
        """(H, W) how far each pixel is from what its memberships predict, in standard deviations of the noise.

        About 1 where the model fits, more where a pixel is neither one of the topics nor a mixture of them. The formula
        is in docs/model.md.
        """
        require(
            bool(self.residual_maps),
            f"These maps have no residuals: model {self.settings.model!r} with engine {self.settings.engine!r} tells "
            "none.",
        )
        return self._given(list(self.residual_maps))

    def residual_of(self, index: int) -> Map | None:
        """The same of one of the pictures; None if there is none."""
        return self.residual_maps[index] if self.residual_maps else None

    @property
    def novelty(self) -> Map | list[Map]:
        """(H, W) from 0 to 1, how sure it is that no mixture of the topics explains a pixel.

        It is the share of the pixels that topics were learnt from which are explained better, so that it is uniform on
        pixels of their kind, in this picture or in one that the topics were applied to: one in a hundred of them has
        more than 0.99. What it cannot see is in docs/pictures.md.
        """
        require(
            bool(self.novelty_maps),
            f"These maps do not tell what is new: model {self.settings.model!r} with engine {self.settings.engine!r} "
            "does not.",
        )
        return self._given(list(self.novelty_maps))

    def novelty_of(self, index: int) -> Map | None:
        """The same of one of the pictures; None if there is none."""
        return self.novelty_maps[index] if self.novelty_maps else None

    def inverse_transform(self, memberships: Any = None) -> FloatArray | list[FloatArray]:
        """(…, p) the features, or the spectra in units of the bands, that are expected of memberships (…, K).

        memberships : None stands for those of the picture
        """
        if memberships is not None:
            return self.recipe.inverse_transform(memberships)
        return self._given([self.recipe.inverse_transform(np.asarray(maps)) for maps in self.membership_maps])

    @property
    def topic_values(self) -> tuple[TopicValue, ...]:
        """The rows of topics.csv: what every feature is in every topic, and how sure, see pmlda.types.TopicValue."""
        return topic_rows(self.recipe)

    def match(self, library: Any, n: int = 3) -> tuple[tuple[Match, ...], ...]:
        """For each topic the n spectra of a library that it is most like, by spectral angle, see pmlda.types.Match.

        library : the path of a spectral library, CSV or ENVI, or {name: values of the bands}
        """
        return match_topics_to_library(self.recipe, library, whole("n", n, 1))

    @property
    def shares(self) -> tuple[Share, ...] | list[tuple[Share, ...]]:
        """How much of the picture each topic has, with 90 % intervals, in pixels and on the map: see pmlda.types.Share.

        Errors of pixels are not independent, since all have the same topics: intervals come from the shares under
        every refit, see docs/pictures.md.
        """
        return self._given([self.shares_of(index) for index in range(len(self.images))])

    def shares_of(self, index: int) -> tuple[Share, ...]:
        """The same of one of the pictures."""
        return self.share_rows[index]

    def labels_of(self, index: int) -> PixelLabels | None:
        """What was said of the pixels of one of the pictures."""
        return self.pixel_labels[index] if self.pixel_labels else None

    def _given(self, items: list[Item]) -> Item | list[Item]:
        """The list for a list of pictures, its only item for one picture."""
        return items if self.several else items[0]


def judged(fit: Verdict, names: list[str], checks: tuple[FitCheck, ...], applied: bool) -> Verdict:
    """The verdict on a fit and on how well it explains pictures with these names.

    applied : whether topics were learnt elsewhere, so that the fit does not matter
    """
    wrong = [(name, check) for name, check in zip(names, checks, strict=False) if check.state == "does_not_fit"]
    if applied:
        known = bool(checks) and all(check.state != "unknown" for check in checks)
        more = "explain this as well as what they were learnt from" if known else "were not checked against it"
        fit = Verdict("applied", "The topics were learnt elsewhere" + ("." if wrong else f", and {more}."))
    if not wrong:
        return fit
    name, worst = wrong[0]
    sentence = worst.sentence
    if len(names) > 1:
        sentence = f"Topics do not explain {len(wrong)} of {len(names)} pictures; {name}: {sentence}"
    state: Convergence = "does_not_fit" if fit.state in ("converged", "nearly", "applied", "unknown") else fit.state
    return Verdict(state, f"{fit.sentence} {sentence}", f"{fit.advice} {worst.advice}".strip())


def documents_of(segmentation: Segmentation, index: int) -> tuple[IntArray, IntArray]:
    """Rows of the picture's documents in proportions and scales, and the pixels of each. Pictures are numbered on."""
    labels = segmentation.document_maps[index]
    if "shape" in segmentation.record:  # an overview may miss small documents, and has a part of the pixels
        counts = np.bincount(labels[labels >= 0], minlength=len(segmentation.scales))
        height, width = segmentation.record["shape"][:2]
        return np.arange(len(counts)), np.rint(counts * (height * width / labels.size)).astype(np.int64)
    first = sum(int(each.max()) + 1 for each in segmentation.document_maps[:index])
    sizes = np.bincount(labels[labels >= 0])
    found = np.flatnonzero(sizes)
    return found + first, sizes[found]


class Derived:
    """An array (H, W), or (H, W, K), that is computed pixel by pixel from maps (H, W, K) when it is sliced."""

    def __init__(self, maps: tuple[Any, ...], function: Callable[..., NDArray[Any]], *, keeps_topics: bool) -> None:
        self._maps, self._function, self._keeps_topics = maps, function, keeps_topics
        self.shape = tuple(maps[0].shape[: 3 if keeps_topics else 2])
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = key if isinstance(key, tuple) else (key,)
        dots = any(each is Ellipsis for each in keys)
        if sum(each is not None for each in keys) - dots > self.ndim:
            raise IndexError(f"{len(keys)} indices for an array of {self.ndim} dimensions.")
        # Dots stand for rows and columns that are not told, and never for the topics.
        key = (*keys, slice(None)) if dots and not self._keeps_topics else key
        return self._function(*(np.asarray(each[key]) for each in self._maps))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


def derived(maps: tuple[Any, ...], function: Callable[..., NDArray[Any]], *, keeps_topics: bool = False) -> Any:
    """A function of maps: computed at once for maps in memory, when it is sliced for maps on disk."""
    in_memory = all(isinstance(each, np.ndarray) for each in maps)
    return function(*maps) if in_memory else Derived(maps, function, keeps_topics=keeps_topics)


def beta_end(memberships: Map, uncertainty: Map, level: float, which: int) -> Map:
    """The low (0) or the high (1) ends of intervals."""
    from pmlda.engines.posterior import beta_interval  # late: opening a result needs no engine

    return beta_interval(memberships, uncertainty, level)[which].astype(np.float32)


def crisp(maps: Map) -> IntArray:
    """(H, W) the largest topic, −1 where there is no data."""
    # Topic by topic: functions along an axis of a few numbers take ten times as long.
    largest, best = np.zeros(maps.shape[:-1], np.int64), maps[..., 0].copy()
    for k in range(1, maps.shape[-1]):
        larger = maps[..., k] > best
        largest[larger] = k
        np.maximum(best, maps[..., k], out=best)
    largest[~np.isfinite(maps[..., 0])] = -1
    return largest


def between(maps: Map, low: float, high: float) -> NDArray[np.bool_]:
    """(H, W) whether some membership lies between low and high."""
    found = np.zeros(maps.shape[:-1], bool)
    with np.errstate(invalid="ignore"):
        for k in range(maps.shape[-1]):
            found |= (maps[..., k] >= low) & (maps[..., k] <= high)
    return found
