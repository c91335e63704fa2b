"""A sampler over tiles: the sampler of a picture in one piece, whoever computes it and whatever interrupts it."""

import warnings
from contextlib import suppress
from itertools import permutations

import numpy as np
import pytest

from pmlda import Segmentation, segment
from pmlda.engines import gibbs
from pmlda.engines.base import Sums, Task, add_up
from pmlda.engines.sampling import rules_of
from pmlda.errors import RunError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.parallel.executor import ThreadExecutor
from pmlda.parallel.progress import Clock, silent
from pmlda.parallel.threads import Workers
from pmlda.pipeline import shards
from pmlda.pipeline.learning import Learning
from pmlda.pipeline.request import Asked
from pmlda.pipeline.run import Run
from pmlda.pipeline.tiled import TiledRun
from pmlda.settings import make_settings
from pmlda.storage.store import FolderStore, need
from pmlda.types import Statistics

SWEEPS = 10
# design_effect=1 visits every pixel.
ASKED = {"engine": "gibbs", "design_effect": 1, "documents": "windows:32", "block": 64, "sweeps": SWEEPS}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def scene():
    picture, truth = smooth_scene(64, 128, 3, 0.04, 0)
    picture = picture.astype(np.float64)
    picture[20:30, 50:80] = np.nan  # across the border of the two tiles
    return picture, truth


def run(scene, out, **more):
    return segment(scene[0], 3, out=out, **ASKED | more)


@pytest.fixture(scope="module")
def whole(scene, tmp_path_factory):
    """A run without an interruption."""
    return run(scene, tmp_path_factory.mktemp("whole") / "maps.zarr", n_jobs=1)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.memberships[:], expected.memberships[:])
    np.testing.assert_array_equal(found.uncertainty[:], expected.uncertainty[:])
    np.testing.assert_array_equal(found.topics, expected.topics)


def test_two_threads_find_the_same(scene, whole, tmp_path):
    assert_same(run(scene, tmp_path / "maps.zarr", n_jobs=2), whole)


def stop_after(monkeypatch, n_calls):
    """Let so many sweeps of tiles be done, and then no more."""
    done = []
    advance = shards.advance

    def counted(*arguments):
        if len(done) >= n_calls:
            raise KeyboardInterrupt
        done.append(1)
        return advance(*arguments)

    monkeypatch.setattr(shards, "advance", counted)


@pytest.mark.parametrize("n_calls", [1, 13, 4 * SWEEPS - 1])
def test_a_run_that_was_interrupted_is_resumed_to_the_same_bits(scene, whole, tmp_path, monkeypatch, n_calls):
    out = tmp_path / "maps.zarr"
    with monkeypatch.context() as patch:
        stop_after(patch, n_calls)
        with pytest.raises(KeyboardInterrupt, match="resume with"):
            run(scene, out, n_jobs=1)
    assert_same(run(scene, out, resume=True), whole)


def half_done(scene, out, monkeypatch):
    """Sweep 4 has been made of all tiles and sweep 5 of some."""
    with monkeypatch.context() as patch:
        stop_after(patch, 4 * 4 + 2)
        with suppress(KeyboardInterrupt):
            run(scene, out, n_jobs=1)
    return FolderStore(out.with_name("maps.zarr.run"), b"")


@pytest.mark.parametrize("stage", ["chain-0-even", "chain-1-odd", "topics-0-even", "topics-1-even"])
def test_a_damaged_state_is_made_again(scene, whole, tmp_path, monkeypatch, stage):
    out = tmp_path / "maps.zarr"
    path = half_done(scene, out, monkeypatch).part_path(stage, 0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    assert_same(run(scene, out, resume=True), whole)


def test_where_both_states_of_a_tile_are_damaged_one_error_says_so(scene, tmp_path, monkeypatch):
    out = tmp_path / "maps.zarr"
    store = half_done(scene, out, monkeypatch)
    for stage in ("chain-0-even", "chain-0-odd"):
        store.part_path(stage, 1).write_bytes(b"")
    with pytest.raises(RunError, match="Both kept states of tile 1 are damaged"):
        run(scene, out, resume=True)


def test_topics_are_those_of_the_sampler_in_one_piece(tmp_path):
    """One tile: the sums that travel are all sums, so updates from them are those of engines.gibbs, bit by bit."""
    picture, _ = smooth_scene(64, 64, 3, 0.04, 0)
    asked = Asked([picture], [None], make_settings({"topics": 3} | ASKED), documents=ASKED["documents"])
    job = TiledRun(asked, tmp_path / "maps.zarr").job(tmp_path)
    job.maps.create()
    Run(job, ThreadExecutor(1), silent, Clock()).all_stages(Learning(1, start_only=True))
    setting = shards.setting_of(job)
    tile = job.plan.tiles[0]
    with Workers(1) as workers:
        words = shards.words_of(job, tile, setting)
        task = Task(words, setting.family, setting.checked, setting.seed, workers, shard=0)
        state = setting.engine.start_known(task, setting.start, setting.checked.fixed)[0]
        rules = rules_of(setting.checked, setting.seed, setting.checked.fixed, 0, shard=0)
        local = setting.engine.local_step(words, setting.family, rules, workers)
        update = gibbs.TopicUpdate(setting.family, gibbs.settings_of(rules, rules.seed))
        for sweep in range(SWEEPS):
            topics, _ = update.update(state.topics, local.move(state), sweep)
            state = state._replace(sweep=sweep + 1, topics=topics)
    kept = need(job.store, "topics-0-even", 0)["chain"]["topics"]
    np.testing.assert_array_equal(kept.means, state.topics.means)
    np.testing.assert_array_equal(kept.spread, state.topics.spread)


def test_maps_are_as_good_as_those_of_a_picture_in_one_piece(scene, tmp_path):
    """20 draws of each chain: they differ by Monte Carlo error, a few percent of the error against the truth."""
    tiles, plain = run(scene, tmp_path / "maps.zarr", sweeps=40), plainly(scene[0])
    errors = [error_of(np.asarray(found.memberships), scene[1]) for found in (tiles, plain)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    assert np.nanmean(np.abs(np.asarray(tiles.uncertainty) - plain.uncertainty)) < 0.2 * np.nanmean(plain.uncertainty)


def plainly(picture):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not mixed
        return segment(picture, 3, engine="gibbs", documents="windows:32", sweeps=40, design_effect=1)


def error_of(maps, truth):
    """Against the truth, its materials in the order that suits best."""
    return min(np.sqrt(np.nanmean((maps - truth[..., list(order)]) ** 2)) for order in permutations(range(3)))


def test_the_result_says_whether_chains_have_mixed(whole):
    again = Segmentation.load(whole.path)
    assert again.settings.engine == "gibbs"
    assert again.verdict.state in ("converged", "nearly", "not_converged")
    assert "--set sweeps=" in again.verdict.advice
    assert np.isnan(np.asarray(again.memberships)[25, 60]).all()
    np.testing.assert_allclose(np.nansum(np.asarray(again.memberships), axis=2)[0], 1.0, atol=1e-5)


def test_the_model_has_the_documents_of_all_tiles_and_the_traces_of_the_sampler(whole):
    model = whole.recipe.model
    assert model.engine == "gibbs"
    assert len(model.log_joint_) == model.n_iter_ == SWEEPS
    assert model.proportions_.shape == (8, 3)
    assert model.document_sizes_.sum() == np.isfinite(whole.memberships[..., 0]).sum()
    np.testing.assert_allclose(model.proportions_[:, whole.recipe.order], whole.proportions, rtol=1e-12)
    assert not hasattr(model, "bound_")


def test_a_document_larger_than_a_tile_is_refused(scene, tmp_path):
    with pytest.raises(ValueError, match="'whole' with engine='gibbs'"):
        run(scene, tmp_path / "maps.zarr", documents="whole")


def test_engine_paper_runs_over_tiles_and_finds_the_same_on_any_number_of_threads(scene, tmp_path):
    found = [run(scene, tmp_path / f"{n}.zarr", engine="paper", n_jobs=n) for n in (1, 2)]
    assert_same(*found)
    assert found[0].recipe.model.engine == "paper"


def sums(value):
    return Sums(
        Statistics(np.full((2, 2), value), np.full((2, 3), value)), value, np.full(3, value), value, 1, {"z": 1.0}
    )


def test_sums_are_added_neighbours_first_and_shares_are_averaged():
    total = add_up([sums(value) for value in (2.0**53, 1.0, 1.0, 1.0)])
    assert total.fit == 2.0**53 + 2.0  # one after the other, each 1 would be lost
    assert total.statistics.gram[0, 0] == total.fit
    assert (total.n_words, total.n_shards, total.shares) == (4, 4, {"z": 1.0})
