"""Drawings on pictures → PixelLabels: which pixels are labelled, and what each label says of their memberships."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import InputError
from pmlda.labels.files import LABEL_IMAGE, STROKES, Drawing, read_drawing, to_json, to_png
from pmlda.labels.raster import Shape, pixels_of
from pmlda.labels.strokes import CONTAINS, Statement, Stroke, Topics, find_topics
from pmlda.storage.digest import digest
from pmlda.types import FloatArray, Georeference, IntArray, Labels
from pmlda.validate import brief, require

# A stroke of strength 1 counts as many draws as this part of all pixels. With ten times as many, thick brushes that
# reach beyond what is pure do harm in benchmarks/labels.py; with a hundredth, photographs outvote their strokes.
PICTURE_PART = 0.1
# Shares that somebody estimates by eye are accurate to a tenth at best: the standard deviation after so many draws.
MOST_SOFT_DRAWS = 25.0


def per_pixel(strength: float, n_pixels: int, n_all: int, *, soft: bool = False) -> float:
    """The strength of the label of each pixel of a stroke, in draws from its memberships.

    Pixels of a stroke repeat each other, so that they share what it counts: a thick brush does not outvote the picture.
    And what it counts is a part of the picture, whatever its resolution: at a fixed number of draws, the same stroke
    would decide in a small copy of a photograph and be outvoted in a large one.

    n_all : number of pixels of all pictures
    soft : whether the stroke tells shares of a mixture
    """
    draws = PICTURE_PART * n_all / n_pixels
    return strength * (min(draws, MOST_SOFT_DRAWS) if soft else draws)


class Region(NamedTuple):
    """A statement about regions: a document of which at least half is inside has this label.

    runs : (n, 2) of its pixels, see pmlda.labels.raster
    counts, any_of, strength : as a row of pmlda.types.Labels
    stroke : what was drawn
    what : what errors call it
    """

    runs: IntArray
    counts: FloatArray
    any_of: FloatArray
    strength: float
    stroke: Stroke
    what: str

    def crosses(self, rows: slice, width: int) -> bool:
        """Whether it reaches some of these rows of a picture."""
        return bool(self.runs[0, 0] < rows.stop * width and self.runs[-1, 1] > rows.start * width)

    def holds(self, pixel: IntArray) -> NDArray[np.bool_]:
        """(n,) whether pixels, by their flat indices, are inside."""
        before = np.searchsorted(self.runs[:, 0], pixel, side="right") - 1
        return np.asarray((before >= 0) & (pixel < self.runs[np.maximum(before, 0), 1]))


class PixelLabels(NamedTuple):
    """The labels of one picture. Several pictures share one table.

    shape : (H, W)
    pixel : (M,) labelled pixels: ascending flat indices, row · W + column
    row : (M,) the row of the table that is the label of each
    counts, any_of, strength : the table, see pmlda.types.Labels; row 0 says nothing
    stroke : (M,) the number of the stroke of each, from 0
    strokes : what was drawn, by these numbers; in a label image, pixels of one label that touch are a stroke
    regions : statements about documents
    names : of topics, as strokes call them
    from_image : whether they are from a label image
    """

    shape: Shape
    pixel: IntArray
    row: IntArray
    counts: FloatArray
    any_of: FloatArray
    strength: FloatArray
    stroke: IntArray
    strokes: tuple[Stroke, ...]
    regions: tuple[Region, ...]
    names: tuple[str, ...]
    from_image: bool

    def rows_at(self, places: IntArray) -> IntArray:
        """(n,) the row of the table for pixels by their flat indices, 0 where nothing is known."""
        return self._at(places, self.row, 0)

    def strokes_at(self, places: IntArray) -> IntArray:
        """(n,) the stroke of each pixel, −1 where there is none."""
        return self._at(places, self.stroke, -1)

    def _at(self, places: IntArray, values: IntArray, nothing: int) -> IntArray:
        found = np.full(len(places), nothing, np.int64)
        if len(self.pixel):
            at = np.minimum(np.searchsorted(self.pixel, places), len(self.pixel) - 1)
            found = np.where(self.pixel[at] == places, values[at], nothing)
        return found

    def said(self) -> tuple[FloatArray, FloatArray]:
        """(S, K) shares that strokes say, zero where they say "one of these", and 1 for each of these."""
        row = np.zeros(len(self.strokes), np.int64)
        row[self.stroke] = self.row
        counts = self.counts[row]
        return counts / np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny), self.any_of[row]

    def labels(self, row: IntArray) -> Labels:
        """Labels of words, whose rows of the table are known."""
        return Labels(row, self.counts, self.any_of, self.strength)

    def to_file(self) -> tuple[str, bytes]:
        """The name and the content of a file from which the same labels are read again."""
        if not self.from_image:
            return self.file_name, to_json([*self.strokes, *(region.stroke for region in self.regions)], self.names)
        image = np.zeros(self.shape[0] * self.shape[1], np.uint8)  # settings allow 255 topics
        image[self.pixel] = self.counts[self.row].argmax(axis=1) + 1
        return self.file_name, to_png(image.reshape(self.shape))

    @property
    def file_name(self) -> str:
        """What the file is called."""
        return LABEL_IMAGE if self.from_image else STROKES

    @property
    def note(self) -> str:
        """A sentence on how much was said."""
        n_strokes = len(self.strokes) + len(self.regions)
        return f"Labels: {n_strokes} stroke{'' if n_strokes == 1 else 's'} on {len(self.pixel):,} pixels."

    @property
    def fingerprint(self) -> str:
        """A text that changes when what is said does."""
        regions = [[each.runs, each.counts, each.any_of, each.strength] for each in self.regions]
        return digest(self.shape, self.pixel, self.row, self.counts, self.any_of, self.strength, regions)


class Canvas(NamedTuple):
    """What must be known of a picture to label it: (H, W), and where on Earth it lies."""

    shape: Shape
    place: Georeference | None = None


def read_labels(
    sources: Sequence[Any], pictures: Sequence[Canvas], n_topics: int, names: Sequence[str] = ()
) -> tuple[PixelLabels | None, ...]:
    """The labels of pictures that share topics.

    sources : for each picture a file, an array or strokes; None for one without labels
    names : of topics, in order; without them strokes may bring their own
    """
    drawings = [
        None if source is None else read_drawing(source, picture.shape, picture.place)
        for source, picture in zip(sources, pictures, strict=True)
    ]
    drawn = [drawing for drawing in drawings if drawing is not None]
    topics = find_topics(n_topics, names or _listed(drawn), [stroke for each in drawn for _, stroke in each.strokes])
    table, n_all = Table(n_topics), sum(picture.shape[0] * picture.shape[1] for picture in pictures)
    made = [
        None if drawing is None else (drawing, _marks(drawing, picture.shape, topics))
        for drawing, picture in zip(drawings, pictures, strict=True)
    ]
    found = [
        None if each is None else _label(*each, picture.shape, topics, table, n_all)
        for each, picture in zip(made, pictures, strict=True)
    ]
    require(
        not drawn or any(each is not None and (len(each.pixel) or each.regions) for each in found),
        f"{' and '.join(each.source for each in drawn[:3])} has no label in it. Draw a stroke, or leave labels out.",
    )
    counts, any_of, strength = table.arrays()
    return tuple(
        None if each is None else each._replace(counts=counts, any_of=any_of, strength=strength) for each in found
    )


def _listed(drawings: Sequence[Drawing]) -> tuple[str, ...]:
    """The names of topics that files list, which must not contradict each other."""
    lists = [(each.source, each.names) for each in drawings if each.names]
    for source, names in lists[1:]:
        require(
            names == lists[0][1],
            f"{source} names topics {brief(names)}, and {lists[0][0]} {brief(lists[0][1])}. Give equal names.",
        )
    return lists[0][1] if lists else ()


class Table:
    """The different labels of all pictures."""

    def __init__(self, n_topics: int) -> None:
        self._n_topics = n_topics
        self._rows: dict[tuple[Statement, float], int] = {}

    def row(self, statement: Statement, strength: float) -> int:
        """The row of a label, a new one if it is new."""
        return self._rows.setdefault((statement, strength), len(self._rows) + 1)

    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """counts (L, K), any_of (L, K) and strength (L,)."""
        nothing = np.zeros(self._n_topics)
        rows = [(nothing, nothing, 0.0), *(said.label(strength, self._n_topics) for said, strength in self._rows)]
        counts, any_of, strengths = zip(*rows, strict=True)
        return np.array(counts), np.array(any_of), np.array(strengths)


class Marks(NamedTuple):
    """What strokes say of which pixels; a pixel may be under several of them.

    whats, strokes, statements : by the number of the stroke
    pixel, stroke : (M,) flat indices, and the stroke that covers each
    """

    whats: list[str]
    strokes: list[Stroke]
    statements: list[Statement]
    pixel: IntArray
    stroke: IntArray


def _marks(drawing: Drawing, shape: Shape, topics: Topics) -> Marks:
    """The pixels under every stroke, or of every region of a label image."""
    if drawing.image is not None:
        return _regions_of(drawing.image, drawing.source, topics)
    kept = [(what, stroke, _covered(stroke, shape, what)) for what, stroke in drawing.strokes if not stroke.contains]
    pixels = [pixels_of(runs) for _, _, runs in kept]
    numbers = np.repeat(np.arange(len(kept)), [len(each) for each in pixels])
    statements = [topics.state(stroke, what) for what, stroke, _ in kept]
    joined = np.concatenate([np.empty(0, np.int64), *pixels])
    return Marks([what for what, _, _ in kept], [stroke for _, stroke, _ in kept], statements, joined, numbers)


def _covered(stroke: Stroke, shape: Shape, what: str) -> IntArray:
    """The runs of a stroke, which must cover some pixel of the picture."""
    runs = stroke.runs(shape)
    if len(runs) == 0:
        points = np.array([point for line in stroke.polygon or stroke.lines or [stroke.points or []] for point in line])
        low, high = points.min(axis=0), points.max(axis=0)
        near = (high >= -0.5).all() and low[0] <= shape[1] - 0.5 and low[1] <= shape[0] - 0.5
        box = f"x {low[0]:g} to {high[0]:g}, y {low[1]:g} to {high[1]:g}, the picture {shape[1]} × {shape[0]} pixels"
        if near:
            raise InputError(f"{what} covers the centre of no pixel ({box}). Draw it larger.")
        raise InputError(f"{what} lies outside the picture ({box}). Check its coordinates and their system.")
    return runs


def _regions_of(image: NDArray[np.integer], source: str, topics: Topics) -> Marks:
    """The regions of a label image: pixels of one label that touch, also at their corners."""
    from scipy.ndimage import label

    pixel = np.flatnonzero(image)
    found, which = np.unique(image.ravel()[pixel], return_inverse=True)
    values = found.tolist()
    stroke = np.empty(len(pixel), np.int64)
    of_stroke: list[int] = []
    for number, value in enumerate(values):
        topics.number(value, f"A pixel of {source}")
        parts, n_parts = label(image == value, structure=np.ones((3, 3)))
        mine = which == number
        stroke[mine] = len(of_stroke) + parts.ravel()[pixel[mine]] - 1
        of_stroke += [number] * n_parts
    whole = np.eye(topics.n_topics)
    statements = [Statement(tuple(whole[value - 1].tolist()), ()) for value in values]
    # A description of what is said; where it is said is in the label image.
    strokes = [Stroke.model_construct(topic=value) for value in values]
    whats = [f"The label {value} of {source}" for value in values]
    return Marks(
        [whats[number] for number in of_stroke],
        [strokes[number] for number in of_stroke],
        [statements[number] for number in of_stroke],
        pixel,
        stroke,
    )


def _label(drawing: Drawing, marks: Marks, shape: Shape, topics: Topics, table: Table, n_all: int) -> PixelLabels:
    """One label for each pixel: the one that says most, of which the others follow, and the strongest of equal ones."""
    sizes = np.bincount(marks.stroke, minlength=len(marks.strokes))
    strengths = np.array(
        [
            per_pixel(stroke.strength, size, n_all, soft=said.is_soft)
            for stroke, said, size in zip(marks.strokes, marks.statements, sizes.tolist(), strict=True)
        ]
    )
    rows = np.array(
        [table.row(said, each) for said, each in zip(marks.statements, strengths.tolist(), strict=True)], np.int64
    )
    vague = np.array([len(said.any_of) for said in marks.statements], np.int64)  # 0 is shares, or one topic
    order = np.lexsort((marks.stroke, -strengths[marks.stroke], vague[marks.stroke], marks.pixel))
    pixel, stroke = marks.pixel[order], marks.stroke[order]
    first = np.concatenate([np.ones(min(len(pixel), 1), bool), pixel[1:] != pixel[:-1]])
    _check_agreement(marks, pixel, stroke, first, shape)
    nothing = np.empty(0)
    return PixelLabels(
        shape,
        pixel[first],
        rows[stroke[first]],
        nothing,
        nothing,
        nothing,
        stroke[first],
        tuple(marks.strokes),
        tuple(_region(stroke, what, shape, topics) for what, stroke in drawing.strokes if stroke.contains),
        topics.names,
        drawing.image is not None,
    )


def _check_agreement(marks: Marks, pixel: IntArray, stroke: IntArray, first: NDArray[np.bool_], shape: Shape) -> None:
    """Refuse strokes that say something of a pixel that does not follow from its first label."""
    kinds: dict[Statement, int] = {}
    kind = np.array([kinds.setdefault(each, len(kinds)) for each in marks.statements], np.int64)[stroke]
    kept = np.flatnonzero(first)[np.cumsum(first) - 1]
    statements, pairs = list(kinds), kind[kept] * len(kinds) + kind
    several = np.unique(pairs[kind[kept] != kind]).tolist()
    contradict = [
        each for each in several if not statements[each % len(kinds)].follows_from(statements[each // len(kinds)])
    ]
    wrong = np.flatnonzero(np.isin(pairs, contradict))
    if len(wrong):
        at = int(wrong[0])
        one, other = sorted((int(stroke[kept[at]]), int(stroke[at])))
        row, column = divmod(int(pixel[at]), shape[1])
        raise InputError(
            f"{marks.whats[one]} and {marks.whats[other][0].lower()}{marks.whats[other][1:]} say different things of "
            f"the pixel x = {column}, y = {row}. Remove one of them, or draw them apart."
        )


def _region(stroke: Stroke, what: str, shape: Shape, topics: Topics) -> Region:
    """A statement about documents."""
    label = topics.state(stroke, what).label(CONTAINS * stroke.strength, topics.n_topics)
    return Region(_covered(stroke, shape, what), *label, stroke, what)
