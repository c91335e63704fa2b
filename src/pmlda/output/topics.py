"""How the number of topics was chosen → a figure: score, stability, and what the next topic would split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pmlda.howmany import REPRODUCED, Choice
from pmlda.output.figures import topic_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAINT = "#888888"
# Gaps beyond this are all alike: a topic of one half has no counterpart in the other.
LARGEST_GAP = 1.5


def topics_figure(choice: Choice, names: Sequence[str] = ()) -> Figure:
    """names : of the topics, dark to bright in a photograph; numbers if there are none

    >>> scores, errors, gaps, worths = (-2.0, -1.0, -1.1), (0.2, 0.0, 0.01), (0.0, 0.1, 0.9), (1.0, 0.9, 0.1)
    >>> choice = Choice(2, (1, 2, 3), scores, errors, gaps, worths, (0.3, 0.7), "2 topics: why.")
    >>> [axes.get_title() for axes in topics_figure(choice).axes]
    ['Score of held-out documents', 'Stability between halves', 'What topic 3 would split']
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.2), layout="constrained")
    score, stability, split = figure.subplots(1, 3, width_ratios=[3, 3, 2])
    figure.suptitle(choice.reason, fontsize=11)
    tried, scores, errors = (np.array(each) for each in (choice.tried, choice.scores, choice.errors))
    at = choice.tried.index(choice.n_topics) if choice.n_topics in choice.tried else None
    score.errorbar(tried, scores, errors, marker="o", color="black", ecolor=FAINT, capsize=3)
    score.set(title="Score of held-out documents", xlabel="topics", ylabel="mean log density of a word")
    stability.plot(tried, np.minimum(choice.gaps, LARGEST_GAP), marker="o", color="black")
    stability.axhline(REPRODUCED, color=FAINT, linestyle="--")
    stability.annotate("reproducible below", (tried[0], REPRODUCED), (0, 3), textcoords="offset points", color=FAINT)
    stability.set(
        title="Stability between halves", xlabel="topics", ylabel="gap between copies of a topic", ylim=(0, 1.6)
    )
    for axes, values in ((score, scores), (stability, np.minimum(choice.gaps, LARGEST_GAP))):
        axes.set_xticks(tried)
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
