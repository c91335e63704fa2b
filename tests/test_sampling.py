"""Subsampling by place: whoever asks for a pixel finds the same number, numbers are even, and limits are kept."""

import numpy as np
import pytest
from scipy.stats import kstest

from pmlda.pipeline.learning import make_model
from pmlda.pipeline.subsample import (
    ALL_WORDS,
    AT_ONCE,
    DOCUMENT_WORDS,
    LEAST_SAMPLED,
    MOST_DOCUMENTS,
    keep_documents,
    keep_words,
    uniform_by_place,
    words_each,
)
from pmlda.settings import make_settings


def test_a_number_depends_on_the_place_alone():
    places = np.arange(AT_ONCE - 5, AT_ONCE + 100)
    together = uniform_by_place(places, seed=3)
    np.testing.assert_array_equal(together[::-1], uniform_by_place(places[::-1], seed=3))
    np.testing.assert_array_equal(together[17:40], uniform_by_place(places[17:40], seed=3))
    long = uniform_by_place(np.arange(AT_ONCE + 100), seed=3)
    np.testing.assert_array_equal(long[-105:], together)


@pytest.mark.parametrize("first", [0, 10**6, 2**44, 10**15])
def test_numbers_are_even_whatever_the_seed_and_wherever_the_places_begin(first):
    """Neighbours have nothing to do with each other; 8 tests at this level fail by chance once in 10,000 times."""
    places = np.arange(first, first + 100_000)
    for seed in (0, 2**32 - 1):
        drawn = uniform_by_place(places, seed)
        assert (drawn >= 0).all()
        assert (drawn < 1).all()
        assert kstest(drawn, "uniform").pvalue > 1e-5
        for lag in (1, 2, 7, 1024):
            assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 5 / np.sqrt(len(drawn))
    one, other = uniform_by_place(places, 0), uniform_by_place(places, 1)
    documents = uniform_by_place(places, 0, stream=1)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(places))
    assert abs(np.corrcoef(one, documents)[0, 1]) < 5 / np.sqrt(len(places))


def test_blocks_choose_the_words_that_the_whole_picture_chooses():
    rng = np.random.default_rng(0)
    groups, places = rng.integers(0, 30, 50_000), rng.permutation(200_000)[:50_000]
    sizes = np.bincount(groups)
    whole = keep_words(groups, places, sizes, 300, seed=1)
    parts = [
        keep_words(groups[rows], places[rows], sizes, 300, seed=1) for rows in np.array_split(np.arange(50_000), 7)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    counts = np.bincount(groups[whole], minlength=30)
    assert (np.abs(counts - 300) < 5 * np.sqrt(300)).all()


def test_small_documents_are_used_whole_and_other_models_see_everything():
    groups = np.repeat([0, 1], [100, 5000])
    chosen = keep_words(groups, np.arange(5100), np.array([100, 5000]), 500, seed=0)
    assert chosen[:100].all()
    assert not chosen[100:].all()
    assert words_each(10, 0) == np.inf
    for settings in ({"engine": "gibbs"}, {"engine": "paper"}, {"model": "fcm"}, {"model": "bpm"}):
        assert not make_model(make_settings(settings)).samples_words
    assert make_model(make_settings({})).samples_words


def test_documents_keep_enough_words_however_many_there_are():
    for n in (1, 50, 10**4, 10**7):
        each = words_each(n, make_settings({}).sample)
        assert LEAST_SAMPLED <= each <= max(DOCUMENT_WORDS, ALL_WORDS // n)


def test_topics_are_learnt_from_some_thousand_documents():
    places = np.arange(100_000) * 5000
    assert keep_documents(places[:MOST_DOCUMENTS], MOST_DOCUMENTS, seed=0).all()
    count = int(keep_documents(places, len(places), seed=0).sum())
    assert abs(count - MOST_DOCUMENTS) < 5 * np.sqrt(MOST_DOCUMENTS)
