"""The sliding histogram gives the entropy of its definition."""

import numpy as np
import pytest

from pmlda.features.sonar import local_entropy, quantise
from tests.features import twins
from tests.features.pictures import noise


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1), (5, 4), (23, 37)])
@pytest.mark.parametrize("window", [3, 7, 21])
@pytest.mark.parametrize("n_levels", [2, 9, 256])
def test_kernel_and_twin_agree(shape, window, n_levels):
    levels = np.random.default_rng(0).integers(0, n_levels, shape).astype(np.uint8)
    np.testing.assert_allclose(local_entropy(levels, window), twins.local_entropy(levels, window), rtol=0, atol=1e-9)


def test_the_number_of_threads_changes_no_bit():
    levels = noise((300, 120))
    alone = local_entropy(levels, 21, n_jobs=1)
    np.testing.assert_array_equal(alone, local_entropy(levels, 21, n_jobs=3))


def test_flat_windows_beside_rich_ones_have_no_entropy_at_all():
    levels = noise((40, 120))
    levels[:, 60:] = 7
    assert (local_entropy(levels, 21)[:, 71:] == 0.0).all()


def test_away_from_the_border_it_is_what_scikit_image_finds():
    from skimage.filters import rank

    levels = noise((50, 60))
    theirs = rank.entropy(levels, np.ones((9, 9), np.uint8))
    np.testing.assert_allclose(local_entropy(levels, 9)[4:-4, 4:-4], theirs[4:-4, 4:-4], rtol=0, atol=1e-6)


def test_all_levels_once_make_eight_bits():
    levels = np.pad(np.arange(256, dtype=np.uint8).reshape(16, 16), ((0, 1), (0, 1)), mode="edge")
    middle = local_entropy(levels, 17)[8, 8]
    counts = np.unique(levels, return_counts=True)[1]
    expected = np.log2(289) - (counts * np.log2(counts)).sum() / 289
    assert middle == pytest.approx(expected, abs=1e-9)
    assert 7.8 < middle < 8.0


def test_quantising_returns_8_bit_levels_unchanged():
    levels = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(quantise(levels.astype(np.float32) / np.float32(255)), levels)
    np.testing.assert_array_equal(quantise(np.array([-3.0, 2.0])), [0, 255])
