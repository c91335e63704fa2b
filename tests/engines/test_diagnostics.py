"""Diagnostics say of chains what is known of them, and the same as ArviZ."""

import sys

import numpy as np
import pytest
from scipy.signal import lfilter

from pmlda.engines import diagnostics
from pmlda.engines.diagnostics import (
    Remedy,
    diagnose,
    effective_sample_size,
    monte_carlo_error,
    split_rhat,
    to_datatree,
    verdict,
)
from pmlda.types import Verdict

SEED = 20160509


def autoregressive(shape, rho, seed=SEED):
    """(C, S, …) x_t = ρ x_{t−1} + √(1 − ρ²) ε_t, from its stationary distribution N(0, 1)."""
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("n_chains", [1, 3])
def test_effective_sample_size_of_an_autoregression_is_known(rho, n_chains):
    """N (1 − ρ)/(1 + ρ). Ending the sum at the first pair that is not positive has a bias, which must be less than the
    standard error of one estimate. The mean of 200 has 1/14 of that: 7 of its standard errors if the bias is half."""
    draws = autoregressive((n_chains, 2000, 200), rho)
    estimates = effective_sample_size(draws)
    truth = n_chains * 2000 * (1 - rho) / (1 + rho)
    assert abs(estimates.mean() - truth) < estimates.std()
    assert estimates.std() < 0.3 * truth


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_the_error_of_a_mean_is_how_far_it_is_from_the_truth(rho):
    """Means by their errors are standard normal: of 1000, the mean square has a standard error of √(2/1000)."""
    draws = autoregressive((2, 1000, 1000), rho)
    standardised = draws.mean(axis=(0, 1)) / monte_carlo_error(draws)
    assert abs((standardised**2).mean() - 1) < 5 * np.sqrt(2 / 1000)


def test_chains_of_the_same_distribution_have_an_rhat_of_one():
    """Of independent draws in 8 halves of 500, R-hat² − 1 is about (F − 1)/500; F(7, ∞) > 8.5: 2e-10."""
    rhat = split_rhat(autoregressive((4, 1000, 100), 0.0))
    assert (rhat >= np.sqrt(1 - 1 / 500)).all()
    assert (rhat < np.sqrt(1 + 7.5 / 500)).all()


def test_rhat_tells_chains_apart_that_differ_in_place_or_width_or_drift():
    draws = autoregressive((4, 500, 3), 0.0)
    assert (split_rhat(draws) < 1.05).all()
    assert (split_rhat(draws + 3.0 * np.arange(4)[:, None, None]) > 2.0).all()
    assert (split_rhat(draws * np.array([1, 1, 1, 4])[:, None, None]) > 1.1).all()
    assert (split_rhat(draws[:1] + np.linspace(0, 4, 500)[:, None]) > 1.5).all()


@pytest.mark.parametrize("n_draws", [4, 7, 100])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e-30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constants_are_certain(n_draws, value, dtype):
    draws = np.full((3, n_draws, 2), value, dtype)
    assert split_rhat(draws).tolist() == [1.0, 1.0]
    assert effective_sample_size(draws).tolist() == [3.0 * n_draws] * 2
    assert monte_carlo_error(draws).tolist() == [0.0, 0.0]


def test_chains_that_stand_still_in_different_places_have_not_mixed():
    draws = np.repeat([[1.0], [2.0]], 100, axis=1)
    assert split_rhat(draws) > 1000
    assert effective_sample_size(draws) < 4
    assert np.isfinite(monte_carlo_error(draws))


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
def test_single_precision_gives_the_same_at_any_scale(scale):
    """1e-40 has 17 bits left in single precision."""
    draws = autoregressive((2, 200, 50), 0.5)
    single = (draws * scale).astype(np.float32)
    np.testing.assert_allclose(split_rhat(single), split_rhat(draws), rtol=1e-3)
    np.testing.assert_allclose(effective_sample_size(single), effective_sample_size(draws), rtol=1e-2)
    np.testing.assert_allclose(monte_carlo_error(single), scale * monte_carlo_error(draws), rtol=1e-2)


def test_neither_threads_nor_blocks_matter(monkeypatch):
    draws = autoregressive((2, 50, 7, 11), 0.5)
    whole = diagnose({"means": draws})
    monkeypatch.setattr(diagnostics, "BLOCK_VALUES", 900)
    for n_jobs in (1, 3):
        pieces = diagnose({"means": draws}, n_jobs=n_jobs)
        for table, alone in zip(pieces[:3], (split_rhat, effective_sample_size, monte_carlo_error), strict=True):
            assert table["means"].shape == (7, 11)
            np.testing.assert_array_equal(table["means"], alone(draws))
        np.testing.assert_allclose(pieces.ess["means"], whole.ess["means"], rtol=1e-9)


@pytest.mark.parametrize("measure", [split_rhat, effective_sample_size, monte_carlo_error])
def test_one_number_per_draw_gives_one_number_and_none_gives_none(measure):
    assert measure(autoregressive((2, 50), 0.5)).shape == ()
    assert measure(np.empty((2, 50, 0, 3))).shape == (0, 3)


@pytest.mark.parametrize("measure", [split_rhat, effective_sample_size, monte_carlo_error])
def test_too_few_draws_or_broken_ones_are_an_error(measure):
    with pytest.raises(ValueError, match=r"shape \(2, 3\): expected \(chains, 4 or more draws, …\)\. Keep more draws"):
        measure(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"shape \(8,\): expected"):
        measure(np.zeros(8))
    with pytest.raises(ValueError, match="NaN or infinity"):
        measure(np.where(np.arange(10) == 3, np.nan, np.zeros((2, 10))))
    with pytest.raises(ValueError, match="Draws of scales contain NaN or infinity"):
        diagnose({"scales": np.full((2, 10), np.inf)})


@pytest.mark.parametrize("kind", ["mixed", "apart", "rounded"])
@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("n_chains", "n_draws"), [(1, 200), (2, 20), (2, 201), (4, 100)])
def test_all_is_as_in_arviz(n_chains, n_draws, rho, kind):
    """Rounded draws have ties, as those of Metropolis steps do. ArviZ has no R-hat of one chain."""
    arviz = pytest.importorskip("arviz_stats.base").array_stats
    draws = autoregressive((n_chains, n_draws, 20), rho)
    draws = draws + 2.0 * np.arange(n_chains)[:, None, None] if kind == "apart" else draws
    draws = np.round(2 * draws) if kind == "rounded" else draws
    theirs = np.moveaxis(draws, 2, 0)
    np.testing.assert_allclose(effective_sample_size(draws), arviz.ess(theirs, method="bulk"), rtol=1e-9)
    np.testing.assert_allclose(monte_carlo_error(draws), arviz.mcse(theirs, method="mean"), rtol=1e-9)
    if n_chains > 1:
        np.testing.assert_allclose(split_rhat(draws), arviz.rhat(theirs, method="rank"), rtol=1e-9)


def test_a_diagnosis_has_a_table_for_everything_with_enough_draws():
    draws = {
        "means": autoregressive((2, 1000, 3, 2), 0.2),
        "spread": np.empty((2, 1000, 0)),
        "scales": autoregressive((2, 100, 5), 0.0).astype(np.float32),
        "memberships": np.zeros((2, 3, 9, 3), np.float32),
    }
    diagnosis = diagnose(draws)
    for table in diagnosis[:3]:
        assert {name: values.shape for name, values in table.items()} == {
            "means": (3, 2),
            "spread": (0,),
            "scales": (5,),
        }
    assert diagnosis.verdict.state in {"converged", "nearly"}
    with pytest.raises(ValueError, match="Keep more draws"):
        diagnose({"memberships": draws["memberships"]})


def test_few_kept_draws_are_no_reason_for_alarm():
    """Memory may allow 20 draws of memberships: if independent, that is all that can be asked of them."""
    draws = {"means": autoregressive((2, 3000, 3), 0.0), "memberships": autoregressive((2, 20, 5000), 0.0)}
    found = diagnose(draws).verdict
    assert found.state == "converged"
    assert found.sentence.startswith("All chains agree: largest R-hat 1.00")
    draws["memberships"] = autoregressive((2, 20, 5000), 0.9)
    found = diagnose(draws).verdict
    assert found.state == "not_converged"
    assert found.sentence.startswith("Memberships have not mixed")


def test_verdict_when_all_is_well():
    rhat = {"means": [1.001, 1.004], "scales": [1.002]}
    ess = {"means": [900.0, 812.4], "scales": [1200.0]}
    assert verdict(rhat, ess, 500) == (
        "converged",
        "All chains agree: largest R-hat 1.004, smallest effective sample size (ESS) 812.",
        "",
    )


def test_verdict_between_ideal_and_bad():
    assert verdict({"spread": 1.03}, {"spread": 75.0}, 900) == (
        "nearly",
        "All chains nearly agree: largest R-hat 1.030, smallest effective sample size (ESS) 75.",
        "To be sure, extend by 300 draws with fit(..., extend=300).",
    )


@pytest.mark.parametrize(
    ("rhat", "ess", "n_draws", "extension"),
    [
        (1.21, 12.0, 50, 400),  # 50 · (100/12 − 1) = 367
        (1.00, 40.0, 200, 300),
        (1.30, 99.0, 200, 100),  # 2 draws are missing, 100 is the least
        (1.30, 400.0, 250, 300),  # enough draws that do not agree: as many again
        (1.05, 1.1, 5000, 20_000),  # to look again then
    ],
)
def test_verdict_extends_to_an_effective_sample_size_of_100(rhat, ess, n_draws, extension):
    assert verdict({"means": [1.0, rhat]}, {"means": [500.0, ess]}, n_draws) == (
        "not_converged",
        f"Topic means have not mixed: R-hat {rhat:.3f}, effective sample size (ESS) {ess:.0f}.",
        f"Extend by {extension} draws with fit(..., extend={extension}).",
    )


def test_chains_that_will_not_mix_are_told_what_to_do_instead():
    found = verdict({"means": [2.08]}, {"means": [2.5]}, 500)
    assert found.advice.startswith("They will not mix: that would take about 40 times as many draws. Give fewer topics")
    assert "engine='variational'" in found.advice
    # A short run says nothing of the kind: forty times as many draws are soon made.
    assert verdict({"means": [2.08]}, {"means": [2.5]}, 20).advice == "Extend by 800 draws with fit(..., extend=800)."


def test_advice_is_in_the_words_of_where_a_user_came_from():
    remedy = Remedy("give sweeps={sweeps}", "do something else", either=True)
    found = verdict({"means": [1.2]}, {"means": [20.0]}, 500, remedy=remedy)
    assert found.advice == "Give sweeps=5000, or do something else."
    assert verdict({"means": [1.02]}, {"means": [80.0]}, 500, remedy=remedy).advice == "To be sure, give sweeps=1400."
    assert verdict({"means": [3.0]}, {"means": [2.0]}, 500, remedy=remedy).advice.endswith(" Do something else.")


def test_verdict_judges_the_many_by_percentiles_and_the_few_by_the_worst():
    rhat, ess = np.full(1000, 1.001), np.full(1000, 500.0)
    rhat[:5], ess[:5] = 3.0, 4.0
    for name in ("proportions", "scales", "memberships"):
        assert verdict({name: rhat}, {name: ess}, 500).state == "converged"
    for name in ("means", "spread", "log_joint"):
        found = verdict({name: rhat}, {name: ess}, 500)
        assert found.state == "not_converged"
        assert "R-hat 3.000, effective sample size (ESS) 4." in found.sentence
    rhat[:50] = np.inf
    found = verdict({"scales": rhat}, {"scales": ess}, 500)
    assert found.state == "not_converged"
    assert "R-hat inf" in found.sentence


def test_verdict_names_topics_before_what_depends_on_them():
    rhat = {"log_joint": 2.0, "memberships": [2.0], "spread": [2.0], "means": np.empty(0)}
    ess = {"log_joint": 9.0, "memberships": [3.0], "spread": [5.0], "means": np.empty(0)}
    assert verdict(rhat, ess, 100).sentence.startswith("Topic spreads have not mixed")
    assert verdict({"log_joint": 2.0}, {"log_joint": 9.0}, 100).sentence.startswith("Draws of log_joint have not mixed")
    with pytest.raises(ValueError, match="nothing to judge"):
        verdict({"means": np.empty(0)}, {"means": np.empty(0)}, 100)


def test_a_verdict_is_read_from_its_table():
    found = Verdict("nearly", "Chains nearly agree.", "Extend them.")
    assert Verdict.from_content(found._asdict()) == found
    assert str(found) == "Chains nearly agree. Extend them."
    for other in ("Topic means have not mixed.", None, found._asdict() | {"more": 1}):
        with pytest.raises(ValueError, match="verdict_ is"):
            Verdict.from_content(other)


@pytest.mark.parametrize("change", [{"state": "fine"}, {"state": None}, {"sentence": 3}, {"advice": None}])
def test_a_verdict_that_is_none_is_refused(change):
    with pytest.raises(ValueError, match="verdict_ is"):
        Verdict.from_content(Verdict("nearly", "Chains nearly agree.")._asdict() | change)


K, P, D, N = 3, 4, 5, 6


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((), ()),
        ((P,), ("feature",)),
        ((P, P), ("feature", "other_feature")),
        ((K, P), ("topic", "feature")),
        ((K, P, P), ("topic", "feature", "other_feature")),
    ],
)
def test_draws_become_a_datatree_with_named_dimensions(shape, dims):
    pytest.importorskip("arviz_base")
    draws = {
        "means": np.zeros((2, 10, K, P)),
        "spread": np.ones((2, 10, *shape)),
        "proportions": np.zeros((2, 5, D, K)),
        "scales": np.zeros((2, 5, D)),
        "memberships": np.zeros((2, 5, N, K), np.float32),
        "log_joint": np.zeros((2, 10)),
    }
    tree = to_datatree(draws, coords={"feature": list("rgbi"), "word": np.arange(N) + 100})
    assert tree["posterior/means"].dims == ("chain", "draw", "topic", "feature")
    assert tree["posterior/spread"].dims == ("chain", "draw", *dims)
    assert tree["posterior/log_joint"].dims == ("chain", "draw")
    for dim in {"feature", "other_feature"} & set(tree["posterior"].dims):
        assert tree["posterior"].coords[dim].values.tolist() == list("rgbi")
    assert tree["thinned/proportions"].dims == ("chain", "draw", "document", "topic")
    assert tree["thinned/scales"].dims == ("chain", "draw", "document")
    assert tree["thinned/memberships"].dims == ("chain", "draw", "word", "topic")
    assert tree["thinned/memberships"].dtype == np.float32
    assert int(tree["thinned"].coords["word"][0]) == 100


def test_datatrees_leave_out_what_is_empty_and_take_other_names():
    pytest.importorskip("arviz_base")
    draws = {"means": np.zeros((2, 10, K, P)), "spread": np.empty((2, 10, 0)), "scales": np.empty((2, 0, D))}
    tree = to_datatree(draws, dims={"means": ["topic", "visual_word"]})
    assert list(tree.children) == ["posterior"]
    assert list(tree["posterior"].data_vars) == ["means"]
    assert tree["posterior/means"].dims[-1] == "visual_word"
    with pytest.raises(ValueError, match="at most two"):
        to_datatree({"a": np.zeros((1, 9)), "b": np.zeros((1, 8)), "c": np.zeros((1, 7))})
    with pytest.raises(ValueError, match="no draws"):
        to_datatree({"means": np.empty((2, 0, K, P))})


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r'pip install "pmlda\[diagnostics\]"'):
        to_datatree({"means": np.zeros((2, 10, K, P))})
