"""Three superpixels, proportions held at 1/3 → memberships at four scales s: the larger s, the closer to 1/3.

The paper's figure of what the scale does. Topics are estimated anew at every scale, as in the paper.
"""

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda import PMLDA
from pmlda.errors import DataError
from pmlda.evaluation.experiments.outcome import Outcome, contents, inner, read_arrays
from pmlda.evaluation.scenes import seabed
from pmlda.features import find_features
from pmlda.features.scaling import Scaling
from pmlda.images import read_image, to_rgb
from pmlda.output.figures import Panel, coloured, composite, grid, in_order_of, outlined
from pmlda.partitions import partition
from pmlda.segmentation import Map
from pmlda.types import IntArray

SCALES = (3.0, 10.0, 300.0, 30000.0)
N_TOPICS = 3
EQUAL = np.full(N_TOPICS, 1.0 / N_TOPICS)
# In the authors' data: the array with the picture, and features that suit it.
FILES = {"sas_hf.npz": ("image", "sonar"), "sunset.npz": ("rgb", "sunset")}


class Scene(NamedTuple):
    """A picture (H, W) or (H, W, 3), superpixels (H, W), and which features to compute."""

    name: str
    pixels: NDArray[Any]
    superpixels: IntArray
    features: str


def run(data: Path | None, seeds: int, small: bool) -> Outcome:
    """data : the authors' folder, or the one above it; None makes up one seabed.

    Nothing is repeated, so seeds do not matter.
    """
    scenes = [made_up(small)] if data is None else read_scenes(inner(data, "authors"))
    rows: list[dict[str, Any]] = []
    figures: dict[str, Figure] = {}
    for scene in scenes:
        values = feature_values(scene)
        chosen = three_neighbours(scene.superpixels, values)
        maps = {s: memberships(values, scene.superpixels, chosen, s) for s in SCALES}
        rows += [{"picture": scene.name, "s": s} | measure(maps[s]) for s in SCALES]
        figures[scene.name] = scale_figure(scene, chosen, maps)
    distances = [[row["distance from 1/3"] for row in rows if row["picture"] == scene.name] for scene in scenes]
    falling = sum(bool((np.diff(each) < 0).all()) for each in distances)
    remark = (
        f"The distance of memberships from their proportions falls at every step in {falling} of {len(scenes)} "
        f"picture(s): from {distances[0][0]:.2g} at s = 3 to {distances[0][-1]:.1g} at s = 30000 in {scenes[0].name}."
    )
    return Outcome(rows, remark, figures, {"proportions": EQUAL.tolist()})


def made_up(small: bool) -> Scene:
    """A seabed in superpixels."""
    picture, _ = seabed(80 if small else 160, 0)
    superpixels = partition("slic:12", read_image(picture))[0]
    return Scene("seabed", picture, superpixels, "sonar")


def read_scenes(folder: Path) -> list[Scene]:
    """Those of the authors' pictures that are there."""
    scenes = []
    for name, (key, features) in FILES.items():
        if not (folder / name).is_file():
            continue
        pixels, superpixels = read_arrays(folder / name, [key, "superpixels"])
        if superpixels.shape != pixels.shape[:2]:
            raise DataError(
                f"In {str(folder / name)!r} superpixels have shape {superpixels.shape}. Expected {pixels.shape[:2]}, "
                f"as {key} has."
            )
        scenes.append(Scene(Path(name).stem, pixels, superpixels.astype(np.int64), features))
    if not scenes:
        raise DataError(
            f"The folder {str(folder)!r} has neither {' nor '.join(FILES)}. Expected at least one. "
            f"Found: {contents(folder)}."
        )
    return scenes


def feature_values(scene: Scene) -> NDArray[np.floating]:
    """(H, W, p) features, in comparable units."""
    image = read_image(scene.pixels)
    computer = find_features(scene.features)
    computer.fit([image])
    values = computer.compute(image).values
    rows = values.reshape(-1, values.shape[2])
    return Scaling().fit(rows).apply(rows).reshape(values.shape)


def three_neighbours(superpixels: IntArray, values: NDArray[np.floating]) -> tuple[int, int, int]:
    """Three superpixels that touch each other, of all such those that differ most from each other."""
    labels = np.unique(superpixels)
    means = {int(k): values[superpixels == k].mean(axis=0) for k in labels}
    touching = neighbours(superpixels)

    def smallest_gap(three: tuple[int, ...]) -> float:
        return float(min(np.linalg.norm(means[i] - means[j]) for i, j in combinations(three, 2)))

    candidates = [three for three in combinations(means, 3) if all(pair in touching for pair in combinations(three, 2))]
    if not candidates:
        raise DataError("There are no three superpixels that all touch each other.")
    first, second, third = max(candidates, key=smallest_gap)
    return first, second, third


def neighbours(superpixels: IntArray) -> set[tuple[int, int]]:
    """Pairs (smaller, larger) of superpixels that share a border.

    >>> sorted(neighbours(np.array([[0, 1], [0, 2]])))
    [(0, 1), (0, 2), (1, 2)]
    """
    down = np.stack([superpixels[:-1].ravel(), superpixels[1:].ravel()])
    right = np.stack([superpixels[:, :-1].ravel(), superpixels[:, 1:].ravel()])
    pairs = np.sort(np.concatenate([down, right], axis=1), axis=0)
    return {(int(i), int(j)) for i, j in pairs.T[pairs[0] < pairs[1]]}


def memberships(values: NDArray[np.floating], superpixels: IntArray, chosen: tuple[int, ...], scale: float) -> Map:
    """(H, W, 3) with topics estimated from the chosen superpixels; NaN elsewhere."""
    inside = np.isin(superpixels, chosen)
    fixed = {"proportions": EQUAL, "scales": scale}
    model = PMLDA(N_TOPICS, covariance="full", fixed=fixed, random_state=0)
    model.fit(values[inside], groups=superpixels[inside])
    maps = np.full((*superpixels.shape, N_TOPICS), np.nan, np.float32)
    maps[inside] = model.memberships_
    return maps


def measure(maps: Map) -> dict[str, float]:
    """How far memberships are from 1/3, and how much they differ between neighbouring pixels."""
    z = maps[np.isfinite(maps[..., 0])].astype(np.float64)
    distance = np.linalg.norm(z - EQUAL, axis=1).mean()
    steps = np.concatenate([np.abs(np.diff(maps, axis=axis)).reshape(-1) for axis in (0, 1)])
    return {
        "distance from 1/3": float(f"{distance:.3g}"),
        "step to the next pixel": float(f"{np.nanmean(steps.astype(np.float64)):.3g}"),
        "largest membership": round(float(z.max(axis=1).mean()), 4),
    }


def scale_figure(scene: Scene, chosen: tuple[int, ...], maps: dict[float, Map]) -> Figure:
    """The three superpixels, and each topic's maps at every scale, topics in one order."""
    inside = np.isin(scene.superpixels, chosen)
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    outside = int(scene.superpixels.max()) + 1
    documents = np.where(inside, scene.superpixels, outside)
    picture = to_rgb(read_image(scene.pixels))
    first = maps[SCALES[0]][box]
    left = [
        Panel(picture[box], "picture"),
        Panel(outlined(picture, documents)[box], "three superpixels"),
        Panel(composite(first), f"s = {SCALES[0]:g}: topics mixed"),
    ]
    ordered = {s: each[box][..., in_order_of(each[box], first)] for s, each in maps.items()}
    return grid(
        [
            [left[k], *(Panel(coloured(ordered[s][..., k]), f"s = {s:g}: topic {k + 1}", True) for s in SCALES)]
            for k in range(N_TOPICS)
        ]
    )
