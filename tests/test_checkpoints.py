"""Fits that are stopped and go on: the same bits as without a break, whatever happens to their checkpoints."""

from contextlib import contextmanager

import numpy as np
import pytest

from pmlda import PMLDA, Checkpoint, estimator

CHOICES = [("gaussian", name) for name in ("isotropic", "diagonal", "full", "topic-diagonal", "topic-full")]
CHOICES += [(name, "isotropic") for name in ("poisson", "bernoulli", "gamma", "categorical")]


class StoppedError(Exception):
    """The process dies here, as far as the fit can tell."""


def words(family, n=120):
    """Mixtures of three topics, as the family would have them."""
    rng = np.random.default_rng(0)
    mean = rng.dirichlet([0.5] * 3, size=n) @ (6.0 * np.eye(3) + 1.0)
    if family == "categorical":
        return np.array([rng.choice(3, p=row / row.sum()) for row in mean], dtype=float)[:, None]
    draws = {
        "gaussian": lambda: mean + rng.normal(size=mean.shape),
        "poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random(mean.shape) < mean / 8.0,
        "gamma": lambda: rng.gamma(4.0, mean / 4.0),
    }
    return draws[family]().astype(float)


def bits(model):
    """All that a fit has left, as bytes or text by name."""
    found = {name: value for name, value in vars(model).items() if name.endswith("_") and name != "family_"}
    found |= found.pop("draws_")._asdict() if "draws_" in found else {}
    return {
        name: value if isinstance(value, dict | str | int | float) else np.asarray(value).tobytes()
        for name, value in found.items()
    }


@contextmanager
def stopping(monkeypatch, n_sweeps):
    """Fits die in the sweep after so many of the same stage or chain."""

    @contextmanager
    def shown(verbose):
        counts = {}

        def report(stage, done, total, **values):
            counts[stage] = counts.get(stage, 0) + 1
            if counts[stage] > n_sweeps and stage != "comparing starts":
                raise StoppedError

        yield report

    with monkeypatch.context() as patch:
        patch.setattr(estimator, "shown", shown)
        yield


def fit_in_pieces(monkeypatch, make, X, groups, folder, n_sweeps):
    """The model, and how many times the fit was stopped before it came to an end."""
    for n_stops in range(200):
        with stopping(monkeypatch, n_sweeps):
            try:
                model = make().fit(X, groups=groups, checkpoint=Checkpoint(folder, every_sweeps=1))
                return model, n_stops
            except StoppedError:
                continue
    raise AssertionError("The fit never ends.")


@pytest.mark.parametrize(("family", "covariance"), CHOICES)
@pytest.mark.parametrize("engine", ["gibbs", "paper", "variational"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stopping_a_run_every_few_sweeps_changes_no_bit(engine, family, covariance, monkeypatch, tmp_path):
    X, groups = words(family), np.arange(120) % 4

    def make():
        return PMLDA(3, family=family, covariance=covariance, engine=engine, n_sweeps=12, n_init=1, random_state=5)

    whole = make().fit(X, groups=groups)
    model, n_stops = fit_in_pieces(monkeypatch, make, X, groups, tmp_path / "run", 3)
    assert bits(model) == bits(whole)
    assert n_stops >= 2
