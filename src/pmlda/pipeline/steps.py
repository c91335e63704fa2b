"""The steps of a run for one tile: each reads the picture and earlier parts, and writes a part of its own to the store.

Steps are stateless: they can run anywhere, in any order, and repeatedly. They return only the few numbers that must be
known of all tiles before the next step.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.labels.agreement import Under, found_under
from pmlda.pipeline.blending import Blur, Scaled, blend, concentrations, infer_pixels
from pmlda.pipeline.correlation import squares, survey_lags
from pmlda.pipeline.family import as_measured, check_pixels, family_of
from pmlda.pipeline.fit_sums import examine
from pmlda.pipeline.footprint import Footprint
from pmlda.pipeline.job import RECIPE, Job, Words, cached, features_of, is_learnt, keep_maps, recipe_of
from pmlda.pipeline.learning import Learning, learn_recipe
from pmlda.pipeline.novelty import calibrate
from pmlda.pipeline.refit_shares import Prior, draw_shares, shares_under
from pmlda.pipeline.residuals import residuals
from pmlda.pipeline.shares import Found
from pmlda.pipeline.subsample import first_rows, keep_documents, keep_words, thin_words
from pmlda.pipeline.tiles import Tile, among, cut_tile, inside, places_of, shared, widen
from pmlda.pipeline.told import strokes_inside, survey_told, to_labels, told_at, told_documents, told_inside
from pmlda.recipe import Recipe, save_recipe
from pmlda.storage.store import Content, Store, need
from pmlda.types import DocumentPosterior, FloatArray, Image, IntArray, Labels
from pmlda.validate import require


# ── before topics are known ────────────────────────────────────────────────────────────────────────────────────────
@cached("survey")
def survey(job: Job, tile: Tile, is_fitted: bool) -> Content:
    """Divide the tile into documents, and survey it for the features unless they are fitted already (is_fitted)."""
    image = job.sources[tile.picture].read(tile.rows, tile.columns)
    ignored = list(image.ignored)
    if not image.valid.any():
        return {"facts": {"n_valid": 0, "n_documents": [0], "surveys": [], "ignored": ignored}}
    layers = cut_tile(job.plan, tile, image, job.settings.seed)
    valid = image.valid & np.all([layer.labels >= 0 for layer in layers], axis=0)
    image = image._replace(valid=valid)  # labels of the user may omit pixels
    counts = [int(layer.labels.max()) + 1 for layer in layers]
    surveys = [] if is_fitted else job.features.survey(image)
    facts = {"n_valid": int(valid.sum()), "n_documents": counts, "surveys": surveys, "ignored": ignored}
    return {
        "facts": facts | survey_told(job, tile, valid),
        "labels": [_small(layer.labels, job.store) for layer in layers],
        "numbers": layers[0].numbers,
    }


def _small(labels: IntArray, store: Store) -> NDArray[Any]:
    """Labels in a small type if they are written to disk."""
    if store.remembers:
        return labels
    return labels.astype(np.int16 if labels.max() < 2**15 else np.int32)


class Totals(NamedTuple):
    """What is known of all tiles after the survey, small enough to be sent to a worker with each tile.

    n_valid : number of pixels with data
    n_documents : number of documents in each partition
    limits : for each partition, how many words of each document are used
    blurs : for each picture and each partition, how documents are blended; None if they are not
    spans_tiles : whether a single document spans a picture of several tiles
    picture_pixels : number of pixels with data of each picture
    """

    n_valid: int
    n_documents: tuple[int, ...]
    limits: tuple[float, ...]
    blurs: tuple[tuple[Blur | None, ...], ...]
    spans_tiles: bool
    picture_pixels: tuple[int, ...]


@cached("sample")
def sample(job: Job, tile: Tile, totals: Totals) -> Content:
    """Choose the pixels from which topics are learnt, and those from which proportions and scales are inferred."""
    surveyed = need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0:
        return {"facts": {"n_learning": 0, "n_used": 0}}
    image, values = features_of(job, tile)
    if as_measured(job.settings):
        model: Any = recipe_of(job).model if is_learnt(job) else None  # a PMLDA: no other has a family
        family = family_of(job.settings) if model is None else model.family_
        check_pixels(family, values, job.features.spec, image.name)
    labels = surveyed["labels"]
    places = among(image.valid, places_of(tile, job.plan.shapes[tile.picture][1]))
    told = told_at(job, tile, places)
    labelled = np.zeros(len(places), bool) if told is None else told > 0
    learning, deciding, sizes_of = np.ones(len(places), bool), [], []
    for number, each in enumerate(labels):
        groups = among(image.valid, np.asarray(each, np.int64))
        # A document that spans the picture has more words than this tile.
        sizes = np.array([totals.n_valid]) if totals.spans_tiles else np.bincount(groups)
        sizes_of.append(sizes)
        most = totals.limits[number]
        deciding.append(keep_words(groups, places, sizes, most, job.settings.seed) | labelled)
        if number == 0:
            learning = deciding[0].copy()
            if most < np.inf:
                first = places[first_rows(groups)]
                kept = keep_documents(first, totals.n_documents[0], job.settings.seed)
                learning &= (kept | labelled_documents(job, tile, groups[labelled], len(kept)))[groups]
    facts = {
        "n_learning": int(learning.sum()),
        "n_used": int(deciding[0].sum()),
        "lags": lags_of(job, tile, image, values, labels[0], totals),
    }
    part: Content = {"facts": facts, "learning": learning, "deciding": deciding, "sizes": sizes_of}
    if not job.store.remembers:
        kept = learning | np.any(deciding, axis=0)
        groups = np.asarray(labels[0], np.int64)[image.valid]
        part |= {"values": values[kept], "groups": groups[kept], "places": places[kept]}
        part |= {"learning": learning[kept], "deciding": [each[kept] for each in deciding]}
    return part


def lags_of(job: Job, tile: Tile, image: Image, values: Words, labels: Any, totals: Totals) -> FloatArray | None:
    """Sums from which the design effect follows, unless it is known."""
    if job.settings.design_effect != "auto":
        return None
    values = values[:, :-1] if job.features.has_noise else values  # the last one is no feature
    first = (tile.rows.start, tile.columns.start)
    documents = squares(tile.shape, first) if totals.n_documents[0] == 1 else np.asarray(labels, np.int64)
    if image.valid.all():
        return survey_lags(values.reshape(*image.valid.shape, -1), documents, first, job.n_jobs)
    stack = np.zeros((*image.valid.shape, values.shape[1]), np.float32)
    stack[image.valid] = values
    return survey_lags(stack, np.where(image.valid, documents, -1), first, job.n_jobs)


def labelled_documents(job: Job, tile: Tile, groups: IntArray, n_documents: int) -> NDArray[np.bool_]:
    """(D,) which documents of a tile are learnt from in any case: they, or pixels of theirs, have labels.

    groups : the documents of labelled pixels
    """
    found = np.bincount(groups, minlength=n_documents) > 0
    everyone = np.arange(n_documents)
    told = told_documents(job, [tile], [everyone], everyone)
    return found if told is None else found | (told.row > 0)


class Rows(NamedTuple):
    """Features of some pixels (n, p), the document of each in its tile, its number of pixels, and the place of each.

    told : (n,) the label of each, a row of the table of labels; None if there are no labels
    """

    values: Words
    groups: IntArray
    sizes: IntArray
    places: IntArray
    told: IntArray | None = None

    def thinned(self, thinning: float | None, seed: int) -> "Rows":
        """One pixel in so many of each document, all of whose rows are here; None or 1 leaves all. Labels stay."""
        if thinning in {None, 1.0}:
            return self
        kept = thin_words(self.groups, self.places, self.sizes, thinning, seed)
        return self.take(kept if self.told is None else kept | (self.told > 0))

    def take(self, chosen: Any) -> "Rows":
        """Some of them, or all in another order."""
        told = None if self.told is None else self.told[chosen]
        return Rows(self.values[chosen], self.groups[chosen], self.sizes[chosen], self.places[chosen], told)


def rows_of(job: Job, tile: Tile, use: str, layer: int = 0) -> Rows:
    """The subsampled pixels of a tile, row by row; use : "learning" for topics, "deciding" for documents."""
    part = need(job.store, "sample", tile.number)
    used = part[use] if use == "learning" else part[use][layer]
    sizes = part["sizes"][layer]
    if not job.store.remembers:
        groups, places = part["groups"][used], part["places"][used]
        return Rows(part["values"][used], groups, sizes[groups], places, told_at(job, tile, places))
    image, values = features_of(job, tile)
    labels = need(job.store, "survey", tile.number)["labels"][layer]
    rows = slice(None) if used.all() else used
    places = among(image.valid, places_of(tile, job.plan.shapes[tile.picture][1]))[rows]
    groups = among(image.valid, labels)[rows]
    return Rows(values[rows], groups, sizes[groups], places, told_at(job, tile, places))


def gathered(job: Job, tiles: Sequence[Tile], firsts: Sequence[int], use: str) -> Rows:
    """The subsampled pixels of several tiles, row by row as in the pictures, with documents numbered consecutively.

    firsts : for each tile, the number of documents in the tiles before it
    """
    found = []
    for tile, first in zip(tiles, firsts, strict=True):
        rows = rows_of(job, tile, use)
        found.append(rows._replace(groups=numbers_of(job, tile, first)[rows.groups]))
    if len(found) == 1:
        return found[0]
    values, groups, sizes, places = (np.concatenate(each) for each in zip(*(each[:4] for each in found), strict=True))
    told = None if found[0].told is None else np.concatenate([each.told for each in found])
    return Rows(values, groups, sizes, places, told).take(np.argsort(places, kind="stable"))


def numbers_of(job: Job, tile: Tile, first: int) -> IntArray:
    """(D,) the numbers of the documents of a tile. first : number of documents in the tiles before it"""
    surveyed = need(job.store, "survey", tile.number)
    numbers: IntArray | None = surveyed["numbers"]
    return first + np.arange(surveyed["facts"]["n_documents"][0]) if numbers is None else numbers


def learn(job: Job, tiles: Sequence[Tile], firsts: Sequence[int], how: Learning) -> Content:
    """Learn topics from the subsampled words of all tiles, and store the recipe."""
    if not is_learnt(job):
        every = gathered(job, tiles, firsts, "learning")
        rows = every.thinned(how.thinning or how.thinning_beside_labels, job.settings.seed)
        told = told_of(job, rows, tiles, [numbers_of(job, *each) for each in zip(tiles, firsts, strict=True)])
        require(
            bool(told) or not job.labels,
            "No document has at least half of its pixels in a region that was said to contain something. Draw larger "
            "regions, or use smaller documents.",
        )
        recipe = learn_recipe(rows.values, rows.groups, job.features, job.settings, how, told or None)
        if recipe.model.verdict_.state == "interrupted" and not job.store.remembers:
            raise KeyboardInterrupt("The fit is resumed from its last checkpoint.")
        if not how.start_only:
            recipe = recipe._replace(usual=calibrate(recipe, every.values))
        job.store.keep(RECIPE, recipe, save_recipe)
    return {}


# ── once topics are known ──────────────────────────────────────────────────────────────────────────────────────────
@cached("documents")
def infer_documents(job: Job, tile: Tile, others: Sequence[Tile] | None = None, first: int | None = None) -> Content:
    """Infer π and s of every document of the tile, in every partition, from its subsampled words.

    others : all tiles with data, if a single document spans them
    first : number of documents in the tiles before, if topics were learnt from these tiles
    """
    recipe, surveyed = recipe_of(job), need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0 and others is None:
        return {"facts": {}}
    n_layers = len(surveyed["labels"]) if others is None and recipe.model.minds_groups else 1
    found = []
    for layer in range(n_layers):
        if others is None:
            rows = rows_of(job, tile, "deciding", layer)
            numbers = [np.arange(surveyed["facts"]["n_documents"][layer])]
        else:
            rows = gathered(job, others, [0] * len(others), "deciding")
            numbers = [numbers_of(job, other, 0) for other in others]
        rows = rows.thinned(recipe.thinning, job.settings.seed)
        if layer == 0 and first is not None and recipe.thinning is not None:
            labels = numbers_of(job, tile, first) if others is None else np.zeros(1, np.int64)
            found.append(sampled_documents(recipe, rows, labels, known_of_all(job)))
        else:
            told = told_of(job, rows, [tile] if others is None else others, numbers, layer)
            words, known = recipe.scaling.apply(rows.values), {"groups": rows.groups, **told, **known_of_all(job)}
            model: Any = recipe.model
            if model.samples_words:  # memberships of all words come later, with the maps
                found.append(without_words(model.infer_concentrations(words, **known)))
            else:
                found.append(model.infer_documents(words, **known))
    part: Content = {"facts": {}, "a": [concentrations(each) for each in found]}
    part |= {"proportions": found[0].proportions, "scales": found[0].scales}
    if not recipe.model.samples_words:  # every word has been visited anyway
        part |= {"memberships": [each.memberships for each in found], "std": found[0].std}
    return part


def told_of(
    job: Job, rows: Rows, tiles: Sequence[Tile], numbers: Sequence[IntArray], layer: int = 0
) -> dict[str, Labels]:
    """Labels of rows and of their documents, as arguments of PMLDA.fit; empty where there are none.

    numbers : of the documents of each tile, as rows.groups has them
    """
    found: dict[str, Any] = {"y": to_labels(job, rows.told)}
    found["group_labels"] = told_documents(job, tiles, numbers, np.unique(rows.groups), layer)
    return {name: labels for name, labels in found.items() if labels is not None}


def known_of_all(job: Job) -> dict[str, Any]:
    """What the settings fix of all documents, as an argument of infer_documents; empty if that is nothing."""
    return {"fixed": dict(job.settings.fixed)} if job.settings.fixed else {}


def sampled_documents(recipe: Recipe, rows: Rows, labels: IntArray, known_of_all: dict[str, Any]) -> DocumentPosterior:
    """What draws tell of the documents that a sampler has visited; others are inferred under the topics of each draw.

    labels : (D,) of the documents of these rows, as the fit has them
    known_of_all : arguments of infer_documents
    """
    model: Any = recipe.model  # a PMLDA: no other thins words
    known, drawn = model.known_documents(labels)
    a = np.empty((drawn.shape[0], len(labels), drawn.shape[2]))
    a[:, known] = drawn
    if not known.all():
        other = rows.take(~known[rows.groups])  # no document with a label is among them: those are all visited
        words = recipe.scaling.apply(other.values)
        a[:, ~known] = model.infer_concentrations(words, groups=other.groups, **known_of_all)
    return without_words(a)


def without_words(a: FloatArray) -> DocumentPosterior:
    """What is known of documents alone. a : (1 + B, D, K) s·π, as found and under each of B refits"""
    scales, no_words = a[0].sum(axis=1), np.empty((0, a.shape[2]))
    return DocumentPosterior(no_words, no_words, a[0] / scales[:, None], scales, a)


@cached("maps")
def maps(job: Job, tile: Tile, first: int, totals: Totals) -> Content:
    """Compute the memberships of every pixel of the tile, averaged over partitions, and write them to the maps.

    first : number of documents of the picture in the tiles before
    """
    surveyed = need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0:
        return {"facts": {"n_valid": 0}}
    recipe = recipe_of(job)
    n_layers = len(surveyed["labels"]) if recipe.model.minds_groups else 1
    footprint = Footprint(job.features.footprint if recipe.model.samples_words else 1)
    around, across = widen(tile, footprint.margin, shape_of(job, tile))
    region = tile._replace(rows=around, columns=across)
    image, values = features_of(job, region)
    words = Scaled(values, recipe.scaling)
    prior = prior_of(job, region, totals, 0) if recipe.model.samples_words else None
    total, std = seen_through(job, region, totals, words, image, 0, prior)
    for layer in range(1, n_layers):
        total = total + seen_through(job, region, totals, words, image, layer)[0]
    total = total / n_layers if n_layers > 1 else total
    if footprint.side > 1:
        total, std = footprint.spread(total, std, image.valid)
    here = inside(tile, region.rows, region.columns)
    rows = crop_rows(image.valid, here)
    n_pixels = totals.picture_pixels[tile.picture]
    more: Content = {"shares_under": shares_under(job, region, tile, words, image, prior, n_pixels)}
    under = untold(job, region, totals, words, image, rows)
    if under is not None:
        more["under"] = under._asdict()
    image = image._replace(pixels=image.pixels[here], valid=image.valid[here])
    if not isinstance(rows, slice):
        values, total, std = values[rows], total[rows], std[rows]
        words = Scaled(values, recipe.scaling)
    if not recipe.model.samples_words:  # these are arrays of the model, and for_maps overwrites what it is given
        total, std = total.copy(), std.copy()
    residual = residuals(recipe, values, words, total, job.n_jobs)
    new, more["fit"] = examine(recipe, image, values, words, total, job.n_jobs)
    found = Found(total, std).for_maps(recipe.order, recipe.share_weights, job.n_jobs)
    kept = keep_maps(job, tile, first, image, found, residual, new)
    return kept | {"facts": kept["facts"] | more}


def untold(
    job: Job, region: Tile, totals: Totals, words: Scaled, image: Image, rows: NDArray[np.bool_] | slice
) -> Under | None:
    """What labelled pixels have by topics and documents alone, added up over each stroke; None if there are none.

    rows : those of the valid pixels of the region that are in the tile
    """
    recipe, stroke = recipe_of(job), strokes_inside(job, region, image.valid)
    if stroke is None or not recipe.model.samples_words:  # other samplers infer no single pixels
        return None
    chosen = np.zeros(len(stroke), bool)
    chosen[rows] = stroke[rows] >= 0
    if not chosen.any():
        return None
    labelled = np.zeros(image.valid.shape, bool)
    labelled[image.valid] = chosen
    z, std = infer_pixels(recipe.model, words[chosen], *prior_of(job, region, totals, 0), labelled)
    found = Found(z[:, recipe.order], std[:, recipe.order]).as_shares(recipe.share_weights)
    labels = job.labels[region.picture]
    return found_under(stroke[chosen], *found, 0 if labels is None else len(labels.strokes))


def crop_rows(valid: NDArray[np.bool_], here: tuple[slice, slice]) -> NDArray[np.bool_] | slice:
    """Which of the rows of valid pixels lie in a part of the region."""
    part = np.zeros(valid.shape, bool)
    part[here] = True
    rows: NDArray[np.bool_] = part[valid]
    return slice(None) if rows.all() else rows


def seen_through(
    job: Job, region: Tile, totals: Totals, words: Scaled, image: Image, layer: int, prior: Prior | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """(N, K) memberships of the pixels of a region in one partition, and their standard deviations.

    prior : what prior_of returns, if it is known
    """
    recipe = recipe_of(job)
    if recipe.model.samples_words:
        told = to_labels(job, told_inside(job, region, image.valid))
        return infer_pixels(recipe.model, words, *(prior or prior_of(job, region, totals, layer)), image.valid, told)
    if layer == 0 and (found := job.store.read("posterior", region.number)) is not None:
        return found["memberships"], found["std"]
    part = need(job.store, "documents", region.number)
    return part["memberships"][layer], part["std"]


def check_maps(job: Job, tile: Tile) -> bool:
    """Whether the maps of a tile match its part; if not, remove the part, so that they are computed again."""
    part = job.store.read("maps", tile.number)
    if part is None or job.maps.is_sound(tile, part):  # not computed yet, or intact
        return True
    job.store.remove("maps", tile.number)
    return False


def take_posterior(job: Job, tiles: Sequence[Tile]) -> None:
    """Distribute the posterior of a fit that visited every word to the tiles."""
    recipe, first, document = recipe_of(job), 0, 0
    model = recipe.model
    for tile in tiles:
        facts = need(job.store, "survey", tile.number)["facts"]
        last, next_document = first + facts["n_valid"], document + facts["n_documents"][0]
        rows, mine = slice(first, last), slice(document, next_document)
        part: Content = {"memberships": model.memberships_[rows], "std": model.membership_std_[rows]}
        part["shares_under"] = draw_shares(recipe, rows)
        part |= {"proportions": model.proportions_[mine], "scales": model.scales_[mine]}
        job.store.write("posterior", tile.number, part)
        first, document = last, next_document


# ── what steps share ───────────────────────────────────────────────────────────────────────────────────────────────
def prior_of(job: Job, region: Tile, totals: Totals, layer: int) -> Prior:
    """(h, w) the row of the prior that applies to each pixel, and the prior: sπ of documents, or of blended cells.

    region : a tile, or a rectangle around it
    """
    blur = totals.blurs[region.picture][layer]
    if blur is None:
        return documents_in(job, region, region.rows, region.columns, totals, layer)
    rows, columns = widen(region, blur.reach, shape_of(job, region), blur.side)
    labels, a = documents_in(job, region, rows, columns, totals, layer)
    cells, field = blend(a, labels, blur)
    return cells[inside(region, rows, columns)], field


def documents_in(
    job: Job, region: Tile, rows: slice, columns: slice, totals: Totals, layer: int
) -> tuple[IntArray, FloatArray]:
    """(h, w) the document of each pixel of a rectangle, −1 for none, and sπ (1 + B, D, K) of the documents."""
    if job.plan.is_whole(region) and not totals.spans_tiles:
        labels = np.asarray(need(job.store, "survey", region.number)["labels"][layer], np.int64)
        return labels, need(job.store, "documents", region.number)["a"][layer]
    around = np.full((rows.stop - rows.start, columns.stop - columns.start), -1, np.int64)
    if totals.spans_tiles:  # one document, which was inferred once
        return np.zeros_like(around), need(job.store, "documents", 0)["a"][layer]
    priors: list[FloatArray] = []
    n_documents = 0
    for each in job.plan.touching(region, rows, columns):
        surveyed = need(job.store, "survey", each.number)
        if surveyed["facts"]["n_valid"] == 0:
            continue
        here, there = shared(each, rows, columns)
        labels = np.asarray(surveyed["labels"][layer], np.int64)[there]
        around[here] = np.where(labels >= 0, labels + n_documents, -1)
        priors.append(need(job.store, "documents", each.number)["a"][layer])
        n_documents += priors[-1].shape[1]
    return around, np.concatenate(priors, axis=1)


def shape_of(job: Job, tile: Tile) -> tuple[int, int]:
    """(H, W) of the picture of a tile."""
    return job.plan.shapes[tile.picture]
