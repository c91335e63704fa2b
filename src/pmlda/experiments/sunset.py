"""Sunsets: vertical gradient, red and blue → three topics whose memberships fade as the sky does; LDA beside it.

Without data: sunsets that are made up here, whose colours mix in known shares. With data: the authors' picture, once
with the paper's features, once with the authors' own features and superpixels.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image as PillowImage

from pmlda.experiments.outcome import DataError, Outcome, need_files
from pmlda.figures import comparison
from pmlda.images import to_rgb
from pmlda.metrics import membership_rmse
from pmlda.peers import make_peer
from pmlda.pipeline import segment
from pmlda.scenes import SUNSET, sunset
from pmlda.segmentation import Map, Segmentation, between, crisp

SUMMARY = "sunsets whose glow fades into the sky: soft maps of PM-LDA beside the labels of LDA"

N_TOPICS = 3
FEATURES = "sunset"
HEIGHT, WIDTH = 150, 200
# The photograph is reduced to about this many pixels on its longer side, for the sake of time.
LONGER_SIDE = 400
LOW, HIGH = 0.4, 0.6


class Maps(NamedTuple):
    """Memberships (H, W, 3) of one picture by each model."""

    ours: Map
    lda: Map
    fuzzy: Map

    def named(self) -> dict[str, NDArray[Any]]:
        """As they are drawn: LDA as the paper has it, by its labels."""
        return {"PM-LDA": self.ours, "FCM": self.fuzzy, "LDA": crisp(self.lda)}


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : the authors' folder; None makes up `seeds` sunsets."""
    return made_up(seeds, small) if data is None else photographs(data, small)


def all_maps(found: Segmentation) -> Maps:
    """PM-LDA's maps, and those of LDA and fuzzy c-means from the same features and documents."""
    image, documents = found.images[0], found.document_maps[0]
    values = found.chain.features.compute(image).values
    words = found.chain.scaling.apply(values.reshape(-1, values.shape[2]))
    lda = make_peer("lda", N_TOPICS, dictionary=100, n_init=2, tol=0.05).fit(words, groups=documents.ravel())
    fuzzy = make_peer("fcm", N_TOPICS, fuzzifier=1.5).fit(words)
    shape = (*documents.shape, N_TOPICS)
    return Maps(found.membership_maps[0], lda.memberships_.reshape(shape), fuzzy.memberships_.reshape(shape))


# ── sunsets with known truth ──────────────────────────────────────────────────────────────────────────────────────


def made_up(seeds: int, small: bool) -> Outcome:
    """Membership error and the share of the picture that is in transition."""
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    height, width = (48, 64) if small else (HEIGHT, WIDTH)
    for seed in range(seeds):
        picture, truth = sunset(height, width, seed)
        found = segment(picture, N_TOPICS, features=FEATURES)
        maps = all_maps(found)
        rows.append(
            {
                "seed": seed,
                "PM-LDA": round(membership_rmse(maps.ours, truth), 4),
                "FCM": round(membership_rmse(maps.fuzzy, truth), 4),
                "LDA": round(membership_rmse(maps.lda, truth), 4),
                "LDA, labels": round(membership_rmse(one_of(maps.lda), truth), 4),
                "1/3": round(membership_rmse(np.full_like(truth, 1.0 / N_TOPICS), truth), 4),
                "in transition, truth": in_transition(truth),
                "in transition, PM-LDA": in_transition(maps.ours),
            }
        )
        if not figures:
            figures["sunset"] = comparison(picture, {"truth": truth} | maps.named(), topic_names=SUNSET)
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    best = sum(row["PM-LDA"] < min(row["FCM"], row["LDA"], row["LDA, labels"]) for row in rows)
    remark = (
        f"PM-LDA's membership error is below those of LDA and fuzzy c-means on {best} of {len(rows)} sunsets: "
        f"{means['PM-LDA']:.3f} on average, fuzzy c-means {means['FCM']:.3f}, LDA {means['LDA']:.3f}, its labels "
        f"{means['LDA, labels']:.3f}. Of the pixels, {means['in transition, PM-LDA']:.0%} are in transition, in truth "
        f"{means['in transition, truth']:.0%}."
    )
    return Outcome(rows, remark, figures, {"transition": [LOW, HIGH], "fuzzifier": 1.5, "dictionary": 100})


def one_of(maps: Map) -> Map:
    """(H, W, K) 1 for the largest topic, 0 for others."""
    return np.eye(maps.shape[2], dtype=np.float32)[crisp(maps)]


def in_transition(maps: Map) -> float:
    """The share of pixels of which some membership is between LOW and HIGH."""
    return round(float(between(maps, LOW, HIGH).mean()), 4)


def largest_steps(maps: Map) -> float:
    """The change to the next pixel, of any membership, that one pair of neighbours in a hundred exceeds."""
    steps = [np.abs(np.diff(maps, axis=axis)).max(axis=2).ravel() for axis in (0, 1)]
    return round(float(np.percentile(np.concatenate(steps), 99)), 4)


# ── the authors' picture ──────────────────────────────────────────────────────────────────────────────────────────


def photographs(folder: Path, small: bool) -> Outcome:
    """There is no truth: what is told is how soft the maps are."""
    picture_path, array_path = need_files(folder, ["sunset1.jpg", "sunset.npz"])
    photograph = read_reduced(picture_path, 64 if small else LONGER_SIDE)
    with np.load(array_path) as content:
        expected = {"rgb", "features", "superpixels"}
        if not expected <= set(content):
            raise DataError(f"{str(array_path)!r} holds {', '.join(content)}. Expected {', '.join(sorted(expected))}.")
        rgb, superpixels = content["rgb"], content["superpixels"].astype(np.int64)
        given = np.moveaxis(content["features"], 0, -1)

    def authors(pixels: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(given)

    runs = {
        "photograph": segment(photograph, N_TOPICS, features=FEATURES),
        "authors": segment(rgb, N_TOPICS, features=authors, documents=superpixels),
    }
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for name, found in runs.items():
        maps = all_maps(found)
        soft = {"PM-LDA": maps.ours, "FCM": maps.fuzzy, "LDA": maps.lda, "LDA, labels": one_of(maps.lda)}
        features = "sunset" if name == "photograph" else "the authors'"
        for model, each in soft.items():
            measured = {"in transition": in_transition(each), "step that 1 % exceed": largest_steps(each)}
            rows.append({"picture": name, "features": features, "model": model} | measured)
        figures[name] = comparison(to_rgb(found.images[0]), maps.named())
    told = {(row["picture"], row["model"]): row for row in rows}
    remark = " ".join(
        f"{name}: {told[name, 'PM-LDA']['in transition']:.0%} of the pixels are in transition by PM-LDA, "
        f"{told[name, 'FCM']['in transition']:.0%} by fuzzy c-means, {told[name, 'LDA']['in transition']:.0%} by LDA, "
        f"whose labels have none."
        for name in runs
    )
    return Outcome(rows, remark, figures, {"transition": [LOW, HIGH], "size": list(photograph.shape[:2])})


def read_reduced(path: Path, longer_side: int) -> NDArray[np.uint8]:
    """(H, W, 3) the photograph, no longer than that."""
    with PillowImage.open(path) as picture:
        colours = picture.convert("RGB")
        colours.thumbnail((longer_side, longer_side), PillowImage.Resampling.BOX)
        return np.asarray(colours)
