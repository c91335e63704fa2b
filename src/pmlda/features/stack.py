"""Features: images → what all images share; one image → feature stack; state → plain numbers and back."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Self

import numpy as np

from pmlda.errors import PmldaError
from pmlda.features.base import Feature, Learnt
from pmlda.features.find import find_parts
from pmlda.features.given import Function, Given
from pmlda.features.pixels import fill, with_finite_mask, with_true_mask
from pmlda.types import FeatureStack, FloatArray, Image
from pmlda.validate import require, texts


class Features:
    """Several features side by side, fixed once by fit and then the same for every image.

    Topics learnt on one image are only good for others if a feature means the same there: ranges of brightness and
    principal components come from the images given to fit.

    >>> rng = np.random.default_rng(0)
    >>> one, other = (Image(rng.random((8, 9, 4)), np.ones((8, 9), bool), tuple("abcd"), n) for n in ("one", "other"))
    >>> features = Features(find_parts("spectral:pca2+intensity")).fit([one])
    >>> features.names
    ('component_1', 'component_2', 'intensity')
    >>> features.compute(other).values.shape
    (8, 9, 3)
    """

    def __init__(self, parts: Sequence[Feature]) -> None:
        self.parts = list(parts)
        self._learnt: list[Learnt] | None = None
        self._names: tuple[str, ...] | None = None
        self._bands: tuple[str, ...] = ()
        self._possible: FloatArray | None = None

    @property
    def spec(self) -> str:
        """All parts in one text."""
        return "+".join(part.spec for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """(p,) what each value is."""
        if self._names is None:
            raise PmldaError(f"features={self.spec!r} are not fitted yet: call fit(images) first.")
        return self._names

    def fit(self, images: Image | Iterable[Image]) -> Self:
        """Fix what is learnt from images, and the names. A function is tried on the first image."""
        listed = self._listed([images] if isinstance(images, Image) else list(images))
        return self.settle([self.survey(image) for image in listed], listed[0])

    def survey(self, image: Image) -> list[Learnt]:
        """What settle() needs of one image or of one block of it, part by part; nothing where no pixel is valid."""
        masked = with_finite_mask(image)
        if not masked.valid.any():
            return []
        for part in self.parts:
            part.check(masked)
        return [part.survey(masked) for part in self.parts]

    def settle(self, surveys: Iterable[list[Learnt]], example: Image) -> Self:
        """Fix what is learnt from the surveys, and the names, which an example tells. fit does both for images."""
        by_part = zip(*(each for each in surveys if each), strict=True)
        self._learnt = [part.settle(known) for part, known in zip(self.parts, by_part, strict=True)]
        self._names, self._bands = None, example.bands
        first, pairs = fill(with_true_mask(example)), list(zip(self.parts, self._known(), strict=True))
        names = [part.names(first, learnt) for part, learnt in pairs]
        self._names = _distinct([name for each in names for name in each])
        self._possible = np.hstack(
            [part.possible(each, learnt) for (part, learnt), each in zip(pairs, names, strict=True)]
        )
        return self

    @property
    def possible(self) -> FloatArray | None:
        """(2, p) the least and the greatest that values can be, infinite where nothing is known; None if read from a
        file, because topics are learnt already.
        """
        return self._possible

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was found out about the images, for the user."""
        pairs = zip(self.parts, self._known(), strict=True)
        return tuple(dict.fromkeys(note for part, learnt in pairs for note in part.notes(learnt)))

    @property
    def one_unit(self) -> bool:
        """Whether all values have the same unit and much the same noise, so that they need no scaling."""
        return len(self.parts) == 1 and self.parts[0].one_unit

    @property
    def one_spectrum(self) -> bool:
        """Whether undo() returns the spectrum of all bands."""
        return len(self.parts) == 1 and self.parts[0].name == "spectral"

    @property
    def has_noise(self) -> bool:
        """Whether the last value is no feature but the size of the noise, see Scaling."""
        return self.parts[-1].has_noise

    @property
    def reach(self) -> int:
        """How far away, in pixels, what decides on the values of a pixel may lie."""
        return max(part.reach for part in self.parts)

    @property
    def is_brightness(self) -> bool:
        """Whether the mean of all values is how bright a pixel is."""
        return all(part.is_brightness for part in self.parts)

    @property
    def footprint(self) -> int:
        """Side of the window of the sharpest of these features."""
        return min(part.footprint for part in self.parts)

    @property
    def functions(self) -> tuple[tuple[str, Function], ...]:
        """Names and functions of those parts that are functions, which model files do not hold."""
        return tuple((part.spec, part.function) for part in self.parts if isinstance(part, Given))

    def compute(self, image: Image) -> FeatureStack:
        """(H, W, p) values of one image."""
        learnt = self._known()
        filled = fill(with_true_mask(image))
        stacks = [part.stack(filled, known) for part, known in zip(self.parts, learnt, strict=True)]
        names = _distinct([name for stack in stacks for name in stack.names])
        if self._names is None:
            self._names = names
        require(
            len(names) == len(self._names),
            f"features={self.spec!r} give {len(names)} values for {image.name}, but gave {len(self._names)} when they "
            "were fitted: give images with the same bands.",
        )
        values = np.concatenate([stack.values for stack in stacks], axis=2)
        require(
            bool(np.isfinite(values).all()),
            f"features={self.spec!r} are not finite for {image.name}: its numbers are too large. Rescale the image.",
        )
        return FeatureStack(values, self._names)

    # ── topics as a person reads them ──────────────────────────────────────────────────────────────────────────────
    @property
    def can_undo(self) -> bool:
        """Whether undo() changes anything; several features side by side stay as they are."""
        return self._undone_names is not None

    @property
    def undone_names(self) -> tuple[str, ...]:
        """(q,) the names of what undo() returns."""
        return self._undone_names or self.names

    @property
    def _undone_names(self) -> tuple[str, ...] | None:
        return self.parts[0].undone_names(self._bands, self._known()[0]) if len(self.parts) == 1 else None

    @property
    def n_undone(self) -> int:
        """How many values undo() returns."""
        return len(self.undone_names)

    def undo(self, values: FloatArray) -> FloatArray:
        """(n, q) values (n, p) as a person reads them: spectra for their components."""
        return self.parts[0].undo(values, self._known()[0]) if len(self.parts) == 1 else values

    def share_weights(self, values: FloatArray) -> FloatArray | None:
        """(K,) what memberships in topics with these values (K, p) are multiplied by to become shares; None if 1."""
        return self.parts[0].share_weights(values, self._known()[0]) if len(self.parts) == 1 else None

    def fit_compute(self, image: Image) -> FeatureStack:
        """fit and compute for one image, without calling functions twice."""
        listed = self._listed([image])
        by_part = [[learnt] for learnt in self.survey(listed[0])]
        self._learnt, self._names = [p.settle(known) for p, known in zip(self.parts, by_part, strict=True)], None
        self._bands, self._possible = image.bands, None
        return self.compute(image)

    def state(self) -> dict[str, Any]:
        """Everything that was fixed: texts, and arrays of numbers.

        spec : list of the parts as a user writes them
        functions : names of those parts that are functions, which cannot be saved
        names, bands : lists of the values' and of the bands' names
        "0.range" and the like : array that part 0 learnt
        """
        arrays = {f"{i}.{key}": array.copy() for i, learnt in enumerate(self._known()) for key, array in learnt.items()}
        functions = [part.spec for part in self.parts if isinstance(part, Given)]
        names = {"names": list(self.names), "bands": list(self._bands)}
        return {"spec": [part.spec for part in self.parts], "functions": functions} | names | arrays

    @classmethod
    def from_state(cls, state: Mapping[str, Any], functions: Mapping[str, Function] | None = None) -> Self:
        """The features that state() came from. Functions must be given again, by name."""
        given = dict(functions or {})
        spec, named = texts("spec", state["spec"]), texts("functions", state["functions"])
        missing = [name for name in named if name not in given]
        require(
            not missing,
            f"These features are functions, which are not saved: {', '.join(missing)}. "
            f"Give them again: functions={{{', '.join(f'{name!r}: …' for name in missing)}}}.",
        )
        features = cls([part for word in spec for part in find_parts(given[word] if word in named else word)])
        require(
            len(features.parts) > 0 and [part.spec for part in features.parts] == list(spec),
            f"The features of the state are {features.spec!r}, but it lists them as {list(spec)}.",
        )
        features._learnt = [part.recall(_arrays_of(state, i)) for i, part in enumerate(features.parts)]
        features._names, features._bands = texts("names", state["names"]), texts("bands", state.get("bands", ()))
        return features

    def _listed(self, images: list[Image]) -> list[Image]:
        """The images with their true masks, if there are any."""
        require(len(images) > 0, "There are no images to fit features on. Give at least one.")
        return [with_true_mask(image) for image in images]

    def _known(self) -> list[Learnt]:
        if self._learnt is None:
            raise PmldaError(f"features={self.spec!r} are not fitted yet: call fit(images) first.")
        return self._learnt


def _arrays_of(state: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What one part learnt, by its own names."""
    start = f"{number}."
    return {key.removeprefix(start): state[key] for key in state if key.startswith(start)}


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names that occur again get a number.

    >>> _distinct(["red", "blue", "red"])
    ('red', 'blue', 'red (2)')
    """
    distinct: list[str] = []
    for name in names:
        choices = (name if i == 1 else f"{name} ({i})" for i in count(1))
        distinct.append(next(choice for choice in choices if choice not in distinct))
    return tuple(distinct)
