"""Bayesian partial membership (Heller, Williamson and Ghahramani 2008): PMLDA with all words in one document."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pmlda.engines.diagnostics import EXTEND, Remedy
from pmlda.errors import PmldaError
from pmlda.estimator import PMLDA
from pmlda.peers.base import Learnt, Peer, Task
from pmlda.types import FloatArray, IntArray

SETTINGS = ("covariance", "alpha", "scale_rate", "engine", "n_sweeps", "n_jobs")
TRACES = ("bound_", "log_joint_")
REMEDY = Remedy("give n_sweeps={sweeps} (for a picture, sweeps={sweeps})", EXTEND.instead, either=True)


class Bpm(Peer):
    """Bayesian partial membership model. Groups are ignored.

    transform weighs each row as a word of the training document. describe takes all rows for one new document, whose
    proportions and scale are inferred.

    Parameters
    ----------
    n_components, covariance, alpha, scale_rate, engine, n_sweeps, random_state, n_jobs
        As in PMLDA.

    Attributes beside those of every peer
    -------------------------------------
    model_ : PMLDA, with all that it offers, in units in which the data have mean 0 and spread 1
    bound_ or log_joint_ : its trace

    >>> X = np.random.default_rng(0).dirichlet([0.5, 0.5], size=200) @ [[0.0, 0.0], [9.0, 3.0]]
    >>> Bpm(2, random_state=0).fit(X).memberships_.shape
    (200, 2)
    """

    name = "bpm"
    summary = "Bayesian partial membership: PM-LDA with all words in one document"
    takes_checkpoint = True
    warns_itself = True

    model_: PMLDA

    def __init__(
        self,
        n_components: int = 3,
        *,
        covariance: str = "isotropic",
        alpha: ArrayLike = 1.0,
        scale_rate: float = 0.5,
        engine: str = "variational",
        n_sweeps: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.alpha = alpha
        self.scale_rate = scale_rate
        self.engine = engine
        self.n_sweeps = n_sweeps
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None, checkpoint: Any = None) -> Self:
        """As every peer learns. checkpoint : as in PMLDA.fit"""
        self._checkpoint = checkpoint
        try:
            return super().fit(X, groups=groups)
        finally:
            del self._checkpoint

    def _learn(self, task: Task) -> Learnt:
        settings = {name: getattr(self, name) for name in SETTINGS}
        model = PMLDA(task.n_topics, n_refits=0, random_state=task.seed, **settings)
        model.remedy = REMEDY
        model.fit(task.words, checkpoint=self._checkpoint)
        fitted = {"model_": model} | {name: getattr(model, name) for name in TRACES if hasattr(model, name)}
        memberships = np.asarray(model.memberships_, dtype=np.float64)
        std = model.membership_std_
        return Learnt(model.topic_means_, model.n_iter_, model.verdict_, fitted, memberships, std)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        return np.asarray(self.model_.transform(words))

    def _weigh_with_std(self, words: FloatArray, document: IntArray, n_documents: int) -> tuple[FloatArray, FloatArray]:
        found = self.model_.infer_documents(words, groups=np.zeros(len(words), np.int64))
        return np.asarray(found.memberships), np.asarray(found.std)

    def to_content(self, *, rows: bool = True) -> dict[str, Any]:
        content = super().to_content(rows=rows)
        content["fitted"]["model_"] = self.model_.to_content(rows=rows)
        return content

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        inner = PMLDA.from_content(content["fitted"]["model_"])
        return super().from_content(content | {"fitted": content["fitted"] | {"model_": inner}})

    def _check_loaded(self) -> None:
        if self.model_.topic_means_.shape != self.topic_means_.shape:
            raise PmldaError("model_ has other topics")
