"""Engine "gibbs" over blocks: memberships stay on disk beside their block, and only sums over words travel.

A sweep maps a step over all blocks, adds up what comes back, and draws topics from the sums: the same exact sampler as
for a picture in one piece, since words of different documents depend on each other through the topics alone.

Each block keeps the states after its last two sweeps, and so does each chain of the topics. Whatever a kill or a
damaged file leaves is enough to go on: a sweep that was done is not done again, and one that was lost follows from the
one before.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pmlda.engines import gibbs, gibbs_steps
from pmlda.engines.collect import match_topics
from pmlda.engines.corpus import Held
from pmlda.engines.diagnostics import MIN_DRAWS, diagnose, too_short
from pmlda.engines.documents import group_rows
from pmlda.engines.inference import Task, begin_chains
from pmlda.engines.paper import Addressed
from pmlda.engines.parameters import Checked, check_parameters
from pmlda.engines.proposals import Proposals
from pmlda.families import Conjugate
from pmlda.parallel.threads import Workers
from pmlda.pipeline.api import canonical_order
from pmlda.pipeline.parts import Content, need_part, read_part, write_part
from pmlda.pipeline.steps import Job, chain_of, features_of, keep_maps
from pmlda.pipeline.tiles import Block
from pmlda.recipe import save_chain
from pmlda.storage.run_folder import RunError
from pmlda.types import Documents, FloatArray, IntArray, Latents, Statistics, Topics

FREE = Held()


class Model(NamedTuple):
    """What all blocks share: family and settings, around an origin that is subtracted from words and means."""

    family: Conjugate
    checked: Checked
    start: Topics
    origin: FloatArray
    seed: int


def model_of(job: Job) -> Model:
    """From what was learnt of a sample."""
    _, fitted = chain_of(job)
    origin = fitted.topic_means_.mean(axis=0)
    family = fitted.family_.shifted(-origin).conjugate
    assert family is not None  # settings offer no other
    parameters = fitted.get_params(deep=False) | {"engine": "gibbs", "n_sweeps": job.settings.sweeps}
    checked = check_parameters(parameters, n_words=2**31)
    spread = np.asarray(fitted.noise_variance_, dtype=np.float64)
    return Model(family, checked, Topics(fitted.topic_means_ - origin, spread), origin, job.settings.seed)


def chain_seed(model: Model, chain: int) -> int:
    return (model.seed + 1_000_003 * chain) % 2**31


def settings_of(model: Model, chain: int, block: int) -> gibbs_steps.Settings:
    """Every block has random numbers of its own: its number is the upper half of their key."""
    key = chain_seed(model, chain) + (block + 1) * 2**32
    return gibbs_steps.Settings(model.checked.alpha, model.checked.scale_rate, key, model.checked.plan.burn_in, FREE)


# ── steps of a block ───────────────────────────────────────────────────────────────────────────────────────────────
def stage_of(chain: int, sweep: int) -> str:
    """Where a state is kept: sweeps take turns, so that two are always there."""
    return f"chain-{chain}-{'even' if sweep % 2 == 0 else 'odd'}"


def begin(job: Job, block: Block) -> Content:
    """Words of the block by document, and the first state of every chain."""
    if need_part(job.folder, "survey", block.number)["facts"]["n_valid"] == 0:
        return {"n_words": 0}
    kept = read_part(job.folder, "words", block.number)
    model = model_of(job)
    if kept is None:
        labels = np.asarray(need_part(job.folder, "survey", block.number)["labels"], np.int64)
        image, values = features_of(job, block)
        words = group_rows(chain_of(job)[0].scaling.apply(values), labels[image.valid])
        kept = words._asdict()
        write_part(job.folder, "words", block.number, kept)
    documents = documents_of(kept, model)
    with Workers(1) as workers:
        task = Task(documents, model.family, model.checked, model.seed + block.number, workers)
        if not all(has_state(job, block, chain) for chain in chains(model)):
            for chain, state in enumerate(begin_chains(task, model.start)):
                if not has_state(job, block, chain):
                    write_state(job, block, chain, state, None, {})
        base = gibbs_steps.Corpus(documents, model.family, workers).base
    return {"n_words": len(documents.words), "base": base}


def chains(model: Model) -> range:
    return range(model.checked.n_chains)


def documents_of(kept: Content, model: Model) -> Documents:
    documents = Documents(**kept)
    return documents._replace(words=documents.words - model.origin)


class Sums(NamedTuple):
    """Over draws after warm-up: how many, and of memberships, topics in one order, also squared."""

    n_draws: int
    total: FloatArray
    squares: FloatArray


class Given(NamedTuple):
    """What a sweep is given: topics, and how they are numbered in the sums over draws; None while warming up."""

    topics: Topics
    order: IntArray | None


def sweep_block(job: Job, block: Block, chain: int, sweep: int, recent: list[Given]) -> Content:
    """Sweep number `sweep` (from 1) of one chain in one block: the sums that its topics need.

    recent : what the last sweeps were given and this one is, which is the last. Where the newest state of the block is
        damaged, the one before is taken a sweep further once more
    """
    done = read_state(job, block, chain, sweep)
    if done is not None:
        return dict(done["facts"])
    state = read_state(job, block, chain, sweep - 1)
    if state is None and len(recent) > 1:
        sweep_block(job, block, chain, sweep - 1, recent[:-1])
        state = read_state(job, block, chain, sweep - 1)
    if state is None:
        raise RunError(
            f"Both kept states of block {block.number} are damaged, so the run cannot go on. Remove its folder and "
            "start again."
        )
    return _advance(job, block, chain, sweep, state, recent[-1])


def _advance(job: Job, block: Block, chain: int, sweep: int, kept: Content, given: Given) -> Content:
    model = model_of(job)
    documents = documents_of(need_part(job.folder, "words", block.number), model)
    settings = settings_of(model, chain, block.number)
    latents = Latents(**kept["latents"])
    proposals = Proposals(**kept["proposals"])
    tuning = gibbs.Tuning(kept["widths"], kept["stretches"], [], proposals)
    state = gibbs.State(sweep - 1, given.topics, latents, tuning)
    with Workers(1) as workers:
        corpus = gibbs_steps.Corpus(documents, model.family, workers)
        ensemble = gibbs_steps.make_ensemble(latents, settings)
        rng = np.random.default_rng(0)  # nothing is drawn with it: topics that are drawn do not walk
        _, _, acceptance = gibbs.move_words(corpus, state, ensemble, settings, rng)
        statistics = corpus.statistics(latents)
        facts = {
            "gram": statistics.gram,
            "weighted": statistics.weighted,
            "log_hidden": corpus.log_hidden(latents, settings),
            "acceptance": acceptance,
        }
    sums = None if kept["sums"] is None else Sums(**kept["sums"])
    if given.order is not None:
        z = latents.memberships[:, given.order]
        sums = sums or Sums(0, np.zeros_like(z), np.zeros_like(z))
        sums = Sums(sums.n_draws + 1, sums.total + z, sums.squares + z * z)
    write_state(job, block, chain, state._replace(sweep=sweep), sums, facts)
    return facts


def has_state(job: Job, block: Block, chain: int) -> bool:
    """Whether there is a sound state of any sweep."""
    return any(read_part(job.folder, stage_of(chain, sweep), block.number) is not None for sweep in (0, 1))


def read_state(job: Job, block: Block, chain: int, sweep: int) -> Content | None:
    """A block's state after this sweep, or None."""
    found = read_part(job.folder, stage_of(chain, sweep), block.number)
    return found if found is not None and found["sweep"] == sweep else None


def write_state(job: Job, block: Block, chain: int, state: gibbs.State, sums: Sums | None, facts: Content) -> None:
    content = {
        "sweep": state.sweep,
        "facts": facts,
        "latents": state.latents._asdict(),
        "widths": state.tuning.widths,
        "stretches": state.tuning.stretches,
        "proposals": state.tuning.proposals._asdict(),
        "sums": None if sums is None else sums._asdict(),
    }
    write_part(job.folder, stage_of(chain, state.sweep), block.number, content, durable=False)  # the disk is too slow


def write_posterior(job: Job, block: Block, last: int, orders: list[IntArray]) -> Content:
    """Maps of a block from the draws of all chains.

    orders : for each chain, how its topics are to be numbered to agree with the maps
    """
    found = read_part(job.folder, "maps", block.number)
    if found is None:
        found = _posterior(job, block, last, orders)
        write_part(job.folder, "maps", block.number, found)
    facts: Content = found["facts"]
    return facts


def _posterior(job: Job, block: Block, last: int, orders: list[IntArray]) -> Content:
    if need_part(job.folder, "survey", block.number)["facts"]["n_valid"] == 0:
        return {"facts": {"n_valid": 0}}
    count, total, squares = 0, np.zeros(1), np.zeros(1)
    for chain, order in enumerate(orders):
        state = read_state(job, block, chain, last)
        if state is None:
            raise RunError(f"The last state of block {block.number} was damaged. Go on with `pmlda resume`.")
        sums = Sums(**state["sums"])
        count, total, squares = (
            count + sums.n_draws,
            total + sums.total[:, order],
            squares + sums.squares[:, order],
        )
    rows = np.asarray(need_part(job.folder, "words", block.number)["order"])
    mean, std = np.empty(total.shape, np.float32), np.empty(total.shape, np.float32)
    mean[rows] = total / count
    std[rows] = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    image = job.source.read(block.rows, block.columns)
    return keep_maps(job, block, image, mean, std)


# ── the topics ─────────────────────────────────────────────────────────────────────────────────────────────────────
OverBlocks = Callable[..., list[Any]]


class TopicChain:
    """The topics of one chain: all draws, kept on disk after every sweep."""

    def __init__(self, job: Job, model: Model, number: int, base: FloatArray, n_words: int) -> None:
        self.job, self.model, self.number = job, model, number
        self._base, self._n_words = base, n_words
        self._random = Addressed(chain_seed(model, number))
        self.draws = [model.start]
        self.trace: list[float] = []
        kept = [read_part(job.folder, f"topics-{number}", side) for side in (0, 1)]
        newest = max((part for part in kept if part is not None), key=lambda part: len(part["trace"]), default=None)
        if newest is not None:
            self.draws = [Topics(*pair) for pair in zip(newest["means"], newest["spread"], strict=True)]
            self.trace = list(newest["trace"])

    @property
    def sweep(self) -> int:
        return len(self.trace)

    def given(self) -> list[Given]:
        """What the next sweep is given, after what the last two were."""
        warm_up = self.model.checked.plan.burn_in
        found = []
        for sweep in range(max(self.sweep - 2, 0), self.sweep + 1):
            topics = self.draws[sweep]
            found.append(Given(topics, None if sweep < warm_up else match_topics(self.draws[warm_up], topics)))
        return found

    def take(self, facts: Sequence[Content]) -> None:
        """Draw topics from the sums of all blocks, added up as a tree."""
        family = self.model.family
        gram, weighted, hidden = (add_up([each[name] for each in facts]) for name in ("gram", "weighted", "log_hidden"))
        statistics = Statistics(gram, weighted)
        rng = self._random.at(self.sweep)
        topics = gibbs.draw_topics(rng, family, self.draws[-1], statistics, self._base, self._n_words, FREE)
        log_words = gibbs.log_words_of(family, topics, statistics, self._base, self._n_words)
        self.trace.append(log_words + float(hidden) + gibbs.free_prior(family, topics, FREE))
        self.draws.append(topics)
        content = {
            "trace": np.array(self.trace),
            "means": np.stack([each.means for each in self.draws]),
            "spread": np.stack([each.spread for each in self.draws]),
        }
        write_part(self.job.folder, f"topics-{self.number}", self.sweep % 2, content, durable=False)

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """(S, K, p) means and (S, …) spread after warm-up, topics in the order of the first of them."""
        kept = self.draws[self.model.checked.plan.burn_in + 1 :]
        orders = [match_topics(self.draws[self.model.checked.plan.burn_in], each) for each in kept]
        means = [each.means[order] for each, order in zip(kept, orders, strict=True)]
        return np.stack(means), np.stack([each.spread for each in kept])


def add_up(parts: Sequence[Any]) -> Any:
    """The sum, neighbours first, then neighbours of these: as exact as it is fast, and always the same."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [parts[i] + parts[i + 1] for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def follow_chains(job: Job, over_blocks: OverBlocks, blocks: list[Block]) -> str:
    """All sweeps of all chains, then the maps; a verdict on whether chains agree."""
    begun = over_blocks("starting chains", begin, [(block,) for block in blocks])
    model = model_of(job)
    used = [block for block, each in zip(blocks, begun, strict=True) if each["n_words"]]
    base = add_up([each["base"] for each in begun if each["n_words"]])
    n_words = sum(each["n_words"] for each in begun)
    all_chains = [TopicChain(job, model, number, base, n_words) for number in chains(model)]
    total = model.checked.plan.n_sweeps
    while any(chain.sweep < total for chain in all_chains):
        going = [(chain, chain.given()) for chain in all_chains if chain.sweep < total]
        calls = [(block, chain.number, chain.sweep + 1, given) for chain, given in going for block in used]
        facts = over_blocks("sweeps", sweep_block, calls, (min(chain.sweep for chain in all_chains) + 1, total))
        for chain in all_chains:
            own = [each for call, each in zip(calls, facts, strict=True) if call[1] == chain.number]
            if own:
                chain.take(own)
    return _finish(job, model, all_chains, over_blocks, blocks)


def _finish(job: Job, model: Model, all_chains: list[TopicChain], over_blocks: OverBlocks, blocks: list[Block]) -> str:
    """Posterior means of topics and memberships, chains numbered alike, topics in the order of the maps."""
    chain, fitted = chain_of(job)
    draws = [each.posterior() for each in all_chains]
    first = Topics(draws[0][0].mean(axis=0), draws[0][1].mean(axis=0))
    agree = [match_topics(first, Topics(means.mean(axis=0), spread.mean(axis=0))) for means, spread in draws]
    means = np.stack([each[0][:, order] for each, order in zip(draws, agree, strict=True)])
    spread = np.stack([each[1] for each in draws])
    learnt = type(fitted)(**fitted.get_params(deep=False) | {"engine": "gibbs", "n_sweeps": job.settings.sweeps})
    for name in [name for name in vars(fitted) if name.endswith("_")]:
        setattr(learnt, name, getattr(fitted, name))
    learnt.topic_means_ = means.mean(axis=(0, 1)) + model.origin
    mean_spread = spread.mean(axis=(0, 1))
    learnt.noise_variance_ = float(mean_spread) if mean_spread.ndim == 0 else mean_spread
    learnt.n_iter_ = len(all_chains[0].trace)
    canonical = canonical_order(learnt.topic_means_)
    orders = [order[canonical] for order in agree]
    calls = [(block, model.checked.plan.n_sweeps, orders) for block in blocks]
    over_blocks("maps", write_posterior, calls)
    if means.shape[1] < MIN_DRAWS:
        learnt.verdict_ = too_short(learnt.n_iter_)
    else:  # the advice of a fit in memory does not hold for blocks
        learnt.verdict_ = diagnose({"means": means, "spread": spread}).verdict._replace(advice="")
    save_chain(job.posterior, chain._replace(model=learnt, order=canonical))
    return str(learnt.verdict_)
