"""Topics that are spectra → a figure of their values against wavelength, with their intervals."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pmlda.images.bands import wavelengths_of
from pmlda.matching import is_spectral
from pmlda.output.figures import DPI, topic_colours
from pmlda.recipe import Recipe
from pmlda.tables import topic_std
from pmlda.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Half the width of an interval of 90 %, in standard deviations.
REACH = 1.645
# Photographs have as many bands; nobody reads them as spectra.
FEWEST_BANDS = 4
# Where neighbouring bands are so many times as far apart as is usual, bands were left out: the line is broken there.
LARGEST_GAP = 5.0


class Lines(NamedTuple):
    """at (B,) ascending, low, mean and high (K, B), and what at is: wavelengths in nanometres or numbers of bands."""

    at: FloatArray
    low: FloatArray
    mean: FloatArray
    high: FloatArray
    label: str

    def pieces(self) -> list[slice]:
        """Where lines are drawn without a break."""
        steps = np.diff(self.at)
        usual = float(np.median(steps)) if len(steps) else 1.0
        edges = [0, *(np.flatnonzero(steps > LARGEST_GAP * usual) + 1).tolist(), len(self.at)]
        return [slice(first, last) for first, last in pairwise(edges)]


def spectral_lines(recipe: Recipe) -> Lines | None:
    """The spectra of topics with the ends of their 90 % intervals; None if topics are no spectra."""
    bands = recipe.feature_names
    if not is_spectral(recipe) or len(bands) < FEWEST_BANDS:
        return None
    at, mean, std = wavelengths_of(bands), recipe.topics, topic_std(recipe)
    label = "band" if at is None else "wavelength (nm)"
    at = np.arange(1.0, len(bands) + 1.0) if at is None else at
    order = np.argsort(at, kind="stable")
    reach = np.zeros_like(mean) if std is None else REACH * std
    return Lines(at[order], (mean - reach)[:, order], mean[:, order], (mean + reach)[:, order], label)


def spectra_figure(recipe: Recipe, lines: Lines) -> Figure:
    """Spectra of all topics in their colours, with the 90 % interval of each value shaded."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained", dpi=DPI)
    axis = figure.subplots()
    names = recipe.settings.topic_names
    for k, colour in enumerate(topic_colours(len(names))):
        for number, piece in enumerate(lines.pieces()):
            at = lines.at[piece]
            label = names[k].replace("$", r"\$") if number == 0 else None
            axis.plot(at, lines.mean[k, piece], color=colour, label=label, linewidth=1.5)
            axis.fill_between(at, lines.low[k, piece], lines.high[k, piece], color=colour, alpha=0.22, linewidth=0)
    axis.set_xlabel(lines.label)
    axis.set_ylabel("mean of the topic, in units of the bands")
    axis.margins(x=0.01)
    axis.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    figure.legend(frameon=False, fontsize=9, ncols=min(len(names), 4), loc="outside upper left")
    if not np.array_equal(lines.low, lines.high):
        axis.set_title("shaded: 90 % intervals", fontsize=8, loc="right", color="0.35")
    return figure


def spectra_drawing(recipe: Recipe, colours: list[str]) -> dict[str, Any] | None:
    """The same for the report: points of lines and of intervals in a box of 1 × 1, whose y axis goes downwards."""
    lines = spectral_lines(recipe)
    if lines is None:
        return None
    least, most = float(lines.low.min()), float(lines.high.max())
    x = (lines.at - lines.at[0]) / max(float(lines.at[-1] - lines.at[0]), 1e-300)

    def points(values: FloatArray, piece: slice, *, back: bool = False) -> str:
        y = 1.0 - (values[piece] - least) / max(most - least, 1e-300)
        pairs = [f"{a:.4f},{b:.4f}" for a, b in zip(x[piece], y, strict=True)]
        return " ".join(pairs[::-1] if back else pairs)

    drawn = [
        {
            "colour": colours[k],
            "line": points(lines.mean[k], piece),
            "band": f"{points(lines.high[k], piece)} {points(lines.low[k], piece, back=True)}",
        }
        for k in range(len(lines.mean))
        for piece in lines.pieces()
    ]
    return {"drawn": drawn, "label": lines.label, "least": least, "most": most} | {
        "first": f"{lines.at[0]:g}",
        "last": f"{lines.at[-1]:g}",
        "sure": not np.array_equal(lines.low, lines.high),
    }
