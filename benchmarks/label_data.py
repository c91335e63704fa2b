"""Labels on real pictures: cows on grass, mattes, spectra. For benchmarks/labels.py, which says where the data are."""

from contextlib import redirect_stdout
from io import StringIO

import numpy as np
from common import show
from label_models import AVERAGED, LEAVES, MODELS, Problem, planted, rmse, walker, window_means, with_labels
from PIL import Image

from pmlda import segment
from pmlda.evaluation.experiments.msrc_files import COW, GRASS, VOID, read_set
from pmlda.evaluation.experiments.msrc_models import DOCUMENTS, SCALE_RATE, cut, features_of, scaled
from pmlda.evaluation.robot import first_strokes, told_shares
from pmlda.metrics import auc, match_topics

# Photographs of which strokes are drawn in four, chosen five times.
N_LABELLED, N_CHOICES = 4, 5
# As in `pmlda reproduce msrc`, whose photographs these are.
COW_FEATURES, COW_DOCUMENTS, COW_SETTINGS = "winn:energy", DOCUMENTS, {"scale_rate": SCALE_RATE, "refits": 0}
# Every third pixel is scored.
STEP = 3
MATTE_STROKES, MATTE_RADIUS = 10, 5
# Topics of the foreground, and as many of the background: things have more than one colour.
PARTS = (1, 2, 3)
FOREGROUND, BACKGROUND = 255, 0
MATERIALS, LABELLED_PIXELS = ("samson", "moffett"), 5


# ── cows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def cows(asked):
    """Area under the ROC curve of cows in the 17 photographs of 21 without strokes: mean, and the worst in brackets."""
    photographs = read_set(asked.data / "msrc" / "dev")
    corpus = cut([each.image for each in photographs], COW_DOCUMENTS)
    words = split(scaled(features_of(corpus, COW_FEATURES)), photographs)
    shares = [cow_shares(each.truth) for each in photographs]
    settings = {"features": COW_FEATURES, "documents": corpus.labels, "random_state": 0, **COW_SETTINGS}
    found = {name: [] for name in ("labels", "no labels", "forest") if name in asked.models}
    if "no labels" in found:
        unlabelled = segment(corpus.images, 3, **settings).memberships
    for choice in range(N_CHOICES):
        rng = np.random.default_rng(choice)
        labelled = sorted(rng.choice(len(photographs), N_LABELLED, replace=False).tolist())
        others = [i for i in range(len(photographs)) if i not in labelled]
        drawn = [first_strokes(shares[i], rng) if i in labelled else None for i in range(len(photographs))]

        def area(maps, topic, others=others):
            return cow_area([maps[i][..., topic] for i in others], [photographs[i].truth for i in others])

        if "labels" in found:
            maps = segment(corpus.images, 3, labels=drawn, **settings).memberships
            found["labels"].append(area(maps, 0))
        if "no labels" in found:
            found["no labels"].append(max(area(unlabelled, topic) for topic in range(3)))
        if "forest" in found:
            told = [told_shares(drawn[i], shares[i].shape[:2], 3) for i in labelled]
            known = np.concatenate([each.reshape(-1, 3) for each in told])
            learnt = np.concatenate([words[i].reshape(len(words[i]) * words[i].shape[1], -1) for i in labelled])
            areas = []
            for leaf in LEAVES:
                maps = dict(enumerate_forest(learnt, known, words, others, leaf))
                areas += [area({i: window_means(maps[i], side) for i in others}, 0) for side in AVERAGED]
            found["forest"].append(max(areas))
    cells = [f"{np.mean(areas):.3f} ({np.min(areas):.3f})" for areas in found.values()]
    show(list(found), [cells])


def enumerate_forest(learnt, known, words, wanted, leaf):
    """Number and maps of each photograph wanted, all by one forest."""
    stacked = np.concatenate([words[i].reshape(-1, words[i].shape[2]) for i in wanted])
    rows, first = planted(learnt, known, stacked, leaf, seed=0), 0
    for i in wanted:
        height, width = words[i].shape[:2]
        yield i, rows[first : first + height * width].reshape(height, width, -1)
        first += height * width


def split(rows, photographs):
    """(H, W, p) of each photograph, all of whose pixels are valid."""
    ends = np.cumsum([each.truth.size for each in photographs])[:-1]
    parts = np.split(rows, ends)
    return [part.reshape(*each.truth.shape, -1) for part, each in zip(parts, photographs, strict=True)]


def cow_shares(truth):
    """(H, W, 3) cow, grass, the rest; nothing where nobody knows."""
    cow, grass = truth == COW, truth == GRASS
    return np.stack([cow, grass, (truth != VOID) & ~cow & ~grass], axis=2).astype(np.float64)


def cow_area(maps, truths):
    """Of the pixels of all photographs together."""
    score = np.concatenate([each[::STEP, ::STEP].ravel() for each in maps])
    truth = np.concatenate([each[::STEP, ::STEP].ravel() for each in truths])
    return auc(score, truth == COW, mask=truth != VOID)


# ── mattes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def matting(asked):
    """Error of alpha in the unknown part of the trimap, and everywhere: ten strokes each in what it knows."""
    files = sorted(path for path in (asked.data / "matting" / "dev").glob("*.png") if "_" not in path.stem)
    errors = {}
    for path in files:
        picture = np.asarray(Image.open(path).convert("RGB"))
        alpha, trimap = (
            np.asarray(Image.open(path.with_name(f"{path.stem}_{what}.png")).convert("L"))
            for what in ("alpha", "trimap")
        )
        truth, unknown = alpha / 255.0, (trimap != FOREGROUND) & (trimap != BACKGROUND)
        for name, found in mattes(picture, trimap, truth, asked.models):
            errors.setdefault(name, []).append((rmse(found, truth, unknown), rmse(found, truth)))
    show(
        ["model", *(path.stem for path in files), "mean", "mean everywhere"],
        (
            [name, *(f"{one:.3f}" for one, _ in rows), *(f"{mean:.3f}" for mean in np.mean(rows, axis=0))]
            for name, rows in errors.items()
        ),
    )


def mattes(picture, trimap, truth, models):
    """Name and alpha (H, W), by strokes; at last what PyMatting makes of the whole trimap."""
    shares = np.stack([trimap == FOREGROUND, trimap == BACKGROUND], axis=2).astype(np.float64)
    drawn = first_strokes(shares, np.random.default_rng(0), per_topic=MATTE_STROKES, radius=MATTE_RADIUS)
    if "labels" in models:
        for parts in PARTS:
            strokes = [said_of_parts(stroke, parts) for stroke in drawn]
            maps = with_labels(Problem(picture, 2 * parts, strokes))
            yield f"labels, {2 * parts} topics", maps[..., :parts].sum(axis=2)
    problem, both = Problem(picture, 2, drawn), np.stack([truth, 1.0 - truth], axis=2)
    for name in ("fixed topics", "forest, averaged"):
        if name in models:
            yield name, MODELS[name](problem, both)[..., 0]
    if "walker" in models:
        yield "walker", walker(problem, both)[..., 0]
    yield from py_matting(picture, problem.told, "strokes")
    yield from py_matting(picture, np.where(shares.any(axis=2, keepdims=True), shares, np.nan), "trimap")


def said_of_parts(stroke, parts):
    """The stroke of a foreground or background of several topics: it is one of these."""
    topics = [parts * (stroke["topic"] - 1) + part for part in range(1, parts + 1)]
    said = {"topic": topics[0]} if parts == 1 else {"any_of": topics}
    return said | {"points": stroke["points"], "radius": stroke["radius"]}


def py_matting(picture, told, what):
    from pymatting import estimate_alpha_cf, estimate_alpha_knn

    trimap = np.where(np.isfinite(told[..., 0]), told[..., 0], 0.5)
    for name, estimate in (("closed form", estimate_alpha_cf), ("KNN", estimate_alpha_knn)):
        with redirect_stdout(StringIO()):  # it prints how often its preconditioner had to be tried
            found = estimate(picture / 255.0, trimap)
        yield f"{name}, {what}", found


# ── spectra ───────────────────────────────────────────────────────────────────────────────────────────────────────


def spectra(asked):
    """Error of abundances with five labelled pixels of each material, and with the spectrum of one: mean (worst)."""
    models = [name for name in MODELS if name in asked.models]

    def rows():
        for name in MATERIALS:
            data = np.load(asked.data / "hsi" / f"{name}.npz")
            cube, truth = data["cube"], data["abundances"]
            errors = {model: [] for model in models}
            for seed in range(asked.seeds):
                drawn = first_strokes(truth, np.random.default_rng(seed), per_topic=LABELLED_PIXELS, radius=0)
                problem = Problem(cube, truth.shape[2], drawn)
                for model in models:
                    if model != "no labels" or seed == 0:
                        errors[model].append(rmse(MODELS[model](problem, truth), truth))
            told = [*(errors[model] for model in models), with_one_spectrum(cube, data["endmembers"], truth)]
            yield [name, *(f"{np.mean(each):.3f} ({np.max(each):.3f})" for each in told)]

    show(["cube", *models, "one spectrum known"], rows())


def with_one_spectrum(cube, spectra, truth):
    """Errors, where the spectrum of each material in turn is known, and the others are found."""
    errors = []
    for known, spectrum in enumerate(spectra):
        maps = np.asarray(segment(cube, len(spectra), topics={"known": spectrum}, random_state=0).memberships)
        others = np.delete(truth, known, axis=2)
        found = maps[..., 1:][..., match_topics(maps[..., 1:], others)]
        errors.append(rmse(np.insert(found, known, maps[..., 0], axis=2), truth))
    return errors
