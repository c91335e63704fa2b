"""What a fitted model can be asked: memberships of new rows, uncertainty, diagnostics of its draws, a file."""

from __future__ import annotations

import os
import sys
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pmlda.engines import inference
from pmlda.engines.diagnostics import Diagnosis, diagnose, optimiser_verdict, to_datatree, too_short
from pmlda.engines.documents import group_rows, to_row_order
from pmlda.engines.inference import Task
from pmlda.engines.parameters import check_fitted_values, check_magnitude, check_parameters
from pmlda.engines.quadrature import WordPosterior, draw_nodes, weigh_words
from pmlda.engines.uncertainty import dirichlet_dominance, dirichlet_interval, dirichlet_std, draws_interval
from pmlda.families import Family
from pmlda.model import simulate
from pmlda.parallel.threads import Workers
from pmlda.storage import archive as files
from pmlda.types import DocumentPosterior, Documents, Draws, Fit, FloatArray, IntArray, Topics, Verdict
from pmlda.validate import positive_array, require, whole

if TYPE_CHECKING:
    from xarray import DataTree

N_NODES = 4096
"""Points on the simplex with which transform weighs words."""


# scikit-learn ships no types, so its base classes are unknown to mypy.
class FittedModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The part of PMLDA that needs a fit; pmlda.estimator has the part that makes one."""

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
    memory_: dict[str, Any]

    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"groups": True}

    @property
    def _topics(self) -> Topics:
        spread = getattr(self, "topic_covariances_", getattr(self, "noise_variance_", np.empty(0)))
        return Topics(self.topic_means_, np.asarray(spread, dtype=np.float64))

    # ── uncertainty of the training rows ─────────────────────────────────────────────────────────────────────────
    @property
    def membership_std_(self) -> FloatArray:
        """(N, K) standard deviation of each membership of the training rows, topics taken as known."""
        self._check_fitted()
        if hasattr(self, "concentrations_"):
            return dirichlet_std(self.concentrations_)
        return np.asarray(self._membership_draws().std(axis=0, dtype=np.float64))

    def membership_interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (N, K) each, between which a membership lies with this probability."""
        self._check_fitted()
        require(
            isinstance(level, Real) and 0.0 < level < 1.0,
            f"level={level!r}: give a probability between 0 and 1, for instance 0.9.",
        )
        if hasattr(self, "concentrations_"):
            return dirichlet_interval(self.concentrations_, float(level))
        return draws_interval(self._membership_draws(), float(level))

    def _membership_draws(self) -> NDArray[np.float32]:
        """(S, N, K) kept draws of the memberships."""
        memberships = self._kept_draws().memberships
        require(len(memberships) >= 2, "No draws of memberships were kept. Fit with a larger draws_memory.")
        return np.asarray(memberships)

    # ── diagnostics of a sampler ─────────────────────────────────────────────────────────────────────────────────
    def diagnose(self) -> Diagnosis:
        """R-hat, effective sample size and Monte Carlo error of everything, memberships as (N, K), and a verdict."""
        return self._diagnose(memberships=True)

    def _diagnose(self, *, memberships: bool) -> Diagnosis:
        return diagnose(self._free_draws(memberships=memberships), self.n_jobs)

    def _free_draws(self, *, memberships: bool) -> dict[str, NDArray[np.floating]]:
        """Draws by chain of what was not fixed."""
        draws = self._kept_draws().by_chain()
        if not memberships:
            draws.pop("memberships", None)
        for name, fixed in (("means", "topics"), ("spread", "covariance")):
            if fixed in (self.fixed or {}):
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
            raise ValueError(
                "There are no draws: engine='variational' makes none, and model files hold them only if saved with "
                "draws=True. Fit with engine='gibbs'."
            )
        return draws

    # ── using ──────────────────────────────────────────────────────────────────────────────────────────────────
    def transform(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> NDArray[np.floating]:
        """(N, K) how much of each topic every row has: degrees of membership.

        Without groups each row stands alone, as a word of a document like those seen in training; rows do not
        influence each other. With groups, rows of one group form a new document whose proportions and scale are
        inferred by the engine, topics held; proportions and scales that were fixed in training are not. With a
        sampler that is a Monte Carlo estimate: other groups beside them, or rows in another order, change its noise.
        """
        return self._weigh(X, groups, dominance_too=False)[0]

    def describe(
        self, X: ArrayLike, *, groups: ArrayLike, concentrations: ArrayLike | None = None
    ) -> DocumentPosterior:
        """Memberships of new documents as transform gives them, with their uncertainty and each document's π and s.

        concentrations : (D, K) s·π of each document, labels in ascending order, where they are known; the memberships
            are then those of engine "variational", and each row depends on its document's alone
        """
        words = self._check_new(X)
        documents = group_rows(words, groups)
        fit = self._weigh_documents(documents, concentrations)
        if fit.concentrations is not None:
            std = dirichlet_std(fit.concentrations)
        else:
            draws = fit.draws.memberships if fit.draws is not None else np.empty((0, 0, 0))
            require(len(draws) >= 2, "No draws of memberships were kept. Set a larger draws_memory.")
            std = np.asarray(draws.std(axis=0, dtype=np.float64))
        return DocumentPosterior(
            to_row_order(fit.mean.memberships, documents).astype(words.dtype, copy=False),
            to_row_order(std, documents),
            fit.mean.proportions,
            fit.mean.scales,
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

    def score(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of the rows; higher is better, so it can choose between fits and n_components."""
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(self.score_samples(X), weights=weights))

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """New rows from the fitted model, with their memberships: X (n, p) and Z (n, K)."""
        check_is_fitted(self, "topic_means_")
        whole("n_samples", n_samples, 1)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        sizes = rng.multinomial(n_samples, self.document_sizes_ / self.document_sizes_.sum())
        words, _, latents = simulate(
            rng, self.family_, self._topics, sizes, scales=self.scales_, proportions=self.proportions_
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
            raise ValueError(
                f"n_components={self.n_components!r} but the model was fitted with {len(self.topic_means_)} topics. "
                "Fit again after changing n_components."
            )

    def _validated(self, X: ArrayLike, **settings: Any) -> NDArray[np.floating]:
        if getattr(X, "ndim", 0) == 3:
            raise ValueError(
                f"X has three dimensions, {np.shape(X)}. Expected one row per word: "
                "give image.reshape(-1, n_bands), and memberships_.reshape(height, width, -1) are maps again."
            )
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], **settings))

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
            fit = self._weigh_documents(documents)
            memberships = to_row_order(fit.mean.memberships, documents)
            dominance = self._dominance(fit, documents) if dominance_too else memberships
        return memberships.astype(words.dtype, copy=False), dominance.astype(words.dtype, copy=False)

    def _weigh_words(self, X: NDArray[np.floating]) -> WordPosterior:
        """The posterior of words, each by itself."""
        rng = np.random.default_rng(self.seed_)
        nodes = draw_nodes(rng, self.proportions_, self.scales_, self.document_sizes_, N_NODES)
        with Workers(self.n_jobs) as workers:
            return weigh_words(X, self._topics, self.family_, nodes, workers)

    def _weigh_documents(self, documents: Documents, concentrations: ArrayLike | None = None) -> Fit:
        """The posterior of words in new documents: a run of the engine with the topics held, and π and s if known."""
        checked = check_parameters(self.get_params(deep=False) | {"fixed": None}, sys.maxsize)
        offset = self.topic_means_.mean(axis=0) if self.family_.has_location else np.zeros(1)
        centred = documents._replace(words=documents.words - offset) if self.family_.has_location else documents
        topics = Topics(self.topic_means_ - offset, self._topics.spread)
        family = self.family_.shifted(-offset)
        with Workers(self.n_jobs) as workers:
            task = Task(centred, family, checked, self.seed_, workers)
            if concentrations is not None:
                shape = len(documents.sizes), len(self.topic_means_)
                return inference.weigh(task, topics, positive_array("concentrations", concentrations, shape))
            fit = inference.transform(task, topics)
        if fit.interrupted:
            raise KeyboardInterrupt("Interrupted before the memberships of these documents were found.")
        return fit

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
                raise ValueError("draws=True, but this model was loaded from a file without draws. Fit it again.")
            content["draws"] = self.draws_._asdict()
        files.save(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that save wrote. Safe for files from strangers."""
        content = files.load(path)
        try:
            return cls.from_content(content)
        except (LookupError, TypeError, AttributeError, ValueError, np.linalg.LinAlgError) as error:
            raise files.ModelFileError(
                f"{str(path)!r} is not a usable model file: it lacks something or has too much ({error})."
            ) from None

    def to_content(self, *, rows: bool = True) -> dict[str, Any]:
        """What a model file holds of this model; rows=False leaves out what there is for each training row."""
        self._check_fitted()
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], Integral):
            parameters["random_state"] = None  # a generator's position is not a setting; seed_ holds what was used
        left_out = {"draws_"} if rows else {"draws_", "memberships_", "labels_", "concentrations_"}
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and name not in left_out}
        return {"parameters": parameters, "fitted": fitted | {"verdict_": self.verdict_._asdict()}}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The model that to_content described, checked."""
        if content.get("model", "pmlda") != "pmlda":
            raise ValueError(f"it holds a model {content['model']!r}, which pmlda.recipe.load_chain reads")
        model = cls(**content["parameters"])
        for name, value in content["fitted"].items():
            if not name.endswith("_") or name.startswith("_"):
                raise ValueError(f"it sets {name!r}")
            setattr(model, name, value)
        if "draws" in content:
            model.draws_ = Draws(**content["draws"])
        check_fitted_values(model.__dict__, model.n_components)
        if "verdict_" in content["fitted"]:
            model.verdict_ = Verdict.from_content(content["fitted"]["verdict_"])
        elif model.engine != "variational":  # earlier versions kept verdicts on enough draws alone
            model.verdict_ = too_short(model.n_iter_)
        else:
            settled = model.n_iter_ < model.n_sweeps
            model.verdict_ = optimiser_verdict(model.n_iter_, converged=settled, limit="n_sweeps")
        return model

    # ── scikit-learn ───────────────────────────────────────────────────────────────────────────────────────────
    @property
    def _n_features_out(self) -> int:
        return len(self.topic_means_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _known(concentrations: FloatArray | None) -> FloatArray:
    if concentrations is None:
        raise ValueError("This fit has neither draws nor concentrations.")
    return concentrations
