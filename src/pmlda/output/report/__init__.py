"""Report: one picture of a segmentation → one HTML file that needs nothing else.

Pixels travel as images in the page: the picture as it is shown, and the maps packed three to a PNG, which page.js
unpacks and draws. Maps are sampled, not averaged, so that every number on the page is that of a pixel that exists.
"""

import base64
import io
import math
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pmlda.images.display import to_rgb
from pmlda.labels.agreement import least_agreeing
from pmlda.labels.asking import best_places
from pmlda.output.figures import LARGEST_RESIDUAL, PERCEPTUAL, coloured, composite, digits, topic_colours
from pmlda.output.spectra import spectra_drawing
from pmlda.output.topics import topics_figure
from pmlda.segmentation import Map, Segmentation, crisp, documents_of
from pmlda.settings import Settings, to_toml
from pmlda.text import printable
from pmlda.types import FloatArray, IntArray

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

Plane = NDArray[np.uint8]

CITATION = (
    "C. Chen, A. Zare and J. T. Cobb. Partial Membership Latent Dirichlet Allocation for Image Segmentation. "
    "23rd International Conference on Pattern Recognition (ICPR), 2016."
)
# Longer side of what is shown. Together the budgets keep the file under 3 MB; a third is lost to base64.
LONGEST_SIDE, SHORTEST_SIDE, RESIDUAL_SIDE = 900, 48, 450
MAP_BYTES, PICTURE_BYTES = 1_570_000, 400_000
QUALITIES = (90, 80, 65, 45, 25)
# Half the time of Pillow's own 6 for a thirtieth more bytes.
PNG_LEVEL = 4
# A standard deviation of a membership is at most ½. Square roots keep the digits of small ones; few levels pack well.
LARGEST_STD, STD_LEVELS = 0.5, 63
TELLING_FEATURES = 6
# More documents than this are shown as histograms instead of a table.
LISTED_DOCUMENTS = 12
MOST_ALTERNATIVES = 3
LISTED_STROKES = 30
# Places at which a label would help.
ASKED = 5
BINS = 20
# Pixels with a larger residual are neither of the topics nor mixtures of them, and those with more novelty are new.
FAR, NEW = 2.0, 0.99


class Grid(NamedTuple):
    """Which pixels the page holds: rows (h,) and columns (w,) of the whole picture."""

    rows: IntArray
    columns: IntArray

    def sample(self, maps: Map) -> Map:
        return maps[self.rows[:, None], self.columns]


Documents = tuple[IntArray, IntArray]
"""What documents_of returns."""


def write_report(segmentation: Segmentation, index: int, path: str | Path, which: Documents | None = None) -> None:
    """Write the page of one of the pictures.

    which : its documents, where maps at a displayable size do not tell all of them
    """
    Path(path).write_text(render(segmentation, index, which), encoding="utf-8", errors="backslashreplace")


def render(segmentation: Segmentation, index: int = 0, which: Documents | None = None) -> str:
    """The page as text. which : as in write_report"""
    image, maps = segmentation.images[index], segmentation.membership_maps[index]
    height, width = segmentation.record.get("shape", maps.shape)[:2]  # an overview knows how large the picture is
    n_pixels = height * width
    grid, uris = pack_to_fit(maps, segmentation.uncertainty_maps[index])
    template = _environment().from_string(_text("page.html"))
    return template.render(
        style=Markup(_text("page.css")),
        script=Markup(_text("page.js")),
        data=page_data(segmentation, maps, grid, uris),
        picture=picture_uri(to_rgb(image)),
        name=printable(image.name or "picture"),
        height=height,
        width=width,
        n_empty=n_pixels - segmentation.record.get("pixels_with_data", int(np.isfinite(maps[..., 0]).sum())),
        sampled=len(grid.rows) < height,
        verdict=str(segmentation.verdict),
        has_doubt=segmentation.has_uncertainty,
        doubt_contains=doubt_contains(segmentation),
        alternatives=alternative_pictures(segmentation, index),
        asked=asked_places(segmentation, index),
        strokes=least_agreeing(segmentation.agreement_of(index), LISTED_STROKES),
        is_peer=segmentation.settings.model != "pmlda",
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=version("pmlda"),
        topics=topic_cards(segmentation, index, maps),
        features=feature_table(segmentation),
        documents=document_summary(segmentation, index, which),
        residual=residual_map(segmentation, index),
        novelty=novelty_map(segmentation, index),
        spectra=spectra_drawing(segmentation.recipe, hex_colours(len(segmentation.topic_names))),
        trace=trace_drawing(segmentation),
        choice=None
        if segmentation.choice is None
        else {"reason": segmentation.choice.reason}
        | {"figure": figure_uri(topics_figure(segmentation.choice, segmentation.topic_names))},
        settings=settings_table(segmentation.settings),
        timings=segmentation.timings,
        notes=image.notes,
        citation=CITATION,
    )


def doubt_contains(segmentation: Segmentation) -> str:
    """A sentence on what the uncertainty contains."""
    refits = getattr(segmentation.recipe.model, "refits_", None)
    draws = not segmentation.recipe.model.samples_words
    contains = ["the pixel"]
    if refits is not None or draws:
        contains += ["its document", "the topics"]
    if refits is not None and refits.drawn:
        contains[-1] += f" ({len(refits.means)} draws)"
    elif refits is not None:
        contains.append(f"the choice between optima ({len(refits.means)} refits on resampled documents)")
    side = segmentation.recipe.features.footprint
    if side > 1 and not draws:
        contains.append(f"the window of the features ({side} × {side} pixels)")
    if len(contains) == 1:
        return "Intervals and uncertainty take topics and documents as known."
    return f"Intervals and uncertainty contain {', '.join(contains[:-1])} and {contains[-1]}."


def alternative_pictures(segmentation: Segmentation, index: int) -> list[str]:
    """Topics mixed, of the other answers that the picture supports, if the verdict says that there are some."""
    if segmentation.verdict.state != "ambiguous":
        return []
    others = segmentation.alternatives[:MOST_ALTERNATIVES]
    return [picture_uri(composite(other.membership_maps[index])) for other in others]


def asked_places(segmentation: Segmentation, index: int) -> dict[str, Any] | None:
    """Where to label next: the map, and places on it, if the model can have labels."""
    if segmentation.settings.model != "pmlda" or not segmentation.has_uncertainty:
        return None
    worth, step = segmentation.worth(index), segmentation.overview_step(index)
    places = [
        (column * step, row * step) for row, column in best_places([worth], ASKED, [segmentation.labelled(index)])[0]
    ]
    picture = picture_uri(coloured(worth.as_map(worth.most), "magma"))
    return {"map": picture, "places": places, "mark": round(max(worth.gain.shape) * step / 40, 2)}


def residual_map(segmentation: Segmentation, index: int) -> dict[str, Any] | None:
    """How far pixels are from what is predicted: the map, where it ends, and which share of pixels is far."""
    found = segmentation.residual_of(index)
    if found is None:
        return None
    known = found[np.isfinite(found)]
    median, far = (float(np.median(known)), float((known > FAR).mean())) if known.size else (0.0, 0.0)
    picture = picture_uri(coloured(found / LARGEST_RESIDUAL, "magma"), RESIDUAL_SIDE)
    return {
        "map": picture,
        "most": number(LARGEST_RESIDUAL),
        "median": number(median),
        "far": far,
        "limit": number(FAR),
    }


def novelty_map(segmentation: Segmentation, index: int) -> dict[str, Any] | None:
    """How new pixels are: the map, and which share of them is."""
    found = segmentation.novelty_of(index)
    if found is None:
        return None
    known = found[np.isfinite(found)]
    share = float((known > NEW).mean()) if known.size else 0.0
    return {"map": picture_uri(coloured(digits(found), "magma"), RESIDUAL_SIDE), "limit": number(NEW), "new": share}


def page_data(segmentation: Segmentation, maps: Map, grid: Grid, uris: list[str]) -> dict[str, Any]:
    """What page.js needs to know."""
    settings = segmentation.settings
    return {
        "height": maps.shape[0],
        "width": maps.shape[1],
        "rows": len(grid.rows),
        "columns": len(grid.columns),
        "names": list(segmentation.topic_names),
        "colours": np.rint(255 * topic_colours(maps.shape[2])).astype(int).tolist(),
        "maps": uris,
        "largestStd": LARGEST_STD,
        "stdLevels": STD_LEVELS,
        "hasDoubt": segmentation.has_uncertainty,
        "low": settings.low,
        "high": settings.high,
        "heat": colour_table(PERCEPTUAL),
        "doubt": colour_table("magma"),
    }


# ── maps and picture as images in the page ─────────────────────────────────────────────────────────────────────────


def choose_grid(height: int, width: int, longest: int) -> Grid:
    """Rows and columns evenly over the picture, at most `longest` of the longer ones; page.js has the same rule.

    >>> choose_grid(4, 8, 4).columns.tolist()
    [1, 3, 5, 7]
    """
    share = min(1.0, longest / max(height, width))

    def middles(size: int) -> IntArray:
        count = max(1, round(size * share))
        return ((2 * np.arange(count) + 1) * size) // (2 * count)

    return Grid(middles(height), middles(width))


def pack_to_fit(memberships: Map, std: Map) -> tuple[Grid, list[str]]:
    """The maps at the largest size whose images are not too large together."""
    height, width = memberships.shape[:2]
    longest = min(LONGEST_SIDE, max(height, width))

    def packed(longest: int) -> tuple[Grid, list[bytes], float]:
        """The images, and by how much longer sides would fill the budget; finer detail packs a little worse."""
        grid = choose_grid(height, width, longest)
        images = [_png(image) for image in pack(to_planes(grid.sample(memberships), grid.sample(std)))]
        return grid, images, 0.96 * math.sqrt(MAP_BYTES / sum(map(len, images)))

    if longest > 3 * SHORTEST_SIDE:  # a small trial saves large ones
        longest = min(longest, int(longest // 3 * packed(longest // 3)[2]))
    while True:
        grid, images, growth = packed(longest)
        if growth >= 0.96 or longest <= SHORTEST_SIDE:
            return grid, [_uri("png", image) for image in images]
        longest = max(SHORTEST_SIDE, int(longest * growth))


def to_planes(memberships: Map, std: Map) -> Plane:
    """(2K, h, w) memberships, then standard deviations, in 8 bits. All are 0 where there is no data, and only there."""
    valid = np.isfinite(memberships[..., :1])
    z = np.rint(255.0 * np.where(valid, memberships, 0.0))
    # So many topics that none reaches a level must not look like no data.
    z = np.where(valid & (z.max(axis=-1, keepdims=True) < 1), 1, z)
    root = np.sqrt(np.clip(np.where(valid, np.nan_to_num(std), 0.0) / LARGEST_STD, 0.0, 1.0))
    planes = np.concatenate([z, np.rint(STD_LEVELS * root)], axis=-1)
    return np.moveaxis(planes, -1, 0).astype(np.uint8)


def pack(planes: Plane) -> list[Plane]:
    """Three planes to each (h, w, 3) image; what is left over is 0."""
    padding = np.zeros((-len(planes) % 3, *planes.shape[1:]), np.uint8)
    full = np.concatenate([planes, padding])
    return [np.moveaxis(full[i : i + 3], 0, -1) for i in range(0, len(full), 3)]


def picture_uri(picture: Plane, longest: int = LONGEST_SIDE) -> str:
    """The picture, its longer side at most so long; small ones unchanged."""
    from PIL import Image as Pillow

    drawn = Pillow.fromarray(picture)
    drawn.thumbnail((longest, longest), Pillow.Resampling.BOX)
    exact = _encoded(drawn, "png", compress_level=PNG_LEVEL)
    if len(exact) <= PICTURE_BYTES / 2:
        return _uri("png", exact)
    lossy = exact
    for quality in QUALITIES:
        lossy = _encoded(drawn, "jpeg", quality=quality, optimize=True)
        if len(lossy) <= PICTURE_BYTES:
            break
    return _uri("jpeg", lossy)


def figure_uri(figure: "Figure") -> str:
    """A figure as an image in the page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return _uri("png", buffer.getvalue())


def colour_table(name: str) -> list[list[int]]:
    """(256, 3) colours of a map from 0 to 1."""
    from matplotlib import colormaps

    colours: list[list[int]] = colormaps[name](np.arange(256), bytes=True)[:, :3].tolist()
    return colours


def _png(picture: Plane) -> bytes:
    from PIL import Image as Pillow

    return _encoded(Pillow.fromarray(np.ascontiguousarray(picture)), "png", compress_level=PNG_LEVEL)


def _encoded(picture: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


# ── topics ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def topic_cards(segmentation: Segmentation, index: int, maps: Map) -> list[dict[str, Any]]:
    """Of each topic its share of the picture and what tells it from the others."""
    topics, differences = segmentation.topics, standardised_differences(segmentation)
    labels, shares = crisp(maps), segmentation.shares_of(index)
    largest = np.bincount(labels[labels >= 0], minlength=len(topics)) / max(1, int((labels >= 0).sum()))
    cards, matches = [], segmentation.matches
    for k, name in enumerate(segmentation.topic_names):
        telling = np.argsort(-np.abs(differences[k]), kind="stable")[:TELLING_FEATURES]
        most = max(float(np.abs(differences[k]).max()), 1e-12)
        rows = [
            {
                "name": segmentation.feature_names[j],
                "mean": number(topics[k, j]),
                "difference": f"{differences[k, j]:+.1f}".replace("-", "−"),
                "above": bool(differences[k, j] >= 0),
                "length": round(50 * abs(differences[k, j]) / most, 1),
            }
            for j in telling
        ]
        cards.append(
            {"name": name, "colour": hex_colours(len(topics))[k], "largest": largest[k]}
            | {"share": shares[k] if shares else None, "matches": matches[k] if matches else ()}
            | {"features": rows, "n_more": topics.shape[1] - len(rows)}
        )
    return cards


def standardised_differences(segmentation: Segmentation) -> FloatArray:
    """(K, p) how far each topic's mean is from that of the other topics together, in standard deviations."""
    topics = np.asarray(segmentation.topics, dtype=np.float64)
    if len(topics) == 1:
        return np.zeros_like(topics)
    others = (topics.sum(axis=0) - topics) / (len(topics) - 1)
    return np.asarray((topics - others) / feature_spread(segmentation))


def feature_spread(segmentation: Segmentation) -> FloatArray:
    """(p,) the standard deviation of each feature: known from its scaling, or else from topics and noise."""
    scaling, model = segmentation.recipe.scaling, segmentation.recipe.model
    are_features = not segmentation.recipe.features.can_undo
    if are_features and scaling.kind != "none" and scaling.spread is not None:
        return scaling.spread
    noise = np.asarray(getattr(model, "noise_variance_", 0.0) if are_features else 0.0)
    within = np.diag(noise) if noise.ndim == 2 else noise
    spread = np.sqrt(np.var(segmentation.topics, axis=0) + within)
    return np.where(spread > 0, spread, 1.0)


def feature_table(segmentation: Segmentation) -> list[tuple[str, list[str]]]:
    """Every feature's mean in every topic."""
    columns = np.asarray(segmentation.topics).T
    return [
        (name, [number(value) for value in row]) for name, row in zip(segmentation.feature_names, columns, strict=True)
    ]


def hex_colours(n_topics: int) -> list[str]:
    return ["#{:02x}{:02x}{:02x}".format(*rgb) for rgb in np.rint(255 * topic_colours(n_topics)).astype(int)]


# ── documents ──────────────────────────────────────────────────────────────────────────────────────────────────────


def document_summary(segmentation: Segmentation, index: int, found: Documents | None = None) -> dict[str, Any]:
    """How many documents the picture has, and their π and s: each of a few, the distribution of many."""
    which, sizes = found or documents_of(segmentation, index)
    proportions, scales = segmentation.proportions[which], segmentation.scales[which]
    summary: dict[str, Any] = {"count": len(which), "all": len(segmentation.scales)}
    if len(which) <= LISTED_DOCUMENTS:
        listed = zip(sizes.tolist(), proportions, scales, strict=True)
        return summary | {"rows": [(size, [f"{v:.3f}" for v in pi], number(s)) for size, pi, s in listed]}
    colours = hex_colours(proportions.shape[1])
    of_topics = [
        histogram(f"π of {name}", proportions[:, k], 0.0, 1.0) | {"colour": colours[k]}
        for k, name in enumerate(segmentation.topic_names)
    ]
    return summary | {"histograms": [scale_histogram(scales), *of_topics]}


def scale_histogram(scales: FloatArray) -> dict[str, Any]:
    """s by its logarithm: it ranges over orders of magnitude."""
    logarithms = np.log10(np.maximum(scales, 1e-12))
    low, high = float(logarithms.min()), float(logarithms.max())
    if high - low < 0.1:
        low, high = low - 0.05, high + 0.05
    drawn = histogram("s, level of mixing (logarithmic)", logarithms, low, high)
    return (
        drawn
        | {name: number(10.0**value) for name, value in (("low", low), ("high", high))}
        | {"median": number(float(np.median(scales)))}
    )


def histogram(title: str, values: FloatArray, low: float, high: float) -> dict[str, Any]:
    """Heights of bars from 0 to 1, and the words around them."""
    counts = np.histogram(np.clip(values, low, high), bins=BINS, range=(low, high))[0]
    words = {"low": number(low), "high": number(high), "median": number(float(np.median(values)))}
    return {
        "title": title,
        "heights": np.round(counts / max(1, counts.max()), 3).tolist(),
        "most": int(counts.max()),
    } | words


# ── the run ────────────────────────────────────────────────────────────────────────────────────────────────────────


def trace_drawing(segmentation: Segmentation) -> dict[str, Any] | None:
    """The bound, or the log joint density, as points of a line in a box of 1 × 1, its y axis downwards."""
    model = segmentation.recipe.model
    is_bound = hasattr(model, "bound_")
    trace = np.asarray(getattr(model, "bound_", getattr(model, "log_joint_", ())), dtype=np.float64)
    if len(trace) < 2 or not np.isfinite(trace).all():
        return None
    # The first sweeps would hide all others.
    low = float(np.percentile(trace, 15)) if len(trace) > 20 else float(trace.min())
    high = max(float(trace.max()), low + 1e-9)
    at = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), 400)).round().astype(int))
    heights = 1.0 - (trace[at] - low) / (high - low)
    points = " ".join(f"{x:.4f},{y:.4f}" for x, y in zip(at / (len(trace) - 1), np.minimum(heights, 10.0), strict=True))
    label = "bound" if is_bound else "log joint density"
    return {"points": points, "low": whole(low), "high": whole(high), "sweeps": len(trace), "label": label}


def settings_table(settings: Settings) -> list[tuple[str, Any, str]]:
    """Name, value and meaning of each."""
    fields = type(settings).model_fields
    shown = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in settings}
    shown = {name: to_toml(value) if isinstance(value, dict) else value for name, value in shown.items()}
    return [(name, value, fields[name].description or "") for name, value in shown.items()]


# ── text ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def number(value: float) -> str:
    """Three digits that matter.

    >>> number(0.012345), number(1234.5), number(-2.0)
    ('0.0123', '1234', '−2')
    """
    text = f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    return "0" if abs(value) < 1e-12 else text.replace("-", "−")


def whole(value: float) -> str:
    """A large number without its fraction.

    >>> whole(-33041.2)
    '−33,041'
    """
    return f"{value:,.0f}".replace("-", "−")


def seconds(value: float) -> str:
    """A duration in words that fit its size.

    >>> seconds(0.0012), seconds(1.234), seconds(75.0)
    ('under 0.01 s', '1.23 s', '1 min 15 s')
    """
    if value < 0.01:
        return "under 0.01 s"
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
    return f"{int(value // 60)} min {int(value % 60)} s"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, StrictUndefined

    # Names come from untrusted files: everything is escaped that is not said to be safe.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"seconds": seconds}
    return environment


@cache
def _text(name: str) -> str:
    return files("pmlda.output.report").joinpath(name).read_text(encoding="utf-8")
