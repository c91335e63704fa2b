"""A new engine is one file and one line: it runs in memory and in tiles, with checkpoints, killed and resumed."""

import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from pmlda import PMLDA, Checkpoint, PmldaError, segment
from pmlda.families import Gaussian
from pmlda.storage.run_folder import run_folder
from tests.engines import toy
from tests.problems import random_corpus, triangle

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(Gaussian(), triangle(), [60] * 6, seed=4)


def fitted(corpus, n_sweeps=40, **more):
    X, groups, _ = corpus
    return PMLDA(3, engine="toy", n_sweeps=n_sweeps, random_state=0).fit(X, groups=groups, **more)


def test_it_fits_transforms_and_is_diagnosed(corpus):
    X, groups, latents = corpus
    model = fitted(corpus, 400)
    error = np.sqrt(((np.sort(model.memberships_) - np.sort(latents.memberships)) ** 2).mean())
    assert error < 0.15
    assert model.draws_.memberships.shape[1:] == model.memberships_.shape
    assert model.transform(X[:60], groups=groups[:60]).shape == (60, 3)
    assert set(model.diagnose().rhat) == {"means", "spread", "proportions", "scales", "memberships"}


def test_it_can_be_extended_and_resumed_from_checkpoints(corpus, tmp_path):
    X, groups, _ = corpus
    whole = fitted(corpus)
    longer = PMLDA(3, engine="toy", n_sweeps=25, burn_in=20, random_state=0).fit(X, groups=groups)
    longer.fit(X, groups=groups, extend=15)
    np.testing.assert_array_equal(longer.memberships_, whole.memberships_)
    for _ in range(2):
        kept = fitted(corpus, checkpoint=Checkpoint(tmp_path / "kept", every_sweeps=7))
        np.testing.assert_array_equal(kept.memberships_, whole.memberships_)
    assert list((tmp_path / "kept").glob("sampling-*.checkpoint"))


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    return segment(toy.scene(), 3, out=tmp_path_factory.mktemp("toy") / "maps.zarr", n_jobs=1, **toy.ASKED)


def bits(found):
    return [np.asarray(each).tobytes() for each in (found.memberships, found.uncertainty, found.topics)]


def test_it_runs_in_memory_and_in_tiles(tiled, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = segment(toy.scene(), 3, **toy.ASKED)
    assert plain.memberships.shape == tiled.memberships.shape
    np.testing.assert_allclose(np.asarray(tiled.memberships).sum(axis=2), 1.0, atol=1e-5)
    again = segment(toy.scene(), 3, out=tmp_path / "maps.zarr", n_jobs=2, **toy.ASKED)
    assert bits(again) == bits(tiled)
    assert tiled.recipe.model.engine == "toy"


def test_a_run_in_tiles_that_is_killed_is_resumed_to_the_same_bits(tiled, tmp_path):
    out = tmp_path / "maps.zarr"
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "tests.engines.toy", str(out)])
    parts = run_folder(out) / "parts" / "topics-0-odd"
    while not list(parts.rglob("*.pmlda")) and process.poll() is None:
        time.sleep(0.005)
    time.sleep(0.2)
    process.kill()
    assert process.wait() != 0
    assert not out.exists()
    assert bits(segment(toy.scene(), 3, out=out, resume=True, **toy.ASKED)) == bits(tiled)


def test_an_engine_that_is_not_there_is_named_with_those_that_are(corpus):
    X, groups, _ = corpus
    says = r"engine='gibs' is not known. Did you mean 'gibbs'\? Choose one of \['variational', 'gibbs', 'paper'"
    with pytest.raises(PmldaError, match=says):
        PMLDA(3, engine="gibs").fit(X, groups=groups)
    with pytest.raises(PmldaError, match=says):
        segment(toy.scene(), 3, engine="gibs")
