"""The whole chain: pictures → features → words in documents → memberships → maps."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.estimator import PMLDA
from pmlda.families.rows import count_distinct
from pmlda.features import Features, find_features
from pmlda.features.scaling import Scaling
from pmlda.images import read_image
from pmlda.parallel.interrupt import count_noted
from pmlda.partitions import partition
from pmlda.peers import Peer, make_peer
from pmlda.pipeline.blending import weigh
from pmlda.pipeline.subsample import MOST_DOCUMENTS, chosen_documents, chosen_words, words_each
from pmlda.segmentation import Chain, Segmentation
from pmlda.settings import Settings, make_settings
from pmlda.types import DocumentPosterior, FloatArray, Image, IntArray
from pmlda.validate import require

Stage = Callable[[str], None]

# Models that can be stopped and go on.
KEPT_MODELS = ("pmlda", "bpm")
# Places of later pictures begin here, beyond those of any picture.
PICTURE_PLACES = 2**44


def segment(
    image: Any,
    n_topics: int = 3,
    *,
    model: str = "pmlda",
    features: Any = "auto",
    documents: Any = "auto",
    engine: str = "variational",
    random_state: int | None = None,
    mask: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    stage: Stage | None = None,
    checkpoint: Any = None,
    out: str | os.PathLike[str] | None = None,
    client: Any = None,
    resume: bool = False,
    **settings: Any,
) -> Any:
    """Soft maps of a picture: for every pixel, how much of each topic.

    Parameters
    ----------
    image : path or array (H, W) or (H, W, bands), or a list of them that share topics
    n_topics : how many topics
    model : "pmlda", or a model to compare with: "lda", "fcm", "bpm", "bfc", "gmm", "kmeans"; see pmlda.peers
    features : what is computed for each pixel, "color", "color+texture", a callable, …; "auto" is colour for three
        bands, intensity for one, all bands otherwise
    documents : "whole", "windows:64", "windows:64/32", "slic:200", "ncuts:40", or labels (H, W); a list for a list;
        "auto" is "slic:200", fewer for small pictures
    engine : "variational", "gibbs" or "paper", of models "pmlda" and "bpm"
    random_state : the seed; None is 0, so that the same picture gives the same maps

    Other parameters
    ----------------
    mask : path or (H, W), or a list, zero where a picture is not to be used
    n_jobs, verbose : as in PMLDA
    stage : called with the name of each stage as it begins
    checkpoint : a folder, or a pmlda.Checkpoint, that keeps what the fit needs to go on if it is stopped: the same call
        then goes on from there, to the same maps. Models "pmlda" and "bpm"; see PMLDA.fit
    out : name ending in .zarr or .tif: the picture, which may be a Zarr store, a dask array or a GeoTIFF of any size,
        is worked on block by block, and maps are written there. The result is a pmlda.pipeline.mosaic.Mosaic
    client : dask.distributed.Client whose workers do it; without out, maps go to a temporary folder
    resume : go on with a run to out that was stopped
    **settings : blend, sample, block, halo, scaling, covariance, alpha, scale_rate, sweeps, fuzzifier, dictionary, low,
        high; see pmlda.settings.Settings

    >>> picture = np.zeros((16, 16, 3)); picture[:, 8:] = 1.0
    >>> picture += 0.05 * np.random.default_rng(0).normal(size=picture.shape)
    >>> found = segment(picture, 2)
    >>> found.memberships.shape, found.labels[0, [0, 15]].tolist()
    ((16, 16, 2), [0, 1])
    """
    asked = {"topics": n_topics, "model": model, "engine": engine, "seed": random_state or 0} | settings
    asked |= {name: value for name, value in (("features", features), ("documents", documents)) if _is_text(value)}
    chosen = make_settings(asked)
    require(
        checkpoint is None or chosen.model in KEPT_MODELS,
        f"Model {chosen.model!r} keeps no checkpoints: it takes moments. Leave checkpoint out.",
    )
    if out is not None or client is not None:
        require(checkpoint is None, "A run in blocks can always be resumed: leave checkpoint out.")
        return _in_blocks(image, chosen, features, documents, out, mask, client, n_jobs, verbose, resume)
    require(not resume, "resume=True goes on with a run that writes to a file: give its out too.")
    clock = Clock(stage)
    several = isinstance(image, list | tuple) and not isinstance(image, Image)
    with clock("reading"):
        images = read_all(image if several else [image], mask if several else [mask])
    with clock("documents"):
        layers = cut(documents, images, chosen.seed)
        images = used_only(images, layers)
    with clock("features"):
        automatic = auto_features(images[0].pixels.shape[2])
        computer = find_features(automatic if _is_text(features) and features == "auto" else features)
        computer.fit(images)
        values = words_of(computer, images)
        groups = row_groups(layers[0], images)
        deciding, learning = sample_rows(groups, images, chosen)
        scaling = Scaling(chosen.scaling)
        scaling.fit(values[learning])
        words = scaling.apply(values)
        del values
        check_words(words, chosen.topics)
    with clock("fit"):
        noted = count_noted()
        kept = {} if checkpoint is None else {"checkpoint": checkpoint}
        fitted = make_model(chosen, n_jobs, verbose).fit(words[learning], groups=groups[learning], **kept)
        interrupted = count_noted() > noted
        if interrupted and fitted.n_iter_ == 0:
            raise KeyboardInterrupt("Interrupted before there were topics.")
        order = canonical_order(fitted.topic_means_)
    chain = Chain(computer, scaling, fitted, order, chosen)
    with clock("maps"):
        if weighs(chain):
            found = fitted.infer_documents(words[deciding], groups=groups[deciding])
        else:
            found = DocumentPosterior(fitted.memberships_, fitted.membership_std_, fitted.proportions_, fitted.scales_)
        made = to_segmentation(chain, images, layers[0], to_all(chain, words, layers, images, found), several)
    return replace(made, timings=clock.seconds, interrupted=interrupted)


def _in_blocks(
    image: Any,
    settings: Settings,
    features: Any,
    documents: Any,
    out: Any,
    mask: Any,
    client: Any,
    n_jobs: int | None,
    verbose: int,
    resume: bool,
) -> Any:
    """Maps of a picture of any size, on disk."""
    from pmlda.pipeline.blocks import segment_mosaic

    require(
        not isinstance(image, list | tuple) or isinstance(image, Image),
        "out and client take one picture, and a list was given. Make one run for each, or leave them out.",
    )
    require(
        _is_text(documents),
        "Labels of your own cannot be cut block by block. Give documents='windows:64' or 'slic:N', or leave out and "
        "client out.",
    )
    return segment_mosaic(
        image,
        settings,
        features=features,
        out=out,
        mask=mask,
        client=client,
        n_jobs=n_jobs,
        verbose=verbose,
        resume=resume,
    )


def apply(chain: Chain, image: Any, *, mask: Any = None, stage: Stage | None = None) -> Segmentation:
    """Maps of other pictures, topics as learnt: the proportions and scales of their documents are new."""
    several = isinstance(image, list | tuple) and not isinstance(image, Image)
    clock = Clock(stage)
    with clock("reading"):
        images = read_all(image if several else [image], mask if several else [mask])
    with clock("documents"):
        layers = cut(chain.settings.documents, images, chain.settings.seed)
        images = used_only(images, layers)
    with clock("features"):
        words = chain.scaling.apply(words_of(chain.features, images))
    with clock("maps"):
        groups = row_groups(layers[0], images)
        rows, _ = sample_rows(groups, images, chain.settings)
        found = chain.model.infer_documents(words[rows], groups=groups[rows])
        made = to_segmentation(chain, images, layers[0], to_all(chain, words, layers, images, found), several)
    return replace(made, timings=clock.seconds)


class Clock:
    """Seconds of each stage; tells a listener when one begins."""

    def __init__(self, listener: Stage | None) -> None:
        self.seconds: dict[str, float] = {}
        self._listener = listener

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if self._listener is not None:
            self._listener(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def read_all(sources: Iterable[Any], masks: Any) -> list[Image]:
    """Every picture, with its mask."""
    sources = list(sources)
    require(len(sources) > 0, "There is no picture: give a path or an array, or a list of them.")
    masks = [None] * len(sources) if masks is None else list(masks)
    require(len(masks) == len(sources), f"{len(masks)} masks for {len(sources)} pictures. Give one for each.")
    images = [
        source if isinstance(source, Image) else read_image(source, mask=mask)
        for source, mask in zip(sources, masks, strict=True)
    ]
    counts = {image.pixels.shape[2] for image in images}
    require(len(counts) == 1, f"The pictures have {sorted(counts)} bands. Give pictures with equally many.")
    return images


def auto_features(n_bands: int) -> str:
    """Colour, intensity or all bands, after the number of bands."""
    return {1: "intensity", 3: "color"}.get(n_bands, "spectral")


def auto_documents(image: Image) -> str:
    """200 superpixels, or as many as leave each of them 100 pixels."""
    count = min(200, int(image.valid.sum()) // 100)
    return f"slic:{count}" if count > 1 else "whole"


def words_of(features: Features, images: list[Image]) -> NDArray[np.float32]:
    """(N, p) the features of the pixels that have data, of all pictures."""
    parts = []
    for image in images:
        values = features.compute(image).values
        parts.append(values.reshape(-1, values.shape[2]) if image.valid.all() else values[image.valid])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def check_words(words: NDArray[np.floating], n_topics: int) -> None:
    """Refuse more topics than there are different pixels."""
    found = count_distinct(words, max(n_topics, 2))
    require(
        found > 1,
        "All pixels have the same features, so there is nothing to tell apart. "
        "Give a picture with more than one colour, or choose other features.",
    )
    require(
        found >= n_topics,
        f"The features of the picture take only {found} different values, too few for {n_topics} topics. "
        "Ask for fewer topics, or choose other features.",
    )


def cut(documents: Any, images: list[Image], seed: int) -> list[list[IntArray]]:
    """Label images, one list for each way of cutting: [way][picture]. Several ways are averaged over."""
    given = documents if isinstance(documents, list | tuple) else [documents] * len(images)
    require(len(given) == len(images), f"{len(given)} partitions for {len(images)} pictures. Give one for each.")
    specs = [
        auto_documents(image) if _is_text(spec) and spec == "auto" else spec
        for spec, image in zip(given, images, strict=True)
    ]
    ways = [partition(spec, image, random_state=seed) for spec, image in zip(specs, images, strict=True)]
    n_ways = max(len(way) for way in ways)
    return [[way[i % len(way)] for way in ways] for i in range(n_ways)]


def used_only(images: list[Image], layers: list[list[IntArray]]) -> list[Image]:
    """Pictures whose pixels count only where they are in a document: labels that are given may leave some out."""
    return [
        image._replace(valid=image.valid & np.all([labels[i] >= 0 for labels in layers], axis=0))
        for i, image in enumerate(images)
    ]


def row_groups(labels: list[IntArray], images: list[Image]) -> IntArray:
    """(N,) the document of every word; documents of later pictures are numbered on."""
    parts, first = [], 0
    for each, image in zip(labels, images, strict=True):
        inside = each[image.valid]
        parts.append(inside + first)
        first += int(inside.max()) + 1
    return np.concatenate(parts)


def make_model(settings: Settings, n_jobs: int | None, verbose: int) -> PMLDA | Peer:
    """The model that was chosen, with those of the settings that it has."""
    of_pmlda: dict[str, Any] = {
        "covariance": settings.covariance,
        "alpha": settings.alpha,
        "scale_rate": settings.scale_rate,
        "engine": settings.engine,
        "n_sweeps": settings.sweeps,
        "n_jobs": n_jobs,
    }
    if settings.model == "pmlda":
        return PMLDA(settings.topics, random_state=settings.seed, verbose=verbose, **of_pmlda)
    options: dict[str, dict[str, Any]] = {
        "lda": {"dictionary": settings.dictionary},
        "fcm": {"fuzzifier": settings.fuzzifier},
        "bpm": of_pmlda,
        "bfc": {"fuzzifier": settings.fuzzifier, "n_sweeps": settings.sweeps},
    }
    return make_peer(settings.model, settings.topics, random_state=settings.seed, **options.get(settings.model, {}))


def canonical_order(means: FloatArray) -> IntArray:
    """Topics from low to high features, dark to bright in a photograph, whatever order they were found in."""
    return np.argsort(means.mean(axis=1), kind="stable")


def sample_rows(groups: IntArray, images: list[Image], settings: Settings) -> tuple[IntArray | slice, IntArray | slice]:
    """Which words decide on π and s of their documents, and from which of them topics are learnt."""
    _, first, sizes = np.unique(groups, return_index=True, return_counts=True)
    most = words_each(len(sizes), settings)
    if sizes.max() <= most.deciding and len(sizes) <= MOST_DOCUMENTS:
        return slice(None), slice(None)
    places = np.concatenate([np.flatnonzero(image.valid) + i * PICTURE_PLACES for i, image in enumerate(images)])
    deciding = chosen_words(groups, places, sizes, most.deciding, settings.seed)
    learning = chosen_words(groups, places, sizes, most.learning, settings.seed)
    if most.learning < np.inf:
        learning &= chosen_documents(places[first], len(sizes), settings.seed)[groups]
    return np.flatnonzero(deciding), np.flatnonzero(learning)


def weighs(chain: Chain) -> bool:
    """Whether pixels are weighed one by one once their documents are known."""
    return isinstance(chain.model, PMLDA) and chain.settings.engine == "variational"


def to_all(
    chain: Chain,
    words: NDArray[np.floating],
    layers: list[list[IntArray]],
    images: list[Image],
    found: DocumentPosterior,
) -> DocumentPosterior:
    """What was found of the documents in the first way of cutting → memberships of every pixel.

    Documents are blended over their borders, and several ways of cutting averaged over. What samplers and other models
    than PM-LDA found is averaged alone.
    """
    model, settings = chain.model, chain.settings
    if isinstance(model, PMLDA) and weighs(chain):
        memberships, std = weigh(model, words, layers[0], images, concentrations(found), settings.blend)
        found = found._replace(memberships=memberships, std=std)
    if len(layers) == 1 or (isinstance(model, Peer) and not model.minds_groups):
        return found
    total = found.memberships
    for labels in layers[1:]:
        groups = row_groups(labels, images)
        rows, _ = sample_rows(groups, images, settings)
        seen = model.infer_documents(words[rows], groups=groups[rows])
        if isinstance(model, PMLDA) and weighs(chain):
            total = total + weigh(model, words, labels, images, concentrations(seen), settings.blend)[0]
        else:
            total = total + seen.memberships
    return found._replace(memberships=total / len(layers))


def concentrations(found: DocumentPosterior) -> FloatArray:
    """(D, K) s·π, none of them quite zero."""
    return np.maximum(found.proportions * found.scales[:, None], 1e-8)


def to_segmentation(
    chain: Chain, images: list[Image], labels: list[IntArray], found: DocumentPosterior, several: bool
) -> Segmentation:
    """Rows → maps, topics in canonical order."""
    order = chain.order
    return Segmentation(
        images,
        chain,
        to_maps(found.memberships[:, order], images),
        to_maps(found.std[:, order], images),
        labels,
        found.proportions[:, order],
        found.scales,
        several,
    )


def to_maps(rows: NDArray[np.floating], images: list[Image]) -> list[NDArray[np.float32]]:
    """(N, K) → one (H, W, K) for each picture, NaN where there is no data."""
    maps, first = [], 0
    for image in images:
        last = first + int(image.valid.sum())
        each = np.full((*image.valid.shape, rows.shape[1]), np.nan, np.float32)
        each[image.valid] = rows[first:last]
        maps.append(each)
        first = last
    return maps
