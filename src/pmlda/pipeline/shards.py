"""A sampler over tiles: each tile is a shard whose memberships stay in the store, and only sums over words are sent.

A sweep maps the engine's local step over all tiles, adds up the sums that it returns, and updates the topics from the
total. This is the same sampler as for a picture in memory, since words of different documents depend on each other
through the topics alone. Each tile stores its states after the last two sweeps, and so does each chain. This is enough
to resume after a kill or with a damaged file: completed sweeps are skipped, and a lost one is repeated from the state
before it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.base import Sampler, Sums, Task, around
from pmlda.engines.collect import Found, agreement, join, summarise
from pmlda.engines.documents import group_rows
from pmlda.engines.parameters import Checked, check_parameters
from pmlda.engines.sampling import Chain, LocalChain, Told, new_chain, rules_of, sweeps
from pmlda.errors import RunError
from pmlda.families.base import Family
from pmlda.parallel.threads import Workers
from pmlda.pipeline.job import Job, cached, document_sizes, features_of, keep_maps, recipe_of
from pmlda.pipeline.learning import ON_PICTURES, canonical_order
from pmlda.pipeline.shares import Found as TileFound
from pmlda.pipeline.tiles import Tile
from pmlda.pipeline.told import to_labels, told_documents, told_inside, told_topics
from pmlda.recipe import Recipe, save_recipe, share_weights
from pmlda.storage.store import Content, Store, need
from pmlda.types import Documents, FloatArray, IntArray, Topics

POSTERIOR = "posterior.pmlda"
"""The recipe found by the sampler; the other one, RECIPE, has its initial topics."""

OverTiles = Callable[..., list[Any]]


class Setting(NamedTuple):
    """What all tiles share: engine, family and parameters; origin is subtracted from words and means."""

    engine: Sampler
    family: Family
    checked: Checked
    start: Topics
    origin: FloatArray
    seed: int

    @property
    def chains(self) -> range:
        return range(self.engine.count_chains(self.checked))

    def task(self, documents: Documents, tile: Tile, workers: Workers) -> Task:
        """The task of one shard."""
        return Task(documents, self.family, self.checked, self.seed, workers, shard=tile.number)


def setting_of(job: Job) -> Setting:
    """The setting that follows from the fit to a subsample."""
    fitted: Any = recipe_of(job).model  # a PMLDA: no other model starts a sampler
    assert job.sampler is not None
    parameters = fitted.get_params(deep=False) | {"n_sweeps": job.settings.sweeps}
    # Draws of memberships would fill the disk; their standard deviations follow from sums of squares.
    parameters |= {"draws_memory": 0}
    checked = check_parameters(parameters, fitted.family_, n_words=2**31, samples_words=False)
    checked = checked.telling_apart(told_topics(job))
    origin = fitted.topic_means_.mean(axis=0) if fitted.family_.has_location else np.zeros(1)
    start = fitted.topics_._replace(means=fitted.topic_means_ - origin)
    return Setting(job.sampler, fitted.family_.shifted(-origin), checked, start, origin, job.settings.seed)


# ── the last two states ────────────────────────────────────────────────────────────────────────────────────────────
class LastTwo(NamedTuple):
    """The states of a chain, or of a tile in it, after the last two sweeps: a part for even and one for odd sweeps."""

    store: Store
    name: str
    number: int

    def write(self, sweep: int, content: Content) -> None:
        """Write the state after this sweep, without waiting for the disk."""
        self.store.write(self._stage(sweep), self.number, content | {"sweep": sweep}, durable=False)

    def at(self, sweep: int) -> Content | None:
        """The state after this sweep, or None."""
        found = self.store.read(self._stage(sweep), self.number)
        return found if found is not None and found["sweep"] == sweep else None

    def latest(self) -> Content | None:
        """The newest state that is intact."""
        found = [self.store.read(self._stage(sweep), self.number) for sweep in (0, 1)]
        return max((each for each in found if each is not None), key=lambda each: int(each["sweep"]), default=None)

    def _stage(self, sweep: int) -> str:
        return f"{self.name}-{'even' if sweep % 2 == 0 else 'odd'}"


def states_of(job: Job, tile: Tile, chain: int) -> LastTwo:
    return LastTwo(job.store, f"chain-{chain}", tile.number)


# ── steps of a tile ────────────────────────────────────────────────────────────────────────────────────────────────
def begin(job: Job, tile: Tile) -> Content:
    """Store the words of the tile by document, and the initial state of every chain."""
    surveyed = need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0:
        return {"n_words": 0}
    setting = setting_of(job)
    if job.store.read("words", tile.number) is None:
        labels = np.asarray(surveyed["labels"][0], np.int64)
        image, values = features_of(job, tile)
        words = group_rows(recipe_of(job).scaling.apply(values), labels[image.valid])
        words = with_labels(job, tile, image.valid, words)
        job.store.write("words", tile.number, words._asdict())
    if not all(states_of(job, tile, chain).latest() for chain in setting.chains):
        with Workers(1) as workers:
            task = setting.task(words_of(job, tile, setting), tile, workers)
            states = setting.engine.start_known(task, setting.start, setting.checked.fixed)
        for chain, state in zip(setting.chains, states, strict=True):
            if states_of(job, tile, chain).latest() is None:
                local = LocalChain.new(state, setting.checked.plan)
                states_of(job, tile, chain).write(0, {"local": local.to_table(), "sums": None})
    return {"n_words": surveyed["facts"]["n_valid"]}


def with_labels(job: Job, tile: Tile, valid: NDArray[np.bool_], documents: Documents) -> Documents:
    """The documents of a tile with labels of their words and of themselves."""
    told, everyone = to_labels(job, told_inside(job, tile, valid)), np.arange(len(documents.sizes))
    return documents._replace(
        told=None if told is None else told.take(documents.order),
        told_documents=told_documents(job, [tile], [everyone], everyone),
    )


def words_of(job: Job, tile: Tile, setting: Setting) -> Documents:
    """Words of the tile by document, relative to the origin."""
    documents = Documents(**need(job.store, "words", tile.number))
    return around(documents, setting.family, setting.origin)[0]


def sweep_tile(job: Job, tile: Tile, chain: int, recent: list[Told]) -> Sums:
    """Run the next sweep of one chain on one tile; return the sums for the topic update.

    recent : instructions of the last sweeps, ending with this one. If the newest state of the tile is damaged, the
        sweep that led to it is repeated from the state before
    """
    states, told = states_of(job, tile, chain), recent[-1]
    done = states.at(told.sweep + 1)
    if done is not None:
        sums: Sums = done["sums"]
        return sums
    state = states.at(told.sweep)
    if state is None and len(recent) > 1:
        sweep_tile(job, tile, chain, recent[:-1])
        state = states.at(told.sweep)
    if state is None:
        raise RunError(
            f"Both kept states of tile {tile.number} are damaged, so this run cannot be resumed. Remove its folder and "
            "start again."
        )
    return advance(job, tile, chain, state, told)


def advance(job: Job, tile: Tile, chain: int, state: Content, told: Told) -> Sums:
    """Run one sweep from a stored state."""
    setting = setting_of(job)
    local = LocalChain.from_table(state["local"], setting.checked.plan)
    with Workers(1) as workers:
        task = setting.task(words_of(job, tile, setting), tile, workers)
        rules = rules_of(setting.checked, setting.seed, setting.checked.fixed, chain, tile.number)
        step = setting.engine.local_step(task.documents, task.family, rules, workers)
        sums = local.step(told, step.move, workers)
    states_of(job, tile, chain).write(told.sweep + 1, {"local": local.to_table(), "sums": sums})
    return sums


class Last(NamedTuple):
    """What tiles need to know of all chains after the last sweep.

    told : for each chain, its last instructions, which say what becomes of the last draw
    orders : for each chain, the order of topics that matches the first chain
    order : (K,) topic j of the maps is topic order[j] of the first chain
    n_draws : number of draws of each chain
    weights : (K,) what makes shares of memberships, in the order of the maps; None if they are shares
    """

    told: list[Told]
    orders: list[IntArray]
    order: IntArray
    n_draws: int
    weights: FloatArray | None


@cached("maps")
def finish(job: Job, tile: Tile, first: int, last: Last) -> Content:
    """Write the maps of a tile from the draws of all chains."""
    surveyed = need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0:
        return {"facts": {"n_valid": 0}}
    plan, found = setting_of(job).checked.plan, []
    with Workers(1) as workers:
        for chain, told in enumerate(last.told):
            state = states_of(job, tile, chain).at(told.sweep)
            if state is None:
                raise RunError(f"The last state of tile {tile.number} was damaged. Resume with `pmlda resume`.")
            local = LocalChain.from_table(state["local"], plan)
            local.settle(told.take, workers)
            found.append(local.tally.summary(last.n_draws))
    joined = join(found, last.orders)
    mean, proportions, scales = joined.mean
    rows = np.argsort(need(job.store, "words", tile.number)["order"])
    std = np.zeros_like(mean) if joined.std is None else joined.std
    job.store.write("documents", tile.number, {"proportions": proportions, "scales": scales, "facts": {}})
    image = job.sources[tile.picture].read(tile.rows, tile.columns)
    shares = TileFound(mean[rows][:, last.order], std[rows][:, last.order]).as_shares(last.weights)
    return keep_maps(job, tile, first, image, shares)


# ── all tiles ──────────────────────────────────────────────────────────────────────────────────────────────────────
class TileChain:
    """One chain over all tiles; its last two states are in the store."""

    def __init__(self, job: Job, setting: Setting, number: int) -> None:
        rules = rules_of(setting.checked, setting.seed, setting.checked.fixed, number)
        self.number = number
        self.chain: Chain = new_chain(setting.engine, setting.family, rules, setting.start)
        self.recent: list[Told] = []
        self._states = LastTwo(job.store, f"topics-{number}", 0)
        kept = self._states.latest()
        if kept is not None:
            self.chain.take_up(kept["chain"])
            self.recent = list(kept["recent"])

    def told(self) -> list[Told]:
        """Instructions of the last two sweeps and of the next one."""
        return [*self.recent, self.chain.told()]

    def keep(self) -> None:
        """Write the state after a sweep."""
        self._states.write(self.chain.sweep, {"chain": self.chain.to_table(), "recent": self.recent})


def sample_tiles(job: Job, over_tiles: OverTiles, tiles: Sequence[Tile], firsts: Sequence[int]) -> list[Content]:
    """Run all sweeps of all chains, then write the maps and the recipe of the sampler; facts of the maps of each tile.

    firsts : for each tile, the number of documents in the tiles before it
    """
    begun = over_tiles("starting chains", begin, [(tile,) for tile in tiles])
    used = [tile for tile, each in zip(tiles, begun, strict=True) if each["n_words"]]
    setting = setting_of(job)
    chains = [TileChain(job, setting, number) for number in setting.chains]
    by_chain = {id(each.chain): each for each in chains}
    n_sweeps = setting.checked.plan.n_sweeps

    def step(going: list[Chain]) -> list[list[Sums]]:
        told = {id(chain): by_chain[id(chain)].told() for chain in going}
        calls = [(tile, by_chain[id(chain)].number, told[id(chain)]) for chain in going for tile in used]
        progress = (min(chain.sweep for chain in going) + 1, n_sweeps)
        sums = over_tiles("sweeps", sweep_tile, calls, progress)
        for chain in going:
            by_chain[id(chain)].recent = told[id(chain)][-2:]
        return [sums[i * len(used) : (i + 1) * len(used)] for i in range(len(going))]

    for chain, _ in sweeps([each.chain for each in chains], step, n_sweeps):
        by_chain[id(chain)].keep()
    last = _finish_topics(job, setting, [each.chain for each in chains])
    mapped = over_tiles("maps", finish, [(tile, first, last) for tile, first in zip(tiles, firsts, strict=True)])
    _keep_recipe(job, setting, [each.chain for each in chains], used, last)
    return mapped


def _finish_topics(job: Job, setting: Setting, chains: list[Chain]) -> Last:
    """Match the topics of all chains, and put them in the order of the maps."""
    records = [chain.record for chain in chains]
    orders = agreement(records, setting.checked.plan.n_sweeps, setting.checked.numbered)
    means = np.mean([r.mean_topics.means[o] for r, o in zip(records, orders, strict=True)], axis=0) + setting.origin
    features, scaling = recipe_of(job).features, recipe_of(job).scaling
    words = setting.family.mean_words(means)
    order = canonical_order(words, features, scaling, setting.checked.numbered)
    weights = share_weights(words, features, scaling)
    told = [chain.told() for chain in chains]
    return Last(told, orders, order, records[0].count, None if weights is None else weights[order])


def _keep_recipe(job: Job, setting: Setting, chains: list[Chain], tiles: Sequence[Tile], last: Last) -> None:
    """Store the recipe of the sampler: topics, and the proportions and scales of all documents."""
    found = documents_found(job, tiles, len(last.order), len(chains))
    fit = summarise([chain.record for chain in chains], found, last.orders, setting.checked.plan.n_sweeps)
    sizes = np.concatenate([document_sizes(job, tile) for tile in tiles])
    recipe = recipe_of(job)
    parameters = recipe.model.get_params(deep=False)
    parameters |= {"engine": setting.engine.name, "n_sweeps": job.settings.sweeps}
    family = setting.family.shifted(setting.origin)
    about = (recipe.model.n_features_in_, setting.seed, ON_PICTURES)
    model = recipe.model.from_fit(parameters, fit, sizes, family, setting.origin, *about)
    job.store.keep(POSTERIOR, Recipe(recipe.features, recipe.scaling, model, last.order, job.settings), save_recipe)


def documents_found(job: Job, tiles: Sequence[Tile], n_topics: int, n_chains: int) -> Found:
    """Proportions and scales of all documents; memberships stay with their tiles."""
    parts = [need(job.store, "documents", tile.number) for tile in tiles]
    no_words = np.empty((0, n_topics))
    proportions, scales = (np.concatenate([part[name] for part in parts]) for name in ("proportions", "scales"))
    draws = {
        "latent_sweeps": np.empty(0, np.int64),
        "proportions": np.empty((0, *proportions.shape)),
        "scales": np.empty((0, len(scales))),
        "memberships": np.empty((0, *no_words.shape), np.float32),
    }
    return Found((no_words, proportions, scales), [None] * n_chains, no_words, None, draws)
