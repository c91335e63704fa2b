"""The pictures of a call → Images, read as its settings say, without found ones that cannot be read."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pmlda.errors import InputError, LeftOutWarning, PmldaError, describe
from pmlda.features.stack import Features
from pmlda.images import read_image
from pmlda.images.dataarray import is_dataarray
from pmlda.images.read import find_reader
from pmlda.images.size import picture_size
from pmlda.pipeline.needs import Size, check_memory
from pmlda.settings import Settings
from pmlda.types import Image, LeftOut
from pmlda.validate import require

# Files of these kinds hold one picture, which has no name.
WITHOUT_KEYS = ("PNG", "JPEG", "ENVI", "NPY")
# Pictures in files of these kinds are numbered.
ONLY_NUMBERS = ("TIFF", "NITF")


class Readable(NamedTuple):
    """What was read.

    images : the pictures
    kept : which of those that were given they are
    left_out : the others, with the reason of each
    """

    images: list[Image]
    kept: list[int]
    left_out: tuple[LeftOut, ...]


def read_all(
    sources: Sequence[Any],
    masks: Sequence[Any],
    settings: Settings,
    found: Iterable[Any] = (),
    inherited: Collection[str] = (),
) -> Readable:
    """Read every picture, with its mask.

    found : those of the sources that may turn out to be unreadable
    inherited : names of settings that are those of other pictures; these may have no slices and no variables
    """
    may_fail = set(map(str, found))
    images, kept, left_out = [], [], []
    for number, (source, mask) in enumerate(zip(sources, masks, strict=True)):
        try:
            images.append(_read(source, mask, _reading_of(source, settings, inherited), settings.ignored_values))
            kept.append(number)
        except (PmldaError, OSError) as error:
            if str(source) not in may_fail:
                raise
            left_out.append(LeftOut(str(source), describe(error)))
    if not images:
        raise InputError(f"None of the {len(left_out)} pictures can be read. {left_out[0].reason}")
    return _with_equal_bands(Readable(images, kept, tuple(left_out)), sources, may_fail)


def _read(source: Any, mask: Any, reading: dict[str, Any], ignored: dict[str, Any]) -> Image:
    """One picture. An image that was read already stays as it is, but for values that are ignored."""
    if not isinstance(source, Image):
        return read_image(source, mask=mask, **reading, **ignored)
    asked = ", ".join(name for name, value in reading.items() if value is not None)
    require(not asked, f"{source.name} was read already, so {asked} cannot be chosen any more: tell pmlda.read_image.")
    return read_image(source, mask=mask, **ignored) if ignored else source


def _reading_of(source: Any, settings: Settings, inherited: Collection[str]) -> dict[str, Any]:
    """What to read of a picture.

    Of what is inherited, as much as there can be: an image was read already, an array has neither variables, slices nor
    times, and files of some kinds have no variables.
    """
    if not inherited:
        return settings.reading
    is_file = isinstance(source, str | os.PathLike)
    has_axes = is_file or is_dataarray(source)
    nameless = WITHOUT_KEYS if settings.key.isdecimal() else (*WITHOUT_KEYS, *ONLY_NUMBERS)
    meant = {"key": is_file and find_reader(Path(source))[0] not in nameless, "z": has_axes, "t": has_axes}
    meant["bands"] = not isinstance(source, Image)
    return {name: value for name, value in settings.reading.items() if name not in inherited or meant[name]}


def _with_equal_bands(read: Readable, sources: Sequence[Any], may_fail: set[str]) -> Readable:
    """Pictures that share topics have equally many bands; found ones that have others than most are left out."""
    counts = Counter(image.pixels.shape[2] for image in read.images)
    (usual, _), *others = counts.most_common()
    if not others:
        return read
    odd = [number for number, image in zip(read.kept, read.images, strict=True) if image.pixels.shape[2] != usual]
    named = any(str(sources[number]) not in may_fail for number in odd)
    require(not named, f"The pictures have {sorted(counts)} bands. Give pictures with equally many.")
    return Readable(
        [image for image in read.images if image.pixels.shape[2] == usual],
        [number for number in read.kept if number not in odd],
        (
            *read.left_out,
            *(
                LeftOut(
                    str(sources[number]), f"Most pictures have {usual} bands, this one has {image.pixels.shape[2]}."
                )
                for number, image in zip(read.kept, read.images, strict=True)
                if number in odd
            ),
        ),
    )


def judge_sizes(
    images: Sequence[Any],
    settings: Settings,
    find: Callable[[int], Features],
    found: Iterable[Any] = (),
    inherited: Collection[str] = (),
) -> None:
    """Refuse pictures that are too large for a run in memory, before they are in memory.

    find : number of bands → features
    found, inherited : as in read_all
    """
    may_fail = set(map(str, found))
    sizes = []
    for source in images:
        try:
            reading = {} if isinstance(source, Image) else _reading_of(source, settings, inherited)
            size = picture_size(source, **reading)
        except (PmldaError, OSError):
            if str(source) not in may_fail:
                raise
            continue  # read_all says why
        if size is not None:
            sizes.append(Size(*size))
    if sizes:
        check_memory(sizes, settings, find(sizes[0].shape[2]))


def warn_of(left_out: Sequence[LeftOut]) -> None:
    """Name the pictures that were left out."""
    if left_out:
        named = " ".join(str(each) for each in left_out)
        counted = "1 picture was" if len(left_out) == 1 else f"{len(left_out)} pictures were"
        warnings.warn(f"{counted} left out. {named}", LeftOutWarning, stacklevel=3)
