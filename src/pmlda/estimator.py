"""PMLDA, the scikit-learn estimator: rows of X → memberships; groups say which document each row belongs to.

Parameters first, then learning, using what was learnt, uncertainty and diagnostics, model files.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pmlda.engines import heldout, sampling, variational
from pmlda.engines.base import Engine, Sampler, Task, around
from pmlda.engines.diagnostics import (
    EXTEND,
    MIN_DRAWS,
    Diagnosis,
    Remedy,
    diagnose,
    group_answers,
    judge_refits,
    optimiser_verdict,
    to_datatree,
    too_short,
)
from pmlda.engines.documents import group_rows, to_row_order
from pmlda.engines.fitted import check_fitted
from pmlda.engines.labels import check_group_labels, check_labels, told_apart
from pmlda.engines.parameters import (
    START_ENGINE,
    Checked,
    bound_topics,
    check_distinct_rows,
    check_magnitude,
    check_parameters,
    given_means,
)
from pmlda.engines.posterior import (
    WordPosterior,
    beta_interval,
    dirichlet_dominance,
    draw_nodes,
    draws_interval,
    weigh_words,
)
from pmlda.engines.registry import find_engine
from pmlda.engines.routing import warn_of_dropped_groups
from pmlda.engines.variational import Memory
from pmlda.errors import PmldaError
from pmlda.families import find_family
from pmlda.families.base import Family
from pmlda.families.known import as_known
from pmlda.families.rows import column_means
from pmlda.families.sparse import SparseRows
from pmlda.model import simulate
from pmlda.parallel.progress import shown
from pmlda.parallel.threads import Workers
from pmlda.storage import archive
from pmlda.storage.checkpoints import Checkpoint, CheckpointFolder, identify, no_checkpoints, to_checkpoint
from pmlda.storage.digest import digest
from pmlda.types import (
    BoolArray,
    DocumentPosterior,
    Documents,
    Draws,
    Fit,
    FloatArray,
    IntArray,
    Labels,
    Refits,
    Topics,
    Verdict,
)
from pmlda.validate import positive_array, real_array, require, whole

if TYPE_CHECKING:
    from xarray import DataTree

# Points on the simplex with which transform weighs words.
N_NODES = 4096


# scikit-learn ships no types, so its base classes are unknown to mypy.
class PMLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Partial Membership Latent Dirichlet Allocation.

    Every row of X is a word (a pixel's features) that belongs partly to several topics; rows with the same group form
    a document (a superpixel, a window) whose words mix topics alike. Without groups all rows are one document, which
    is the Bayesian Partial Membership model of Heller, Williamson and Ghahramani (2008).

    Parameters
    ----------
    n_components : int
        Number of topics, K.
    family : {"gaussian", "poisson", "additive-poisson", "bernoulli", "gamma", "categorical"} or Family
        Distribution of a word. For counts, "additive-poisson" adds rates of topics (photons, reads of genes) and
        "poisson" mixes their logarithms. With both, and with "bernoulli", X may be a SciPy sparse matrix. An object
        such as ``Gamma(shape=4)`` carries its own settings.
    covariance : {"isotropic", "diagonal", "full", "topic-diagonal", "topic-full"}
        For Gaussians: one covariance for all topics, or one per topic. Isotropic is the paper's; with it the scale of
        each feature matters. A full covariance does not mind how features are scaled (but engine "paper" hardly moves
        it from where it starts).
    alpha : float or (K,) array
        Dirichlet prior of a document's proportions. In the literature: α.
    scale_rate : float
        Rate of the exponential prior of a document's scale. In the literature: λ. Small values expect words to mix
        like their document, large values expect crisp words.
    design_effect : float
        How many neighbouring rows repeat each other: N rows tell as much as N / design_effect independent ones, or
        more. 1 for independent rows; pmlda.segment estimates it from the picture. Where it is larger, the data cannot
        say how much they are worth, so refits of engine "variational" spread λ from scale_rate to scale_rate ·
        √design_effect, and the fit itself takes the middle of that range. With engine "gibbs", pmlda.segment leaves
        out rows that repeat others instead.
    n_refits : int
        Refits of engine "variational" on resampled documents, each from starts of its own. memberships_ are means over
        the fit and its refits, and their uncertainty includes the spread between them, so that it contains words,
        documents, topics and the choice between optima. 0 leaves refits out: uncertainty is then that of each word
        given the topics.
    label_strength : float
        How much a label of fit's y counts: as if somebody had drawn so many topics from the row's memberships and
        told which came. A row that is said to be all of one topic is then so to about 1 / label_strength.
    engine : {"variational", "gibbs", "paper"}
        Inference. "variational" is fast; "gibbs" draws from the exact posterior. "paper" is Algorithm 1 of the paper.
    n_sweeps : int
        Sweeps of a sampler in all, warm-up included; for "variational" the most in each stage.
    estimate : {"mean", "map"}
        What the fitted attributes hold: the posterior mean, or the sample of largest log joint density (the paper's).
    random_state : int, RandomState or None
        Equal seeds give equal bits, for any number of threads.
    n_jobs : int or None
        Threads. None means every core: the result does not depend on it.
    verbose : int
        1 shows a bar with what the engine is doing and the time left, or, without a terminal, a line about every ten
        seconds; 2 then a line every second. 0 shows nothing.

    Other Parameters
    ----------------
    n_init : int
        Starts of engine "variational", of which the best by bound goes on.
    tol : float
        Engine "variational" stops when sweeps gain less bound than this per word.
    n_chains : int
        Chains of engine "gibbs", each on a thread of its own.
    burn_in : int or None
        Sweeps of warm-up, counted in n_sweeps. None is half.
    thin : int
        Keep every thin-th draw in ``draws_``.
    document_steps : int
        Proposals of each document's proportions and scale per sweep. They need no pass over the words, so a few more
        than the paper's one are cheap for large documents.
    prior_steps : int
        Further proposals of each word's memberships per sweep, from its document's Dir(sπ). The paper has none, and
        then never visits memberships far below 1 / n_sweeps, so that ``scales_`` come out too large for documents
        with crisp words or absent topics (docs/model.md). One cures it, and makes a sweep about ten times as long.
    init : {"extremes", "prior"} or (K, p) array
        Means to start from: far-apart small clusters of the data, draws from the prior, or these.
    topic_bounds : (low, high) or None
        Between which topic means are possible, in the units of X: each a number or a (p,) array, infinite where there
        is no limit. The prior of means is truncated to this box, so that topics, which are corners of the data, stay
        where features can be. For Gaussians with one covariance for all topics.
    known_topics : (K, p) array, dict or None
        Means of topics that are known beforehand, in the units of X: a row of NaN for each topic of which nothing is
        known, or {topic: (p,) mean} with topics from 0. Known topics keep their number; the others are learnt beside
        them. For Gaussians; other families can take all topics, exactly.
    known_spread : float, (K,) or (K, p) array
        How far a known mean may be from the truth, as standard deviations in the units of X; 0 holds it as it is given.
    fixed : dict or None
        What is known and stays as given: any of "topics" (K, p), "covariance", "proportions" (K,) or (D, K),
        "scales" number or (D,).
    draws_memory : int
        Bytes that kept draws of memberships, proportions and scales may take; they are thinned to fit.

    Attributes
    ----------
    memberships_ : (N, K) how much of each topic every training row has
    labels_ : (N,) the topic with the largest membership
    topic_means_ : (K, p) mean of a word that is all of one topic, a corner of the data rather than a centre; (K, V)
        probabilities for the categorical family
    noise_variance_ : shape (), (p,) or (p, p), the covariance that Gaussian topics share
    topic_covariances_ : (K, p) or (K, p, p), where topics have their own
    proportions_ : (D, K) topic proportions of documents
    scales_ : (D,) level of mixing of documents
    documents_ : (D,) the group labels, in the row order of proportions_
    document_sizes_ : (D,) rows in each document
    n_iter_ : int, sweeps that were run; with partial_fit, batches
    concentrations_ : (N, K) γ of Dir(γ), the Dirichlet distribution nearest to the posterior of each training row's
        memberships; means and deviations are better known than its own, see memberships_ and membership_std_; engine
        "variational"
    deviations_ : (N, K) what membership_std_ gives; engine "variational"
    refits_ : topics of the refits, see pmlda.types.Refits; engine "variational". After follow_draws, of draws
    document_draws_ : (1 + B, D, K) s·π of the training documents as found and in each draw, after follow_draws
    refit_distances_ : (1 + B, 1 + B) root mean squared difference of memberships between the fit and its refits
    bound_ : (n_iter_,) trace of the bound; engine "variational"
    log_joint_ : (n_iter_,) trace of the log joint density, averaged over chains; samplers
    acceptance_ : dict, share of accepted proposals by block, after warm-up; samplers
    draws_ : samples of everything, see pmlda.types.Draws; samplers
    verdict_ : whether the fit can be trusted, and if not, what to do, see pmlda.types.Verdict

    Examples
    --------
    >>> import numpy as np
    >>> from pmlda import PMLDA
    >>> rng = np.random.default_rng(0)
    >>> mix = rng.dirichlet([0.5, 0.5], size=400)
    >>> X = mix @ np.array([[0.0, 0.0], [9.0, 3.0]]) + rng.normal(size=(400, 2))
    >>> model = PMLDA(n_components=2, random_state=0).fit(X)
    >>> model.memberships_.shape
    (400, 2)
    >>> bool(abs(np.corrcoef(model.memberships_[:, 0], mix[:, 0])[0, 1]) > 0.9)
    True
    """

    n_components: int
    engine: str
    n_sweeps: int
    fixed: dict[str, Any] | None
    n_jobs: int | None

    family_: Family
    seed_: int
    n_iter_: int
    verdict_: Verdict
    topic_means_: FloatArray
    memberships_: NDArray[np.floating]
    proportions_: FloatArray
    scales_: FloatArray
    documents_: NDArray[np.generic]
    document_sizes_: IntArray
    document_draws_: FloatArray
    memory_: dict[str, Any]

    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        n_components: int = 3,
        *,
        family: str | Family = "gaussian",
        covariance: str = "isotropic",
        alpha: ArrayLike = 1.0,
        scale_rate: float = 0.5,
        design_effect: float = 1.0,
        n_refits: int = 6,
        label_strength: float = 30.0,
        engine: str = "variational",
        n_init: int = 4,
        tol: float = 2e-4,
        n_chains: int = 2,
        n_sweeps: int = 1000,
        burn_in: int | None = None,
        thin: int = 1,
        document_steps: int = 1,
        prior_steps: int = 0,
        init: str | ArrayLike = "extremes",
        topic_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        known_topics: ArrayLike | dict[int, ArrayLike] | None = None,
        known_spread: ArrayLike = 0.0,
        fixed: dict[str, Any] | None = None,
        estimate: str = "mean",
        draws_memory: int = 2**28,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.covariance = covariance
        self.alpha = alpha
        self.scale_rate = scale_rate
        self.design_effect = design_effect
        self.n_refits = n_refits
        self.label_strength = label_strength
        self.engine = engine
        self.n_init = n_init
        self.tol = tol
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.burn_in = burn_in
        self.thin = thin
        self.document_steps = document_steps
        self.prior_steps = prior_steps
        self.init = init
        self.topic_bounds = topic_bounds
        self.known_topics = known_topics
        self.known_spread = known_spread
        self.fixed = fixed
        self.estimate = estimate
        self.draws_memory = draws_memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ── fitting ────────────────────────────────────────────────────────────────────────────────────────────────
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | Labels | None = None,
        *,
        groups: ArrayLike | None = None,
        group_labels: Mapping[Any, Any] | Labels | None = None,
        extend: int | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Learn topics, and the memberships of the rows of X. groups is the document of each row.

        y : what is known of the rows. (N,) topic numbers, −1 for rows of which nothing is known; (N, K) shares, NaN for
            such rows; or (N, K) booleans, "one of these". A label is an observation of the row's memberships, see
            label_strength: topic k is then the one that labels call k. None learns without labels, and so do classes of
            another task: numbers beyond K with no −1 among them, which give a warning
        group_labels : what is known of documents: a mapping from groups to the number of a topic that they contain, to
            a list of numbers (one of these), both with strength 5, or to (K,) shares
        extend : go on sampling from where the last fit of the same data ended, until there are so many more draws of
            each chain. Engines "gibbs" and "paper" only.
        checkpoint : a folder that keeps, every minute, what this fit needs to go on; or a pmlda.Checkpoint. Where it
            holds checkpoints of the same fit (X, y, groups, parameters; n_jobs, verbose and estimate may differ), the
            fit goes on from there, to the bits that it would have come to without a break. The folder stays: remove it
            when the result is safe.

        >>> import tempfile
        >>> X = np.random.default_rng(0).dirichlet([0.5, 0.5], size=300) @ [[0.0, 0.0], [9.0, 3.0]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model = PMLDA(2, random_state=0).fit(X, checkpoint=folder)
        ...     again = PMLDA(2, random_state=0).fit(X, checkpoint=folder)  # nothing is left to do
        >>> bool((again.memberships_ == model.memberships_).all())
        True
        """
        before = self.__dict__.copy()
        try:
            kept = None if checkpoint is None else to_checkpoint(checkpoint)
            return self._fit(X, y, groups, group_labels, extend, kept)
        except BaseException:  # an error or Ctrl-C leaves the estimator as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(
        self,
        X: ArrayLike,
        y: Any,
        groups: ArrayLike | None,
        group_labels: Any,
        extend: int | None,
        checkpoint: Checkpoint | None,
    ) -> Self:
        require(
            extend is None or checkpoint is None,
            "extend and checkpoint were both given, but only whole fits are kept. Give one of them.",
        )
        words = self._validated(X, ensure_min_samples=2)
        check_magnitude(words)
        engine, checked = self._engine, self._checked(len(words))
        checked.family.check_words(words)
        check_distinct_rows(words, checked.n_topics, checked.family)
        documents = self._labelled(group_rows(words, groups), y, group_labels)
        checked = checked.telling_apart(told_apart(documents.told, documents.told_documents))
        family = checked.family.informed_by(words)
        offset = column_means(words) if family.has_location else np.zeros(1)
        is_sampler = isinstance(engine, Sampler)
        said = [list(each) for each in (documents.told, documents.told_documents) if each is not None]
        data = {"X and groups": digest(documents.words, documents.starts)} if checkpoint or is_sampler else {}
        data |= {"labels": digest(*said)} if said and data else {}
        fingerprint = "".join(data.values())
        with ExitStack() as stack:
            store = None
            if checkpoint is not None:
                store = stack.enter_context(CheckpointFolder(checkpoint, self._asked(data)))
            seed = self._choose_seed(extend, store)
            workers, report = stack.enter_context(Workers(self.n_jobs)), stack.enter_context(shown(self.verbose))
            series = no_checkpoints if store is None else store.open_series(seed)
            task = Task(*around(documents, family, offset), checked, seed, workers, report, series, remedy=self.remedy)
            if extend is None:
                outcome = engine.fit(task, _given(checked, family, words, offset))
            else:
                chains = self._chains_of(engine.name + fingerprint)
                assert isinstance(engine, Sampler)  # no other has chains
                outcome = sampling.extend(engine, task, chains, self._sweeps_after(extend))
        fit = outcome.fit
        self._keep(words.dtype, documents, family, fit, offset, seed, estimate=checked.estimate)
        self._chains = None if outcome.chains is None else (engine.name + fingerprint, outcome.chains)
        if "topics" in checked.fixed_values:
            self.topic_means_ = np.array(checked.fixed_values["topics"], dtype=np.float64)  # free of rounding
        self._warn()
        return self

    def _choose_seed(self, extend: int | None, store: CheckpointFolder | None) -> int:
        """That of random_state; where it leaves the seed open, that of the fit to resume."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if extend is not None:
            return int(getattr(self, "seed_", seed))
        return seed if store is None or store.seed is None or self.random_state is not None else store.seed

    def _asked(self, data: dict[str, str]) -> dict[str, str]:
        """All that decides on the course of a fit but the seed, as texts."""
        chosen = self.get_params(deep=False)
        names = [name for name in chosen if name not in ("random_state", "estimate", "n_jobs", "verbose")]
        return {name: identify(chosen[name]) for name in names} | data

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | Labels | None = None, *, groups: ArrayLike | None = None
    ) -> NDArray[np.floating]:
        """fit(X, y, groups=groups), then transform(X, groups=groups). The fit's own answer is memberships_."""
        return self.fit(X, y, groups=groups).transform(X, groups=groups)

    @available_if(lambda self: self._engine.streams)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | Labels | None = None,
        *,
        groups: ArrayLike | None = None,
        group_labels: Mapping[Any, Any] | Labels | None = None,
    ) -> Self:
        """Learn from one more batch of documents, for streams and corpora that do not fit in memory.

        y, group_labels : labels, as in fit; the first batch should have labels of every topic that has any

        The first batch sets the scale of the prior, so it should be typical. Topics are refined with every batch;
        memberships_ and labels_ are those of the batch, proportions_ and scales_ of all documents so far. Only with
        engine "variational".
        """
        before = self.__dict__.copy()
        try:
            return self._partial_fit(X, y, groups, group_labels)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _labelled(self, documents: Documents, y: Any, group_labels: Any = None) -> Documents:
        """Documents with labels of their words and of themselves."""
        n_topics = int(self.n_components)
        told = check_labels("y", y, len(documents.words), n_topics, self.label_strength)
        strength = float(positive_array("label_strength", self.label_strength, ()))
        told_documents = check_group_labels(group_labels, documents.labels, n_topics, strength)
        in_order = None if told is None else told.take(documents.order)
        return documents._replace(told=in_order, told_documents=told_documents)

    def _partial_fit(self, X: ArrayLike, y: Any, groups: ArrayLike | None, group_labels: Any) -> Self:
        is_first = not hasattr(self, "memory_")
        words = self._validated(X, reset=is_first, ensure_min_samples=2 if is_first else 1)
        check_magnitude(words)
        checked = self._checked(len(words) if is_first else sys.maxsize)
        checked.family.check_words(words)
        documents = self._labelled(group_rows(words, groups), y, group_labels)
        checked = checked.telling_apart(told_apart(documents.told, documents.told_documents))
        if is_first:
            check_distinct_rows(words, checked.n_topics, checked.family)
            family = checked.family.informed_by(words)
            offset = column_means(words) if family.has_location else np.zeros(1)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            earlier = None
        else:
            self._check_fitted()
            family, offset, seed = self.family_, self.memory_["offset"], self.seed_
            earlier = self.proportions_, self.scales_, self.documents_, self.document_sizes_
        topics = None if is_first else Topics(self.topic_means_ - offset, self.topics_.spread)
        memory = None if is_first else Memory(**{name: self.memory_[name] for name in Memory._fields})
        with Workers(self.n_jobs) as workers, shown(self.verbose) as report:
            task = Task(*around(documents, family, offset), checked, seed, workers, report)
            given = _given(checked, family, words, offset)
            fit, memory = variational.update(task, topics, memory, given)
        self._keep(words.dtype, documents, family, fit, offset, seed, estimate="mean")
        self._chains = None
        self.memory_ = memory._asdict() | {"offset": offset}
        self.n_iter_ = memory.n_batches
        self.verdict_ = Verdict("unknown", f"Learnt from {self.n_iter_} batch(es); convergence is not assessed.")
        if earlier is not None:
            self.proportions_ = np.concatenate([earlier[0], self.proportions_])
            self.scales_ = np.concatenate([earlier[1], self.scales_])
            self.documents_ = np.concatenate([earlier[2], self.documents_])
            self.document_sizes_ = np.concatenate([earlier[3], self.document_sizes_])
        return self

    def _chains_of(self, fingerprint: str) -> sampling.Chains:
        """The chains of the last fit, to extend."""
        kept: tuple[str, sampling.Chains] | None = getattr(self, "_chains", None)
        if kept is None:
            raise PmldaError(
                "extend was given, but there are no chains to extend. Call fit(X, groups=groups) with engine='gibbs' "
                "or 'paper' first, in the same session."
            )
        before, chains = kept
        require(
            before == fingerprint,
            "extend was given, but X, groups or the engine are not those of the last fit. Give the same, or leave "
            "extend out to start again.",
        )
        return chains

    def _sweeps_after(self, extend: int) -> int:
        return int(self.n_iter_ + whole("extend", extend, 1) * self.thin)

    def _judge(self, fit: Fit) -> Verdict:
        """Whether the fit can be trusted."""
        if fit.interrupted:
            done = f"{self.n_iter_} of {self.n_sweeps} sweeps"
            return Verdict("interrupted", f"The fit was interrupted after {done}; what it had found is kept.")
        if fit.draws is None:
            verdict = optimiser_verdict(self.n_iter_, converged=fit.converged, limit="n_sweeps")
            return verdict if fit.refit_distances is None else judge_refits(verdict, fit.refit_distances)
        if len(fit.draws.sweeps) < MIN_DRAWS * fit.draws.n_chains:
            return too_short(self.n_iter_)
        if all(draws.shape[1] < MIN_DRAWS for draws in self._free_draws(memberships=False).values()):
            return Verdict("unknown", "No draws were kept of what is not fixed.", "Give a larger draws_memory.")
        return self._diagnose(memberships=False).verdict

    def _warn(self) -> None:
        """Tell what a user should know about this fit."""
        if self.verdict_.state == "interrupted":
            warnings.warn(str(self.verdict_), stacklevel=4)
        elif self.verdict_.state == "not_converged" and self._engine.warns:
            warnings.warn(str(self.verdict_), ConvergenceWarning, stacklevel=4)

    def _keep(
        self,
        dtype: np.dtype[Any],
        documents: Documents,
        family: Family,
        fit: Fit,
        offset: FloatArray,
        seed: int,
        *,
        estimate: str,
    ) -> None:
        """Set the fitted attributes, in the order and the units of X."""
        chosen = fit.best if estimate == "map" and fit.best is not None else fit.mean
        self.family_ = family
        self.seed_ = seed
        self.topic_means_ = family.nearest(chosen.topics.means + offset)
        self._set_spread(chosen.topics.spread)
        self.memberships_ = to_row_order(chosen.memberships, documents).astype(dtype, copy=False)
        self.labels_ = np.argmax(self.memberships_, axis=1)
        self.proportions_ = chosen.proportions
        self.scales_ = chosen.scales
        self.documents_ = documents.labels
        self.document_sizes_ = documents.sizes
        self.n_iter_ = len(fit.trace)
        self._keep_posterior(fit, documents, offset)

    def _keep_posterior(self, fit: Fit, documents: Documents, offset: FloatArray) -> None:
        """Set what only some engines leave, and forget what another engine left before."""
        for name in (
            *("memory_", "bound_", "concentrations_", "deviations_", "refits_", "refit_distances_"),
            *("log_joint_", "acceptance_", "draws_", "document_draws_"),
        ):
            self.__dict__.pop(name, None)
        if fit.refits is not None:
            self.refits_ = fit.refits._replace(means=self.family_.nearest(fit.refits.means + offset))
            self.refit_distances_ = fit.refit_distances
        if fit.std is not None and len(fit.std):
            self.deviations_ = to_row_order(fit.std, documents)
        if fit.concentrations is not None:
            self.bound_ = fit.trace
            self.concentrations_ = to_row_order(fit.concentrations, documents)
        if fit.draws is not None:
            self.log_joint_ = fit.trace
            self.acceptance_ = fit.acceptance
            memberships = np.empty_like(fit.draws.memberships)
            memberships[:, documents.order] = fit.draws.memberships
            self.draws_ = fit.draws._replace(
                means=self.family_.nearest(fit.draws.means + offset), memberships=memberships
            )
        self.verdict_ = self._judge(fit)

    def _set_spread(self, spread: FloatArray) -> None:
        for name in ("noise_variance_", "topic_covariances_"):
            if hasattr(self, name):
                delattr(self, name)
        if self.family_.spread_per_topic:
            self.topic_covariances_ = spread
        elif spread.size:
            self.noise_variance_ = float(spread) if spread.ndim == 0 else spread

    remedy: Remedy = EXTEND
    """What the verdict advises where chains have not mixed; pmlda.segment has other words for it."""
    minds_groups: ClassVar[bool] = True
    """Whether the memberships of a row depend on its document."""
    takes_checkpoint: ClassVar[bool] = True
    """Whether fit(checkpoint=…) can be resumed."""

    @property
    def samples_words(self) -> bool:
        """Whether a sample of the words is enough to learn topics, and maps follow from topics and documents."""
        return self._engine.samples_words or self._follows_draws

    @property
    def _follows_draws(self) -> bool:
        refits: Refits | None = getattr(self, "refits_", None)
        return refits is not None and refits.drawn

    @property
    def _engine(self) -> Engine:
        return find_engine(self.engine)

    def _checked(self, n_words: int, **changed: Any) -> Checked:
        """The parameters, checked together."""
        parameters = self.get_params(deep=False) | changed
        family = bound_topics(find_family(self.family, self.covariance), self.topic_bounds)
        return check_parameters(parameters, family, n_words, samples_words=self._engine.samples_words)

    @property
    def topics_(self) -> Topics:
        """Means and covariances together."""
        spread = getattr(self, "topic_covariances_", getattr(self, "noise_variance_", np.empty(0)))
        return Topics(self.topic_means_, np.asarray(spread, dtype=np.float64))

    # ── uncertainty of the training rows ─────────────────────────────────────────────────────────────────────────
    @property
    def membership_std_(self) -> FloatArray:
        """(N, K) standard deviation of each membership of the training rows; see n_refits for what it contains."""
        self._check_fitted()
        if hasattr(self, "deviations_"):
            return np.asarray(self.deviations_, dtype=np.float64)
        return np.asarray(self._membership_draws().std(axis=0, dtype=np.float64))

    def membership_interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (N, K) each, between which a membership lies with this probability.

        Central intervals of the draws; with engine "variational", which makes none, the shortest intervals of beta
        distributions with the means memberships_ and the deviations membership_std_.
        """
        self._check_fitted()
        require(
            isinstance(level, Real) and 0.0 < level < 1.0,
            f"level={level!r}: give a probability between 0 and 1, for instance 0.9.",
        )
        if hasattr(self, "draws_"):
            return draws_interval(self._membership_draws(), float(level))
        if hasattr(self, "deviations_"):
            return beta_interval(self.memberships_, self.deviations_, float(level))
        return draws_interval(self._membership_draws(), float(level))

    def _membership_draws(self) -> NDArray[np.float32]:
        """(S, N, K) kept draws of the memberships."""
        memberships = self._kept_draws().memberships
        require(len(memberships) >= 2, "No draws of memberships were kept. Fit with a larger draws_memory.")
        return np.asarray(memberships)

    def follow_draws(self, n_draws: int) -> Self:
        """Let new words follow from n_draws draws of topics and documents, evenly spaced over all chains.

        infer_documents and infer_memberships then run no chains: documents are inferred under the topics of each draw,
        and memberships have the mean and the variance over draws of each word's own posterior. refits_ has the topics
        of these draws.
        """
        draws = self._kept_draws()
        require(len(draws.scales) > 0, "No draws of documents were kept. Fit with a larger draws_memory.")
        chosen = np.unique(np.linspace(0, len(draws.scales) - 1, n_draws).round().astype(np.int64))
        # Draws of documents are fewer where memory is short: those of the topics that belong to them.
        sweeps = draws.sweeps.reshape(draws.n_chains, -1)
        chain = chosen // (len(draws.scales) // draws.n_chains)
        found = [np.flatnonzero(sweeps[c] == draws.latent_sweeps[i])[0] for c, i in zip(chain, chosen, strict=True)]
        topics = chain * sweeps.shape[1] + np.array(found)
        self.refits_ = Refits(draws.means[topics], draws.spread[topics], np.zeros(len(chosen)), drawn=True)
        drawn = draws.proportions[chosen] * draws.scales[chosen, :, None]
        self.document_draws_ = np.concatenate([(self.proportions_ * self.scales_[:, None])[None], drawn])
        return self

    def known_documents(self, labels: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray]:
        """After follow_draws: (D,) which documents are those of the fit, and s·π (1 + B, …, K) of these.

        labels : of the documents, among the groups of the fit or not
        """
        position = {label: i for i, label in enumerate(self.documents_.tolist())}
        found = np.array([position.get(label, -1) for label in np.asarray(labels).tolist()], np.int64)
        return found >= 0, self.document_draws_[:, found[found >= 0]]

    def alternatives(self) -> list[Self]:
        """Other answers that the data support as well, found by refits: models with those topics, none if all agree.

        The verdict_ is "ambiguous" where a third of the refits or more found another answer.
        """
        self._check_fitted()
        distances: FloatArray | None = getattr(self, "refit_distances_", None)
        groups = [] if distances is None else group_answers(distances)[1:]
        return [self.under_refit(int(group[0]) - 1) for group in groups]

    def under_refit(self, number: int) -> Self:
        """This model with the topics of a refit, and no refits of its own."""
        refits, model = self.refits_, copy.copy(self)
        rate = self.scale_rate * self.design_effect ** float(refits.powers[number])
        model.set_params(scale_rate=rate, design_effect=1.0, n_refits=0)
        for name in ("refits_", "refit_distances_", "memberships_", "labels_", "deviations_", "concentrations_"):
            model.__dict__.pop(name, None)
        model.topic_means_ = refits.means[number]
        model._set_spread(refits.spread[number])
        return model

    # ── diagnostics of a sampler ─────────────────────────────────────────────────────────────────────────────────
    def diagnose(self) -> Diagnosis:
        """R-hat, effective sample size and Monte Carlo error of everything, memberships as (N, K), and a verdict."""
        return self._diagnose(memberships=True)

    def _diagnose(self, *, memberships: bool) -> Diagnosis:
        return diagnose(self._free_draws(memberships=memberships), self.n_jobs, self.remedy)

    def _free_draws(self, *, memberships: bool) -> dict[str, NDArray[np.floating]]:
        """Draws by chain of what was not fixed."""
        draws = self._kept_draws().by_chain()
        if not memberships:
            draws.pop("memberships", None)
        for name, fixed in (("means", "topics"), ("spread", "covariance")):
            if fixed in self._checked(sys.maxsize).fixed_values:
                draws.pop(name, None)
        return draws

    def to_arviz(self) -> DataTree:
        """The draws as an xarray DataTree, which ArviZ's plots and tables take."""
        dims = {"spread": ["topic", "feature"]} if np.ndim(getattr(self, "topic_covariances_", 0)) == 2 else None
        return to_datatree(self._kept_draws().by_chain(), coords={"document": self.documents_}, dims=dims)

    def _kept_draws(self) -> Draws:
        self._check_fitted()
        draws: Draws | None = getattr(self, "draws_", None)
        if draws is None:
            raise PmldaError(
                "There are no draws: engine='variational' makes none, and model files hold them only if saved with "
                "draws=True. Fit with engine='gibbs'."
            )
        return draws

    # ── using ──────────────────────────────────────────────────────────────────────────────────────────────────
    def transform(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """(N, K) how much of each topic every row has: degrees of membership.

        Without groups each row stands alone, as a word of a document like those seen in training; rows do not
        influence each other. With groups, rows of one group form a new document whose proportions and scale are
        inferred by the engine, topics held, with the refits of engine "variational" as in memberships_; proportions and
        scales that were fixed in training are not. With a sampler that is a Monte Carlo estimate: other groups beside
        them, or rows in another order, change its noise.

        Training rows do not get memberships_ again exactly. With groups, documents are inferred afresh, from a fixed
        number of sweeps. Without groups, rows know nothing of their document, and memberships_ can differ by 0.1 and
        more where the document tells much.
        """
        return self._weigh(X, groups, dominance_too=False)[0]

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """(N, p) what words with these memberships (N, K) are expected to be, without noise; the inverse of transform.

        Of the categorical family, (N, V) probabilities of the categories.
        """
        self._check_fitted()
        given = np.asarray(X)
        z = real_array("memberships", given, (*given.shape[:1], len(self.topic_means_)))
        expected = self.family_.expected_words(z, self.topics_)
        require(expected is not None, f"The family {self.family_.name!r} does not tell what words are expected.")
        return np.asarray(expected)

    def infer_documents(
        self,
        X: ArrayLike,
        y: ArrayLike | Labels | None = None,
        *,
        groups: ArrayLike,
        group_labels: Mapping[Any, Any] | Labels | None = None,
        fixed: dict[str, Any] | None = None,
    ) -> DocumentPosterior:
        """Memberships of new documents as transform gives them, with their uncertainty and each document's π and s.

        y, group_labels : what is known of rows and groups, as in fit
        fixed : "proportions" and "scales" of these documents, if they are known, as in PMLDA(fixed=…)
        """
        words = self._check_new(X)
        documents = self._labelled(group_rows(words, groups), y, group_labels)
        return self._to_posterior(self._infer_documents(documents, fixed), documents, words.dtype)

    def infer_concentrations(
        self,
        X: ArrayLike,
        y: ArrayLike | Labels | None = None,
        *,
        groups: ArrayLike,
        group_labels: Mapping[Any, Any] | Labels | None = None,
        fixed: dict[str, Any] | None = None,
    ) -> FloatArray:
        """(1 + B, D, K) s·π of new documents, as found and under each of B refits, by engine "variational".

        What infer_documents finds, without the memberships of rows, which take half of its time.
        """
        documents = self._labelled(group_rows(self._check_new(X), groups), y, group_labels)
        with self._task(documents, fixed) as (task, topics):
            return variational.infer_concentrations(task, topics)

    def infer_memberships(
        self, X: ArrayLike, y: ArrayLike | Labels | None = None, *, groups: ArrayLike, priors: ArrayLike
    ) -> DocumentPosterior:
        """Memberships of new rows, each of which depends on nothing but its own document's prior, which is known.

        y : what is known of the rows, as in fit
        priors : (D, K) s·π of each document, labels in ascending order, or (1 + B, D, K) with those under each of B
            refits, as infer_documents returns them; memberships are those of engine "variational"
        """
        words = self._check_new(X)
        documents = self._labelled(group_rows(words, groups), y)
        shape: tuple[int, ...] = len(documents.sizes), len(self.topic_means_)
        refits, given = getattr(self, "refits_", None), np.asarray(priors)
        if given.ndim == 3 and len(given) > 1:
            shape = (1 if refits is None else 1 + len(refits.means), *shape)
        known = positive_array("priors", given[0] if given.ndim == 3 and len(given) == 1 else given, shape)
        known = known.reshape(-1, *known.shape[-2:])
        with self._task(documents) as (task, topics):
            fit = variational.infer_memberships(task, topics, known)
        return self._to_posterior(fit, documents, words.dtype)

    def _to_posterior(self, fit: Fit, documents: Documents, dtype: np.dtype[Any]) -> DocumentPosterior:
        """What was found, in the order of the rows."""
        if fit.std is not None:
            std = fit.std
        else:
            draws = fit.draws.memberships if fit.draws is not None else np.empty((0, 0, 0))
            require(len(draws) >= 2, "No draws of memberships were kept. Set a larger draws_memory.")
            std = np.asarray(draws.std(axis=0, dtype=np.float64))
        return DocumentPosterior(
            to_row_order(fit.mean.memberships, documents).astype(dtype, copy=False),
            to_row_order(std, documents),
            fit.mean.proportions,
            fit.mean.scales,
            fit.refit_concentrations,
        )

    def predict(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> IntArray:
        """(N,) the topic of which each row has most: the largest degree, where predict_proba tells the doubt."""
        return np.asarray(np.argmax(self.transform(X, groups=groups), axis=1))

    def predict_proba(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """(N, K) the probability that each topic is the one of which a row has most: doubt, not degree."""
        return self._weigh(X, groups, dominance_too=True)[1]

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """(N,) log density of each row, as a word of a document like those seen in training."""
        return self._weigh_words(self._check_new(X)).log_evidence

    def score(
        self,
        X: ArrayLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> float:
        """Mean log density of the rows of new documents; higher is better, so it can choose n_components.

        With groups, that of each half of a document when π and s are known from its other half: the score of
        pmlda.choose_n_topics, which falls again where there are too many topics. Without, score_samples: each row as a
        word of a document like those of training. In cross-validation keep documents whole (GroupKFold).

        >>> rng = np.random.default_rng(0)
        >>> groups = np.repeat(np.arange(40), 50)
        >>> mix = rng.dirichlet([0.4, 0.4], size=40)[groups] * 4.0
        >>> X = np.array([rng.dirichlet(a + 0.01) for a in mix]) @ [[0.0, 0.0], [9.0, 3.0]] + rng.normal(size=(2000, 2))
        >>> old, new = groups < 20, groups >= 20
        >>> fits = [PMLDA(k, n_refits=0, random_state=0).fit(X[old], groups=groups[old]) for k in (1, 2, 3)]
        >>> int(np.argmax([fit.score(X[new], groups=groups[new]) for fit in fits])) + 1
        2
        """
        logs = self.score_samples(X) if groups is None else self._score_halves(self._check_new(X), groups)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(logs, weights=weights))

    def _score_halves(self, words: NDArray[np.floating], groups: ArrayLike) -> FloatArray:
        """(N,) log density of every row when π and s are known from the other half of its document."""
        documents = group_rows(words, groups)
        later, logs = heldout.halves(documents), np.empty(len(words))
        alone = (documents.sizes == 1)[documents.document]
        if alone.any():  # whose documents have no other half
            logs[alone] = self._weigh_words(documents.words[np.flatnonzero(alone)]).log_evidence
        if not alone.all():
            others, _ = heldout.some_words(documents, ~alone)
            found, _ = self._score_words(others, later[~alone])
            logs[~alone] = np.where(later[~alone], found, self._score_words(others, ~later[~alone])[0])
        return to_row_order(logs, documents)

    def score_words(
        self, X: ArrayLike, *, groups: ArrayLike, scored: ArrayLike
    ) -> tuple[FloatArray, NDArray[np.floating]]:
        """Log density (N,) and memberships (N, K) of those rows that are scored, NaN of others.

        π and s of a document are known from its rows that are not scored, of which it must have some.

        scored : (N,) booleans
        """
        words = self._check_new(X)
        documents = group_rows(words, groups)
        in_order = np.asarray(scored, dtype=bool)[documents.order]
        told = np.bincount(documents.document[~in_order], minlength=len(documents.sizes)) > 0
        require(
            bool(told[documents.document[in_order]].all()),
            "All rows of a document are scored, so that none of them can tell its proportions. Score some of them.",
        )
        found = self._score_words(documents, in_order)
        return to_row_order(found[0], documents), to_row_order(found[1], documents)

    def _score_words(self, documents: Documents, scored: BoolArray) -> tuple[FloatArray, FloatArray]:
        with self._task(documents) as (task, topics):
            return heldout.score_words(task, topics, scored)

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """New rows from the fitted model, with their memberships: X (n, p) and Z (n, K)."""
        check_is_fitted(self, "topic_means_")
        whole("n_samples", n_samples, 1)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        sizes = rng.multinomial(n_samples, self.document_sizes_ / self.document_sizes_.sum())
        words, _, latents = simulate(
            rng, self.family_, self.topics_, sizes, scales=self.scales_, proportions=self.proportions_
        )
        return words, latents.memberships

    def _check_new(self, X: ArrayLike) -> NDArray[np.floating]:
        self._check_fitted()
        words = self._validated(X, reset=False)
        check_magnitude(words)
        self.family_.check_words(words)
        return words

    def _check_fitted(self) -> None:
        check_is_fitted(self, "topic_means_")
        if self.n_components != len(self.topic_means_):
            raise PmldaError(
                f"n_components={self.n_components!r} but the model was fitted with {len(self.topic_means_)} topics. "
                "Fit again after changing n_components."
            )

    def _validated(self, X: ArrayLike, **settings: Any) -> NDArray[np.floating]:
        if getattr(X, "ndim", 0) == 3:
            raise PmldaError(
                f"X has three dimensions, {np.shape(X)}. Expected one row per word: "
                "give image.reshape(-1, n_bands), and memberships_.reshape(height, width, -1) are maps again."
            )
        accepts = "csr" if self._takes_sparse else False
        found = validate_data(self, X, dtype=[np.float64, np.float32], accept_sparse=accepts, **settings)
        if issparse(found):  # rows that stand for an array wherever families of counts use them
            return cast("NDArray[np.floating]", SparseRows.from_matrix(found))
        return np.asarray(found)

    @property
    def _takes_sparse(self) -> bool:
        """Whether X may be a sparse matrix; of parameters that make no sense, fit tells more."""
        try:
            return find_family(self.family, self.covariance).takes_sparse
        except PmldaError:
            return False

    def _weigh(
        self, X: ArrayLike, groups: ArrayLike | None, *, dominance_too: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Memberships and probabilities of dominating, of every row of X."""
        words = self._check_new(X)
        if groups is None:
            posterior = self._weigh_words(words)
            memberships, dominance = posterior.memberships, posterior.dominance
        else:
            documents = group_rows(words, groups)
            fit = self._infer_documents(documents)
            memberships = to_row_order(fit.mean.memberships, documents)
            dominance = self._dominance(fit, documents) if dominance_too else memberships
        return memberships.astype(words.dtype, copy=False), dominance.astype(words.dtype, copy=False)

    def _weigh_words(self, X: NDArray[np.floating]) -> WordPosterior:
        """The posterior of words, each by itself."""
        rng = np.random.default_rng(self.seed_)
        nodes = draw_nodes(rng, self.proportions_, self.scales_, self.document_sizes_, N_NODES)
        with Workers(self.n_jobs) as workers:
            return weigh_words(X, self.topics_, self.family_, nodes, workers)

    def _infer_documents(self, documents: Documents, fixed: dict[str, Any] | None = None) -> Fit:
        """The posterior of words in new documents: a run of the engine with the topics held."""
        engine = find_engine(START_ENGINE) if self._follows_draws else self._engine
        with self._task(documents, fixed) as (task, topics):
            fit = engine.transform(task, topics)
        if fit.interrupted:
            raise KeyboardInterrupt("Interrupted before the memberships of these documents were found.")
        return fit

    @contextmanager
    def _task(self, documents: Documents, fixed: dict[str, Any] | None = None) -> Iterator[tuple[Task, Topics]]:
        """What an engine needs to work on new documents, with the topics, centred alike."""
        checked = self._checked(sys.maxsize, fixed=fixed, known_topics=None)
        offset = self.topic_means_.mean(axis=0) if self.family_.has_location else np.zeros(1)
        with Workers(self.n_jobs) as workers:
            task = Task(*around(documents, self.family_, offset), checked, self.seed_, workers)
            refits: Refits | None = getattr(self, "refits_", None)
            if refits is not None:
                task = task._replace(refits=refits._replace(means=refits.means - offset))
            yield task, Topics(self.topic_means_ - offset, self.topics_.spread)

    def _dominance(self, fit: Fit, documents: Documents) -> FloatArray:
        if fit.dominance is not None:
            return to_row_order(fit.dominance, documents)
        with Workers(self.n_jobs) as workers:
            return dirichlet_dominance(to_row_order(_known(fit.concentrations), documents), self.seed_, workers)

    # ── keeping ────────────────────────────────────────────────────────────────────────────────────────────────
    def save(self, path: str | os.PathLike[str], *, draws: bool = False) -> None:
        """Write the fitted model to one file, without pickle. draws=True includes draws_, which can be large.

        A model that is loaded from a file without draws has no attribute draws_.
        """
        content = self.to_content()
        if draws:
            if not hasattr(self, "draws_"):
                raise PmldaError("draws=True, but this model was loaded from a file without draws. Fit it again.")
            content["draws"] = self.draws_._asdict()
        archive.save(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that save wrote. Safe for untrusted files."""
        content = archive.load(path)
        with archive.usable(path):
            return cls.from_content(content)

    def to_content(self, *, rows: bool = True) -> dict[str, Any]:
        """What a model file holds of this model; rows=False leaves out what there is for each training row."""
        self._check_fitted()
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], Integral):
            parameters["random_state"] = None  # a generator's position is not a setting; seed_ holds what was used
        if isinstance(parameters["known_topics"], dict):  # whose keys would become texts
            known = as_known(parameters["known_topics"], parameters["known_spread"], self.n_components)
            parameters["known_topics"] = known.means
        by_row = {"memberships_", "labels_", "concentrations_", "deviations_"}
        left_out = {"draws_"} if rows else {"draws_"} | by_row
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and name not in left_out}
        fitted |= {name: fitted[name]._asdict() for name in ("verdict_", "refits_") if name in fitted}
        return {"parameters": parameters, "fitted": fitted}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The model that to_content described, checked."""
        if content.get("model", "pmlda") != "pmlda":
            raise PmldaError(f"it holds a model {content['model']!r}, which pmlda.recipe.load_recipe reads")
        model = cls(**content["parameters"])
        for name, value in content["fitted"].items():
            if not name.endswith("_") or name.startswith("_"):
                raise PmldaError(f"it sets {name!r}")
            setattr(model, name, value)
        model._checked(sys.maxsize)  # the parameters
        kept = {"draws_": content["draws"]} if "draws" in content else {}
        model.__dict__.update(check_fitted(content["fitted"] | kept, model.n_components))
        model.verdict_ = Verdict.from_content(content["fitted"].get("verdict_"))
        return model

    @classmethod
    def from_fit(
        cls,
        parameters: dict[str, Any],
        fit: Fit,
        sizes: IntArray,
        family: Family,
        offset: FloatArray,
        n_features: int,
        seed: int,
        remedy: Remedy,
    ) -> Self:
        """A model of what was found elsewhere, shard by shard: all of it but the memberships of words.

        sizes : (D,) words of each document
        n_features : of a word
        """
        model = cls(**parameters)
        model.remedy = remedy
        p = n_features
        starts, none = np.concatenate([[0], np.cumsum(sizes)]), np.empty(0, np.int64)
        documents = Documents(np.empty((0, p)), none, starts, np.arange(len(sizes)), none)
        model.n_features_in_ = p
        model._keep(np.dtype(np.float32), documents, family, fit, offset, seed, estimate="mean")
        return model

    # ── scikit-learn ───────────────────────────────────────────────────────────────────────────────────────────
    def __sklearn_clone__(self) -> Self:
        """What scikit-learn calls before each fit of a search, in the process that was given the groups."""
        warn_of_dropped_groups()
        made: Self = super().__sklearn_clone__()
        return made

    @property
    def _n_features_out(self) -> int:
        return len(self.topic_means_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = self._takes_sparse
        return tags


def _given(checked: Checked, family: Family, words: NDArray[np.floating], offset: FloatArray) -> FloatArray | None:
    """(K, p) means that the user gave, around the offset; None if they are to be found."""
    means = given_means(checked, family, words.shape[1])
    return None if means is None else means - offset


def _known(concentrations: FloatArray | None) -> FloatArray:
    if concentrations is None:
        raise PmldaError("This fit has neither draws nor concentrations.")
    return concentrations
