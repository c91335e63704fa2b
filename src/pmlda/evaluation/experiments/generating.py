"""Two Gaussian topics → the densities of words that belong partly to both: the paper's figure of what generates words.

A word of membership z in the second topic has precision Λ = (1 − z)Λ₁ + zΛ₂ and mean Λ⁻¹((1 − z)Λ₁μ₁ + zΛ₂μ₂). With
equal covariances the means lie on a line; otherwise the path bends. Both are written out here from scratch, and words
that the package draws, through its own natural parameters, must have these means and covariances.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from pmlda.evaluation.experiments.outcome import Outcome
from pmlda.families import TopicFullGaussian
from pmlda.model import draw_words
from pmlda.output.figures import PERCEPTUAL
from pmlda.types import FloatArray, Topics

# The paper's two cases.
MEANS = np.array([[-4.0, -4.0], [6.0, 6.0]])
CASES = {
    "equal": np.stack([np.eye(2), np.eye(2)]),
    "unequal": np.stack([np.diag([4.0, 1.0]), np.diag([1.0, 4.0])]),
}
MEMBERSHIPS = np.linspace(0.0, 1.0, 11)
WORDS_PER_SEED = 10_000
TICKS = range(-10, 11, 5)


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """Needs no data. Of every membership, seeds × 10 000 words are drawn."""
    n_words = 2_000 if small else seeds * WORDS_PER_SEED
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for case, covariances in CASES.items():
        for z in MEMBERSHIPS:
            mean, covariance = mixed_gaussian(float(z), MEANS, covariances)
            memberships = np.tile([1.0 - z, z], (n_words, 1))
            words = draw_words(rng, TopicFullGaussian(), Topics(MEANS, covariances), memberships)
            rows.append(
                {
                    "covariances": case,
                    "membership": round(float(z), 3),
                    "mean x": round(float(mean[0]), 4),
                    "mean y": round(float(mean[1]), 4),
                    "variance x": round(float(covariance[0, 0]), 4),
                    "variance y": round(float(covariance[1, 1]), 4),
                    "mean off": round(mean_deviation(words, mean, covariance), 2),
                    "covariance off": round(covariance_deviation(words, mean, covariance), 2),
                }
            )
    farthest = max(max(row["mean off"], row["covariance off"]) for row in rows)
    remark = (
        f"Of {n_words} drawn words for each membership, means and covariances are at most {farthest:.1f} standard "
        f"errors from the formula; {len(rows)} rows of five numbers each would exceed 4.5 by chance once in a thousand "
        f"runs. With unequal covariances the mean leaves the straight line by up to {bend(CASES['unequal']):.1f}."
    )
    return Outcome(rows, remark, {"densities": densities()}, {"words": n_words, "unit of off": "standard errors"})


def mixed_gaussian(z: float, means: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (p,) and covariance (p, p) of a word with membership z in the second of two topics.

    >>> mean, covariance = mixed_gaussian(0.5, MEANS, CASES["unequal"])
    >>> mean.tolist(), np.diag(covariance).tolist()
    ([4.0, -2.0], [1.6, 1.6])
    """
    precisions = np.linalg.inv(covariances)
    mixed = (1.0 - z) * precisions[0] + z * precisions[1]
    covariance = np.linalg.inv(mixed)
    pulled = (1.0 - z) * precisions[0] @ means[0] + z * precisions[1] @ means[1]
    return np.asarray(covariance @ pulled), np.asarray(covariance)


def mean_deviation(words: FloatArray, mean: FloatArray, covariance: FloatArray) -> float:
    """How far the mean of the words is from the right one, at most, in standard errors."""
    errors = np.sqrt(np.diag(covariance) / len(words))
    return float(np.abs((words.mean(axis=0) - mean) / errors).max())


def covariance_deviation(words: FloatArray, mean: FloatArray, covariance: FloatArray) -> float:
    """The same for the entries of the covariance: of N Gaussian words var(S_ij) = (Σ_ii Σ_jj + Σ_ij²)/N."""
    centred = words - mean
    found = centred.T @ centred / len(words)
    variances = np.diag(covariance)
    errors = np.sqrt((np.outer(variances, variances) + covariance**2) / len(words))
    return float(np.abs((found - covariance) / errors).max())


def bend(covariances: FloatArray) -> float:
    """The largest distance of the path of means from the line between the topics."""
    path = np.array([mixed_gaussian(float(z), MEANS, covariances)[0] for z in MEMBERSHIPS])
    along = (MEANS[1] - MEANS[0]) / np.linalg.norm(MEANS[1] - MEANS[0])
    offsets = (path - MEANS[0]) - ((path - MEANS[0]) @ along)[:, None] * along
    return float(np.linalg.norm(offsets, axis=1).max())


def densities() -> Figure:
    """Ellipses of one and two standard deviations for every membership, and the path of the mean."""
    from matplotlib import colormaps

    figure = Figure(figsize=(9.0, 4.3), layout="constrained", dpi=110)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    colours = colormaps[PERCEPTUAL]
    fine = np.linspace(0.0, 1.0, 101)
    for axis, (case, covariances) in zip(axes, CASES.items(), strict=True):
        path = np.array([mixed_gaussian(float(z), MEANS, covariances)[0] for z in fine])
        axis.plot(*path.T, color="0.4", linewidth=1.0, zorder=3)
        for z in MEMBERSHIPS:
            mean, covariance = mixed_gaussian(float(z), MEANS, covariances)
            # Both covariances of the paper are diagonal, and so are all between them: axes need not be turned.
            width, height = 2.0 * np.sqrt(np.diag(covariance))
            for size, alpha in ((2.0, 0.12), (1.0, 0.3)):
                axis.add_patch(
                    Ellipse(tuple(mean), size * width, size * height, facecolor=colours(z), alpha=alpha, linewidth=0)
                )
            axis.add_patch(Ellipse(tuple(mean), width, height, fill=False, edgecolor=colours(z), linewidth=1.3))
            axis.plot(*mean, ".", color=colours(z), markersize=5, zorder=4)
        for k, side in enumerate((-1, 1)):
            beyond = 2.0 * np.sqrt(covariances[k, 1, 1]) + 0.7
            axis.text(MEANS[k, 0], MEANS[k, 1] + side * beyond, f"topic {k + 1}", ha="center", va="center", fontsize=9)
        axis.set_title(f"{case} covariances", fontsize=10)
        axis.set_aspect("equal")
        axis.set(xlim=(-10, 12), ylim=(-10, 12), xlabel="feature 1", xticks=TICKS, yticks=TICKS)
        axis.tick_params(labelsize=8)
    axes[0].set_ylabel("feature 2")
    bar = figure.colorbar(ScalarMappable(cmap=PERCEPTUAL), ax=list(axes), shrink=0.85)
    bar.set_label("membership in topic 2", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure
