"""The exact sampler, the steps of a sweep: each visits all words or documents, shared among workers."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from pmlda.engines import gibbs_tuning
from pmlda.engines.corpus import Cut, Group, add_statistics, sweep_key
from pmlda.engines.proposals import Proposals
from pmlda.engines.walks import Walk
from pmlda.families.base import Family
from pmlda.kernels import additive as kernels_additive
from pmlda.kernels import gibbs as kernels
from pmlda.kernels import gibbs_candidates as kernels_candidates
from pmlda.kernels import gibbs_stretch as kernels_stretch
from pmlda.kernels import paper as kernels_paper
from pmlda.kernels.arguments import Ensemble as Ensemble
from pmlda.kernels.arguments import GibbsLatents, Moves
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, Fixed, FloatArray, Latents, Statistics, Topics

Result = TypeVar("Result")


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
    fixed: Fixed = Fixed()
    n_candidates: int | None = None


def make_ensemble(latents: Latents, settings: Settings) -> Ensemble:
    """Room for the candidates of every word."""
    n_words, n_topics = latents.memberships.shape
    n_candidates = settings.n_candidates or count_candidates(n_words, n_topics)
    log_q, fits, rest = (np.empty((n_words, n_candidates)) for _ in range(3))
    shape = (n_words, n_candidates, n_topics)
    return Ensemble(np.empty(shape), np.empty((n_words, n_topics, n_candidates)), log_q, fits, rest)


def count_candidates(n_words: int, n_topics: int) -> int:
    """How many candidates for each word fit in memory."""
    return int(
        np.clip(
            gibbs_tuning.CANDIDATE_BYTES // (8 * n_words * (2 * n_topics + 3)),
            gibbs_tuning.LEAST_CANDIDATES,
            gibbs_tuning.MOST_CANDIDATES,
        )
    )


def concentrations(latents: Latents) -> FloatArray:
    """(D, K) a = sπ."""
    return np.asarray(np.maximum(np.exp(latents.log_proportions) * latents.scales[:, None], 1e-290))


def set_concentrations(latents: Latents, a: FloatArray) -> None:
    """Latents with s and π of these a, in place."""
    latents.scales[:] = a.sum(axis=1)
    latents.log_proportions[:] = np.log(a) - np.log(latents.scales)[:, None]


class Corpus(Cut):
    """The documents with the steps that visit them, shared among workers."""

    def __init__(self, documents: Documents, family: Family, workers: Workers) -> None:
        super().__init__(documents, family, workers)
        # Steps of whole documents take some 50 times as long for each word as a step of engine "paper".
        self.long_shares = workers.share(self.sizes * 50)

    def _each(self, function: Callable[[Group], Result], n_words: int) -> list[Result]:
        """function for every group; a word costs about as much as ten of engine "paper"."""
        return self.workers.map(function, self.groups, n_words=10 * n_words)

    def draw_candidates(
        self, proposals: Proposals, latents: Latents, ensemble: Ensemble, settings: Settings, sweep: int
    ) -> None:
        """Fresh candidates, and their ln q."""
        self._each(
            lambda group: kernels_candidates.draw_candidates(
                proposals.shapes,
                proposals.rates,
                latents.log_memberships,
                self.places(group),
                self.labels(latents.memberships.shape[1]),
                sweep_key(settings.seed, sweep),
                ensemble,
            ),
            len(latents.memberships),
        )

    def candidate_fits(self, topics: Topics, ensemble: Ensemble) -> None:
        """The fits of all candidates under these topics."""
        family, words = self.family, self.documents.words
        log_partition = self.log_partition(topics)
        self._each(
            lambda group: kernels_candidates.candidate_fits(
                self.in_group(log_partition, group),
                family.scores(words[group.words], topics),
                ensemble,
                group.words.start,
                group.words.stop,
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
        fixed = settings.fixed
        a = concentrations(latents)
        accepted = np.zeros_like(widths)
        if not (fixed.proportions and fixed.scales):
            self.workers.map(
                lambda share: kernels.document_step(
                    self.prior(settings.alpha, settings.scale_rate),
                    a,
                    ensemble,
                    self.document_range(share),
                    Moves(widths, accepted),
                    gibbs_tuning.DOCUMENT_ROUNDS,
                    sweep_key(settings.seed, sweep),
                    fixed,
                ),
                self.long_shares,
            )
            if fixed.proportions:
                latents.scales[:] = a.sum(axis=1)
            elif fixed.scales:
                latents.log_proportions[:] = np.log(a / a.sum(axis=1, keepdims=True))
            else:
                set_concentrations(latents, a)
            if learning:  # towards 44 % accepted, ever more gently
                widths *= np.exp((accepted - 0.44) * 2.0 / np.sqrt(sweep + 1.0))
        self._each(
            lambda group: kernels.weigh_candidates(
                a, self.documents.document, ensemble, group.words.start, group.words.stop
            ),
            len(self.documents.words),
        )
        shares = {"scales": accepted[:, 0].mean(), "proportions": accepted[:, 1:].mean()}
        return {name: float(share) for name, share in shares.items() if not getattr(fixed, name)}

    def log_marginal(self, ensemble: Ensemble) -> float:
        """Σ_n ln Σ_j of the candidates' weights."""
        parts = self._each(
            lambda group: kernels.log_marginals(ensemble, group.words.start, group.words.stop),
            len(ensemble.fits),
        )
        return float(sum(parts))

    def walk_topics(
        self, rng: np.random.Generator, topics: Topics, ensemble: Ensemble, walks: list[Walk], learning: bool
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
        n_steps = max(gibbs_tuning.TOPIC_STEPS, len(walks))
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
        if settings.fixed.proportions or settings.fixed.scales or latents.memberships.shape[1] == 1:
            return {}
        family, words = self.family, self.documents.words
        log_partition = self.log_partition(topics)
        scores = np.concatenate(self._each(lambda group: family.scores(words[group.words], topics), len(words)))
        a = concentrations(latents)
        accepted = np.zeros_like(stretches)
        self.workers.map(
            lambda share: kernels_stretch.stretch_step(
                log_partition,
                scores,
                GibbsLatents(latents.memberships, latents.log_memberships, a),
                self.prior(settings.alpha, settings.scale_rate),
                self.document_range(share),
                self.labels(len(settings.alpha)),
                Moves(stretches, accepted),
                sweep_key(settings.seed, sweep),
            ),
            self.long_shares,
        )
        set_concentrations(latents, a)
        if learning:
            stretches *= np.exp((accepted - 0.44) * 2.0 / np.sqrt(sweep + 1.0))
            np.minimum(stretches, 3.0, out=stretches)
        return {"stretches": float(accepted.mean())}

    def transfer_step(self, topics: Topics, latents: Latents, settings: Settings, sweep: int) -> tuple[float, float]:
        """Exchanges between pairs of topics for every word, in place: the share accepted, and Σ z·ℓ − A(z)."""
        family, words = self.family, self.documents.words
        log_partition, widths = self.log_partition(topics), transfer_widths(family, topics)
        a = concentrations(latents)
        out = np.empty((len(self.segments), 2))
        self._each(
            lambda group: kernels.transfer_step(
                self.in_group(log_partition, group),
                family.scores(words[group.words], topics),
                GibbsLatents(latents.memberships, latents.log_memberships, a),
                self.places(group),
                self.labels(len(settings.alpha)),
                widths,
                gibbs_tuning.TRANSFER_ROUNDS,
                sweep_key(settings.seed, sweep),
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
                ensemble, self.places(group), sweep_key(settings.seed, sweep), latents, out[group.segments]
            ),
            len(ensemble.fits),
        )
        return float(out[:, 0].sum()) / len(ensemble.fits)

    def statistics(self, topics: Topics, latents: Latents, settings: Settings, sweep: int) -> Statistics:
        """ZᵀZ and ZᵀT(X), or a draw of how many counts each topic gets, given these topics."""
        log_partition = self.log_partition(topics)

        def of_group(group: Group) -> Statistics:
            z = latents.memberships[group.words]
            gram = np.empty((z.shape[1], z.shape[1]))
            kernels_paper.gram(z, 0, len(z), gram)
            if self.family.additive:
                split, own = np.empty_like(topics.means), self.in_group(log_partition, group)
                key = sweep_key(settings.seed, sweep)
                kernels_additive.split_counts(own, latents.memberships, self.places(group), key, split)
                return Statistics(gram, split)
            return Statistics(gram, self.family.weighted_statistic(z, self.documents.words[group.words]))

        return add_statistics(self._each(of_group, 1))

    def log_hidden(self, latents: Latents, settings: Settings) -> float:
        """Log density of all π, s, z and labels."""
        sum_log_z = np.empty((len(self.segments), latents.memberships.shape[1]))
        kernels_paper.sum_log(latents.log_memberships, self.segments, sum_log_z)
        out = np.empty(len(self.sizes))
        documents = self.document_range((0, len(out)))
        prior = self.prior(settings.alpha, settings.scale_rate)
        kernels_paper.log_hidden(prior, latents, self.per_document(sum_log_z), documents, out)
        return float(out.sum()) + self.log_labels(latents.log_memberships)


def transfer_widths(family: Family, topics: Topics) -> FloatArray:
    """(K, K) how far memberships are exchanged: about as far as a word can tell the two topics apart.

    From the curvature of A between them; a function of the topics alone.
    """
    return np.asarray(np.minimum(2.5 / np.sqrt(np.maximum(family.bends(topics), 1e-300)), 0.5))
