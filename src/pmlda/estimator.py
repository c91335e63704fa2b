"""PMLDA: the scikit-learn face. Rows of X → memberships; groups say which document each row belongs to."""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from pmlda.engines import inference
from pmlda.engines.diagnostics import LEAST_DRAWS
from pmlda.engines.documents import group_rows, to_row_order
from pmlda.engines.inference import Memory, Task
from pmlda.engines.parameters import check_distinct_rows, check_magnitude, check_parameters
from pmlda.errors import PmldaError
from pmlda.families import Family
from pmlda.families.rows import column_means
from pmlda.fitted import FittedModel
from pmlda.parallel.progress import shown
from pmlda.parallel.threads import Workers
from pmlda.storage.checkpoints import Checkpoint, CheckpointFolder, identify, no_checkpoints, to_checkpoint
from pmlda.types import Documents, Fit, FloatArray, Topics
from pmlda.validate import require, whole

if TYPE_CHECKING:
    pass


class PMLDA(FittedModel):
    """Partial Membership Latent Dirichlet Allocation.

    Every row of X is a word (a pixel's features) that belongs partly to several topics; rows with the same group form
    a document (a superpixel, a window) whose words mix topics alike. Without groups all rows are one document, which
    is the Bayesian Partial Membership model of Heller, Williamson and Ghahramani (2008).

    Parameters
    ----------
    n_components : int
        Number of topics, K.
    family : {"gaussian", "poisson", "bernoulli", "gamma", "categorical"} or Family
        Distribution of a word. An object such as ``Gamma(shape=4)`` carries its own settings.
    covariance : {"isotropic", "diagonal", "full", "topic-diagonal", "topic-full"}
        For Gaussians: one covariance for all topics, or one per topic. Isotropic is the paper's; with it the scale of
        each feature matters. A full covariance does not mind how features are scaled (but engine "paper" hardly moves
        it from where it starts).
    alpha : float or (K,) array
        Dirichlet prior of a document's proportions. In the literature: α.
    scale_rate : float
        Rate of the exponential prior of a document's scale. In the literature: λ. Small values expect words to mix
        like their document, large values expect crisp words.
    engine : {"variational", "gibbs", "paper"}
        Inference. "variational" is fast, and a little too sure; "gibbs" draws from the exact posterior; "paper" is
        Algorithm 1 of the paper.
    n_sweeps : int
        Sweeps of a sampler in all, warm-up included; for "variational" the most in each stage.
    estimate : {"mean", "map"}
        What the fitted attributes hold: the posterior mean, or the sample of largest log joint density (the paper's).
    random_state : int, RandomState or None
        Equal seeds give equal bits, for any number of threads.
    n_jobs : int or None
        Threads. None means every core: the result does not depend on it.
    verbose : int
        1 shows a bar with what the engine is doing and the time left.

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
    concentrations_ : (N, K) the Dirichlet posterior of each training row's memberships; engine "variational"
    bound_ : (n_iter_,) trace of the bound; engine "variational"
    log_joint_ : (n_iter_,) trace of the log joint density, averaged over chains; samplers
    acceptance_ : dict, share of accepted proposals by block, after warm-up; samplers
    draws_ : samples of everything, see pmlda.types.Draws; samplers
    verdict_ : str, whether chains have mixed, and if not, what to do; samplers

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

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        n_components: int = 3,
        *,
        family: str | Family = "gaussian",
        covariance: str = "isotropic",
        alpha: ArrayLike = 1.0,
        scale_rate: float = 0.5,
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
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        extend: int | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Learn topics, and the memberships of the rows of X. groups is the document of each row; y is ignored.

        extend : go on sampling from where the last fit of the same data ended, until there are so many more draws of
            each chain. Engines "gibbs" and "paper" only.
        checkpoint : a folder that keeps, every minute, what this fit needs to go on; or a pmlda.Checkpoint. Where it
            holds checkpoints of the same fit (X, groups and parameters; n_jobs, verbose and estimate may differ), the
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
            return self._fit(X, groups, extend, None if checkpoint is None else to_checkpoint(checkpoint))
        except BaseException:  # an error or Ctrl-C leaves the estimator as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: ArrayLike, groups: ArrayLike | None, extend: int | None, checkpoint: Checkpoint | None) -> Self:
        require(
            extend is None or checkpoint is None,
            "extend and checkpoint were both given, but only whole fits are kept. Give one of them.",
        )
        words = self._validated(X, ensure_min_samples=2)
        check_magnitude(words)
        checked = check_parameters(self.get_params(deep=False), len(words))
        checked.family.check_words(words)
        check_distinct_rows(words, checked.n_topics, checked.family)
        documents = group_rows(words, groups)
        family = checked.family.informed_by(words)
        offset = column_means(words) if family.has_location else np.zeros(1)
        # Large offsets cost digits in ℓ and ZᵀX, so a family with a location is computed around the mean of the data.
        centred = documents._replace(words=documents.words - offset) if family.has_location else documents
        fingerprint = _fingerprint(documents) if checkpoint or checked.engine != "variational" else ""
        with ExitStack() as stack:
            store = None
            if checkpoint is not None:
                store = stack.enter_context(CheckpointFolder(checkpoint, self._asked(fingerprint)))
            seed = self._choose_seed(extend, store)
            workers, report = stack.enter_context(Workers(self.n_jobs)), stack.enter_context(shown(self.verbose))
            series = no_checkpoints if store is None else store.open_series(seed)
            task = Task(centred, family.shifted(-offset), checked, seed, workers, report, series)
            if extend is None:
                outcome = inference.fit(task, offset)
            else:
                outcome = inference.extend(
                    task, self._chains_of(checked.engine + fingerprint), self._sweeps_after(extend)
                )
        fit = outcome.fit
        self._keep(words.dtype, documents, family, fit, offset, seed, estimate=checked.estimate)
        self._chains = None if outcome.chains is None else (checked.engine + fingerprint, outcome.chains)
        if "topics" in checked.fixed:
            self.topic_means_ = np.array(checked.fixed["topics"], dtype=np.float64)  # free of rounding
        self._warn(fit)
        return self

    def _choose_seed(self, extend: int | None, store: CheckpointFolder | None) -> int:
        """That of random_state; where it leaves the seed open, that of the fit to go on with."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if extend is not None:
            return int(getattr(self, "seed_", seed))
        return seed if store is None or store.seed is None or self.random_state is not None else store.seed

    def _asked(self, fingerprint: str) -> dict[str, str]:
        """All that decides on the course of a fit but the seed, as texts."""
        chosen = self.get_params(deep=False)
        names = [name for name in chosen if name not in ("random_state", "estimate", "n_jobs", "verbose")]
        return {name: identify(chosen[name]) for name in names} | {"X and groups": fingerprint}

    def fit_transform(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """fit(X, groups=groups), then transform(X, groups=groups). The fit's own answer is memberships_."""
        return self.fit(X, groups=groups).transform(X, groups=groups)

    @available_if(lambda self: self.engine == "variational")  # type: ignore[untyped-decorator]
    def partial_fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Learn from one more batch of documents, for streams and corpora that do not fit in memory.

        The first batch sets the scale of the prior, so it should be typical. Topics are refined with every batch;
        memberships_ and labels_ are those of the batch, proportions_ and scales_ of all documents so far. Only with
        engine "variational".
        """
        before = self.__dict__.copy()
        try:
            return self._partial_fit(X, groups)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _partial_fit(self, X: ArrayLike, groups: ArrayLike | None) -> Self:
        is_first = not hasattr(self, "memory_")
        words = self._validated(X, reset=is_first, ensure_min_samples=2 if is_first else 1)
        check_magnitude(words)
        checked = check_parameters(self.get_params(deep=False), len(words) if is_first else sys.maxsize)
        checked.family.check_words(words)
        documents = group_rows(words, groups)
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
        centred = documents._replace(words=documents.words - offset) if family.has_location else documents
        topics = None if is_first else Topics(self.topic_means_ - offset, self._topics.spread)
        memory = None if is_first else Memory(**{name: self.memory_[name] for name in Memory._fields})
        with Workers(self.n_jobs) as workers, shown(self.verbose) as report:
            task = Task(centred, family.shifted(-offset), checked, seed, workers, report)
            fit, memory = inference.update(task, topics, memory, offset)
        self._keep(words.dtype, documents, family, fit, offset, seed, estimate="mean")
        self._chains = None
        self.memory_ = memory._asdict() | {"offset": offset}
        self.n_iter_ = memory.n_batches
        if earlier is not None:
            self.proportions_ = np.concatenate([earlier[0], self.proportions_])
            self.scales_ = np.concatenate([earlier[1], self.scales_])
            self.documents_ = np.concatenate([earlier[2], self.documents_])
            self.document_sizes_ = np.concatenate([earlier[3], self.document_sizes_])
        return self

    def _chains_of(self, fingerprint: str) -> inference.Chains:
        """The chains of the last fit, to go on with."""
        kept: tuple[str, inference.Chains] | None = getattr(self, "_chains", None)
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

    def _warn(self, fit: Fit) -> None:
        """Tell what a user should know about this fit."""
        if fit.interrupted:
            warnings.warn(
                f"The fit was interrupted after {self.n_iter_} of {self.n_sweeps} sweeps; what it had found is kept.",
                stacklevel=4,
            )
        elif not fit.converged:
            warnings.warn(
                f"The bound was still rising after {self.n_iter_} sweeps. Give a larger n_sweeps, or a larger tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif self.engine == "gibbs" and "have not mixed" in getattr(self, "verdict_", ""):
            warnings.warn(self.verdict_, ConvergenceWarning, stacklevel=4)

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
        self.topic_means_ = chosen.topics.means + offset
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
        for name in ("memory_", "bound_", "concentrations_", "log_joint_", "acceptance_", "draws_", "verdict_"):
            self.__dict__.pop(name, None)
        if fit.concentrations is not None:
            self.bound_ = fit.trace
            self.concentrations_ = to_row_order(fit.concentrations, documents)
        if fit.draws is not None:
            self.log_joint_ = fit.trace
            self.acceptance_ = fit.acceptance
            memberships = np.empty_like(fit.draws.memberships)
            memberships[:, documents.order] = fit.draws.memberships
            self.draws_ = fit.draws._replace(means=fit.draws.means + offset, memberships=memberships)
            if len(fit.draws.sweeps) >= LEAST_DRAWS * fit.draws.n_chains:
                self.verdict_ = self._diagnose(memberships=False).verdict

    def _set_spread(self, spread: FloatArray) -> None:
        for name in ("noise_variance_", "topic_covariances_"):
            if hasattr(self, name):
                delattr(self, name)
        if self.family_.spread_per_topic:
            self.topic_covariances_ = spread
        elif spread.size:
            self.noise_variance_ = float(spread) if spread.ndim == 0 else spread


def _fingerprint(documents: Documents) -> str:
    """A text that tells these words, in these documents, from others."""
    words = documents.words
    digest = hashlib.sha256(f"{words.dtype} {words.shape}".encode())
    digest.update(np.ascontiguousarray(words).data)
    digest.update(documents.starts.tobytes())
    return digest.hexdigest()
