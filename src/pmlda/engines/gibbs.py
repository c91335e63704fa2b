"""The exact sampler: proportions, scales and topics move while every word stands for several candidate memberships.

A sweep: fresh candidates for every word; random walks of every document's ln(sπ) and of the topics, words summed over
their candidates; one candidate chosen for each word; then topics once more, from their conjugate distribution given
the memberships where there is one. kernels.gibbs says why this is exact. Step lengths are learnt while warming up, and
then stay.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from pmlda.engines.corpus import Cut, Group, Held, add_statistics
from pmlda.engines.paper import Addressed
from pmlda.families import Family, Gaussian
from pmlda.kernels import gibbs as kernels
from pmlda.kernels import paper as kernels_paper
from pmlda.types import Documents, FloatArray, IntArray, Latents, Statistics, Topics
from pmlda.workers import Workers

Result = TypeVar("Result")

# Candidates for each word: as many as memory allows, within these limits.
MOST_CANDIDATES, LEAST_CANDIDATES = 4, 3
CANDIDATE_BYTES = 2**28
# Rounds of each document's walk, steps of the topics' walk, rounds of exchanges between topics, per sweep.
DOCUMENT_ROUNDS, TOPIC_STEPS, TRANSFER_ROUNDS = 1, 8, 8
# All topics walk together up to this many numbers, otherwise one by one.
MOST_TOGETHER = 64


class Settings(NamedTuple):
    """How to sweep.

    alpha, scale_rate : (K,) and number, the priors of π and s
    seed : of all random numbers
    warm_up : sweeps in which step lengths are learnt
    held : what does not move
    n_candidates : S, or None to take what memory allows
    """

    alpha: FloatArray
    scale_rate: float
    seed: int
    warm_up: int = 0
    held: Held = Held()
    n_candidates: int | None = None


class Tuning(NamedTuple):
    """What warm-up has learnt.

    widths : (D, K + 1) step lengths of each document's ln s and ln a_k
    stretches : (D, K + 1) step lengths of each document's a_k, and of all of them, together with its memberships
    walks : of the topics
    """

    widths: FloatArray
    stretches: FloatArray
    walks: list["Walk"]


class State(NamedTuple):
    """After `sweep` sweeps. Latents and tuning are updated in place: copy what you want to keep."""

    sweep: int
    topics: Topics
    latents: Latents
    tuning: Tuning


class Info(NamedTuple):
    """What is reported of a sweep, as in engines.paper."""

    log_joint: float
    acceptance: dict[str, float]


def start(topics: Topics, latents: Latents, family: Family, n_words: int, held: Held) -> State:
    """The state before the first sweep, with step lengths to begin with."""
    n_documents, n_topics = latents.log_proportions.shape
    widths = np.full((n_documents, n_topics + 1), 0.5)
    stretches = np.full((n_documents, n_topics + 1), 0.3)
    return State(0, topics, latents, Tuning(widths, stretches, make_walks(family, topics, n_words, held)))


def run(
    documents: Documents,
    family: Family,
    state: State,
    settings: Settings,
    shapes: FloatArray,
    workers: Workers,
    rates: FloatArray | None = None,
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state; the caller decides when to stop.

    shapes, rates : (N, K) of the gamma variables that make candidates; rates of one are a Dirichlet distribution
    """
    if rates is None:
        rates = np.ones_like(shapes)
    corpus = Corpus(documents, family, workers)
    topics, latents, tuning = state.topics, state.latents, state.tuning
    n_words, n_topics = shapes.shape
    n_candidates = settings.n_candidates or count_candidates(n_words, n_topics)
    log_q, fits, rest = (np.empty((n_words, n_candidates)) for _ in range(3))
    shape = (n_words, n_candidates, n_topics)
    ensemble = Ensemble(np.empty(shape), np.empty((n_words, n_topics, n_candidates)), log_q, fits, rest)
    generator = Addressed(settings.seed)
    for sweep in range(state.sweep, 2**32):
        rng = generator.at(sweep)
        learning = sweep < settings.warm_up
        corpus.draw_candidates(shapes, rates, latents, ensemble, settings, sweep)
        corpus.candidate_fits(topics, ensemble)
        acceptance = corpus.document_step(latents, ensemble, tuning.widths, settings, sweep, learning)
        topics, walked = corpus.walk_topics(rng, topics, ensemble, tuning.walks, learning)
        acceptance["memberships"] = corpus.choose(ensemble, latents, settings, sweep)
        acceptance |= corpus.stretch_step(topics, latents, tuning.stretches, settings, sweep, learning)
        acceptance["transfers"], fit = corpus.transfer_step(topics, latents, settings, sweep)
        if walked is not None:
            acceptance["topics"] = walked
        if isinstance(family, Gaussian) and not (settings.held.means and settings.held.spread):
            statistics = corpus.statistics(latents)
            topics = corpus.draw_topics(rng, topics, statistics, settings.held)
            log_words = corpus.log_words(topics, statistics)
        else:
            log_words = fit + family.log_base_total(corpus.base, n_words, topics)
        log_joint = log_words + corpus.log_hidden(latents, settings) + free_prior(family, topics, settings.held)
        yield State(sweep + 1, topics, latents, tuning), Info(log_joint, acceptance)


def count_candidates(n_words: int, n_topics: int) -> int:
    """How many candidates for each word fit in memory."""
    return int(np.clip(CANDIDATE_BYTES // (8 * n_words * (2 * n_topics + 3)), LEAST_CANDIDATES, MOST_CANDIDATES))


def free_prior(family: Family, topics: Topics, held: Held) -> float:
    """Log prior of the topics' blocks that are not held."""
    prior = family.log_prior(topics)
    return float((0.0 if held.means else prior.means.sum()) + (0.0 if held.spread else prior.spread.sum()))


def concentrations(latents: Latents) -> FloatArray:
    """(D, K) a = sπ."""
    return np.asarray(np.maximum(np.exp(latents.log_proportions) * latents.scales[:, None], 1e-290))


def set_concentrations(latents: Latents, a: FloatArray) -> None:
    """Latents with s and π of these a, in place."""
    latents.scales[:] = a.sum(axis=1)
    latents.log_proportions[:] = np.log(a) - np.log(latents.scales)[:, None]


class Ensemble(NamedTuple):
    """Candidates ln z (N, S, K) and z (N, K, S); ln q, fit z·ℓ − A(z), and prior minus ln q, all (N, S)."""

    candidates: FloatArray
    shares: FloatArray
    log_q: FloatArray
    fits: FloatArray
    rest: FloatArray


class Corpus(Cut):
    """The documents with the steps that visit them, shared among workers."""

    def _each(self, function: Callable[[Group], Result], n_words: int) -> list[Result]:
        """function for every group; a word costs about as much as ten of engine "paper"."""
        return self.workers.map(function, self.groups, n_words=10 * n_words)

    def draw_candidates(
        self,
        shapes: FloatArray,
        rates: FloatArray,
        latents: Latents,
        ensemble: Ensemble,
        settings: Settings,
        sweep: int,
    ) -> None:
        """Fresh candidates, and their ln q."""
        self._each(
            lambda group: kernels.draw_candidates(
                shapes,
                rates,
                latents.log_memberships,
                self.segments[group.segments],
                self.documents.starts,
                np.uint64(settings.seed),
                sweep,
                ensemble.candidates,
                ensemble.shares,
                ensemble.log_q,
            ),
            len(shapes),
        )

    def candidate_fits(self, topics: Topics, ensemble: Ensemble) -> None:
        """The fits of all candidates under these topics."""
        family, words = self.family, self.documents.words
        table = family.table(topics)
        self._each(
            lambda group: kernels.candidate_fits(
                family.code,
                table,
                family.constant,
                family.scores(words[group.words], topics),
                ensemble.shares,
                group.words.start,
                group.words.stop,
                ensemble.fits,
            ),
            len(words),
        )

    def document_step(
        self,
        latents: Latents,
        ensemble: Ensemble,
        widths: FloatArray,
        settings: Settings,
        sweep: int,
        learning: bool,
    ) -> dict[str, float]:
        """Walk every document's ln(sπ), in place; ensemble.rest follows. The shares accepted."""
        held = settings.held
        a = concentrations(latents)
        accepted = np.zeros_like(widths)
        if not (held.proportions and held.scales):
            weights = ensemble.fits - ensemble.log_q
            self.workers.map(
                lambda share: kernels.document_step(
                    settings.alpha,
                    settings.scale_rate,
                    a,
                    self.documents.starts,
                    ensemble.candidates,
                    weights,
                    widths,
                    np.uint64(settings.seed),
                    sweep,
                    DOCUMENT_ROUNDS,
                    held.proportions,
                    held.scales,
                    *share,
                    accepted,
                ),
                self.workers.share(self.sizes * 10 * (1 + ensemble.fits.shape[1])),
            )
            if held.proportions:
                latents.scales[:] = a.sum(axis=1)
            elif held.scales:
                latents.log_proportions[:] = np.log(a / a.sum(axis=1, keepdims=True))
            else:
                set_concentrations(latents, a)
            if learning:  # towards 44 % accepted, ever more gently
                widths *= np.exp((accepted - 0.44) * 2.0 / np.sqrt(sweep + 1.0))
        self._each(
            lambda group: kernels.weigh_candidates(
                a,
                self.documents.document,
                ensemble.candidates,
                ensemble.log_q,
                group.words.start,
                group.words.stop,
                ensemble.rest,
            ),
            len(self.documents.words),
        )
        shares = {"scales": accepted[:, 0].mean(), "proportions": accepted[:, 1:].mean()}
        fixed = {"scales": held.scales, "proportions": held.proportions}
        return {name: float(share) for name, share in shares.items() if not fixed[name]}

    def log_marginal(self, ensemble: Ensemble) -> float:
        """Σ_n ln Σ_j of the candidates' weights."""
        parts = self._each(
            lambda group: kernels.log_marginals(ensemble.fits, ensemble.rest, group.words.start, group.words.stop),
            len(ensemble.fits),
        )
        return float(sum(parts))

    def walk_topics(
        self, rng: np.random.Generator, topics: Topics, ensemble: Ensemble, walks: list["Walk"], learning: bool
    ) -> tuple[Topics, float | None]:
        """Random walks of the topics; ensemble.fits are those of the topics returned."""
        if not walks:
            return topics, None
        family, n_words = self.family, len(self.documents.words)

        def log_density(at: Topics) -> float:
            self.candidate_fits(at, ensemble)
            base = family.log_base_total(self.base, n_words, at)
            return self.log_marginal(ensemble) + base + family.log_free_prior(at)

        value = log_density(topics)
        accepted = 0
        n_steps = max(TOPIC_STEPS, len(walks))
        for step in range(n_steps):
            walk = walks[step % len(walks)]
            proposed = walk.propose(rng, family, topics)
            threshold = np.log(rng.random())
            taken = False
            if proposed is not None:
                kept = ensemble.fits.copy()
                new = log_density(proposed)
                taken = bool(threshold < new - value)
                if taken:
                    topics, value = proposed, new
                else:
                    ensemble.fits[:] = kept
            accepted += taken
            if learning:
                walk.learn(family, topics, taken)
        return topics, accepted / n_steps

    def stretch_step(
        self,
        topics: Topics,
        latents: Latents,
        stretches: FloatArray,
        settings: Settings,
        sweep: int,
        learning: bool,
    ) -> dict[str, float]:
        """Move every a_k of every document together with its memberships, in place; the share accepted."""
        if settings.held.proportions or settings.held.scales or latents.memberships.shape[1] == 1:
            return {}
        family, words = self.family, self.documents.words
        table = family.table(topics)
        scores = np.concatenate(self._each(lambda group: family.scores(words[group.words], topics), len(words)))
        a = concentrations(latents)
        accepted = np.zeros_like(stretches)
        self.workers.map(
            lambda share: kernels.stretch_step(
                family.code,
                table,
                family.constant,
                scores,
                latents.memberships,
                latents.log_memberships,
                settings.alpha,
                settings.scale_rate,
                a,
                self.documents.starts,
                stretches,
                np.uint64(settings.seed),
                sweep,
                *share,
                accepted,
            ),
            self.workers.share(self.sizes * 10),
        )
        set_concentrations(latents, a)
        if learning:
            stretches *= np.exp((accepted - 0.44) * 2.0 / np.sqrt(sweep + 1.0))
            np.minimum(stretches, 3.0, out=stretches)
        return {"stretches": float(accepted.mean())}

    def transfer_step(self, topics: Topics, latents: Latents, settings: Settings, sweep: int) -> tuple[float, float]:
        """Exchanges between pairs of topics for every word, in place: the share accepted, and Σ z·ℓ − A(z)."""
        family, words = self.family, self.documents.words
        table, widths = family.table(topics), transfer_widths(family, topics)
        a = concentrations(latents)
        out = np.empty((len(self.segments), 2))
        self._each(
            lambda group: kernels.transfer_step(
                family.code,
                table,
                family.constant,
                family.scores(words[group.words], topics),
                latents.memberships,
                latents.log_memberships,
                a,
                self.documents.starts,
                self.segments[group.segments],
                widths,
                np.uint64(settings.seed),
                sweep,
                TRANSFER_ROUNDS,
                out[group.segments],
            ),
            len(words),
        )
        accepted, fit = out.sum(axis=0)
        return float(accepted) / len(words), float(fit)

    def choose(self, ensemble: Ensemble, latents: Latents, settings: Settings, sweep: int) -> float:
        """One candidate for each word, in place: the share that changed."""
        out = np.empty((len(self.segments), 2))
        self._each(
            lambda group: kernels.choose_candidates(
                ensemble.fits,
                ensemble.rest,
                ensemble.candidates,
                ensemble.shares,
                self.segments[group.segments],
                self.documents.starts,
                np.uint64(settings.seed),
                sweep,
                latents.memberships,
                latents.log_memberships,
                out[group.segments],
            ),
            len(ensemble.fits),
        )
        return float(out[:, 0].sum()) / len(ensemble.fits)

    def statistics(self, latents: Latents) -> Statistics:
        """ZᵀZ and ZᵀT(X)."""

        def of_group(group: Group) -> Statistics:
            z = latents.memberships[group.words]
            gram = np.empty((z.shape[1], z.shape[1]))
            kernels_paper.gram(z, 0, len(z), gram)
            return Statistics(gram, self.family.weighted_statistic(z, self.documents.words[group.words]))

        return add_statistics(self._each(of_group, 1))

    def draw_topics(self, rng: np.random.Generator, topics: Topics, statistics: Statistics, held: Held) -> Topics:
        """Means, then covariance, from their conditional distributions given the memberships."""
        family = self.family
        assert isinstance(family, Gaussian)
        if not held.means:
            topics = topics._replace(means=family.given_means(topics, statistics).draw(rng))
        if not held.spread:
            scatter = family.scatter(topics.means, statistics, self.base)
            topics = topics._replace(spread=family.noise.draw_given(rng, scatter, len(self.documents.words)))
        return topics

    def log_words(self, topics: Topics, statistics: Statistics) -> float:
        """Σ_n ln p(x_n | z_n) for shared-covariance Gaussians, from the statistics alone."""
        family = self.family
        assert isinstance(family, Gaussian)
        fit = float((family.natural(topics) * statistics.weighted).sum())
        base = family.log_base_total(self.base, len(self.documents.words), topics)
        return fit - family.partition_from_gram(topics, statistics.gram) + base

    def log_hidden(self, latents: Latents, settings: Settings) -> float:
        """Log density of all π, s and z."""
        sum_log_z = np.empty((len(self.segments), latents.memberships.shape[1]))
        kernels_paper.sum_log(latents.log_memberships, self.segments, sum_log_z)
        out = np.empty(len(self.sizes))
        kernels_paper.log_hidden(
            settings.alpha,
            settings.scale_rate,
            latents.log_proportions,
            latents.scales,
            self.per_document(sum_log_z),
            self.sizes,
            0,
            len(out),
            out,
        )
        return float(out.sum())


def transfer_widths(family: Family, topics: Topics) -> FloatArray:
    """(K, K) how far memberships are exchanged: about as far as a word can tell the two topics apart.

    From the curvature of A between them, 2[A(η_i) + A(η_k) − 2A((η_i + η_k)/2)]·2; a function of the topics alone.
    """
    eta = family.natural(topics)
    corner = family.log_partition(eta, topics)
    middle = family.log_partition(0.5 * (eta[:, None] + eta[None]), topics)
    bend = 4.0 * (corner[:, None] + corner[None] - 2.0 * middle)
    return np.asarray(np.minimum(2.5 / np.sqrt(np.maximum(bend, 1e-300)), 0.5))


class Walk:
    """A random walk of some of the topics' free coordinates, with a shape that is learnt (Haario et al. 2001)."""

    def __init__(self, chosen: IntArray, deviation: FloatArray) -> None:
        """chosen : which coordinates move; deviation : of each of them, to begin with."""
        self.chosen = chosen
        self.log_length = np.log(2.4 / np.sqrt(len(deviation)))
        self.mean: FloatArray | None = None
        self.covariance = np.diag(deviation**2)
        self.root = np.diag(deviation)
        self.count = 0

    def propose(self, rng: np.random.Generator, family: Family, topics: Topics) -> Topics | None:
        """Topics one step away, or None where there are none."""
        noise = rng.standard_normal(len(self.chosen))
        vector, shapes = flatten(family.free(topics))
        vector[self.chosen] += np.exp(self.log_length) * (self.root @ noise)
        proposed = family.from_free(unflatten(vector, shapes))
        with np.errstate(all="ignore"):
            possible = family.allows(proposed) and bool(np.isfinite(family.log_prior(proposed).total))
        return proposed if possible else None

    def learn(self, family: Family, topics: Topics, accepted: bool) -> None:
        """Length towards 25 % accepted, shape towards the covariance of what was visited."""
        self.count += 1
        self.log_length += (float(accepted) - 0.25) * 2.0 / np.sqrt(self.count)
        x = flatten(family.free(topics))[0][self.chosen]
        if self.mean is None:
            self.mean = x
        weight = 1.0 / (1.0 + self.count / 4.0) if self.count > 40 else 0.0
        change = x - self.mean
        self.mean = self.mean + max(weight, 0.02) * change
        weight = max(weight, 0.005) if self.count > 40 else 0.0
        self.covariance = (1.0 - weight) * self.covariance + weight * np.outer(change, change)
        if self.count % 50 == 0:
            ridge = 1e-6 * np.diag(np.diag(self.covariance)) + 1e-300 * np.eye(len(x))
            self.root = np.asarray(np.linalg.cholesky(self.covariance + ridge), dtype=np.float64)


def make_walks(family: Family, topics: Topics, n_words: int, held: Held) -> list[Walk]:
    """One walk of all that is free, or one for each topic where that is too much; none where draws are conjugate."""
    if isinstance(family, Gaussian):
        return []
    free = family.free(topics)
    n_topics = len(free.means)
    owner = [np.repeat(np.arange(n_topics), free.means.size // n_topics)]
    moves = [np.full(free.means.size, not held.means)]
    spread_owner = np.zeros(free.spread.size, np.int64)
    if family.spread_per_topic:
        spread_owner = np.repeat(np.arange(n_topics), free.spread.size // n_topics)
    spread_moves = np.full(free.spread.shape, not held.spread)
    if free.spread.ndim >= 2 and not (family.spread_per_topic and free.spread.ndim == 2):
        spread_moves &= np.tril(np.ones(free.spread.shape[-2:], bool))
    owner.append(spread_owner)
    moves.append(spread_moves.ravel())
    movable = np.flatnonzero(np.concatenate(moves))
    if not movable.size:
        return []
    deviation = np.full(free.means.size + free.spread.size, 1.0 / np.sqrt(n_words))
    scale = np.ptp(free.means, axis=0) if n_topics > 1 else np.ones(free.means.shape[1])
    deviation[: free.means.size] *= np.tile(np.where(scale > 0, scale, 1.0), n_topics)
    if len(movable) <= MOST_TOGETHER:
        return [Walk(movable, deviation[movable])]
    owners = np.concatenate(owner)[movable]
    return [Walk(movable[owners == k], deviation[movable[owners == k]]) for k in range(n_topics)]


def flatten(topics: Topics) -> tuple[FloatArray, Topics]:
    """All numbers in a row, and the arrays that tell their shapes."""
    return np.concatenate([topics.means.ravel(), topics.spread.ravel()]), topics


def unflatten(vector: FloatArray, shapes: Topics) -> Topics:
    """The inverse of flatten."""
    size = shapes.means.size
    return Topics(vector[:size].reshape(shapes.means.shape), vector[size:].reshape(shapes.spread.shape))
