"""What are labels worth? Strokes of a robot user on pictures with known shares, for PM-LDA and for its rivals.

    python benchmarks/labels.py                            every table that needs no data
    python benchmarks/labels.py strokes curve --seeds 3    some of them
    python benchmarks/labels.py cows matting spectra --data FOLDER

FOLDER has the folders msrc/dev, matting/dev and hsi.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import label_data
import numpy as np
from common import problem as simulated
from common import race, show, spread, where
from label_models import MODELS, Problem, rmse, with_labels

from pmlda import PMLDA
from pmlda.evaluation import scenes
from pmlda.evaluation.robot import covered, first_strokes, next_stroke, transition_strokes

MOST_STROKES = 10
# Half-and-half strokes, or pure ones instead, beside one of each topic.
MORE = 10
# What counts as the transition of which some is labelled: where two topics have these shares.
MIXED = (0.2, 0.8)
RADII, STRENGTHS = (1, 3, 8), (0.01, 0.1, 1.0, 10.0, 100.0)
N_LABELLED = 1000


class Scene(NamedTuple):
    """A kind of picture; goal : an error that is good enough."""

    make: Callable
    features: str
    goal: float


SCENES = {
    "sunset": Scene(lambda seed: scenes.sunset(150, 200, seed), "auto", 0.05),
    "smooth, 4 topics": Scene(lambda seed: scenes.smooth_scene(160, 160, 4, 0.06, seed), "auto", 0.05),
    "seabed": Scene(lambda seed: scenes.seabed(192, seed), "sonar+ripple", 0.15),
    "textures": Scene(lambda seed: scenes.blended_textures(256, "amplitude", seed), "grain:16,root", 0.15),
}


def pictures(name, seeds):
    """Problems without strokes, with their truth and random numbers."""
    for seed in range(seeds):
        picture, truth = SCENES[name].make(seed)
        yield Problem(picture, truth.shape[2], [], SCENES[name].features), truth, np.random.default_rng(seed)


def chosen(asked, *names):
    return [name for name in names if name in asked.models]


def told(errors):
    """Mean and worst."""
    return f"{np.mean(errors):.3f} ({np.max(errors):.3f})"


# ── strokes on simulated pictures ─────────────────────────────────────────────────────────────────────────────────


def strokes(asked):
    """Error after five strokes of each topic: mean, and the worst in brackets."""
    models = chosen(asked, *MODELS)

    def rows():
        for name in asked.scenes:
            errors = {model: [] for model in models}
            for blank, truth, rng in pictures(name, asked.seeds):
                problem = blank._replace(strokes=first_strokes(truth, rng))
                for model in models:
                    errors[model].append(rmse(MODELS[model](problem, truth), truth))
            yield [name, *(told(errors[model]) for model in models)]

    show(["picture", *models], rows())


def curve(asked):
    """Error with so many strokes of each topic, and how many it takes to an error that is good enough."""
    models = chosen(asked, "labels", "fixed topics", "forest", "forest, averaged", "walker")
    reached = []
    for name in asked.scenes:
        errors = np.full((MOST_STROKES + 1, len(models), asked.seeds), np.nan)
        for seed, (blank, truth, rng) in enumerate(pictures(name, asked.seeds)):
            drawn = first_strokes(truth, rng, per_topic=MOST_STROKES)
            if "labels" in models:
                errors[0, models.index("labels"), seed] = rmse(MODELS["no labels"](blank, truth), truth)
            for n in range(1, MOST_STROKES + 1):
                problem = blank._replace(strokes=first_of_each(drawn, n))
                errors[n, :, seed] = [rmse(MODELS[model](problem, truth), truth) for model in models]
        means = errors.mean(axis=2)
        print(f"\n{name}:")
        cells = [["–" if np.isnan(value) else f"{value:.3f}" for value in row] for row in means]
        show(["strokes of each topic", *models], ([str(n), *row] for n, row in enumerate(cells)))
        good = means <= SCENES[name].goal
        reached.append([name, f"{SCENES[name].goal:g}", *(first_true(good[:, i]) for i in range(len(models)))])
    print("\nStrokes of each topic until the mean error is good enough:")
    show(["picture", "good enough", *models], reached)


def first_of_each(drawn, n):
    """The first n strokes of each topic."""
    topics = [stroke["topic"] for stroke in drawn]
    return [stroke for i, stroke in enumerate(drawn) if topics[:i].count(topics[i]) < n]


def first_true(good):
    return str(int(np.argmax(good))) if good.any() else f"more than {len(good) - 1}"


def corrections(asked):
    """Error after one stroke of each topic, and then after each model's own worst regions were corrected, in turn."""
    models = chosen(asked, "labels", "forest, averaged", "walker")
    steps = (0, 3, 6, 9, 12)

    def rows():
        for name in asked.scenes:
            for model in models:
                errors = [corrected(model, *each, steps) for each in pictures(name, asked.seeds)]
                yield [name, model, *(f"{value:.3f}" for value in np.mean(errors, axis=0))]

    show(["picture", "model", *(f"{n} corrections" for n in steps)], rows())


def corrected(model, blank, truth, rng, steps):
    """The error after each number of corrections; strokes may tell mixtures."""
    drawn, errors = first_strokes(truth, rng, per_topic=1), []
    for n in range(steps[-1] + 1):
        maps = MODELS[model](blank._replace(strokes=drawn), truth)
        if n in steps:
            errors.append(rmse(maps, truth))
        drawn = [*drawn, next_stroke(truth, maps, rng, drawn=drawn, soft=model != "walker")]
    return errors


def transition(asked):
    """Error in transitions: one stroke of each topic, and ten half-and-half ones or as many more pure ones."""
    models = chosen(asked, "labels", "forest", "forest, averaged")

    def rows():
        for name in asked.scenes:
            errors, counts = {(model, kind): [] for model in models for kind in ("halves", "pure")}, []
            for blank, truth, rng in pictures(name, asked.seeds):
                halves = transition_strokes(truth, rng, count=MORE)
                drawn = first_strokes(truth, rng, per_topic=1 + MORE)
                base = first_of_each(drawn, 1)
                # As many as there was room for in transitions, and as evenly of all topics as that goes.
                pure = in_turn([stroke for stroke in drawn if stroke not in base])[: len(halves)]
                counts.append(len(halves))
                here = mixed(truth) & ~under(base + halves + pure, truth.shape[:2])
                for model in models:
                    for kind, more in (("halves", halves), ("pure", pure)):
                        maps = MODELS[model](blank._replace(strokes=base + more), truth)
                        errors[model, kind].append(rmse(maps, truth, here))
            cells = [told(errors[model, kind]) for model in models for kind in ("halves", "pure")]
            yield [name, f"{np.mean(counts):.1f}", *cells]

    titles = [f"{model}: {kind}" for model in models for kind in ("half and half", "pure")]
    show(["picture", "strokes", *titles], rows())


def in_turn(drawn):
    """A stroke of each topic, then a second one of each, …"""
    topics = [stroke["topic"] for stroke in drawn]
    order = sorted(range(len(drawn)), key=lambda i: topics[:i].count(topics[i]))
    return [drawn[i] for i in order]


def mixed(truth):
    """(H, W) where two topics have some share each, and others next to none."""
    largest = np.sort(truth, axis=2)[..., -2:]
    return ((largest >= MIXED[0]) & (largest <= MIXED[1])).all(axis=2) & (largest.sum(axis=2) > 0.95)


def under(drawn, shape):
    """(H, W) whether a stroke covers each pixel."""
    return np.any([covered(stroke, shape) for stroke in drawn], axis=0)


def strength(asked):
    """Error after five strokes of each topic, by how many pixels a stroke has and how much it counts in all."""

    def rows():
        for name in asked.scenes:
            for radius in RADII:
                errors = [by_strength(*each, radius) for each in pictures(name, asked.seeds)]
                yield [name, f"{brush_size(radius)}", *(f"{value:.3f}" for value in np.mean(errors, axis=0))]

    show(["picture", "pixels of a stroke", *(f"{each:g}" for each in STRENGTHS)], rows())


def by_strength(blank, truth, rng, radius):
    drawn = first_strokes(truth, rng, radius=radius)
    told = ([stroke | {"strength": each} for stroke in drawn] for each in STRENGTHS)
    return [rmse(with_labels(blank._replace(strokes=strokes)), truth) for strokes in told]


def brush_size(radius):
    """How many pixels a disc has."""
    side = 2 * radius + 1
    return int(covered({"points": [[radius, radius]], "radius": radius}, (side, side)).sum())


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────────


def cost(asked):
    """Seconds of a fit of a million words, of which a thousand are labelled, beside one without labels."""
    documents, _, latents = simulated(1_000_000)
    crisp = np.argsort(-latents.memberships.max(axis=1), kind="stable")[: 100 * N_LABELLED : 100]
    y = np.full(len(documents.words), -1)
    y[crisp] = latents.memberships[crisp].argmax(axis=1)
    model = PMLDA(3, random_state=0)
    contestants = [
        lambda: model.fit(documents.words, groups=documents.document),
        lambda: model.fit(documents.words, y, groups=documents.document),
    ]
    seconds = race(contestants, asked.rounds)
    ratio = spread(seconds[:, 1] / seconds[:, 0], 2)
    show(["no labels", "1,000 labels", "ratio"], [[spread(seconds[:, 0]), spread(seconds[:, 1]), ratio]])


SIMULATED = {each.__name__: each for each in (strokes, curve, corrections, transition, strength, cost)}
FROM_DATA = {each.__name__: each for each in (label_data.cows, label_data.matting, label_data.spectra)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="table", help=", ".join([*SIMULATED, *FROM_DATA]))
    parser.add_argument("--data", type=Path, help="folder of the pictures for cows, matting and spectra")
    parser.add_argument("--seeds", type=int, default=10, help="pictures of each kind")
    parser.add_argument("--rounds", type=int, default=5, help="fits of each kind that are timed")
    parser.add_argument("--scenes", nargs="+", default=list(SCENES), choices=list(SCENES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    asked = parser.parse_args()
    known = SIMULATED | (FROM_DATA if asked.data else {})
    for name in asked.tables:
        if name not in known:
            parser.error(
                f"table {name!r}: expected some of {', '.join(known)}" + " (or give --data)" * (not asked.data)
            )
    asked.tables = asked.tables or list(known)
    return asked


if __name__ == "__main__":
    asked = arguments()
    warnings.simplefilter("ignore")
    print(f"# Labels\n\n{where()}")
    for name in asked.tables:
        table = (SIMULATED | FROM_DATA)[name]
        print(f"\n## {name}\n\n{table.__doc__.strip()}")
        table(asked)
