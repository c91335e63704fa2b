"""Threads for work that is already cut into pieces: results come back in the order of the pieces, whoever did them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from numbers import Integral
from threading import Lock, local
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from pmlda.types import IntArray
from pmlda.validate import require

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Less than this many words is not worth waking a thread.
LEAST_WORDS = 8192
CHUNK_WORDS = 16384


class Workers:
    """n_jobs threads, while the `with` block lasts. Linear algebra libraries use one thread each meanwhile."""

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = count_jobs(n_jobs)
        self._stack = ExitStack()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(single_threaded_blas())
        if self.n_jobs > 1:
            self._pool = self._stack.enter_context(ThreadPoolExecutor(self.n_jobs, initializer=limit_blas))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        self._pool = None

    def map(
        self, function: Callable[[Piece], Result], pieces: Iterable[Piece], n_words: int | None = None
    ) -> list[Result]:
        """function(piece) for every piece, in order. n_words, if given, tells whether threads are worth waking."""
        pieces = list(pieces)
        too_few = n_words is not None and n_words < 2 * LEAST_WORDS
        if self._pool is None or len(pieces) == 1 or too_few:
            return [function(piece) for piece in pieces]
        # A message to a thread costs as much as a thousand words: one for each thread, not one for each piece.
        size = -(-len(pieces) // self.n_jobs)
        shares = [pieces[first : first + size] for first in range(0, len(pieces), size)]
        done = self._pool.map(lambda share: [function(piece) for piece in share], shares)
        return [result for results in done for result in results]

    def share(self, weights: IntArray) -> list[tuple[int, int]]:
        """Cut a row of items into at most n_jobs ranges (first, last) of about equal weight (in words)."""
        cumulative = np.cumsum(weights)
        n_parts = int(max(1, min(self.n_jobs, cumulative[-1] // LEAST_WORDS)))
        targets = cumulative[-1] * np.arange(1, n_parts) / n_parts
        edges = [0, *(np.searchsorted(cumulative, targets) + 1).tolist(), len(weights)]
        return [(a, b) for a, b in pairwise(edges) if a < b]


def each_in_turn(function: Callable[[Piece], None], pieces: Sequence[Piece], n_jobs: int | None) -> None:
    """function(piece) for every piece on n_jobs threads, each of which takes the next piece when it is done with one.

    Linear algebra libraries use one thread each meanwhile.
    """
    n_threads = min(count_jobs(n_jobs), len(pieces))
    with single_threaded_blas():
        if n_threads < 2:
            for piece in pieces:
                function(piece)
            return
        with ThreadPoolExecutor(n_threads, initializer=limit_blas) as pool:
            try:
                for done in [pool.submit(function, piece) for piece in pieces]:
                    done.result()
            finally:
                pool.shutdown(cancel_futures=True)  # after an error, or Ctrl-C, nobody waits for what is left


def count_jobs(n_jobs: int | None) -> int:
    """How many threads n_jobs means: None is every core, since results do not depend on it; −1 too, −2 all but one."""
    from joblib import cpu_count

    if n_jobs is None:
        return int(cpu_count())
    is_whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    require(is_whole and n_jobs != 0, f"n_jobs={n_jobs!r}: give 1 or more threads, -1 or None for every core.")
    return int(n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs))


_LOCK = Lock()
_users = 0
_before: threadpool_limits | None = None


class _Here(local):
    """Whether BLAS is limited in this thread: to find the libraries takes milliseconds, every time."""

    is_limited = False


_here = _Here()


def limit_blas() -> threadpool_limits:
    """BLAS with one thread, so that its sums do not depend on how many it would have used."""
    _here.is_limited = True
    return threadpool_limits(1, user_api="blas")


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """limit_blas while the block lasts; nothing to be done inside another such block of the same thread.

    The number belongs to the process in some versions of BLAS and to each thread in others, so every thread sets its
    own limit and lifts it again, and the last to leave restores what the first had found. Where it belongs to the
    process, the first of two overlapping users lifts it for both.
    """
    global _users, _before
    if _here.is_limited:
        yield
        return
    with _LOCK:
        limits = limit_blas()
        _before = limits if _users == 0 else _before
        _users += 1
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            _here.is_limited = False
            limits.restore_original_limits()
            if _users == 0 and _before is not None:
                _before.restore_original_limits()


def chunks(n_words: int) -> list[slice]:
    """Slices that cover all words."""
    return [slice(first, min(first + CHUNK_WORDS, n_words)) for first in range(0, n_words, CHUNK_WORDS)]
