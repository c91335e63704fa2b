"""Sunsets: soft where the sky is."""

from pmlda.evaluation.experiments.rivals import MODELS
from pmlda.evaluation.experiments.sunset import FEATURES, HEIGHT, HIGH, LOW, N_TOPICS, WIDTH, one_of, run
from pmlda.evaluation.scenes import sunset
from pmlda.metrics import membership_rmse
from pmlda.pipeline.api import segment
from pmlda.segmentation import between
from tests.evaluation.experiments.folders import write_authors


def test_a_glow_that_fades_is_told_better_by_pmlda_than_by_any_rival():
    (row,) = run(None, 1, True).rows
    assert row["PM-LDA"] < min(row[model] for model in (*MODELS[1:], "LDA, labels"))


def test_where_glow_and_sky_mix_memberships_err_by_less_than_a_third_of_what_the_best_labels_would():
    picture, truth = sunset(HEIGHT, WIDTH, 0)
    maps = segment(picture, N_TOPICS, features=FEATURES).membership_maps[0]
    soft = between(truth, LOW, HIGH)
    assert soft.mean() > 0.05
    assert membership_rmse(maps, truth, mask=soft) < membership_rmse(one_of(truth), truth, mask=soft) / 3


def test_the_authors_picture_is_softer_by_pmlda_than_by_lda_labels(tmp_path):
    outcome = run(write_authors(tmp_path), 1, True)
    assert set(outcome.figures) == {"photograph", "authors"}
    soft = {(row["picture"], row["model"]): row["in transition"] for row in outcome.rows}
    for picture in ("photograph", "authors"):
        assert soft[picture, "LDA, labels"] == 0.0
        assert soft[picture, "PM-LDA"] > 0.02
