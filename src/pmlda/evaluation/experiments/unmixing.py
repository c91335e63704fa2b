"""Spectra of mixed materials → how much of each a pixel has: PM-LDA against constrained least squares and clustering.

With data: Samson and Moffett, whose abundances were published. Without: made-up pictures of both kinds, with known
shares. No model is told anything about the materials, but for least squares with the given spectra, which is told all.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from pmlda import segment
from pmlda.evaluation.experiments.endmembers import constrained_least_squares, vertex_components
from pmlda.evaluation.experiments.outcome import Outcome
from pmlda.evaluation.experiments.rivals import Grid, rivals
from pmlda.evaluation.experiments.spectra import (
    KINDS,
    Cube,
    made_up_cube,
    principal_axes,
    read_cubes,
)
from pmlda.features.spectral import FORMS, to_form
from pmlda.images import read_image, to_rgb
from pmlda.metrics import match_topics, spectral_angle
from pmlda.output.figures import PALETTE, Panel, coloured, composite, grid
from pmlda.pipeline.shares import to_shares
from pmlda.segmentation import Segmentation
from pmlda.types import FloatArray

# PM-LDA at the defaults of the package; and with the paper's prior of the scale, to see what the prior does.
PAPER_RATE = 0.5
STARTS, VCA_STARTS = 5, 11
# How VCA makes corners of a cloud of spectra.
PROJECTIONS = {"VCA: affine": True, "VCA: projective": False}
GIBBS_SWEEPS = 300
SIZE, SMALL_SIZE = 40, 20
OURS, PAPER, SAMPLED = "PM-LDA", f"PM-LDA, λ = {PAPER_RATE}", "PM-LDA, gibbs"
BLIND, TOLD = "FCLS + VCA", "FCLS, given spectra"
RIVALS = (BLIND, "FCM", "GMM")
STYLES = ("-", "--", ":", "-.")
CHOICE = "rivals at the setting of least median error, chosen with the truth; PM-LDA at its defaults"


class Unmixed(NamedTuple):
    """What a model found: shares (N, K), and the spectra (K, B) of which, up to their brightness."""

    shares: FloatArray
    spectra: FloatArray


class Runs(NamedTuple):
    """One model at one setting, from one or several starts.

    form : in which spectra are given to it, one of FORMS
    options : its other settings as text
    """

    model: str
    form: str
    options: str
    found: list[Unmixed]

    @property
    def setting(self) -> str:
        return f"spectra: {self.form}" + (f", {self.options}" if self.options else "")


class Score(NamedTuple):
    """Runs against the truth; errors and angles (K,) are those of the typical run, which has the median error.

    rmse : of every run, ascending
    """

    runs: Runs
    rmse: FloatArray
    typical: Unmixed
    errors: FloatArray
    angles: FloatArray

    @property
    def median(self) -> float:
        return float(self.rmse[(len(self.rmse) - 1) // 2])


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : the folder `hsi`, or the one above it; None makes up `seeds` pictures."""
    return made_up(seeds, small) if data is None else published(read_cubes(data), small)


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────


def ours(cube: Cube, starts: Sequence[int], name: str = OURS, **options: Any) -> Runs:
    """PM-LDA from several starts."""
    K = len(cube.materials)
    maps = [segment(cube.pixels, K, random_state=start, **options) for start in starts]
    found = [Unmixed(np.asarray(each.memberships, np.float64).reshape(-1, K), each.topics) for each in maps]
    return Runs(name, chosen_form(maps[0]), "", found)


def chosen_form(found: Segmentation) -> str:
    """The form in which the package has taken the spectra."""
    return FORMS[int(found.recipe.features.state()["0.form"][0])]


def in_shares(weights: NDArray[np.floating], corners: FloatArray, form: str) -> Unmixed:
    """Weights of corners in a form → shares of materials."""
    lengths = np.linalg.norm(corners, axis=1) if form == "plane" else None
    return Unmixed(to_shares(np.asarray(weights, np.float64), lengths), corners)


def clusters(cube: Cube, form: str, small: bool) -> Iterator[Runs]:
    """Fuzzy c-means and Gaussian mixtures at all settings; their spectra are those that explain the picture best."""
    K, spectra = len(cube.materials), to_form(cube.spectra, form)
    values = principal_axes(spectra, K).transform(spectra).reshape(*cube.pixels.shape[:2], K - 1)
    for answer in rivals(Grid(read_image(cube.pixels), values, 1), K, documents=(), small=small):
        weights = answer.maps.reshape(-1, K)
        corners = np.linalg.pinv(weights.T @ weights, hermitian=True) @ (weights.T @ spectra)
        yield Runs(answer.model, form, answer.setting, [in_shares(weights, corners, form)])


def least_squares(cube: Cube, form: str, small: bool) -> Iterator[Runs]:
    """Constrained least squares with the corners of the picture from several starts, and with the given spectra."""
    K, spectra = len(cube.materials), to_form(cube.spectra, form)
    starts = 1 if small else VCA_STARTS
    candidates = [(BLIND, name, vertex_components(spectra, K, starts, affine=way)) for name, way in PROJECTIONS.items()]
    candidates.append((TOLD, "", [to_form(cube.endmembers, form)]))
    for model, name, corners in candidates:
        found = [in_shares(constrained_least_squares(spectra, each), each, form) for each in corners]
        yield Runs(model, form, name, found)


def all_runs(cube: Cube, starts: int, small: bool) -> Iterator[Runs]:
    """PM-LDA, and its rivals at all settings."""
    yield ours(cube, range(1 if small else starts))
    yield ours(cube, range(1 if small else starts), PAPER, scale_rate=PAPER_RATE)
    for form in FORMS:
        yield from least_squares(cube, form, small)
        yield from clusters(cube, form, small)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def score(runs: Runs, cube: Cube) -> Score:
    """Materials matched by the correlation of their shares."""
    K = len(cube.materials)
    truth = cube.abundances.reshape(-1, K)
    matched = []
    for each in runs.found:
        order = match_topics(each.shares, truth, by="correlation")
        matched.append(Unmixed(each.shares[:, order], each.spectra[order]))
    squared = np.array([((each.shares - truth) ** 2).mean(axis=0) for each in matched])
    rmse = np.sqrt(squared.mean(axis=1))
    ascending = np.argsort(rmse, kind="stable")
    typical = matched[ascending[(len(ascending) - 1) // 2]]
    errors = np.sqrt(((typical.shares - truth) ** 2).mean(axis=0))
    return Score(runs, rmse[ascending], typical, errors, spectral_angle(typical.spectra, cube.endmembers))


def best_scores(cube: Cube, all_of_them: Iterator[Runs]) -> dict[str, Score]:
    """Model → its score at the setting of least median error, which is chosen with the truth."""
    best: dict[str, Score] = {}
    with threadpool_limits(1):  # matrices are so small that threads would mostly wait for each other
        for runs in all_of_them:
            found = score(runs, cube)
            if runs.model not in best or found.median < best[runs.model].median:
                best[runs.model] = found
    return best


def by_material(values: FloatArray, cube: Cube) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in zip(cube.materials, values, strict=True))


# ── pictures with published abundances ────────────────────────────────────────────────────────────────────────────


def published(cubes: list[Cube], small: bool) -> Outcome:
    """Abundance error and spectral angle of every model on every picture."""
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    told = []
    for cube in cubes:
        best = best_scores(cube, all_runs(cube, STARTS, small))
        if not small:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # these chains are too short, and the docs say so
                sampled = ours(cube, [0], SAMPLED, engine="gibbs", sweeps=GIBBS_SWEEPS, design_effect=1)
            best = {OURS: best[OURS], PAPER: best[PAPER], SAMPLED: score(sampled, cube)} | best
        rows += [row_of(cube, found) for found in best.values()]
        figures |= figures_of(cube, best, cube.name.lower())
        told.append(told_of(cube, best))
    details = {
        "gibbs sweeps": GIBBS_SWEEPS,
        "choice": CHOICE,
        "measure": "RMSE over pixels and materials, matched by correlation; angles in radians; of several starts the "
        "median, and by material those of the run of median error",
    }
    return Outcome(rows, " ".join(told), figures, details)


def row_of(cube: Cube, found: Score) -> dict[str, Any]:
    return {
        "picture": cube.name,
        "model": found.runs.model,
        "RMSE": round(found.median, 4),
        "least": round(float(found.rmse[0]), 4),
        "most": round(float(found.rmse[-1]), 4),
        "RMSE by material": by_material(found.errors, cube),
        "spectral angle by material": by_material(found.angles, cube),
        "setting": found.runs.setting,
    }


def told_of(cube: Cube, best: dict[str, Score]) -> str:
    others = ", ".join(f"{name} {best[name].median:.3f}" for name in RIVALS)
    mine = best[OURS]
    return (
        f"{cube.name}: PM-LDA's abundance error is {mine.median:.3f} ({mine.rmse[0]:.3f} to {mine.rmse[-1]:.3f} over "
        f"{len(mine.rmse)} start(s)), {others}; with the given spectra least squares has {best[TOLD].median:.3f}."
    )


# ── made-up pictures ──────────────────────────────────────────────────────────────────────────────────────────────


def made_up(seeds: int, small: bool) -> Outcome:
    """The same on pictures of which everything is known, of each kind in turn."""
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for seed in range(seeds):
        kind = list(KINDS)[seed % len(KINDS)]
        cube = made_up_cube(SMALL_SIZE if small else SIZE, kind, seed)
        best = best_scores(cube, all_runs(cube, 1, small))
        row: dict[str, Any] = {"kind": kind, "seed": seed, "form": best[OURS].runs.form}
        row |= {model: round(best[model].median, 4) for model in (OURS, PAPER, *RIVALS, TOLD)}
        row |= {f"angle, {model}": round(float(best[model].angles.mean()), 4) for model in (OURS, BLIND)}
        row["PM-LDA is best"] = best[OURS].median < min(best[model].median for model in RIVALS)
        rows.append(row)
        if seed < len(KINDS):
            figures |= figures_of(cube, best, kind.replace(" ", "-"))
    kinds = dict.fromkeys(row["kind"] for row in rows)
    remark = " ".join(told_of_kind([row for row in rows if row["kind"] == kind], kind) for kind in kinds)
    return Outcome(rows, remark, figures, {"choice": CHOICE})


def told_of_kind(rows: list[dict[str, Any]], kind: str) -> str:
    means = {model: float(np.mean([row[model] for row in rows])) for model in (OURS, PAPER, *RIVALS, TOLD)}
    wins = sum(row["PM-LDA is best"] for row in rows)
    return (
        f"Of pictures with {kind}, PM-LDA's abundance error is below that of every blind rival on {wins} of "
        f"{len(rows)}: {means[OURS]:.3f} on average, {means[PAPER]:.3f} with λ = {PAPER_RATE}, {BLIND} "
        f"{means[BLIND]:.3f}, FCM {means['FCM']:.3f}, GMM {means['GMM']:.3f}; with the true spectra least squares has "
        f"{means[TOLD]:.3f}."
    )


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def figures_of(cube: Cube, best: dict[str, Score], stem: str) -> dict[str, Figure]:
    return {stem: maps_figure(cube, best), f"{stem}-spectra": spectra_figure(cube, best)}


def maps_figure(cube: Cube, best: dict[str, Score]) -> Figure:
    """A row for each material: the truth, and what every model says; before them the picture and mixed colours."""
    shape, last = cube.abundances.shape, cube.pixels.shape[2] - 1
    shares = {"truth": cube.abundances} | {name: best[name].typical.shares for name in (OURS, *RIVALS, TOLD)}
    maps = {name: each.reshape(shape).astype(np.float32) for name, each in shares.items()}
    picture = to_rgb(read_image(cube.pixels[:, :, [last, last // 2, 0]]))  # long waves are shown as red
    left = [Panel(picture, "picture"), *(Panel(composite(maps[name]), f"{name}: mixed") for name in ("truth", OURS))]
    left += [Panel(np.full_like(picture, 255), "")] * (len(cube.materials) - len(left))
    rows = [
        [left[k], *(Panel(coloured(each[..., k]), f"{name}: {material}", True) for name, each in maps.items())]
        for k, material in enumerate(cube.materials)
    ]
    return grid(rows, label="abundance")


def spectra_figure(cube: Cube, best: dict[str, Score]) -> Figure:
    """Each material's spectrum as given and as found, all scaled to length one."""
    K = len(cube.materials)
    figure = Figure(figsize=(3.3 * K, 2.9), layout="constrained", dpi=110)
    axes = figure.subplots(1, K, sharey=True)
    drawn = {"given": cube.endmembers} | {name: best[name].typical.spectra for name in (OURS, BLIND, "FCM")}
    for k, axis in enumerate(axes):
        for (name, spectra), line, colour in zip(drawn.items(), STYLES, ("black", *PALETTE[:3]), strict=True):
            axis.plot(to_form(spectra, "unit")[k], line, color=colour, label=name, linewidth=1.4)
        axis.set_title(cube.materials[k], fontsize=10)
        axis.set_xlabel("band")
    axes[0].set_ylabel("reflectance, length 1")
    axes[-1].legend(fontsize=8)
    return figure
