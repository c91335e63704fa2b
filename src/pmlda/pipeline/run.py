"""A run over all tiles: documents → features → topics → proportions → maps. An executor maps each step over tiles.

Completed work is in the store. A run that was killed is resumed by running all stages again: steps whose part exists
return at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pmlda.images.ignored import all_ignored
from pmlda.labels.agreement import Agreement
from pmlda.parallel.executor import Executor
from pmlda.parallel.progress import Clock, Report
from pmlda.pipeline import steps
from pmlda.pipeline.blending import Blur
from pmlda.pipeline.correlation import design_effect
from pmlda.pipeline.fit_check import judge_picture
from pmlda.pipeline.job import RECIPE, Job, recipe_of
from pmlda.pipeline.learning import Learning, complete_for_family, make_model, thin_beside_labels, thins_words
from pmlda.pipeline.shards import sample_tiles
from pmlda.pipeline.steps import Totals
from pmlda.pipeline.subsample import words_each
from pmlda.pipeline.tallies import Tally, picture_sums
from pmlda.pipeline.tiles import Tile, spans_tiles
from pmlda.pipeline.told import check_told, judged
from pmlda.recipe import Recipe, save_recipe
from pmlda.storage.store import Content
from pmlda.types import FitCheck, Ignored
from pmlda.validate import require


class Outcome(NamedTuple):
    """Facts about a run: number of pixels with data and of documents, and whether Ctrl-C ended the fit early.

    agreement : for each picture, how well its strokes agree with their pixels; empty without labels
    sums : for each picture, from which the shares of its topics follow; None for one without data
    ignored : how many pixels are left out because of their values
    checks : for each picture, whether the topics explain it; empty where that is not known
    """

    n_valid: int
    n_documents: int
    interrupted: bool
    agreement: tuple[tuple[Agreement, ...], ...] = ()
    sums: tuple[Tally | None, ...] = ()
    ignored: Ignored = Ignored()
    checks: tuple[FitCheck, ...] = ()


class Run:
    """The stages in order, with their times."""

    def __init__(self, job: Job, executor: Executor, report: Report, clock: Clock) -> None:
        self.job, self.executor, self.report, self.clock = job, executor, report, clock
        self.tiles = job.plan.tiles

    def all_stages(self, how: Learning, recipe: Recipe | None = None) -> Outcome:
        """Run all stages; those that are already complete cost nothing.

        recipe : learnt from other pictures, to be applied to these
        """
        job, tiles = self.job, self.tiles
        surveyed = self.over("documents", steps.survey, [(tile, recipe is not None) for tile in tiles])
        n_valid = sum(each["n_valid"] for each in surveyed)
        ignored = Ignored(*(int(sum(each)) for each in zip(*(each["ignored"] for each in surveyed), strict=True)))
        no_data = "There is no pixel with data in the picture. Check its values, nodata and the mask."
        require(n_valid > 0, all_ignored("The picture", ignored) or no_data)
        check_told(job, surveyed, n_valid)
        used = [tile for tile, each in zip(tiles, surveyed, strict=True) if each["n_valid"]]
        model = make_model(complete_for_family(job.settings, job.features)) if recipe is None else recipe.model
        thins = recipe is None and thins_words(job.settings)
        sample = job.settings.sample if model.samples_words or thins or how.start_only else 0
        totals = self.totals(surveyed, sample)
        if recipe is None:
            first = used[0]
            example = job.sources[first.picture].read(first.rows, first.columns)
            job.features.settle((each["surveys"] for each in surveyed), example)
        else:
            job.store.keep(RECIPE, recipe, save_recipe)
        sampled = self.over("features", steps.sample, [(tile, totals) for tile in tiles])
        firsts = before([each["n_documents"][0] for each in surveyed])
        if recipe is None:
            learning = [i for i, each in enumerate(sampled) if each["n_learning"]]
            effect = self.design_effect(sampled)
            if thins:  # what is left repeats nothing
                how = how._replace(thinning=effect)
            else:
                # Fewer of the words that are used repeat each other than of all pixels, where some are left out.
                thinning = thin_beside_labels(job.labels, n_valid, effect) if model.samples_words else 1.0
                n_used = min(float(sum(each["n_used"] for each in sampled)), n_valid / thinning)
                how = how._replace(thinning_beside_labels=thinning)
                how = how._replace(design_effect=max(1.0, effect * n_used / n_valid))
            self.over("fit", steps.learn, [([tiles[i] for i in learning], [firsts[i] for i in learning], how)])
        found = recipe_of(job).model
        interrupted = recipe is None and found.verdict_.state == "interrupted"
        if interrupted and found.n_iter_ == 0:
            raise KeyboardInterrupt("Interrupted before there were topics.")
        in_picture = [n - firsts[self.first_tile(tile)] for tile, n in zip(tiles, firsts, strict=True)]
        if totals.spans_tiles:
            in_picture = [0] * len(tiles)
        if how.start_only:
            mapped = sample_tiles(job, self.over, tiles, in_picture)
            return Outcome(n_valid, totals.n_documents[0], interrupted, sums=self.sums(mapped), ignored=ignored)
        if recipe is None and not found.samples_words:
            steps.take_posterior(job, tiles)
        if found.samples_words or recipe is not None or len(totals.n_documents) > 1:
            # A document that is a whole picture of several tiles is inferred once, from the words of all of them.
            learnt = [first if recipe is None else None for first in firsts]
            calls: list[Any] = [(tile, None, first) for tile, first in zip(tiles, learnt, strict=True)]
            calls = [(tiles[0], used, learnt[0])] if totals.spans_tiles else calls
            self.over("proportions", steps.infer_documents, calls)
        mapped = self.over("maps", steps.maps, [(tile, n, totals) for tile, n in zip(tiles, in_picture, strict=True)])
        agreement = judged(job, [each.get("under") for each in mapped])
        checks = self.checks(mapped, applied=recipe is not None)
        return Outcome(n_valid, totals.n_documents[0], interrupted, agreement, self.sums(mapped), ignored, checks)

    def checks(self, mapped: list[Content], *, applied: bool) -> tuple[FitCheck, ...]:
        """Whether the topics explain each picture. mapped : as in sums; applied : whether they were learnt elsewhere"""
        recipe = recipe_of(self.job)
        return tuple(judge_picture(facts, recipe, applied=applied) for facts in self.by_picture(mapped))

    def sums(self, mapped: list[Content]) -> tuple[Tally | None, ...]:
        """Sums over the tiles of each picture. mapped : what the step for maps returned of each tile"""
        return tuple(picture_sums(facts) for facts in self.by_picture(mapped))

    def by_picture(self, mapped: list[Content]) -> list[list[Content]]:
        """The facts of the tiles of each picture."""
        pairs = list(zip(self.tiles, mapped, strict=True))
        return [[facts for tile, facts in pairs if tile.picture == each] for each in range(len(self.job.sources))]

    def totals(self, surveyed: list[Content], sample: int) -> Totals:
        """What steps need to know about all tiles."""
        job, spans = self.job, spans_tiles(self.job.plan)
        n_layers = max(len(each["n_documents"]) for each in surveyed)

        def count(facts: Sequence[Content], layer: int) -> int:
            counts = [each["n_documents"] for each in facts]
            return 1 if spans else sum(each[layer % len(each)] for each in counts)

        n_documents = tuple(count(surveyed, layer) for layer in range(n_layers))
        blurs, picture_pixels = [], []
        for picture in range(len(job.sources)):
            facts = [each for tile, each in zip(self.tiles, surveyed, strict=True) if tile.picture == picture]
            n_valid = sum(each["n_valid"] for each in facts)
            picture_pixels.append(n_valid)
            counts = [count(facts, layer) for layer in range(n_layers)]
            blended = job.settings.blend > 0
            blurs.append(
                tuple(Blur.between(n_valid, n, job.settings.blend) if blended and n > 1 else None for n in counts)
            )
        limits = tuple(words_each(n, sample) for n in n_documents)
        n_all = sum(picture_pixels)
        return Totals(n_all, n_documents, limits, tuple(blurs), spans, tuple(picture_pixels))

    def design_effect(self, sampled: list[Content]) -> float:
        """How many pixels repeat each other."""
        known = self.job.settings.design_effect
        return design_effect([each["lags"] for each in sampled if "lags" in each]) if known == "auto" else float(known)

    def first_tile(self, tile: Tile) -> int:
        """Number of the first tile of the same picture."""
        return next(each.number for each in self.tiles if each.picture == tile.picture)

    def over(
        self,
        stage: str,
        step: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        progress: tuple[int, int] | None = None,
    ) -> list[Any]:
        """Results of a step for all calls, in order. progress : position within a longer stage"""
        total = len(calls)
        found: list[Any] = [None] * total
        with self.clock(stage):
            self.report(stage, *((0, total) if progress is None else progress))
            for done, (number, result) in enumerate(self.executor.run(step, self.job, calls)):
                found[number] = result
                if progress is None:
                    self.report(stage, done + 1, total)
        return found

    def check_maps(self) -> int:
        """Number of damaged tiles of an interrupted run; they will be computed again."""
        calls = [(tile,) for tile in self.tiles]
        return sum(not sound for _, sound in self.executor.run(steps.check_maps, self.job, calls))


def before(counts: list[int]) -> list[int]:
    """Exclusive cumulative sums.

    >>> before([3, 1, 2])
    [0, 3, 4]
    """
    sums = [0]
    for count in counts[:-1]:
        sums.append(sums[-1] + count)
    return sums
