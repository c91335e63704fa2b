"""Memberships of every pixel follow from topics and known documents, however the picture is cut into strips."""

import numpy as np
import pytest

from pmlda import PMLDA
from pmlda.pipeline import blending
from pmlda.pipeline.blending import Blur
from pmlda.types import Image

TOPICS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    words = rng.dirichlet([0.4, 0.4, 0.4], size=600) @ TOPICS + rng.normal(0.0, 0.3, (600, 2))
    return PMLDA(3, fixed={"topics": TOPICS, "covariance": 0.09}, random_state=0).fit(words)


@pytest.fixture
def scene():
    """Words, labels and pictures: two pictures, the second with a hole, documents numbered on."""
    rng = np.random.default_rng(1)
    images, labels = [], []
    for shape, hole in (((23, 17), False), ((12, 31), True)):
        valid = np.ones(shape, bool)
        valid[3:6, 4:9] = not hole
        rows, columns = np.indices(shape)
        documents = (rows > 7) * 2 + (columns > 10)
        images.append(Image(np.zeros((*shape, 2)), valid, ("a", "b"), "test"))
        labels.append(np.where(valid, documents, -1))
    n_words = sum(int(image.valid.sum()) for image in images)
    words = rng.dirichlet([0.5, 0.5, 0.5], size=n_words) @ TOPICS + rng.normal(0.0, 0.3, (n_words, 2))
    return words, labels, images, rng.gamma(2.0, 1.0, size=(8, 3))


def blend(a, labels, width):
    """Cells and their prior, of documents that are blended as far as this."""
    return blending.blend(a, labels, Blur.between(int((labels >= 0).sum()), len(a), width))


def weigh(model, scene, width):
    """Memberships and standard deviations of both pictures, one after the other."""
    words, labels, images, a = scene
    found, first = [], 0
    for i, (each, image) in enumerate(zip(labels, images, strict=True)):
        prior, last = a[4 * i : 4 * i + 4], first + int(image.valid.sum())
        if width > 0:
            each, prior = blend(prior, each, width)
        found.append(blending.infer_pixels(model, words[first:last], each, prior, image.valid))
        first = last
    return [np.concatenate(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_strips_do_not_change_a_bit(model, scene, width, monkeypatch):
    together = weigh(model, scene, width)
    monkeypatch.setattr(blending, "STRIP_PIXELS", 40)
    for whole, cut in zip(together, weigh(model, scene, width), strict=True):
        np.testing.assert_array_equal(whole, cut)


def test_without_blending_documents_have_their_own_prior(model, scene):
    words, labels, images, a = scene
    memberships, std = weigh(model, scene, 0.0)
    groups = np.concatenate(
        [each[image.valid] + 4 * i for i, (each, image) in enumerate(zip(labels, images, strict=True))]
    )
    seen = model.infer_memberships(words, groups=groups, priors=a)
    np.testing.assert_allclose(memberships, seen.memberships, atol=1e-6)
    np.testing.assert_allclose(std, seen.std, atol=1e-6)
    np.testing.assert_allclose(seen.proportions * seen.scales[:, None], a)


def test_a_blended_field_is_smooth_and_keeps_its_mean():
    """Two documents side by side: far from their border the prior of each, between them a rise without a jump."""
    labels = np.repeat(np.arange(2), 40)[None, :].repeat(60, axis=0)
    a = np.array([[1.0, 4.0], [8.0, 0.5]])
    cells, field = blend(a, labels, 0.2)
    along = np.log(field[cells][30, :, 0])
    assert along[0] == pytest.approx(0.0, abs=0.01)
    assert along[-1] == pytest.approx(np.log(8.0), abs=0.01)
    assert (np.diff(along) >= -1e-12).all()
    assert np.diff(along).max() < 0.35
    assert along.mean() == pytest.approx(np.log(8.0) / 2, abs=0.02)


def test_pixels_without_data_do_not_pull(model):
    labels = np.zeros((30, 30), np.int64)
    labels[:, 15:] = -1
    cells, field = blend(np.array([[2.0, 3.0]]), labels, 0.5)
    np.testing.assert_allclose(field[cells][:, :15], np.broadcast_to([2.0, 3.0], (30, 15, 2)), rtol=1e-6)


@pytest.mark.parametrize(("a", "message"), [(np.ones((3, 3)), "shape"), (np.zeros((8, 3)), "positive")])
def test_priors_that_do_not_fit_are_refused(model, scene, a, message):
    words, _, _, _ = scene
    with pytest.raises(ValueError, match=message):
        model.infer_memberships(words, groups=np.arange(len(words)) % 8, priors=a)
