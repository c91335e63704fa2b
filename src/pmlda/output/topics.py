"""How the number of topics was chosen → a figure: score, stability, worth, and what the next topic would split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pmlda.howmany import REPRODUCED, UNEXPLAINED, Choice
from pmlda.output.figures import topic_colours
from pmlda.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINT = "#888888"
# Gaps beyond this are all alike: a topic of one half has no counterpart in the other. So are shares below the second.
LARGEST_GAP, LEAST_SHARE = 1.5, 1e-3


def topics_figure(choice: Choice, names: Sequence[str] = ()) -> Figure:
    """names : of the topics, dark to bright in a photograph; numbers if there are none

    >>> scores, errors, gaps, worths = (-2.0, -1.0, -1.1), (0.2, 0.0, 0.01), (0.0, 0.1, 0.9), (1.0, 0.9, 0.1)
    >>> choice = Choice(2, (1, 2, 3), scores, errors, gaps, worths, (0.3, 0.7), "2 topics: why.")
    >>> [axes.get_title() for axes in topics_figure(choice).axes]
    ['Score of held-out documents', 'Stability between halves', 'Worth of the least topic', 'What topic 3 would split']
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 3.2), layout="constrained")
    score, stability, worth, split = figure.subplots(1, 4, width_ratios=[3, 3, 3, 2.4])
    figure.suptitle(choice.reason, fontsize=11)
    tried, gaps = np.array(choice.tried), np.minimum(choice.gaps, LARGEST_GAP)
    shares = np.maximum(choice.worths, LEAST_SHARE)
    at = choice.tried.index(choice.n_topics) if choice.n_topics in choice.tried else None
    score.errorbar(tried, choice.scores, choice.errors, marker="o", color="black", ecolor=FAINT, capsize=3)
    score.set(title="Score of held-out documents", ylabel="mean log density of a word")
    _line(stability, tried, gaps, "^", np.array(choice.gaps) > LARGEST_GAP)
    _limit(stability, REPRODUCED, "reproducible below", above=False)
    stability.set(title="Stability between halves", ylabel="gap between copies of a topic", ylim=(-0.05, 1.6))
    _line(worth, tried, shares, "v", np.array(choice.worths) < LEAST_SHARE)
    worth.set(yscale="log", title="Worth of the least topic", ylabel="share that only it explains")
    worth.set_ylim(0.7 * LEAST_SHARE, 2.0)
    _limit(worth, UNEXPLAINED, "worth having above", above=True)
    for axes, values in ((score, choice.scores), (stability, gaps), (worth, shares)):
        axes.set_xticks(tried)
        axes.set_xlabel("number of topics")
        if at is not None:
            axes.plot(tried[at], values[at], marker="o", markersize=11, color="tab:red", fillstyle="none")
    split.set(title=f"What topic {choice.n_topics + 1} would split")
    if choice.splits:
        shown = list(names) or [f"topic {k + 1}" for k in range(len(choice.splits))]
        split.barh(shown, 100.0 * np.array(choice.splits), color=topic_colours(len(choice.splits)), edgecolor="black")
        split.invert_yaxis()
        split.set(xlabel="% of it, from this topic")
    else:
        split.text(0.5, 0.5, "not tried", ha="center", va="center", color=FAINT)
        split.set_axis_off()
    return figure


def _line(axes: Axes, tried: IntArray, values: FloatArray, marker: str, beyond: BoolArray) -> None:
    """One value for each number of topics; those beyond what is shown are arrowheads at its end."""
    axes.plot(tried, values, color="black")
    axes.plot(tried[~beyond], values[~beyond], marker="o", color="black", linestyle="none")
    axes.plot(tried[beyond], values[beyond], marker=marker, color="black", linestyle="none")


def _limit(axes: Axes, value: float, text: str, *, above: bool) -> None:
    """A dashed line, and what it means."""
    axes.axhline(value, color=FAINT, linestyle="--")
    place, anchor = (3, "bottom") if above else (-3, "top")
    axes.annotate(
        text,
        (0.02, value),
        (0, place),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va=anchor,
        color=FAINT,
    )
