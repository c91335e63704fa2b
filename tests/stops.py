"""Fits to be stopped, for test_checkpoints and test_resume; as a process of its own, a fit to be killed.

python -m tests.stops ENGINE FOLDER: tells when the fit begins, and keeps a checkpoint of every sweep.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pmlda import PMLDA, Checkpoint, estimator
from pmlda.engines import variational_schedule as schedule

# About a second each, most of it spent on checkpoints.
LONG_FITS = {
    "variational": {"n_sweeps": 60, "tol": 1e-12},
    "gibbs": {"n_sweeps": 60},
    "paper": {"n_sweeps": 150},
}


class StoppedError(Exception):
    """The process dies here, as far as the fit can tell."""


def words(family: str, n: int = 120) -> np.ndarray:
    """Mixtures of three topics, as the family would have them."""
    rng = np.random.default_rng(0)
    mean = rng.dirichlet([0.5] * 3, size=n) @ (6.0 * np.eye(3) + 1.0)
    if family == "categorical":
        return np.array([rng.choice(3, p=row / row.sum()) for row in mean], dtype=float)[:, None]
    draws = {
        "gaussian": lambda: mean + rng.normal(size=mean.shape),
        "poisson": lambda: rng.poisson(mean),
        "additive-poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random(mean.shape) < mean / 8.0,
        "gamma": lambda: rng.gamma(4.0, mean / 4.0),
    }
    return draws[family]().astype(float)


def bits(model: PMLDA) -> dict[str, Any]:
    """All that a fit has left, as bytes or text by name."""
    found = {name: value for name, value in vars(model).items() if name.endswith("_") and name != "family_"}
    for name in ("draws_", "refits_"):
        found |= found.pop(name)._asdict() if name in found else {}
    return {
        name: value if isinstance(value, dict | str | int | float) else np.asarray(value).tobytes()
        for name, value in found.items()
    }


@contextmanager
def watched(patches: Any, watch: Any) -> Iterator[None]:
    """Fits call watch(stage, number of sweeps of it in this fit) after every sweep, before its checkpoint."""

    @contextmanager
    def shown(verbose: int) -> Iterator[Any]:
        counts: dict[str, int] = {}

        def report(stage: str, done: int, total: int, **values: float) -> None:
            counts[stage] = counts.get(stage, 0) + 1
            watch(stage, counts[stage])

        yield report

    with patches.context() as patch:
        patch.setattr(estimator, "shown", shown)
        yield


def stop_after(n_sweeps: int, *, sampling: bool = False) -> Any:
    """A watch in which a fit dies in the sweep after so many of one stage or chain; with sampling, of a chain only."""

    def watch(stage: str, count: int) -> None:
        if count > n_sweeps and stage != schedule.STARTS and not (sampling and stage == schedule.TOPICS):
            raise StoppedError

    return watch


def fit_long(engine: str, folder: Path | None) -> PMLDA:
    """A fit that takes a moment, with a checkpoint after every sweep."""
    warnings.simplefilter("ignore", category=estimator.ConvergenceWarning)
    checkpoint = None if folder is None else Checkpoint(folder, every_sweeps=1)
    model = PMLDA(3, engine=engine, random_state=3, n_jobs=2, **LONG_FITS[engine])
    return model.fit(words("gaussian", 2000), groups=np.arange(2000) // 100, checkpoint=checkpoint)


if __name__ == "__main__":
    print("begins", flush=True)
    fit_long(sys.argv[1], Path(sys.argv[2]))
