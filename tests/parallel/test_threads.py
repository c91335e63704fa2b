"""Threads: results in order, shares that cover everything once, libraries as they were."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from pmlda.parallel import threads
from pmlda.parallel.threads import Workers, chunks, count_jobs


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.integers(1, 5))
def test_shares_cover_every_item_once(weights, n_jobs):
    shares = Workers(n_jobs).share(np.array(weights))
    assert [i for first, last in shares for i in range(first, last)] == list(range(len(weights)))
    assert len(shares) <= n_jobs


@given(st.integers(1, 50_000))
def test_chunks_cover_every_word_once(n):
    assert sum(len(range(n)[chunk]) for chunk in chunks(n)) == n


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_come_in_the_order_of_the_pieces(n_jobs):
    with Workers(n_jobs) as workers:
        assert workers.map(lambda piece: piece**2, range(20)) == [i**2 for i in range(20)]


def test_an_error_in_a_piece_is_raised():
    with Workers(2) as workers, pytest.raises(ZeroDivisionError):
        workers.map(lambda piece: 1 // piece, [1, 0, 2])


def test_numbers_of_jobs():
    assert count_jobs(3) == 3
    assert count_jobs(None) == count_jobs(-1) >= 1
    assert count_jobs(-1000) == 1


def blas_threads():
    return sorted(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


def test_blas_has_one_thread_in_every_worker_and_its_own_number_afterwards():
    before = blas_threads()
    with Workers(2) as workers:
        counts = [set(blas_threads()), *workers.map(lambda _: set(blas_threads()), range(8))]
    assert all(count <= {1} for count in counts)
    assert blas_threads() == before


def test_libraries_are_looked_for_once_in_blocks_within_each_other(monkeypatch):
    found = []

    def look(*limits, **more):
        found.append(limits)
        return threadpool_limits(*limits, **more)

    monkeypatch.setattr(threads, "threadpool_limits", look)
    before = blas_threads()
    for _ in range(2):
        with threads.single_threaded_blas():
            with threads.single_threaded_blas():
                pass
            assert set(blas_threads()) == {1}
    assert len(found) == 2
    assert blas_threads() == before


def test_overlapping_users_leave_blas_as_it_was():
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()
    counts = []

    def other():
        with Workers(1):
            counts.append(set(blas_threads()))
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with Workers(1):
        thread.start()
        assert inside.wait(10)
        counts.append(set(blas_threads()))
    leave.set()
    thread.join()
    assert all(count <= {1} for count in counts)
    assert blas_threads() == before
