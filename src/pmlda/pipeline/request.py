"""What was asked for: in memory as the arguments of segment(), and in the folder of a run as one validated table."""

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from pmlda.errors import InputError, PmldaError, RunError
from pmlda.features import find_features
from pmlda.features.automatic import auto_features
from pmlda.features.stack import Features
from pmlda.images import read_image
from pmlda.parallel.progress import Clock
from pmlda.settings import Settings, make_settings
from pmlda.storage.digest import digest
from pmlda.storage.run_folder import RunFolder
from pmlda.types import Image
from pmlda.validate import require

# The key under which a request stores its own digest.
SEAL = "sha256"


class Asked(NamedTuple):
    """The arguments of a call of segment().

    images, masks : one or several pictures, and the mask of each or None
    features, documents : as given by the user
    several : whether a list was given
    clock : measures the stages and reports them to a listener
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

    def find_features(self, n_bands: int) -> Features:
        """The features of pictures with n_bands bands."""
        is_auto = isinstance(self.features, str) and self.features == "auto"
        return find_features(auto_features(n_bands) if is_auto else self.features)

    def read(self) -> list[Image]:
        """Read every picture, with its mask."""
        with self.clock("reading"):
            return read_all(self.images, self.masks)

    def paths(self) -> list[Path] | None:
        """Paths of all pictures, or None if some of them are arrays."""
        if not all(isinstance(each, str | os.PathLike) for each in self.images):
            return None
        return [Path(each) for each in self.images]

    def inputs(self) -> list[Path]:
        """All input files."""
        return [Path(each) for each in (*self.images, *self.masks) if isinstance(each, str | os.PathLike)]


def as_lists(image: Any, mask: Any) -> tuple[list[Any], list[Any], bool]:
    """Lists of pictures and of their masks, and whether a list was given."""
    several = isinstance(image, list | tuple) and not isinstance(image, Image)
    images = list(image) if several else [image]
    require(len(images) > 0, "There is no picture: give a path or an array, or a list of them.")
    masks = list(mask) if several and mask is not None else [mask] * len(images)
    require(len(masks) == len(images), f"{len(masks)} masks for {len(images)} pictures. Give one for each.")
    return images, masks, several


def read_all(sources: Sequence[Any], masks: Sequence[Any]) -> list[Image]:
    """Read every picture, with its mask."""
    images = [
        source if isinstance(source, Image) else read_image(source, mask=mask)
        for source, mask in zip(sources, masks, strict=True)
    ]
    counts = {image.pixels.shape[2] for image in images}
    require(len(counts) == 1, f"The pictures have {sorted(counts)} bands. Give pictures with equally many.")
    return images


class Request(BaseModel):
    """What the folder of a run stores of the arguments, enough to resume the run.

    id : distinguishes the results of this run from others
    images, mask : paths; None if a picture is an array, which cannot be found again
    fingerprints : digests of the pictures with their masks
    checkpoint_seconds : interval between checkpoints of a fit in memory
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    images: list[str] | None
    mask: str | None
    settings: dict[str, Any]
    fingerprints: list[str]
    overwrite: bool
    checkpoint_seconds: float
    begun: str

    def sealed(self) -> dict[str, Any]:
        """The request as a table that contains its own digest."""
        table = self.model_dump()
        return table | {SEAL: digest(table)}


def make_request(asked: Asked, fingerprints: list[str], *, overwrite: bool, seconds: float) -> Request:
    """The request of a new run."""
    paths = asked.paths()
    mask = next((each for each in asked.masks if isinstance(each, str | os.PathLike)), None)
    return Request(
        id=secrets.token_hex(8),
        images=None if paths is None else [str(path.resolve()) for path in paths],
        mask=None if mask is None else str(Path(mask).resolve()),
        settings=asked.settings.model_dump(),
        fingerprints=fingerprints,
        overwrite=overwrite,
        checkpoint_seconds=seconds,
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def read_request(folder: RunFolder) -> Request:
    """The request of a run, or an error if it was changed: everything else depends on it."""
    table = dict(folder.request)
    seal = table.pop(SEAL, None)
    try:
        request = Request(**table) if seal == digest(table) else None
    except ValueError:  # of pydantic too
        request = None
    if request is None:
        raise RunError(f"The request.json of {str(folder.path)!r} is damaged. Remove the folder and start again.")
    return request


def check_same(folder: RunFolder, then: Request, settings: Settings, fingerprints: list[str]) -> None:
    """Refuse to resume with a different picture or with different settings."""
    what, which = "", ""
    if make_settings(then.settings) != settings:
        what = "settings are not the same"
    elif then.fingerprints != fingerprints:
        what = "the picture or its mask has changed"
        names = then.images or []
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
            f"The run in {str(folder.path)!r} works on an array, which it cannot find again. "
            "Resume it in Python: pmlda.segment(array, …, out=…, resume=True)."
        )
    settings = make_settings(request.settings)
    several = len(request.images) > 1
    masks = [request.mask] * len(request.images)
    return Asked(list(request.images), masks, settings, settings.features, settings.documents, several)


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
        text = (str(error) or type(error).__name__).removesuffix(".")
        kind = type(error) if isinstance(error, PmldaError) else RunError
        raise kind(f"{text}. {advice}") from None
