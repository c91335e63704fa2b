"""Errors and maps of all models → the figures that experiments on made-up scenes share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda.evaluation.experiments.rivals import MODELS, NOTHING, Answer, Maps, full_size
from pmlda.images import read_image, to_rgb
from pmlda.output.figures import PALETTE, comparison
from pmlda.segmentation import crisp


def maps_figure(
    picture: NDArray[np.uint8], truth: Maps, best: dict[str, Answer], step: int, topic_names: Sequence[str]
) -> Figure:
    """Truth, every model's maps, and LDA's labels."""
    models: dict[str, NDArray[Any]] = {"truth": truth}
    for name in MODELS:
        maps = full_size(best[name].maps, step, (picture.shape[0], picture.shape[1]))
        models[name] = crisp(maps) if name == "LDA" else maps
    return comparison(to_rgb(read_image(picture)), models, topic_names=topic_names)


def error_chart(rows: list[dict[str, Any]], titles: Sequence[str]) -> Figure:
    """Membership error of each model on each seed; titles (n rows,) tell which rows go together."""
    names = list(dict.fromkeys(titles))
    n_columns = min(len(names), 3)
    n_rows = -(-len(names) // n_columns)
    figure = Figure(figsize=(3.9 * n_columns + 2.2, 3.2 * n_rows + 0.2), layout="constrained", dpi=110)
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.ravel(), names, strict=False):
        chosen = [row for row, title in zip(rows, titles, strict=True) if title == name]
        seeds = [row["seed"] for row in chosen]
        for k, (model, marker) in enumerate(zip(MODELS, "osD^v", strict=True)):
            line = "-" if model == "PM-LDA" else ":"
            axis.plot(seeds, [row[model] for row in chosen], marker + line, color=PALETTE[k], label=model, markersize=5)
        axis.plot(seeds, [row[NOTHING] for row in chosen], "k--", linewidth=0.8, label="1/3 everywhere")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("seed")
        axis.set_xticks(seeds)
    highest = max(row[model] for row in rows for model in (*MODELS, NOTHING))
    axes[0, 0].set_ylim(0.0, 1.05 * highest)  # shared by all
    for axis in axes[:, 0]:
        axis.set_ylabel("membership error (RMSE)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure
