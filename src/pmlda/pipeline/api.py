"""segment(), apply() and resume(): pictures → soft maps, in memory, in a folder, or tile by tile on disk."""

import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pmlda.engines.registry import find_engine
from pmlda.features.given import Function
from pmlda.features.stack import Features
from pmlda.howmany import Choice, choose_number
from pmlda.images.library import as_spectra
from pmlda.output.places import check_folder, check_out, is_tiled
from pmlda.parallel.progress import Clock, Stage
from pmlda.pipeline.family import check_family
from pmlda.pipeline.howmany import choose_for, resolve_topics
from pmlda.pipeline.in_memory import FolderRun, apply_recipe, read_pictures, segment_images
from pmlda.pipeline.learning import make_model
from pmlda.pipeline.reading import warn_of
from pmlda.pipeline.request import (
    Asked,
    GivenPictures,
    TemporaryFolder,
    as_lists,
    asked_again,
    check_same,
    labels_of_each,
    make_request,
    open_run,
    with_topics_of,
)
from pmlda.pipeline.tiled import TiledRun
from pmlda.recipe import Recipe
from pmlda.segmentation import Segmentation
from pmlda.settings import MoreSettings, ReadingSettings, make_settings
from pmlda.storage.checkpoints import Checkpoint
from pmlda.storage.digest import digest
from pmlda.storage.run_folder import RunFolder
from pmlda.types import Image, LazyArray, NumberArray
from pmlda.validate import require

Picture = str | os.PathLike[str] | NumberArray | LazyArray | Image
Pictures = Picture | list[Picture] | tuple[Picture, ...]
FeaturesLike = str | Function | Features | list[str | Function]
KnownTopics = str | os.PathLike[str] | Mapping[str, ArrayLike]
Cut = str | os.PathLike[str] | NumberArray
READING = frozenset(ReadingSettings.__annotations__)
DocumentsLike = Cut | list[Cut] | tuple[Cut, ...]


def segment(
    image: Pictures,
    n_topics: int | Literal["auto"] = 3,
    *,
    model: str = "pmlda",
    features: FeaturesLike = "auto",
    documents: DocumentsLike = "auto",
    engine: str = "variational",
    random_state: int | None = None,
    mask: Pictures | None = None,
    labels: Any = None,
    topics: KnownTopics | None = None,
    topic_spread: float = 0.0,
    library: KnownTopics | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    stage: Stage | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | float | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    client: object = None,
    resume: bool = False,
    **settings: Unpack[MoreSettings],
) -> Segmentation:
    """Compute soft maps of a picture: for every pixel, how much of each topic.

    Parameters
    ----------
    image : path or array (H, W) or (H, W, bands), or a list of pictures that share topics; a folder, or a pattern such
        as "scans/*.tif", is the list of its pictures, without those that cannot be read
    n_topics : number of topics; "auto" finds it, see choose_n_topics, and leaves how in the result's choice
    model : "pmlda", or a model for comparison: "lda", "fcm", "bpm", "bfc", "gmm", "kmeans"; see pmlda.peers
    features : features of each pixel, "color", "color+texture", a callable, …; "auto" is colour for three bands,
        intensity for one, spectra otherwise, whose topics are materials: see docs/pictures.md
    documents : "whole", "windows:64", "windows:64/32", "slic:200", "ncuts:40", or labels (H, W); a list for a list of
        pictures; "auto" is "slic:60", more for more than 3 topics and above 300,000 pixels; for spectra and for
        families other than "gaussian" "windows:8", smaller ones below 4,096 pixels and larger ones beyond 0.26
        megapixels
    engine : "variational", "gibbs" or "paper", for models "pmlda" and "bpm"
    random_state : random seed; None is 0, so that the same picture gives the same maps

    Other parameters
    ----------------
    mask : path or array (H, W), or a list of them; pixels where it is zero are ignored
    labels : what is known of some pixels: a label image or an array (H, W) with 0 where nothing is known and topics
        from 1, strokes as a list of tables or in strokes.json, or GeoJSON, see pmlda.labels.Stroke; for a list of
        pictures a list with one for each, None for those without. Topics are then numbered as labels say. Model "pmlda"
    topics : topics that are known, {name: one value for each band}, or a spectral library (CSV, or ENVI .sli), whose
        wavelengths are matched with those of the bands. They are the first topics of the maps; others are learnt beside
        them. Model "pmlda", and features of single pixels
    topic_spread : how far known topics may be from the truth, a standard deviation in units of the bands; 0: not at all
    library : spectra that topics are compared with, given as topics are: matches has the most similar ones
    n_jobs, verbose : as in PMLDA
    stage : callback that receives the name of each stage when it starts
    checkpoint : a folder for checkpoints of the fit, or a pmlda.Checkpoint: after an interruption, the same call
        resumes from there and gives the same maps. Models "pmlda" and "bpm"; see PMLDA.fit. If out is a folder, the
        seconds between checkpoints, which are kept in OUT.run beside it
    out : where to write the result. A folder gets maps, figures, a report and the model. A name ending in .zarr or
        .tif gets the maps of one picture, which may be a Zarr store, a Dask array or a GeoTIFF of any size: it is
        processed tile by tile, and the maps of the result stay on disk
    overwrite : replace an earlier result of pmlda
    client : dask.distributed.Client whose workers compute the tiles; without out, the maps go to a temporary folder
    resume : resume an interrupted run to out
    **settings : key, z, t, bands (what to read of pictures, see read_image); nodata, ignore_saturated, ignore_shadow;
        names, blend, sample, block, halo, scaling, family, looks, covariance, bounds, alpha, scale_rate, design_effect,
        n_init, fixed, refits, sweeps, fuzzifier, dictionary, low, high; see pmlda.settings.Settings

    >>> import numpy as np
    >>> picture = np.zeros((16, 16, 3)); picture[:, 8:] = 1.0
    >>> picture += 0.05 * np.random.default_rng(0).normal(size=picture.shape)
    >>> found = segment(picture, 2)
    >>> found
    Segmentation(16 × 16 pixels, 2 topics, features='auto', documents='auto')
    >>> found.memberships.shape, found.labels[0, [0, 15]].tolist()
    ((16, 16, 2), [0, 1])
    """
    asked = as_asked(
        image,
        n_topics,
        features,
        documents,
        {"model": model, "engine": engine, "seed": random_state or 0, "known_spread": topic_spread} | settings,
        mask=mask,
        labels=labels,
        topics=topics,
    )
    asked = asked._replace(library=library, n_jobs=n_jobs, verbose=verbose, client=client, clock=Clock(stage))
    found = segment_asked(asked, out, checkpoint, overwrite=overwrite, resume=resume)
    warn_of(found.left_out)
    return found


def as_asked(
    image: Any,
    n_topics: int | str,
    features: FeaturesLike,
    documents: DocumentsLike,
    settings: dict[str, Any],
    *,
    mask: Any = None,
    labels: Any = None,
    topics: KnownTopics | None = None,
) -> Asked:
    """Arguments of segment(), checked. settings : those that it takes by name"""
    texts = {"features": features, "documents": documents}
    given = {"topics": n_topics} | settings
    chosen = make_settings(given | {name: value for name, value in texts.items() if isinstance(value, str)})
    images, masks, several, pictures_found = as_lists(image, mask, labels, topics)
    asked = Asked(images, masks, chosen, features, documents, several, found=pictures_found)
    return asked._replace(labels=labels_of_each(labels, images, several=several), known=topics)


def choose_n_topics(
    X: Any,
    groups: ArrayLike | None = None,
    *,
    features: FeaturesLike = "auto",
    mask: Pictures | None = None,
    labels: Any = None,
    topics: KnownTopics | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    **parameters: Any,
) -> Choice:
    """How many topics there are: in a picture, or in rows of X with the document of each row.

    X : with groups (N, p) rows; without, a picture or pictures as segment takes them
    features, mask, labels, topics : of pictures, as in segment
    parameters : with groups those of PMLDA, such as covariance="full"; without, settings of segment, such as
        scaling="whiten"

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(20), 100)
    >>> mix = rng.dirichlet([0.4, 0.4], size=2000)
    >>> choice = choose_n_topics(mix @ [[0.0, 0.0], [9.0, 3.0]] + rng.normal(size=(2000, 2)), groups)
    >>> choice.n_topics
    2
    """
    if groups is not None:
        words = np.asarray(X)
        require(words.ndim == 2, f"X has the shape {words.shape}: with groups, give one row for each word.")
        return choose_number(words, groups, seed=random_state, n_jobs=n_jobs, **parameters)
    given = parameters | {"seed": random_state}
    asked = as_asked(X, "auto", features, "auto", given, mask=mask, labels=labels, topics=topics)
    return choose_for(asked._replace(n_jobs=n_jobs))


def segment_asked(
    asked: Asked, out: Any = None, checkpoint: Any = None, *, overwrite: bool = False, resume: bool = False
) -> Segmentation:
    """segment() for settings that are checked already, as the command line has them."""
    settings = asked.settings
    find_engine(settings.engine)
    check_family(settings)
    require(
        not checkpoint or make_model(settings).takes_checkpoint,
        f"Model {settings.model!r} keeps no checkpoints: it takes moments. Leave checkpoint out.",
    )
    if settings.topics == "auto" and not resume:
        if out is not None:  # which is refused before it is known how many topics there are
            check = check_out if is_tiled(Path(out)) else check_folder
            check(Path(out), overwrite=overwrite, inputs=asked.inputs())
        asked = resolve_topics(asked)
    if out is not None or asked.client is not None:
        return segment_to(asked, out, checkpoint, overwrite=overwrite, resume=resume)
    require(not resume, "resume=True continues a run that writes to a file or folder: give its out too.")
    return segment_images(*read_pictures(asked), checkpoint)


def segment_to(asked: Asked, out: Any, checkpoint: Any, *, overwrite: bool, resume: bool) -> Segmentation:
    """Write the maps to out; None is a temporary folder that exists as long as the result."""
    keeper = None
    if out is None:
        keeper = TemporaryFolder()
        out = keeper.path / "maps.zarr"
    out = Path(out)
    require(
        checkpoint is None or not is_tiled(out),
        f"A run to {str(out)!r}, tile by tile, can always be resumed: leave checkpoint out.",
    )
    require(
        checkpoint is None or isinstance(checkpoint, Real),
        f"checkpoint={checkpoint!r}: a run to a folder keeps its checkpoints beside it. Give the seconds between them.",
    )
    if resume:
        folder, request = open_run(out)
        with folder:
            asked = with_topics_of(asked, request)
            run = make_run(asked, out, request.checkpoint_seconds if checkpoint is None else checkpoint)
            check_same(folder, request, run.settings, fingerprints(run))
            return run.go(folder, request, keeper)
    run = make_run(asked, out, checkpoint)
    replaces = run.check(overwrite=overwrite)
    if isinstance(run, FolderRun) and not run.keeps_folder:
        return run.without_folder(replaces)
    digests = fingerprints(run)  # which reads the pictures, and leaves out those that cannot be read
    request = make_request(run.asked._replace(settings=run.settings), digests, replaces=replaces, seconds=run.seconds)
    with RunFolder.create(out, request.sealed()) as folder:
        try:
            folder.log("begun")
            return run.go(folder, request, keeper)
        except BaseException as error:
            if folder.path.is_dir() and not run.is_worth_resuming(folder, error):
                folder.remove()
            raise


def make_run(asked: Asked, out: Path, checkpoint: Any) -> TiledRun | FolderRun:
    """The kind of run that writes this kind of result."""
    return TiledRun(asked, out) if is_tiled(out) else FolderRun(asked, out, checkpoint)


def fingerprints(run: TiledRun | FolderRun) -> list[str]:
    """Digests of all that a run reads: pictures with their masks, and known topics."""
    known = run.asked.known
    return run.fingerprints() + ([] if known is None else [digest(list(as_spectra(known)))])


def apply(
    recipe: Recipe,
    image: Pictures,
    *,
    mask: Pictures | None = None,
    stage: Stage | None = None,
    **reading: Unpack[ReadingSettings],
) -> Segmentation:
    """Compute maps of other pictures with known topics; only the proportions and scales of documents are inferred.

    Pictures are read as those that topics were learnt from: the same variable, slice, time and bands, as far as they
    have them. reading : key, z, t or bands, where they are others
    """
    strange = ", ".join(set(reading) - READING)
    require(not strange, f"apply() takes key, z, t and bands, not {strange}.")
    found = apply_asked(recipe, as_lists(image, mask), dict(reading), Clock(stage))
    warn_of(found.left_out)
    return found


def apply_asked(recipe: Recipe, pictures: GivenPictures, reading: dict[str, Any], clock: Clock) -> Segmentation:
    """apply() for pictures that are listed already, as the command line has them."""
    settings = make_settings(recipe.settings.model_dump(), reading)
    images, masks, several, found = pictures
    asked = Asked(images, masks, settings, several=several, clock=clock, found=found)
    return apply_recipe(recipe, asked, inherited=READING - set(reading))


def resume(
    path: str | os.PathLike[str],
    *,
    client: object = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    stage: Stage | None = None,
) -> Segmentation:
    """Resume an interrupted run of segment(out=…) or `pmlda segment`; the result is that of an uninterrupted run.

    path : the out of the run, or the folder beside it that ends in .run
    client, n_jobs, verbose, stage : as in segment; they need not be those of the interrupted run
    """
    folder, request = open_run(path)
    with folder:
        asked = asked_again(folder, request)
        asked = asked._replace(client=client, n_jobs=n_jobs, verbose=verbose, clock=Clock(stage))
        run = make_run(asked, folder.out, request.checkpoint_seconds)
        if not run.is_finished(folder, request):
            check_same(folder, request, run.settings, fingerprints(run))
        return run.go(folder, request)
