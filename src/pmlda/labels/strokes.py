"""Stroke: what somebody said of the pixels under a line or in a polygon, and what that means for numbered topics."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pmlda.errors import InputError, PmldaError
from pmlda.labels.raster import Shape, brush, enclosed
from pmlda.types import FloatArray, IntArray
from pmlda.validate import brief, nearest, require, shares_array

# Draws that a statement about documents of strength 1 counts as. Their pixels say much more; it tips the balance.
CONTAINS = 5.0
# The whole of a pixel is nearer than this to its centre, so that no stroke within a picture misses all pixels.
DEFAULT_RADIUS = 1.0
# Farther away from a picture there is nothing to label, and squares of coordinates must not overflow.
FARTHEST = 1e9
# More points than any hand draws; the time that strokes take must not depend on who wrote their file.
MOST_POINTS = 100_000

Coordinate = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=2)]
Line = Annotated[list[Point], Field(min_length=1, max_length=MOST_POINTS)]
Ring = Annotated[list[Point], Field(min_length=3, max_length=MOST_POINTS)]
Topic = int | str


class Stroke(BaseModel):
    """What somebody drew, and what it says.

    One of these says it, with topics as numbers from 1 or by their names:
    topic : this is that topic
    shares : it is a mixture: {topic: share} or one share for each topic
    any_of : it is one of these topics, or a mixture of them

    One of these says where, as [x, y] (x = column, y = row, pixel centres at whole numbers):
    points : under a line, or a disc around one point; lines : several of them
    polygon : inside an odd number of rings

    radius : of the brush in pixels
    strength : of the whole stroke, however many pixels it has. At 1, the default, it counts as much as a tenth of the
        pictures: as if somebody had looked once for every ten pixels, and always seen this
    contains : whether it says that regions contain this, instead of what each of their pixels is
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    topic: Topic | None = None
    shares: dict[Topic, float] | list[float] | None = None
    any_of: list[Topic] | None = None
    points: Line | None = None
    lines: Annotated[list[Line], Field(min_length=1)] | None = None
    polygon: Annotated[list[Ring], Field(min_length=1)] | None = None
    radius: Annotated[float, Field(ge=0, le=FARTHEST)] = DEFAULT_RADIUS
    strength: Annotated[float, Field(gt=0)] = 1.0
    contains: bool = False

    @model_validator(mode="after")
    def _says_one_thing_of_one_place(self) -> Self:
        for names in (("topic", "shares", "any_of"), ("points", "lines", "polygon")):
            given = [name for name in names if getattr(self, name) is not None]
            if len(given) != 1:
                raise PmldaError(f"it has {' and '.join(given) or 'none'} of {', '.join(names)}: give one of them")
        return self

    @property
    def topics(self) -> list[Topic]:
        """The topics that it mentions, as it calls them."""
        if self.topic is not None:
            return [self.topic]
        return list(self.any_of or (self.shares if isinstance(self.shares, dict) else ()))

    @property
    def n_points(self) -> int:
        """Number of points with which it was drawn."""
        return sum(map(len, self.polygon or self.lines or [self.points or []]))

    def runs(self, shape: Shape) -> IntArray:
        """(n, 2) runs of its pixels in a picture of this shape, see pmlda.labels.raster."""
        if self.polygon is not None:
            return enclosed([_array(ring) for ring in self.polygon], shape)
        return brush([_array(line) for line in self.lines or [self.points or []]], self.radius, shape)

    def to_table(self) -> dict[str, Any]:
        """What JSON holds of it, with its strength: the default may be another one some day."""
        table = self.model_dump(exclude_none=True)
        return table if self.contains else {name: value for name, value in table.items() if name != "contains"}


def _array(points: Sequence[Sequence[float]]) -> FloatArray:
    return np.array(points, dtype=np.float64)


def to_stroke(table: Any, what: str) -> Stroke:
    """A checked stroke. what : how errors call it"""
    if isinstance(table, Stroke):
        return table
    require(isinstance(table, dict), f'{what} is {brief(table)}: give a table such as {{"topic": 1, "points": …}}.')
    try:
        return Stroke(**{str(name): _plain(value) for name, value in table.items()})
    except ValidationError as error:
        raise InputError(f"{what} cannot be used: {_first(error)}.") from None
    except RecursionError:
        raise InputError(f"{what} is nested too deeply.") from None


def _plain(value: Any) -> Any:
    """Lists and numbers of Python, where arrays and tuples are as good."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return value


def _first(error: ValidationError) -> str:
    """What is wrong, in a few words."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = list(Stroke.model_fields)
        return f"there is no {brief(name)} of a stroke. {nearest(name, known)}There are: {', '.join(known)}"
    text = str(first["msg"])
    return f"{name} is {brief(first['input'])}, but {text[0].lower()}{text[1:]}"


class Statement(NamedTuple):
    """What a stroke says of numbered topics, from 0: (K,) shares, or the topics of which it is one; the other is empty.

    Equal statements are equal tuples.
    """

    shares: tuple[float, ...]
    any_of: tuple[int, ...]

    @property
    def is_soft(self) -> bool:
        """Whether it tells shares of a mixture."""
        return bool(self.shares) and max(self.shares) < 1.0

    @property
    def topics(self) -> set[int]:
        """The topics that it leaves."""
        return {k for k, share in enumerate(self.shares) if share > 0.0} or set(self.any_of)

    def follows_from(self, other: "Statement") -> bool:
        """Whether whoever says the other has said this: it is the same, or "one of these" with all topics of the other.

        >>> Statement((), (0, 1)).follows_from(Statement((1.0, 0.0, 0.0), ()))
        True
        >>> Statement((1.0, 0.0, 0.0), ()).follows_from(Statement((), (0, 1)))
        False
        """
        return self == other or (bool(self.any_of) and other.topics <= self.topics)

    def label(self, strength: float, n_topics: int) -> tuple[FloatArray, FloatArray, float]:
        """A row of pmlda.types.Labels: counts (K,), any_of (K,) and strength."""
        counts, any_of = np.zeros(n_topics), np.zeros(n_topics)
        if self.shares:
            return strength * np.array(self.shares), any_of, 0.0
        any_of[list(self.any_of)] = 1.0
        return counts, any_of, strength


class Topics(NamedTuple):
    """How topics may be called: by numbers from 1, and by names if there are any, one for each topic or fewer."""

    n_topics: int
    names: tuple[str, ...] = ()

    def number(self, topic: Topic, what: str) -> int:
        """The number of a topic from 0."""
        if isinstance(topic, str) and topic in self.names:
            return self.names.index(topic)
        if isinstance(topic, str) and not topic.isdecimal():
            known = f"The names are {brief(list(self.names))}" if self.names else "Topics have no names here"
            raise InputError(f"{what} names a topic {brief(topic)}. {nearest(topic, list(self.names))}{known}.")
        number = int(topic) if len(str(topic)) < 10 else 0
        require(
            1 <= number <= self.n_topics,
            f"{what} is of topic {brief(topic)}, and topics are numbered from 1 to {self.n_topics}. "
            "Correct it, or ask for more topics.",
        )
        return number - 1

    def state(self, stroke: Stroke, what: str) -> Statement:
        """What a stroke says of numbered topics."""
        shares = np.zeros(self.n_topics)
        if stroke.topic is not None:
            shares[self.number(stroke.topic, what)] = 1.0
        elif stroke.any_of is not None:
            return self._one_of(stroke.any_of, what)
        elif isinstance(stroke.shares, dict):
            numbers = [self.number(topic, what) for topic in stroke.shares]
            require(len(set(numbers)) == len(numbers), f"{what} has two shares of one topic. Give one for each.")
            shares[numbers] = list(stroke.shares.values())
            shares = shares_array(f"{what}: shares", shares, (self.n_topics,))
        else:
            shares = shares_array(f"{what}: shares", stroke.shares, (self.n_topics,))
        return Statement(tuple((shares / shares.sum()).tolist()), ())

    def _one_of(self, topics: Sequence[Topic], what: str) -> Statement:
        numbers = sorted({self.number(topic, what) for topic in topics})
        require(
            0 < len(numbers) < self.n_topics,
            f"{what} says that it is one of {len(numbers)} of {self.n_topics} topics, which tells nothing. "
            "Give some of them, but not all.",
        )
        if len(numbers) == 1:
            return Statement(tuple(np.eye(self.n_topics)[numbers[0]].tolist()), ())
        return Statement((), tuple(numbers))


def find_topics(n_topics: int, names: Sequence[str], strokes: Iterable[Stroke]) -> Topics:
    """How these strokes may call topics: by the names that are listed, or else by those that they mention, in order."""
    if names:
        require(
            len(names) <= n_topics, f"There are {len(names)} names for {n_topics} topics. Ask for {len(names)} topics."
        )
        require(len(set(names)) == len(names), f"Names of topics must differ, and are {brief(list(names))}.")
        return Topics(n_topics, tuple(names))
    mentioned = [topic for stroke in strokes for topic in stroke.topics]
    found = tuple(dict.fromkeys(topic for topic in mentioned if isinstance(topic, str) and not topic.isdecimal()))
    require(
        not found or len(found) == len(set(mentioned)),
        f"Strokes call topics by numbers and by names, {brief(list(found))}, and nothing tells which is which. "
        'List the names of topics: {"names": […], "strokes": […]}.',
    )
    require(
        len(found) <= n_topics,
        f"Strokes name {len(found)} topics, {brief(list(found))}, and {n_topics} were asked for. "
        f"Ask for {len(found)} topics, or correct the names.",
    )
    return Topics(n_topics, found)
