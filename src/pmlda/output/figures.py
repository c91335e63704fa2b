"""Figures: a segmentation → pictures and Matplotlib figures. Colours that colour-blind people can tell apart."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.images.display import to_rgb
from pmlda.metrics import match_topics
from pmlda.partitions import borders
from pmlda.segmentation import Map, Segmentation, between, crisp
from pmlda.types import FloatArray, IntArray
from pmlda.validate import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = NDArray[np.uint8]

# The palette of Okabe and Ito (2008), its black and yellow last: they are hard to see on dark and on light pictures.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
PERCEPTUAL = "viridis"
# Pixels without data: their grey, and their index in a palette.
NO_DATA, NO_INDEX = 230, 255
# Maps of residuals end there, in standard deviations of the noise.
LARGEST_RESIDUAL = 4.0
# Maps of novelty end there, at one usual pixel in so many powers of ten.
MOST_DIGITS = 4.0
# A panel of a figure is about this many inches wide and high together, whatever its shape.
PANEL_SIZE = 3.0
DPI = 110
# Of titles, when most of them are wide.
CHARACTERS_PER_INCH = 12
# Matplotlib copies pictures many times over, so it gets large ones shrunk: at least so many pixels for each it draws.
FINENESS = 1.5
# Pictures that are so many times as wide as high are strips: their panels are set below each other, so wide.
STRIP, STRIP_WIDTH = 4.0, 11.0


def topic_colours(n_topics: int) -> NDArray[np.float64]:
    """(K, 3) RGB between 0 and 1; more than eight topics share hues evenly.

    >>> topic_colours(2).shape
    (2, 3)
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb as parse

    if n_topics <= len(PALETTE):
        return np.array([parse(colour) for colour in PALETTE[:n_topics]])
    return np.asarray(colormaps["turbo"](np.linspace(0.03, 0.97, n_topics))[:, :3])


class Indexed(NamedTuple):
    """A picture of few colours, as PNG keeps it in a third of the bytes: levels (H, W), palette (256, 3)."""

    levels: Picture
    palette: Picture

    @property
    def picture(self) -> Picture:
        """(H, W, 3)."""
        return self.palette[self.levels]


def indexed_map(maps: Map, colormap: str = PERCEPTUAL) -> Indexed:
    """A map (H, W) from 0 to 1 in 255 levels; the last index, grey, is where there is no data."""
    from matplotlib import colormaps

    palette = np.full((256, 3), NO_DATA, np.uint8)
    palette[:NO_INDEX] = colormaps[colormap](np.linspace(0.0, 1.0, NO_INDEX), bytes=True)[:, :3]
    levels = np.rint(np.clip(maps, 0.0, 1.0) * (NO_INDEX - 1))
    return Indexed(np.where(np.isfinite(maps), levels, NO_INDEX).astype(np.uint8), palette)


def indexed_doubt(std: Map) -> Indexed:
    """The largest standard deviation (H, W, K) of each pixel, which is at most a half."""
    return indexed_map(np.clip(largest(std) / 0.5, 0.0, 1.0), "magma")


def indexed_residual(residual: Map) -> Indexed:
    """How far each pixel is from what is predicted."""
    return indexed_map(residual / LARGEST_RESIDUAL, "magma")


def indexed_novelty(novelty: Map) -> Indexed:
    """How sure it is that no mixture of the topics explains each pixel."""
    return indexed_map(digits(novelty), "magma")


def largest(maps: Map) -> Map:
    """(H, W) the largest of K values of each pixel; NaN where there is no data."""
    return reduce(np.maximum, np.moveaxis(maps, -1, 0))


def indexed_labels(maps: Map) -> Indexed:
    """A label image of the largest topics: 1 to K, and 0 where there is no data."""
    n_topics = maps.shape[2]
    palette = np.full((256, 3), NO_DATA, np.uint8)
    palette[1 : n_topics + 1] = 255.0 * topic_colours(n_topics) + 0.5
    return Indexed((crisp(maps) + 1).astype(np.uint8), palette)


def coloured(maps: Map, colormap: str = PERCEPTUAL) -> Picture:
    """(H, W, 3) of a map (H, W) from 0 to 1; grey where there is no data."""
    return indexed_map(maps, colormap).picture


def digits(novelty: Map) -> Map:
    """(H, W) novelty as it is drawn, from 0 to 1: a quarter for each nine after the point.

    >>> digits(np.array([0.5, 0.9, 0.99, 1.0])).round(2).tolist()
    [0.08, 0.25, 0.5, 1.0]
    """
    least = 10.0**-MOST_DIGITS
    return np.asarray(-np.log10(np.maximum(1.0 - novelty, least)) / MOST_DIGITS)


def crisp_picture(maps: Map) -> Picture:
    """(H, W, 3) the colour of the largest topic."""
    return indexed_labels(maps).picture


def composite(maps: Map) -> Picture:
    """(H, W, 3) the topics' colours mixed as the topics are."""
    valid = np.isfinite(maps[..., 0])
    mixed = np.where(valid[..., None], maps, 0.0) @ topic_colours(maps.shape[2]).astype(np.float32)
    picture = np.clip(255.0 * mixed + 0.5, 0, 255).astype(np.uint8)
    picture[~valid] = NO_DATA
    return np.asarray(picture)


def transition_picture(picture: Picture, maps: Map, low: float, high: float) -> Picture:
    """The picture in pale grey with the transitions in magenta."""
    grey = 128 + picture.sum(axis=2, dtype=np.uint16) // 6  # half the mean of the three
    pale = np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
    pale[between(maps, low, high)] = (213, 0, 120)
    return np.asarray(pale)


def outlined(picture: Picture, documents: IntArray) -> Picture:
    """The picture with the borders of the documents."""
    drawn = picture.copy()
    drawn[borders(documents)] = (255, 221, 0)
    return drawn


def overview(segmentation: Segmentation, index: int = 0, *, colormap: str = PERCEPTUAL) -> Figure:
    """One picture's maps side by side: the picture, every topic, mixture, labels, transition, uncertainty."""
    from matplotlib.figure import Figure

    maps = segmentation.membership_maps[index]
    picture = to_rgb(segmentation.images[index])
    n_topics = maps.shape[2]
    settings = segmentation.settings
    height, width = maps.shape[:2]
    # Long thin pictures are stacked, tall ones set side by side; the area of a panel stays about the same.
    aspect = float(np.clip(width / height, 0.2, 5.0))
    panel = np.array([PANEL_SIZE * np.sqrt(aspect), PANEL_SIZE / np.sqrt(aspect)])
    n_panels = n_topics + 5
    n_columns = int(np.clip(round(np.sqrt(1.6 * n_panels / aspect)), 1, n_panels))
    n_rows = -(-n_panels // n_columns)
    size = (n_columns * panel[0] + 1.2, n_rows * (panel[1] + 0.35) + 0.2)
    figure = Figure(figsize=tuple(size), layout="constrained", dpi=DPI)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    step = max(1, int(max(height, width) / (FINENESS * DPI * max(panel))))
    # Outlines are drawn on what is shown: those of a large picture would fade when it is shrunk.
    documents = segmentation.document_maps[index][::step, ::step]
    title = "picture and documents" if (documents >= 0).any() else "picture"
    _show(axes[0], outlined(_shrunk(picture, step), documents), title)
    colours = topic_colours(n_topics)
    for k, name in enumerate(segmentation.topic_names):
        _show(axes[1 + k], _shrunk(coloured(maps[..., k], colormap), step), name, key=colours[k])
    _show(axes[n_topics + 1], _shrunk(composite(maps), step), "topics mixed")
    _show(axes[n_topics + 2], _shrunk(crisp_picture(maps), step), "largest topic")
    title = f"transition, {settings.low:g} to {settings.high:g}"
    _show(axes[n_topics + 3], _shrunk(transition_picture(picture, maps, settings.low, settings.high), step), title)
    doubt = largest(segmentation.uncertainty_maps[index])
    most = float(np.nanmax(doubt, initial=0.0))  # of an overview that holds no data too
    title = f"uncertainty, up to {most:.2f}" if most > 0 else "uncertainty: the model knows none"
    _show(axes[n_topics + 4], _shrunk(coloured(doubt / (most or 1.0), "magma"), step), title)
    _colour_bar(figure, [axes[1 + k] for k in range(n_topics)], colormap)
    return figure


def _shrunk(picture: Picture, step: int) -> Picture:
    """(H / step, W / step, 3) means of blocks of step × step pixels."""
    from PIL import Image as Pillow

    return picture if step == 1 else np.asarray(Pillow.fromarray(picture).reduce(step))


def _show(axis: Axes, picture: Picture, title: str, key: FloatArray | None = None) -> None:
    """Draw a picture under its title. key : the colour that stands for it in other pictures, as a line above it"""
    axis.imshow(picture, interpolation="nearest" if picture.shape[0] < 200 else "antialiased")
    # Names are no formulas, and long ones are broken before they reach the next panel.
    width = max(8, int(CHARACTERS_PER_INCH * axis.bbox.width / DPI))
    axis.set_title(textwrap.fill(title, width), fontsize=9, parse_math=False)
    if key is not None:
        ends = [0.0, 1.0], [1.0, 1.0]
        axis.plot(*ends, color=key, linewidth=4.0, solid_capstyle="butt", transform=axis.transAxes, clip_on=False)
    axis.set(xticks=[], yticks=[])  # not drawn anyway, but Matplotlib would measure them for the layout


def _colour_bar(figure: Figure, axes: list[Axes], colormap: str, label: str = "membership") -> None:
    """One bar for all membership maps."""
    from matplotlib.cm import ScalarMappable

    # As wide however high the figure is.
    aspect = max(30.0, 5.0 * figure.get_figheight())
    bar = figure.colorbar(ScalarMappable(cmap=colormap), ax=axes, shrink=0.8, fraction=0.04, aspect=aspect, pad=0.02)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


class Panel(NamedTuple):
    """One picture of a figure; is_map says that the colour bar is about it."""

    picture: Picture
    title: str
    is_map: bool = False


def grid(rows: Sequence[Sequence[Panel]], *, colormap: str = PERCEPTUAL, label: str = "membership") -> Figure:
    """Panels in rows, pictures of one size, with a colour bar if any of them is a map."""
    from matplotlib.figure import Figure

    height, width = rows[0][0].picture.shape[:2]
    if width >= STRIP * height:
        rows = [[panel] for row in rows for panel in row]
        panel_width = STRIP_WIDTH
    else:
        panel_width = 0.75 * PANEL_SIZE * float(np.sqrt(width / height))
    n_columns = max(len(row) for row in rows)
    size = (n_columns * (panel_width + 0.1) + 0.9, len(rows) * (panel_width * height / width + 0.27) + 0.1)
    figure = Figure(figsize=size, layout="constrained", dpi=DPI)
    axes = figure.subplots(len(rows), n_columns, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    for row, row_axes in zip(rows, axes, strict=True):
        for panel, axis in zip(row, row_axes, strict=False):
            _show(axis, panel.picture, panel.title)
    if any(panel.is_map for row in rows for panel in row):
        _colour_bar(figure, list(axes.ravel()), colormap, label)
    return figure


def comparison(
    picture: Picture,
    models: Mapping[str, Map | IntArray],
    *,
    topic_names: Sequence[str] | None = None,
    colormap: str = PERCEPTUAL,
) -> Figure:
    """What several models make of one picture: a row of maps for each, and labels beside the picture.

    models : name → memberships (H, W, K), or labels (H, W) of a crisp model; −1 or NaN where there is no data. Topics
        are put in the order of the first model's, as far as they match, so that columns and colours compare.
    topic_names : (K,) titles of the columns

    >>> maps = np.random.default_rng(0).dirichlet([1, 1], (8, 9))
    >>> figure = comparison(np.zeros((8, 9, 3), np.uint8), {"soft": maps, "crisp": maps.argmax(axis=2)})
    >>> [axis.get_title() for axis in figure.axes[:5]]
    ['picture', 'crisp: labels', '', 'soft: largest topic', 'soft: topic 1']
    """
    require(len(models) > 0, "There is no model to compare: give at least one, as name and maps.")
    first_row, rows = [Panel(picture, "picture")], []
    reference: Map | None = None
    for name, found in models.items():
        require(
            found.ndim in (2, 3) and found.shape[:2] == picture.shape[:2],
            f"{name} has shape {found.shape} and the picture {picture.shape[:2]}. "
            "Give maps (H, W, K) or labels (H, W).",
        )
        maps = _as_maps(found, 0 if reference is None else reference.shape[2])
        if reference is None:
            reference = maps
        maps = maps[..., in_order_of(maps, reference)]
        if found.ndim == 2:
            first_row.append(Panel(crisp_picture(maps), f"{name}: labels"))
            continue
        titles = list(topic_names or ())
        if len(titles) != maps.shape[2]:  # a truth may have fewer topics
            titles = [f"topic {k + 1}" for k in range(maps.shape[2])]
        columns = [Panel(coloured(maps[..., k], colormap), f"{name}: {titles[k]}", True) for k in range(maps.shape[2])]
        rows.append([Panel(crisp_picture(maps), f"{name}: largest topic"), *columns])
    return grid([first_row, *rows], colormap=colormap)


def _as_maps(found: Map | IntArray, n_topics: int) -> Map:
    return found.astype(np.float32) if found.ndim == 3 else shares(found.astype(np.int64), n_topics)


def shares(labels: IntArray, n_topics: int = 0) -> Map:
    """(H, W, K) 1 for the label of each pixel, 0 for others; NaN where the label is negative.

    >>> shares(np.array([[1, -1]]), 2).tolist()
    [[[0.0, 1.0], [nan, nan]]]
    """
    n_topics = max(n_topics, int(labels.max(initial=0)) + 1)
    return np.where(labels[..., None] < 0, np.nan, labels[..., None] == np.arange(n_topics)).astype(np.float32)


def in_order_of(maps: Map, reference: Map) -> IntArray:
    """(K,) the topics of maps in the order of those of another model; as they are if there are not equally many."""
    n_topics = maps.shape[2]
    if reference.shape[2] != n_topics:
        return np.arange(n_topics)
    return match_topics(maps, reference, mask=np.isfinite(maps[..., 0]) & np.isfinite(reference[..., 0]))
