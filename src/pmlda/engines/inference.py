"""Documents + checked parameters → a Fit, by the engine that the user chose."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import NamedTuple

import numpy as np

from pmlda.engines import collect, gibbs, gibbs_steps, paper, schedule, variational
from pmlda.engines.corpus import Held
from pmlda.engines.initial import start_latents, start_means, start_spread, start_topics
from pmlda.engines.parameters import Checked, fix_topics, fixed_documents, given_means
from pmlda.engines.proposals import make_proposals
from pmlda.errors import PmldaError
from pmlda.families import Family, Gaussian
from pmlda.model import draw_log_dirichlet
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import Report, silent
from pmlda.parallel.threads import Workers
from pmlda.storage.checkpoints import NoSeries, OpenSeries, Series, no_checkpoints
from pmlda.types import Documents, Estimate, Fit, FloatArray, Latents, Statistics, Topics

HELD_TOPICS = Held(means=True, spread=True)
# Starts of engine "variational" differ in their k-means and in how tightly topics are held.
SPREAD_PARTS = (1 / 16, 1.0, 1 / 16, 1 / 64)
# Sweeps over each batch of a stream, and over documents whose topics are known: memberships are then within 0.005 of
# where hundreds of sweeps would bring them.
BATCH_SWEEPS = 15
DOCUMENT_SWEEPS = 15


class Task(NamedTuple):
    """What every engine is given: centred documents and their family, parameters, seed, helpers, checkpoints."""

    documents: Documents
    family: Family
    checked: Checked
    seed: int
    workers: Workers
    report: Report = silent
    series: OpenSeries = no_checkpoints


class Chains(NamedTuple):
    """What is needed to go on sampling: collectors with the last states, and what is held."""

    collectors: list[collect.Collector]
    held: Held


class Outcome(NamedTuple):
    """A fit, and the chains that made it where sampling can go on."""

    fit: Fit
    chains: Chains | None = None


def fit(task: Task, offset: FloatArray) -> Outcome:
    """Learn everything. offset was subtracted from the words, and is to be from means that the user gave."""
    given = given_means(task.checked, task.family, task.documents.words.shape[1])
    if given is not None:
        given = given - offset
    return _ENGINES[task.checked.engine](task, given)


def transform(task: Task, topics: Topics) -> Fit:
    """Learn everything but the topics."""
    if task.checked.engine == "paper":
        rng = np.random.default_rng(task.seed)
        return _sample(task, HELD_TOPICS, lambda: _start_paper(task, topics, HELD_TOPICS, rng)).fit
    state = _settle(task, topics)
    if task.checked.engine == "gibbs":
        return _sample(task, HELD_TOPICS, lambda: _start_gibbs(task, state, HELD_TOPICS)).fit
    return _variational_result(task, state, [], interrupted=False, converged=True)


def weigh(task: Task, topics: Topics, a: FloatArray) -> Fit:
    """Memberships alone: topics and a = sπ of every document are known, and words do not depend on each other."""
    settings = _settings(task.checked)._replace(accelerate=False, steps=schedule.ALONE_STEPS, held=Held(*4 * [True]))
    start = variational.start(task.documents, topics, settings, a)
    state, info = next(variational.run(task.documents, task.family, start, settings, task.workers))
    return _variational_result(task, state, [info.bound], interrupted=False, converged=True)


def _settle(task: Task, topics: Topics) -> variational.State:
    """The variational posterior of documents with the topics held."""
    settings = _settings(task.checked)._replace(accelerate=False, held=HELD_TOPICS)
    state = _see_all_words(task, topics, None)
    # Always as many sweeps: a rule for stopping would let documents that are described together depend on each other.
    sweeps = variational.run(task.documents, task.family, state, settings, task.workers)
    return list(islice(sweeps, DOCUMENT_SWEEPS))[-1][0]


# ── samplers ───────────────────────────────────────────────────────────────────────────────────────────────────
def _fit_paper(task: Task, given: FloatArray | None) -> Outcome:
    def start() -> list[paper.State]:
        rng = np.random.default_rng(task.seed)
        means = _first_means(task, rng, given)
        topics = start_topics(rng, task.documents.words, task.family, means)
        return _start_paper(task, fix_topics(task.checked, task.family, topics, given), task.checked.held, rng)

    return _sample(task, task.checked.held, start)


def _start_paper(task: Task, topics: Topics, held: Held, rng: np.random.Generator) -> list[paper.State]:
    """Algorithm 1 from these topics."""
    latents = start_latents(rng, task.documents, task.family, topics, task.checked.scale_rate, task.workers)
    if held != HELD_TOPICS:
        log_pi, scales = fixed_documents(task.checked, latents.log_proportions, latents.scales)
        latents = latents._replace(log_proportions=log_pi, scales=scales)
    return [paper.State(0, topics, latents)]


def _fit_gibbs(task: Task, given: FloatArray | None) -> Outcome:
    def start() -> list[gibbs.State]:
        state, _, interrupted = _variational_state(task, given)
        if interrupted:
            raise KeyboardInterrupt("Interrupted before sampling began: there is no result yet.")
        if len(state.gamma) < len(task.documents.words):
            state = _see_all_words(task, state.topics, _known_documents(task))
        return _start_gibbs(task, state, task.checked.held)

    return _sample(task, task.checked.held, start)


def begin_chains(task: Task, topics: Topics) -> list[gibbs.State]:
    """Chains of the exact sampler from these topics, and from what words and documents are under them."""
    return _start_gibbs(task, _settle(task, topics), Held())


def _start_gibbs(task: Task, found: variational.State, held: Held) -> list[gibbs.State]:
    """Several chains of the exact sampler, all from the variational posterior, each with memberships drawn from it."""
    shapes, rates = make_proposals(np.maximum(found.gamma, 1e-8), found.a[task.documents.document])
    scales = found.a.sum(axis=1)
    log_pi = np.log(found.a) - np.log(scales)[:, None]
    states = []
    for chain in range(task.checked.n_chains):
        log_z = draw_log_dirichlet(np.random.default_rng([task.seed, chain]), shapes)
        latents = Latents(np.exp(log_z), log_z, log_pi.copy(), scales.copy())
        states.append(gibbs.start(found.topics, latents, task.family, held, shapes, rates))
    return states


def _sample(task: Task, held: Held, start: Callable[[], Sequence[collect.SamplerState]]) -> Outcome:
    """Chains from their last checkpoints, or else from the start, until they are done."""
    names = [f"chain {i + 1}" for i in range(task.checked.n_chains)] if task.checked.engine == "gibbs" else ["sampling"]
    kept = [task.series(name).read_latest() for name in names]
    states = start() if None in kept else []
    collectors = []
    for i, (name, content) in enumerate(zip(names, kept, strict=True)):
        collector = _collector(task, held, name)
        if content is None:
            collector.last = states[i]
        else:
            collector.take_up(content["state"], content["taken in"])
        collectors.append(collector)
    return extend(task, Chains(collectors, held), task.checked.plan.n_sweeps)


def _collector(task: Task, held: Held, name: str) -> collect.Collector:
    renumber = task.checked.interchangeable and not (held.means or held.spread or held.proportions)
    memory = task.checked.plan.draws_memory // (task.checked.n_chains if task.checked.engine == "gibbs" else 1)
    return collect.Collector(
        task.checked.plan._replace(draws_memory=memory),
        spread_per_topic=task.family.spread_per_topic,
        renumber=renumber,
        name=name,
    )


def extend(task: Task, chains: Chains, n_sweeps: int) -> Outcome:
    """Go on until every chain has made so many sweeps, chains in parallel."""
    held, checked = chains.held, task.checked
    renumber = checked.interchangeable and not (held.means or held.spread or held.proportions)

    def follow(number: int) -> None:
        collector = chains.collectors[number]
        alone = len(chains.collectors) == 1
        series = task.series(collector.name)

        def keep(over: bool) -> None:
            series.write_if_due(
                len(collector.trace),
                lambda: {"state": collector.last, "taken in": collector.taken_in()},
                at_once=over,
            )

        with nullcontext(task.workers) if alone else Workers(1) as workers:
            run = _sampler(task, chains, number, workers)
            collector.follow(run, n_sweeps, interrupted, workers, task.report, keep)

    with deferred_interrupt() as interrupted:
        task.workers.map(follow, range(len(chains.collectors)))
    fits = [collector.finish(n_sweeps) for collector in chains.collectors]
    joined = collect.join_chains(fits, spread_per_topic=task.family.spread_per_topic, renumber=renumber)
    return Outcome(joined, chains)


def _sampler(task: Task, chains: Chains, number: int, workers: Workers) -> collect.Run:
    """The engine's run from the chain's last state."""
    checked, state = task.checked, chains.collectors[number].last
    seed = (task.seed + 1_000_003 * number) % 2**31
    if isinstance(state, gibbs.State):
        settings = gibbs_steps.Settings(checked.alpha, checked.scale_rate, seed, checked.plan.burn_in, chains.held)
        return gibbs.run(task.documents, task.family, state, settings, workers)
    assert isinstance(state, paper.State)
    steps = checked.document_steps, checked.prior_steps
    return paper.run(
        task.documents,
        task.family,
        state,
        paper.Settings(checked.alpha, checked.scale_rate, seed, *steps, chains.held),
        workers,
    )


def _first_means(task: Task, rng: np.random.Generator, given: FloatArray | None) -> FloatArray:
    if given is not None:
        return given
    if task.checked.init == "prior":
        return task.family.draw_topics(rng, task.checked.n_topics).means
    return start_means(rng, task.documents, task.family, task.checked.n_topics)


# ── variational ────────────────────────────────────────────────────────────────────────────────────────────────
def _settings(checked: Checked) -> variational.Settings:
    return variational.Settings(checked.alpha, checked.scale_rate, held=checked.held)


def _fit_variational(task: Task, given: FloatArray | None) -> Outcome:
    state, trace, interrupted = _variational_state(task, given)
    if len(state.gamma) < len(task.documents.words):  # stopped before every word was seen
        state = _see_all_words(task, state.topics, _known_documents(task))
    converged = len(trace) < task.checked.variational_plan.n_sweeps
    return Outcome(_variational_result(task, state, trace, interrupted=interrupted, converged=converged))


def _variational_state(task: Task, given: FloatArray | None) -> tuple[variational.State, list[float], bool]:
    """The last state of a variational fit, its bounds, and whether Ctrl-C ended it."""
    checked, documents = task.checked, task.documents
    series = task.series("variational")
    kept = series.read_latest()
    since = None if kept is None else (kept["state"], kept["progress"])
    if kept is not None and since is not None and kept["complete"]:
        return since[0], list(since[1].bounds), False
    rng = np.random.default_rng(task.seed)
    starts = []
    for i in range(1 if given is not None else checked.n_init):
        means = _first_means(task, rng, given)
        topics = start_spread(rng, documents.words, task.family, means, SPREAD_PARTS[i % len(SPREAD_PARTS)])
        starts.append(fix_topics(checked, task.family, topics, given))
    plan = checked.variational_plan
    stages = schedule.fit(
        documents, task.family, starts, _known_documents(task), _settings(checked), plan, rng, task.workers, since
    )
    return _follow(stages, task.report, plan.n_sweeps, series, since)


def _known_documents(task: Task) -> FloatArray | None:
    """(D, K) s·π of every document where the user fixed one of them, the other at its prior mean."""
    held, checked = task.checked.held, task.checked
    if not (held.proportions or held.scales):
        return None
    n_documents = len(task.documents.sizes)
    pi = np.tile(checked.alpha / checked.alpha.sum(), (n_documents, 1))
    log_pi, scales = fixed_documents(checked, np.log(pi), np.full(n_documents, 1.0 / checked.scale_rate))
    return np.maximum(scales[:, None] * np.exp(log_pi), 1e-8)


def _follow(
    stages: Iterator[schedule.Place],
    report: Report,
    n_sweeps: int,
    series: Series | NoSeries,
    since: schedule.Place | None,
) -> tuple[variational.State, list[float], bool]:
    """The last state, the bounds of the stage that found the topics, and whether Ctrl-C ended it."""
    n_trials, place, stopped = 0, since, False

    def offer(state: variational.State, progress: schedule.Progress, *, at_once: bool, complete: bool) -> None:
        if progress.stage != schedule.STARTS:  # which take a moment, and are compared again
            n_done = len(progress.bounds) + (state.sweep if progress.stage == schedule.ALL_WORDS else 0)
            table = {"state": state, "progress": progress, "complete": complete}
            series.write_if_due(n_done, lambda: table, at_once=at_once)

    with deferred_interrupt() as interrupted:
        for state, progress in stages:
            place = state, progress
            n_trials += progress.stage == schedule.STARTS
            done = n_trials if progress.stage == schedule.STARTS else state.sweep
            report(progress.stage, done, n_sweeps, bound_per_word=progress.info.bound / len(state.gamma))
            stopped = interrupted()
            offer(state, progress, at_once=stopped, complete=False)
            if stopped:
                break
    if place is None:
        raise PmldaError("A variational fit needs at least one sweep.")
    if not stopped:
        offer(*place, at_once=True, complete=True)
    return place[0], list(place[1].bounds), stopped


def _see_all_words(task: Task, topics: Topics, a: FloatArray | None) -> variational.State:
    settings = _settings(task.checked)._replace(accelerate=False, steps=schedule.FIRST_STEPS, held=HELD_TOPICS)
    start = variational.start(task.documents, topics, settings, a)
    sweeps = variational.run(task.documents, task.family, start, settings, task.workers)
    return next(sweeps)[0]


def _variational_result(
    task: Task, state: variational.State, trace: list[float], *, interrupted: bool, converged: bool
) -> Fit:
    scales = state.a.sum(axis=1)
    corpus = variational.Corpus(task.documents, task.family, task.workers)
    estimate = Estimate(state.topics, corpus.posterior_means(state), state.a / scales[:, None], scales)
    return Fit(estimate, None, None, np.array(trace), {}, None, interrupted, state.gamma, converged)


# ── streams ────────────────────────────────────────────────────────────────────────────────────────────────────
class Memory(NamedTuple):
    """What is remembered of earlier batches: averages over words, how many words, how many batches.

    gram, weighted : E[zzᵀ] and E[z] T(x)ᵀ
    base : xxᵀ, or whatever the family needs of words alone
    """

    gram: FloatArray
    weighted: FloatArray
    base: FloatArray
    n_words: float
    n_batches: int


def update(task: Task, topics: Topics | None, memory: Memory | None, offset: FloatArray) -> tuple[Fit, Memory]:
    """Learn from one more batch of documents; the first batch is an ordinary fit.

    Averages move towards those of the batch by max(its share of all words, (batches + 1)^-0.7): early batches were seen
    with poorer topics and are forgotten, and the steps become small (Robbins and Monro 1951; Hoffman et al. 2013).
    """
    if topics is None or memory is None:
        first = fit(task, offset).fit
        topics, memory, rate = first.mean.topics, None, 1.0
        a = first.mean.proportions * first.mean.scales[:, None]
        state = variational.start(task.documents, topics, _settings(task.checked), a)
        if first.concentrations is not None:
            state = state._replace(gamma=first.concentrations)
    else:
        state = _settle(task, topics)
        total = memory.n_words + len(task.documents.words)
        rate = max(len(task.documents.words) / total, (memory.n_batches + 1) ** -0.7)
    corpus = variational.Corpus(task.documents, task.family, task.workers)
    settings = _settings(task.checked)
    for _ in range(BATCH_SWEEPS):
        local = corpus.local_step(state, settings)
        corpus.document_step(state.a, local.sum_log_z, settings, variational.DOCUMENT_STEPS)
        learnt = _remember(memory, local, corpus, rate)
        state = state._replace(topics=_blend(task, corpus, state, topics, learnt, local, rate))
    return _variational_result(task, state, [local.bound], interrupted=False, converged=True), learnt


def _blend(
    task: Task,
    corpus: variational.Corpus,
    state: variational.State,
    before: Topics,
    learnt: Memory,
    local: variational.Local,
    rate: float,
) -> Topics:
    """Topics that suit the batch and the memory: the best ones where sums tell, otherwise part of the way there."""
    family, held, n = task.family, task.checked.held, learnt.n_words
    if isinstance(family, Gaussian):
        sums = Statistics(n * learnt.gram, n * learnt.weighted)
        return variational.best_topics(family, state.topics, sums, n * learnt.base, n, held)
    better, old = family.free(corpus.topic_step(state, local.statistics, held)), family.free(before)
    return family.from_free(Topics(*((1.0 - rate) * a + rate * b for a, b in zip(old, better, strict=True))))


def _remember(memory: Memory | None, local: variational.Local, corpus: variational.Corpus, rate: float) -> Memory:
    """Averages that have moved towards those of a batch."""
    n = len(corpus.documents.words)
    batch = (local.statistics.gram / n, local.statistics.weighted / n, corpus.base / n)
    if memory is None:
        return Memory(*batch, float(n), 1)
    gram, weighted, base = ((1.0 - rate) * old + rate * new for old, new in zip(memory[:3], batch, strict=True))
    return Memory(gram, weighted, base, memory.n_words + n, memory.n_batches + 1)


_ENGINES: dict[str, Callable[[Task, FloatArray | None], Outcome]] = {
    "variational": _fit_variational,
    "gibbs": _fit_gibbs,
    "paper": _fit_paper,
}
