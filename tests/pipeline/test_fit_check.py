"""Verdicts say whether the topics explain a picture, and what to try next; they stay as short as before if they do."""

import json

import numpy as np
import pytest

from pmlda import segment
from pmlda.evaluation import scenes
from pmlda.pipeline.fit_check import Figures, judge_applied, judge_learnt
from pmlda.segmentation import Segmentation, judged
from pmlda.types import FitCheck, Verdict

QUICK = {"random_state": 0, "refits": 0}
FINE = Figures(0.01, 0.0, 0.001, 0.1, np.nan, np.nan, (0.0, 0.0))


@pytest.fixture(scope="module")
def found():
    return segment(scenes.sunset(72, 96, 0)[0], 3, **QUICK)


def test_a_picture_that_fits_does_not_lengthen_the_verdict(found):
    assert found.fit_checks[0][2:] == ("", "")
    assert found.verdict is found.recipe.model.verdict_
    assert found.fit_checks[0].figures["unexplained"] < 0.01


def test_a_missing_topic_is_told(tmp_path):
    maps = segment(scenes.sunset(72, 96, 0)[0], 2, **QUICK, out=tmp_path / "maps")
    assert maps.verdict.state == "does_not_fit"
    assert "2 topics leave" in maps.verdict.sentence
    assert "--topics 3" in maps.verdict.advice
    again = Segmentation.load(tmp_path / "maps")
    assert again.verdict == maps.verdict
    record = json.loads((tmp_path / "maps" / "run.json").read_text(encoding="utf-8"))
    assert record["verdict"] == str(maps.verdict)
    assert record["pictures"][0]["fit"]["figures"]["unexplained"] > 0.1
    assert maps.fit_checks[0].sentence in (tmp_path / "maps" / "report.html").read_text(encoding="utf-8")


def test_objects_are_told_with_their_brightness():
    picture = scenes.smooth_scene(72, 96, 3, 0.03, 0)[0] // 2
    picture[20:36, 20:40] = (20, 255, 255)
    check = segment(picture, 3, **QUICK).fit_checks[0]
    assert check.state == "does_not_fit"
    assert check.sentence.endswith("topics, most of them bright.") or "unexplained" in check.sentence


def test_what_is_new_is_told_of_patches_and_not_of_single_pixels(found):
    picture = scenes.sunset(72, 96, 5)[0]
    scattered = np.random.default_rng(0).permutation(picture[..., 0].size).reshape(72, 96) < 500
    together = np.zeros_like(scattered)
    together[20:40, 30:55] = True
    for wrong, state in ((scattered, "applied"), (together, "does_not_fit")):
        strange = picture.copy()
        strange[wrong] = (20, 240, 40)
        maps = found.apply(strange)
        assert maps.novelty[wrong].min() > 0.99
        assert maps.verdict.state == state
    assert "explained by no mixture of the 3 topics" in maps.verdict.sentence


def test_apply_judges_the_new_picture(found):
    alike = found.apply(scenes.sunset(72, 96, 5)[0])
    assert alike.verdict.state == "applied"
    assert str(alike.verdict).endswith("explain this as well as what they were learnt from.")
    unlike = found.apply(scenes.smooth_scene(72, 96, 4, 0.05, 0)[0])
    assert unlike.verdict.state == "does_not_fit"
    assert "explained by no mixture of the 3 topics" in unlike.verdict.sentence
    assert "bound" not in str(unlike.verdict)


@pytest.mark.parametrize(("looks", "true"), [(1.0, 4.0), (4.0, 1.0)])
def test_looks_that_are_wrong_are_told(looks, true):
    picture = scenes.speckle(64, true, "harmonic", 0)[0]
    check = segment(picture, 3, family="gamma", looks=looks, **QUICK).fit_checks[0]
    assert check.state == "does_not_fit"
    assert "--looks" in check.advice or "--topics" in check.advice
    assert "fit converged" not in check.sentence


def test_figures_are_judged_in_the_order_of_what_helps(found):
    recipe = found.recipe
    assert judge_learnt(FINE, recipe) == judge_applied(FINE, recipe) == ("", "")
    far = FINE._replace(far=0.123, unexplained=0.5, structured=0.9, light=(0.0, 2.0))
    sentence, advice = judge_learnt(far, recipe)
    assert sentence == "12 % of the pixels are explained by no mixture of the 3 topics, most of them bright."
    assert advice == "Try 4 topics (--topics 4)."
    noise = FINE._replace(unexplained=0.5, structured=0.2)
    assert judge_learnt(noise, recipe) == ("", "")  # much is left, but it is noise
    assert "times as large where the picture is bright" in judge_learnt(FINE._replace(growth=2.5), recipe)[0]
    assert "2.5 times as much as family 'gaussian'" in judge_learnt(FINE._replace(times=2.5), recipe)[0]
    assert judge_applied(FINE._replace(growth=2.5, times=2.5, far=0.5), recipe) == ("", "")
    assert judge_applied(FINE._replace(new=0.3, light=(-1.0, 0.0)), recipe)[0].endswith("most of them dark.")


def test_of_several_pictures_the_first_that_does_not_fit_is_named():
    fine, wrong = FitCheck("fits", {}), FitCheck("does_not_fit", {}, "A third is missing.", "Try more.")
    fit = Verdict("converged", "It settled.")
    verdict = judged(fit, ["one", "two", "three"], (fine, wrong, wrong), False)
    assert verdict.state == "does_not_fit"
    assert str(verdict) == "It settled. Topics do not explain 2 of 3 pictures; two: A third is missing. Try more."
    assert judged(fit, ["one"], (), False) is fit
    stuck = Verdict("not_converged", "It has not settled.", "Give more sweeps.")
    both = judged(stuck, ["one"], (wrong,), False)
    assert (both.state, both.advice) == ("not_converged", "Give more sweeps. Try more.")
