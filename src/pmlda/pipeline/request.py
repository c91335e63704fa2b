"""What was asked for: in memory as the arguments of segment(), and in the folder of a run as one validated table."""

import os
import secrets
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pmlda.errors import InputError, PmldaError, RunError, describe
from pmlda.features import find_features
from pmlda.features.automatic import complete_features
from pmlda.features.stack import Features
from pmlda.howmany import Choice, from_table
from pmlda.images.library import MOST_ENTRIES, Spectra, as_spectra
from pmlda.matching import at_common_bands, check_features
from pmlda.parallel.progress import Clock
from pmlda.pipeline.collect import collect
from pmlda.pipeline.family import as_measured
from pmlda.pipeline.known import check_known
from pmlda.settings import Settings, make_settings
from pmlda.storage.account import key_for, sign
from pmlda.storage.digest import digest
from pmlda.storage.run_folder import RunFolder
from pmlda.types import Image, LeftOut
from pmlda.validate import require

# The key under which a request stores its own digest.
SEAL = "sha256"
# The key under which it stores what only the account that began the run can have written.
SIGNATURE = "signature"


class Asked(NamedTuple):
    """The arguments of a call of segment().

    images, masks : one or several pictures, and the mask of each or None
    features, documents : as given by the user
    several : whether a list was given
    clock : measures the stages and reports them to a listener
    also_read : other files that were read, such as settings, which must not be replaced by the result
    labels : what is known of the pixels of each picture, a file, an array or strokes, or None; empty if nothing is
    known : topics that are known, the path of a spectral library or {name: spectrum}; None if there are none
    library : spectra that topics are compared with, given likewise
    found : those of the pictures that were found in a folder or by a pattern, which may turn out to be unreadable
    left_out : those that did
    choice : how the number of topics was chosen, if it was
    """

    images: list[Any]
    masks: list[Any]
    settings: Settings
    features: Any = "auto"
    documents: Any = "auto"
    several: bool = False
    n_jobs: int | None = None
    verbose: int = 0
    client: Any = None
    clock: Clock = Clock()
    also_read: tuple[Path, ...] = ()
    labels: tuple[Any, ...] = ()
    known: Any = None
    library: Any = None
    found: tuple[Any, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    choice: Choice | None = None

    def find_features(self, n_bands: int) -> Features:
        """The features of pictures with n_bands bands."""
        if not isinstance(self.features, str):
            return find_features(self.features)
        measured = as_measured(self.settings)
        return find_features(complete_features(self.features, n_bands, self.settings, as_measured=measured))

    def keep(self, kept: Sequence[int], left_out: tuple[LeftOut, ...]) -> "Asked":
        """The same for some of the pictures."""
        if len(kept) == len(self.images):
            return self

        def some(values: Any) -> Any:
            return type(values)(values[number] for number in kept)

        is_list = isinstance(self.documents, list | tuple)
        return self._replace(
            images=some(self.images),
            masks=some(self.masks),
            labels=some(self.labels) if self.labels else (),
            documents=some(self.documents) if is_list else self.documents,
            left_out=left_out,
        )

    @property
    def is_repeatable(self) -> bool:
        """Whether paths and settings are all of the arguments; arrays, labels and functions cannot be found again."""
        optional = (*self.masks, *self.labels)
        named = all(is_path(each) for each in self.images) and all(each is None or is_path(each) for each in optional)
        spelt = isinstance(self.features, str) or not find_features(self.features).functions
        return (
            named
            and spelt
            and isinstance(self.documents, str)
            and all(each is None or is_path(each) for each in (self.known, self.library))
        )

    @property
    def known_names(self) -> tuple[str, ...]:
        """Names of known topics, which are the first."""
        return () if self.known is None else as_spectra(self.known).names

    def known_spectra(self, bands: tuple[str, ...], n_bands: int, source: str) -> Spectra | None:
        """Spectra of known topics at the bands of a picture."""
        if self.known is None:
            return None
        found = as_spectra(self.known)
        check_known(found, self.settings, self.find_features(n_bands))
        used, there = found.at_bands(bands, n_bands, "known topics", source)
        if len(used) < n_bands:
            raise InputError(
                f"Known topics reach {found.reach(bands, source)}. Give spectra for all bands, or leave out bands."
            )
        return there

    def check_library(self, bands: tuple[str, ...], n_bands: int) -> None:
        """Refuse a library that topics cannot be compared with, before anything is computed."""
        if self.library is None:
            return
        features = self.find_features(n_bands)
        check_features(features.spec, features.one_spectrum)
        at_common_bands(as_spectra(self.library, MOST_ENTRIES), bands, n_bands)

    def inputs(self) -> list[Path]:
        """All input files, and texts that may be names of some."""
        documents = self.documents if isinstance(self.documents, list | tuple) else [self.documents]
        given = (*self.images, *self.masks, *documents, *self.labels, self.known, self.library, *self.also_read)
        return [Path(each) for each in given if is_path(each)]


def is_path(value: Any) -> bool:
    """Whether a picture or a mask is given by its name."""
    return isinstance(value, str | os.PathLike)


class GivenPictures(NamedTuple):
    """Pictures and the mask of each. several, found : as in Asked"""

    images: list[Any]
    masks: list[Any]
    several: bool
    found: tuple[Any, ...]


def as_lists(image: Any, mask: Any, *others: Any) -> GivenPictures:
    """Lists of pictures and of their masks, with folders and patterns replaced by what they stand for.

    others : what else is read, which is not taken for a picture
    """
    several = isinstance(image, list | tuple) and not isinstance(image, Image)
    given = list(image) if several else [image]
    beside = [each for value in (mask, *others) for each in (value if isinstance(value, list | tuple) else [value])]
    images, found = collect(given, beside)
    require(len(images) > 0, "There is no picture: give a path or an array, or a list of them.")
    several = several or bool(found)
    masks = list(mask) if several and isinstance(mask, list | tuple) else [mask] * len(images)
    require(len(masks) == len(images), f"{len(masks)} masks for {len(images)} pictures. Give one for each.")
    return GivenPictures(images, masks, several, found)


def labels_of_each(labels: Any, images: Sequence[Any], *, several: bool) -> tuple[Any, ...]:
    """What is known of the pixels of each picture; empty if nothing is."""
    each = (labels,)
    if several and labels is not None:
        require(isinstance(labels, list | tuple), "Give labels for each picture, in a list: None for one without.")
        require(len(labels) == len(images), f"{len(labels)} labels for {len(images)} pictures. Give one for each.")
        each = tuple(labels)
    return () if all(one is None for one in each) else each


class Request(BaseModel):
    """What the folder of a run stores of the arguments, enough to resume the run.

    id : distinguishes the results of this run from others
    images, masks : paths of the pictures and of their masks; images is None if something cannot be found again, see
        Asked.is_repeatable
    labels : paths of the labels of pictures; empty if there are none
    several : whether a list was given
    known : path of the spectral library of known topics, if there is one
    library : path of that which topics are compared with
    fingerprints : digests of the pictures with their masks and labels, and of known topics
    replaces : digest of the earlier result that the user allowed to be replaced, None if there is none
    checkpoint_seconds : interval between checkpoints of a fit in memory
    left_out : pictures that were found, but could not be read, each with the reason
    choice : how the number of topics was chosen, if it was, see pmlda.howmany.Choice
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    id: str
    images: Annotated[list[str], Field(min_length=1)] | None
    masks: list[str | None]
    labels: list[str | None] = []
    several: bool
    known: str | None = None
    library: str | None = None
    settings: dict[str, str | bool | int | float | list[str] | dict[str, float | list[float]] | None]
    fingerprints: list[str]
    replaces: str | None
    checkpoint_seconds: Annotated[float, Field(ge=0)]
    begun: str
    left_out: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = []
    choice: dict[str, int | str | list[int] | list[float]] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Every picture has a mask or none, one picture is not several, and names can be those of files."""
        optional = (*self.masks, *self.labels, self.known, self.library)
        names = [*(self.images or []), *(name for name in optional if name is not None)]
        if any(b"\0" in os.fsencode(name) for name in names):
            raise PmldaError("a name of a file has a zero byte in it")
        n_images = len(self.images or [])
        if len(self.masks) != n_images or (n_images > 1 and not self.several):
            raise PmldaError("pictures and masks are not equally many")
        if self.labels and len(self.labels) != n_images:
            raise PmldaError("pictures and labels are not equally many")
        return self

    @property
    def key(self) -> bytes:
        """What signs the files of this run; another account, or a request that was changed, has another one."""
        return key_for(digest(self._table()))

    @property
    def signature(self) -> str:
        """What only this account can have written below the request."""
        return sign(self.key, b"request").decode()

    def sealed(self, signature: str | None = None) -> dict[str, Any]:
        """The request with its signature, as a table that contains its own digest.

        signature : another one
        """
        table = self._table() | {SIGNATURE: self.signature if signature is None else signature}
        return table | {SEAL: digest(table)}

    def _table(self) -> dict[str, Any]:
        """All of it but options that were not asked for."""
        optional = {name: field.default for name, field in type(self).model_fields.items() if not field.is_required()}
        return self.model_dump(exclude={name for name, usual in optional.items() if getattr(self, name) == usual})


def make_request(asked: Asked, fingerprints: list[str], *, replaces: str | None, seconds: float) -> Request:
    """The request of a new run."""

    def named(values: Sequence[Any]) -> list[Any]:
        return [None if value is None else str(Path(value).resolve()) for value in values]

    return Request(
        id=secrets.token_hex(8),
        images=named(asked.images) if asked.is_repeatable else None,
        masks=named(asked.masks) if asked.is_repeatable else [],
        labels=named(asked.labels) if asked.is_repeatable else [],
        several=asked.several,
        known=named([asked.known])[0] if asked.is_repeatable else None,
        library=named([asked.library])[0] if asked.is_repeatable else None,
        settings=asked.settings.model_dump(),
        fingerprints=fingerprints,
        replaces=replaces,
        checkpoint_seconds=seconds,
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        left_out=[list(each) for each in asked.left_out],
        choice=None if asked.choice is None else asked.choice.to_table(),
    )


def parse_request(table: dict[str, Any]) -> Request:
    """The request in a table that sealed() made; a ValueError if it was changed, since everything depends on it."""
    table = dict(table)
    seal, signature = table.pop(SEAL, None), str(table.pop(SIGNATURE, ""))
    request = Request(**table)
    if request.sealed(signature)[SEAL] != seal:
        raise PmldaError("it was changed")
    if signature != request.signature:
        warnings.warn(
            "This run was begun by another account or on another machine, so what its folder keeps is computed again.",
            stacklevel=2,
        )
    return request


def open_run(out: str | os.PathLike[str]) -> tuple[RunFolder, Request]:
    """The folder of an earlier run, and what was asked for."""
    return RunFolder.open(Path(out), parse_request)


def check_same(folder: RunFolder, then: Request, settings: Settings, fingerprints: list[str]) -> None:
    """Refuse to resume with a different picture or with different settings."""
    what, which = "", ""
    if make_settings(then.settings) != settings:
        what = "settings are not the same"
    elif then.fingerprints != fingerprints:
        more = ["its labels"] * bool(then.labels) + ["known topics"] * (then.known is not None)
        *some, last = ["its mask", *more]
        what = f"{', '.join(['the picture', *some])} or {last} {'have' if more else 'has'} changed"
        names = [*(then.images or []), *([] if then.known is None else [then.known])]
        if len(names) == len(fingerprints) == len(then.fingerprints):
            changes = zip(names, then.fingerprints, fingerprints, strict=True)
            which = f" ({', '.join(repr(name) for name, before, now in changes if before != now)})"
    if what:
        raise RunError(
            f"The run in {str(folder.path)!r} cannot be resumed: {what} since it was begun. "
            f"Give the same again{which}, or remove the folder and start again."
        )


def asked_again(folder: RunFolder, request: Request) -> Asked:
    """The arguments of a run, from its folder alone."""
    if request.images is None:
        raise RunError(
            f"The run in {str(folder.path)!r} was given an array or a function, which it cannot find again. "
            "Resume it in Python: pmlda.segment(…, out=…, resume=True), with the same arguments."
        )
    settings = make_settings(request.settings)
    images, masks = list(request.images), list(request.masks)
    asked = Asked(images, masks, settings, settings.features, settings.documents, request.several)
    left_out = tuple(LeftOut(*each) for each in request.left_out)
    asked = asked._replace(labels=tuple(request.labels), known=request.known, library=request.library)
    return with_topics_of(asked, request)._replace(left_out=left_out)


def with_topics_of(asked: Asked, request: Request) -> Asked:
    """What was asked for, with the number of topics that the run to be resumed has chosen."""
    if request.choice is None:
        return asked
    topics = make_settings(request.settings).topics
    settings = asked.settings
    settings = settings.model_copy(update={"topics": topics}) if settings.topics == "auto" else settings
    return asked._replace(settings=settings, choice=from_table(request.choice))


class TemporaryFolder:
    """A folder that is removed when this object is no longer referenced."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pmlda-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@contextmanager
def saying_what_is_left(out: Path, is_worth_resuming: Callable[[BaseException], bool]) -> Iterator[None]:
    """Add to errors and Ctrl-C how to resume the run, or that nothing was written."""
    try:
        yield
    except InputError:
        raise
    except (KeyboardInterrupt, PmldaError, OSError, MemoryError) as error:
        stays = is_worth_resuming(error)
        advice = f"What was done is kept; resume with: pmlda resume {str(out)!r}"
        if isinstance(error, KeyboardInterrupt):
            text = (str(error) or "Interrupted").removesuffix(".")
            raise KeyboardInterrupt(f"Interrupted. {advice}" if stays else f"{text}; nothing was written.") from None
        if not stays:
            raise
        text = describe(error).removesuffix(".")
        kind = type(error) if isinstance(error, PmldaError) else RunError
        raise kind(f"{text}. {advice}") from None
