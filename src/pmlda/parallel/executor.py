"""Executors run a function over tiles: in this thread, on threads of this process, or on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from pmlda.parallel.interrupt import abandoning
from pmlda.parallel.memory import free_memory
from pmlda.parallel.threads import count_jobs

Calls = Sequence[tuple[Any, ...]]


class Executor(Protocol):
    """Whatever runs a function over tiles.

    threads_per_call : threads that one call may use by itself; None is every core
    address : where its progress can be watched, if anywhere
    """

    @property
    def threads_per_call(self) -> int | None: ...
    @property
    def address(self) -> str | None: ...
    def threads(self) -> int:
        """How many threads compute at once."""

    def memory(self) -> int | None:
        """Bytes that one call may take, None where that is unknown."""

    def run(self, function: Callable[..., Any], common: Any, calls: Calls) -> Iterator[tuple[int, Any]]:
        """Yield (i, function(common, *calls[i])) in the order in which they are done."""


class SerialExecutor:
    """One call after the other in this thread; each may use all of the threads."""

    address = None

    def __init__(self, n_jobs: int | None) -> None:
        self.threads_per_call = n_jobs

    def threads(self) -> int:
        return count_jobs(self.threads_per_call)

    def memory(self) -> int | None:
        return free_memory()

    def run(self, function: Callable[..., Any], common: Any, calls: Calls) -> Iterator[tuple[int, Any]]:
        for i, call in enumerate(calls):
            yield i, function(common, *call)


class ThreadExecutor:
    """Several calls at once on threads of this process, each on one thread."""

    threads_per_call = 1
    address = None

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs = count_jobs(n_jobs)

    def threads(self) -> int:
        return self._n_jobs

    def memory(self) -> int | None:
        free = free_memory()
        return None if free is None else free // self._n_jobs

    def run(self, function: Callable[..., Any], common: Any, calls: Calls) -> Iterator[tuple[int, Any]]:
        with abandoning() as abandon, ThreadPoolExecutor(self._n_jobs) as pool:
            numbers = {pool.submit(function, common, *call): i for i, call in enumerate(calls)}
            try:
                for future in as_completed(numbers):
                    yield numbers[future], future.result()
            except BaseException:
                abandon()  # nobody waits for what is left
                raise
            finally:
                pool.shutdown(cancel_futures=True)
