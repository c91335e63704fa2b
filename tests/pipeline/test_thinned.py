"""A sampler on pictures: it visits pixels that do not repeat each other, and all others follow from its draws."""

import json
import signal
import threading

import numpy as np
import pytest
from scipy.special import gammaln

from pmlda import PMLDA, Segmentation, segment
from pmlda.engines import gibbs
from pmlda.evaluation.scenes import smooth_scene
from pmlda.pipeline import subsample
from pmlda.pipeline.learning import MAP_DRAWS
from pmlda.pipeline.subsample import LEAST_THINNED, keep_words, thin_words

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ASKED = {"engine": "gibbs", "documents": "windows:16", "sweeps": 12}
SHAPE = (75, 139)  # no multiple of anything


def with_holes():
    """NaN across the borders of tiles."""
    pixels = smooth_scene(*SHAPE, 3, 0.1, 0)[0] / 255.0
    pixels[40:70, 50:70] = pixels[:7] = pixels[::9, ::5] = np.nan
    return pixels


@pytest.fixture(scope="module")
def plain():
    """Everything in memory."""
    return segment(with_holes(), 3, **ASKED)


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    """Six tiles, never disturbed."""
    return segment(with_holes(), 3, out=tmp_path_factory.mktemp("tiled") / "maps.zarr", block=64, n_jobs=1, **ASKED)


# ── which pixels ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_thinned_words_are_some_of_those_that_are_kept_and_no_document_is_without():
    rng = np.random.default_rng(0)
    groups, places = np.sort(rng.integers(40, size=60_000)), rng.permutation(10**6)[:60_000]
    groups[:30] = 50  # a small document
    sizes = np.bincount(groups)
    kept = keep_words(groups, places, sizes, 500, seed=3)
    thinned = thin_words(groups[kept], places[kept], sizes[groups[kept]], 30.0, seed=3)
    counts = np.bincount(groups[kept][thinned], minlength=51)[np.unique(groups)]
    expected = np.maximum(sizes[np.unique(groups)] / 30.0, LEAST_THINNED)
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert counts.min() > 0
    # All pixels or those of the subsample, it makes no difference.
    everything = thin_words(groups, places, sizes[groups], 30.0, seed=3)
    np.testing.assert_array_equal(places[kept][thinned], places[everything])


def test_thinning_does_not_depend_on_tiles(plain, tiled):
    model, other = plain.recipe.model, tiled.recipe.model
    assert plain.recipe.thinning == tiled.recipe.thinning > 3.0
    np.testing.assert_array_equal(other.document_sizes_, model.document_sizes_)
    n_pixels = int(np.isfinite(plain.memberships[..., 0]).sum())
    assert model.document_sizes_.sum() < n_pixels / 3
    assert model.design_effect == 1.0  # what is left repeats nothing: λ is as given


def test_the_sampler_is_that_of_these_words_alone(plain):
    """The posterior is p(topics, documents | thinned words): what PMLDA draws from the same rows."""
    model, recipe = plain.recipe.model, plain.recipe
    values = recipe.features.compute(plain.images[0]).values[plain.images[0].valid]
    places = np.flatnonzero(plain.images[0].valid.ravel())
    groups = plain.documents[plain.images[0].valid]
    sizes = np.bincount(groups)[groups]
    kept = thin_words(groups, places, sizes, recipe.thinning, seed=0)
    again = PMLDA(3, engine="gibbs", covariance="full", scale_rate=0.5, n_sweeps=12, random_state=0)
    again.fit(recipe.scaling.apply(values)[kept], groups=groups[kept])
    np.testing.assert_array_equal(again.draws_.means, model.draws_.means)
    np.testing.assert_array_equal(again.draws_.scales, model.draws_.scales)


def test_where_pixels_repeat_nothing_maps_are_what_the_sampler_has_drawn_of_every_pixel():
    picture, _ = smooth_scene(32, 32, 2, 0.1, 0)
    found = segment(picture, 2, engine="gibbs", documents="windows:16", sweeps=10, design_effect=1)
    words = found.recipe.scaling.apply(found.recipe.features.compute(found.images[0]).values.reshape(-1, 3))
    model = PMLDA(2, engine="gibbs", covariance="full", n_sweeps=10, random_state=0)
    model.fit(words, groups=found.documents.ravel())
    maps = model.memberships_[:, found.recipe.order].reshape(32, 32, 2)
    np.testing.assert_array_equal(found.memberships, maps)
    assert found.images[0].notes == ()


# ── maps ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_every_pixel_with_data_has_memberships(plain):
    valid = np.isfinite(with_holes()).all(axis=2)
    np.testing.assert_array_equal(np.isfinite(plain.memberships).all(axis=2), valid)
    np.testing.assert_allclose(plain.memberships[valid].sum(axis=1), 1.0, atol=1e-5)
    assert (plain.uncertainty[valid] > 0).all()


def test_maps_tile_by_tile_are_those_of_the_picture_in_one_piece(plain, tiled):
    np.testing.assert_allclose(tiled.memberships[:], plain.memberships, atol=1e-6)
    np.testing.assert_allclose(tiled.uncertainty[:], plain.uncertainty, atol=1e-3)  # kept in float16
    np.testing.assert_allclose(tiled.topics, plain.topics, atol=1e-6)


def test_one_document_larger_than_a_tile_is_no_obstacle(tmp_path):
    picture, asked = smooth_scene(*SHAPE, 3, 0.1, 0)[0], ASKED | {"documents": "whole"}
    plain = segment(picture, 3, **asked)
    tiles = segment(picture, 3, out=tmp_path / "maps.zarr", block=64, **asked)
    np.testing.assert_allclose(tiles.memberships[:], plain.memberships, atol=1e-6)


def test_documents_that_were_not_visited_are_inferred_in_memory_and_in_tiles_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(subsample, "MOST_DOCUMENTS", 20)
    picture = smooth_scene(*SHAPE, 3, 0.1, 0)[0]
    plain = segment(picture, 3, **ASKED)
    tiles = segment(picture, 3, out=tmp_path / "maps.zarr", block=64, **ASKED)
    assert len(plain.recipe.model.documents_) < len(plain.scales) / 2
    assert np.isfinite(plain.memberships).all()
    np.testing.assert_allclose(tiles.memberships[:], plain.memberships, atol=1e-6)


def integrated(x, topics, spread, a, n=900):
    """Mean and variance of z₁ of single words under two topics, by the midpoint rule in ln z₁ − ln z₂."""
    grid = np.linspace(-60.0, 60.0, 40 * n)
    z = 1.0 / (1.0 + np.exp(-grid))
    log_z, log_rest = -np.logaddexp(0.0, -grid), -np.logaddexp(0.0, grid)
    means = z[:, None] * topics[0] + (1.0 - z)[:, None] * topics[1]
    inverse = np.linalg.inv(spread)
    found = []
    for word, (a1, a2) in zip(x, a, strict=True):
        apart = word - means
        log_p = -0.5 * np.einsum("ij,jk,ik->i", apart, inverse, apart) + a1 * log_z + a2 * log_rest
        log_p += gammaln(a1 + a2) - gammaln(a1) - gammaln(a2)
        p = np.exp(log_p - log_p.max())
        mean = (p * z).sum() / p.sum()
        found.append((mean, (p * (z - mean) ** 2).sum() / p.sum()))
    return np.array(found)


def test_pixels_that_were_not_visited_have_the_moments_of_their_posterior_over_the_draws():
    """Two topics and no blending, so that integration is over one variable; every word under every draw."""
    picture, _ = smooth_scene(64, 64, 2, 0.1, 0)
    found = segment(picture, 2, engine="gibbs", documents="windows:16", sweeps=60, blend=0)
    model, recipe = found.recipe.model, found.recipe
    rows, columns = np.random.default_rng(0).integers(64, size=(2, 60))
    values = recipe.features.compute(found.images[0]).values[rows, columns]
    words, groups = recipe.scaling.apply(values).astype(np.float64), found.documents[rows, columns]
    draws = [
        integrated(words, means, spread, a[groups])
        for means, spread, a in zip(model.refits_.means, model.refits_.spread, model.document_draws_[1:], strict=True)
    ]
    assert len(draws) == MAP_DRAWS
    mean, variance = np.moveaxis(np.array(draws), 2, 0)
    first = int(np.flatnonzero(recipe.order == 0)[0])
    np.testing.assert_allclose(found.memberships[rows, columns, first], mean.mean(axis=0), atol=0.005)
    expected = np.sqrt(variance.mean(axis=0) + mean.var(axis=0))
    np.testing.assert_allclose(found.uncertainty[rows, columns, first], expected, atol=0.005)


def test_draws_that_are_followed_are_drawn_together():
    """Topics and documents of one sweep belong together, also where memory keeps fewer draws of documents."""
    picture, _ = smooth_scene(32, 32, 2, 0.1, 0)
    words, groups = picture.reshape(-1, 3) / 255.0, np.arange(1024) // 128
    model = PMLDA(2, engine="gibbs", n_sweeps=40, draws_memory=2 * 7 * 8500, random_state=0).fit(words, groups=groups)
    draws = model.draws_
    assert 4 < len(draws.latent_sweeps) < 20
    model.follow_draws(4)
    which = [int(np.flatnonzero((draws.means == means).all(axis=(1, 2)))[0]) for means in model.refits_.means]
    a = draws.proportions * draws.scales[:, :, None]
    latents = [int(np.flatnonzero((a == each).all(axis=(1, 2)))[0]) for each in model.document_draws_[1:]]
    np.testing.assert_array_equal(draws.sweeps[which], draws.latent_sweeps[latents])
    half, few = len(draws.sweeps) // 2, len(draws.latent_sweeps) // 2
    np.testing.assert_array_equal(np.array(which) // half, np.array(latents) // few)  # of the same chain


# ── the result ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_result_says_how_many_pixels_the_sampler_has_visited(plain, tiled, tmp_path):
    n, of = plain.recipe.model.document_sizes_.sum(), np.isfinite(plain.memberships[..., 0]).sum()
    note = f"Engine gibbs sampled {n:,} of {of:,} pixels, one in {of / n:.0f}; other pixels follow from its draws."
    plain.save(tmp_path / "maps")
    for found in (plain, tiled, Segmentation.load(tmp_path / "maps"), Segmentation.load(tiled.path)):
        assert found.images[0].notes.count(note) == 1
    record = json.loads((tmp_path / "maps" / "run.json").read_text())
    assert note in record["pictures"][0]["notes"]
    assert "sampled" in (tmp_path / "maps" / "report.html").read_text()


def test_draws_and_diagnostics_are_of_the_words_that_were_visited(plain):
    model = plain.recipe.model
    assert model.draws_.memberships.shape[1] == model.document_sizes_.sum() == len(model.memberships_)
    assert model.diagnose().rhat["memberships"].shape == model.memberships_.shape


def test_the_advice_is_what_one_can_do_about_a_picture(plain, tiled):
    for found in (plain, tiled):
        assert found.verdict.state == "not_converged"
        assert "--set sweeps=" in found.verdict.advice
        assert "engine='variational'" in found.verdict.advice
        assert "extend" not in found.verdict.advice


def test_another_picture_gets_documents_of_its_own_under_the_topics_of_each_draw(plain, tmp_path):
    other = smooth_scene(60, 50, 3, 0.1, 0)[0]
    maps = plain.apply(other)
    assert np.isfinite(maps.memberships).all()
    assert maps.images[0].notes == ()
    plain.save(tmp_path / "maps")
    again = Segmentation.load(tmp_path / "maps").apply(other)
    np.testing.assert_array_equal(again.memberships, maps.memberships)


# ── interruptions ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("n_sweeps", [1, 17])
def test_a_run_in_tiles_that_was_stopped_is_resumed_to_the_same_bits(tiled, tmp_path, monkeypatch, n_sweeps):
    done, move = [], gibbs.LocalStep.move

    def counted(*arguments):
        if len(done) >= n_sweeps:
            raise KeyboardInterrupt
        done.append(1)
        return move(*arguments)

    out = tmp_path / "maps.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(gibbs.LocalStep, "move", counted)
        with pytest.raises(KeyboardInterrupt, match="resume with"):
            segment(with_holes(), 3, out=out, block=64, n_jobs=1, **ASKED)
    found = segment(with_holes(), 3, out=out, block=64, resume=True, **ASKED)
    np.testing.assert_array_equal(found.memberships[:], tiled.memberships[:])
    np.testing.assert_array_equal(found.uncertainty[:], tiled.uncertainty[:])


def test_ctrl_c_ends_a_long_fit_in_tiles_at_once(tmp_path, monkeypatch):
    """The fit is on a thread of its own, which gets no signals: the executor asks it to stop."""
    done, move = [], gibbs.LocalStep.move

    def pressing(*arguments):
        done.append(1)
        if len(done) == 5:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return move(*arguments)

    monkeypatch.setattr(gibbs.LocalStep, "move", pressing)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt, match="resume with"):
            segment(with_holes(), 3, out=tmp_path / "maps.zarr", block=64, **ASKED | {"sweeps": 20_000})
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) < 1000
