"""Engine gibbs over blocks: the sampler of a picture in one piece, whoever works on it and whatever stops it."""

import warnings
from contextlib import suppress
from itertools import permutations

import numpy as np
import pytest
from pmlda.engines.inference import Task, begin_chains
from pmlda.pipeline.blocks import create_group, prepare, segment_mosaic
from pmlda.pipeline.mosaic import load_mosaic
from pmlda.pipeline.parts import need_part, part_path

from pmlda import segment
from pmlda.engines import gibbs, gibbs_steps
from pmlda.engines.paper import Addressed
from pmlda.errors import RunError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.parallel.progress import silent
from pmlda.parallel.threads import Workers
from pmlda.pipeline import shards as chains
from pmlda.pipeline.run import Run, Threads
from pmlda.pipeline.steps import Job
from pmlda.settings import make_settings
from pmlda.types import Documents, Topics

SWEEPS = 10
ASKED = {"topics": 3, "engine": "gibbs", "documents": "windows:32", "block": 64}


@pytest.fixture(scope="module")
def scene():
    picture, truth = smooth_scene(64, 128, 3, 0.04, 0)
    picture = picture.astype(np.float64)
    picture[20:30, 50:80] = np.nan  # across the border of the two blocks
    return picture, truth


def settings(**more):
    return make_settings(ASKED | {"sweeps": SWEEPS} | more)


@pytest.fixture(scope="module")
def whole(scene, tmp_path_factory):
    """A run without a break."""
    return segment_mosaic(scene[0], settings(), out=tmp_path_factory.mktemp("whole") / "maps.zarr", n_jobs=1)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.memberships[:], expected.memberships[:])
    np.testing.assert_array_equal(found.uncertainty[:], expected.uncertainty[:])
    np.testing.assert_array_equal(found.topics, expected.topics)


def test_two_threads_find_the_same(scene, whole, tmp_path):
    assert_same(segment_mosaic(scene[0], settings(), out=tmp_path / "maps.zarr", n_jobs=2), whole)


def stop_after(monkeypatch, n_calls):
    """Let so many sweeps of blocks be done, and then no more."""
    done = []
    advance = chains._advance

    def counted(*arguments):
        if len(done) >= n_calls:
            raise KeyboardInterrupt
        done.append(1)
        return advance(*arguments)

    monkeypatch.setattr(chains, "_advance", counted)


@pytest.mark.parametrize("n_calls", [1, 13, 4 * SWEEPS - 1])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(scene, whole, tmp_path, monkeypatch, n_calls):
    out = tmp_path / "maps.zarr"
    with monkeypatch.context() as patch:
        stop_after(patch, n_calls)
        with pytest.raises(KeyboardInterrupt):
            segment_mosaic(scene[0], settings(), out=out, n_jobs=1)
    assert_same(segment_mosaic(scene[0], settings(), out=out, resume=True), whole)


@pytest.mark.parametrize("stage", ["chain-0-even", "chain-1-odd", "topics-0", "topics-1"])
def test_a_damaged_state_is_made_again(scene, whole, tmp_path, monkeypatch, stage):
    """Sweep 4 has been made of all blocks and sweep 5 of some: either of the two states kept may be damaged."""
    out = tmp_path / "maps.zarr"
    with monkeypatch.context() as patch:
        stop_after(patch, 4 * 4 + 2)
        with suppress(KeyboardInterrupt):
            segment_mosaic(scene[0], settings(), out=out, n_jobs=1)
    path = part_path(tmp_path / "maps.zarr.run", stage, 0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    assert_same(segment_mosaic(scene[0], settings(), out=out, resume=True), whole)


def test_where_both_states_of_a_block_are_damaged_one_error_tells(scene, tmp_path, monkeypatch):
    out = tmp_path / "maps.zarr"
    with monkeypatch.context() as patch:
        stop_after(patch, 4 * 4 + 2)
        with suppress(KeyboardInterrupt):
            segment_mosaic(scene[0], settings(), out=out, n_jobs=1)
    for stage in ("chain-0-even", "chain-0-odd"):
        part_path(tmp_path / "maps.zarr.run", stage, 1).write_bytes(b"")
    with pytest.raises(RunError, match="Both kept states of block 1 are damaged"):
        segment_mosaic(scene[0], settings(), out=out, resume=True)


def test_topics_are_those_of_the_sampler_in_one_piece(tmp_path):
    """One block: the sums that travel are all sums, so drawing from them is the step of engines.gibbs, bit by bit."""
    picture, _ = smooth_scene(64, 64, 3, 0.04, 0)
    job, _ = prepare(picture, None, settings(), "color")
    job = Job(*job)._replace(folder=tmp_path)
    run = Run(job, Threads(1), silent)
    create_group(job, job.maps)
    run.all_stages()
    model = chains.model_of(job)
    words = chains.documents_of(need_part(tmp_path, "words", 0), model)
    assert isinstance(words, Documents)
    asked = chains.settings_of(model, 0, 0)
    random = Addressed(chains.chain_seed(model, 0))
    with Workers(1) as workers:
        state = begin_chains(Task(words, model.family, model.checked, model.seed, workers), model.start)[0]
        corpus, ensemble = (
            gibbs_steps.Corpus(words, model.family, workers),
            gibbs_steps.make_ensemble(state.latents, asked),
        )
        for sweep in range(SWEEPS):
            rng = random.at(sweep)
            gibbs.move_words(corpus, state, ensemble, asked, rng)
            sums = corpus.statistics(state.latents), corpus.base, len(words.words)
            topics = gibbs.draw_topics(random.at(sweep), model.family, state.topics, *sums, asked.held)
            state = state._replace(sweep=sweep + 1, topics=topics)
    kept = need_part(tmp_path, "topics-0", SWEEPS % 2)
    np.testing.assert_array_equal(kept["means"][-1], state.topics.means)
    np.testing.assert_array_equal(kept["spread"][-1], state.topics.spread)


def test_maps_are_as_good_as_those_of_a_picture_in_one_piece(scene, tmp_path):
    """20 draws of each chain: they differ by Monte Carlo error, a few percent of the error against the truth."""
    picture, truth = scene
    with np.errstate(invalid="ignore"):
        blocks = segment_mosaic(picture, settings(sweeps=40), out=tmp_path / "maps.zarr")
        plain = plainly(picture)
    errors = [error_of(maps, truth) for maps in (np.asarray(blocks.memberships), plain.memberships)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    assert np.nanmean(np.abs(np.asarray(blocks.uncertainty) - plain.uncertainty)) < 0.2 * np.nanmean(plain.uncertainty)


def plainly(picture):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not mixed
        return segment(picture, 3, engine="gibbs", documents="windows:32", sweeps=40)


def error_of(maps, truth):
    """Against the truth, its materials in the order that suits best."""
    return min(np.sqrt(np.nanmean((maps - truth[..., list(order)]) ** 2)) for order in permutations(range(3)))


def test_the_result_says_whether_chains_have_mixed(whole):
    again = load_mosaic(whole.path)
    assert again.settings.engine == "gibbs"
    assert again.record["state"] in {"converged", "nearly", "not_converged"}
    assert again.verdict == str(again.chain.model.verdict_)
    assert again.chain.model.verdict_.advice == ""  # blocks cannot be extended
    assert np.isnan(np.asarray(again.memberships)[25, 60]).all()
    np.testing.assert_allclose(np.nansum(np.asarray(again.memberships), axis=2)[0], 1.0, atol=1e-5)


def test_a_document_larger_than_a_block_is_refused(scene, tmp_path):
    with pytest.raises(ValueError, match="'whole' with engine='gibbs'"):
        segment_mosaic(scene[0], settings(documents="whole"), out=tmp_path / "maps.zarr")


def test_sums_are_added_in_the_same_order_however_many_there_are():
    parts = [Topics(np.full(2, 0.1 * i), np.zeros(0)).means for i in range(7)]
    np.testing.assert_allclose(chains.add_up(parts), np.sum(parts, axis=0))
    np.testing.assert_array_equal(chains.add_up(parts), chains.add_up(list(parts)))
