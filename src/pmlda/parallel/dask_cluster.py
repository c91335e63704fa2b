"""The `map` that runs on Dask: calls in, results out as they come, lost workers and lost schedulers told apart.

Nothing else in this package knows of Dask. A call must be a function of its arguments alone: when a worker is lost, its
calls are made again elsewhere.
"""

from __future__ import annotations

import logging
import pickle
import queue
import secrets
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pmlda.errors import ClusterError, MissingLibraryError
from pmlda.parallel.watch import Watch
from pmlda.validate import require

if TYPE_CHECKING:
    from distributed import Client

# Calls that wait beside those that run: enough that no worker is ever idle, few enough that a million do not pile up.
WAITING_PER_THREAD = 3
# What all calls need travels with each of them up to so many bytes. Beyond, calls are drawn to the worker that has it.
LARGEST_MESSAGE = 2**16
CONNECT_SECONDS = 10
# How often it is looked who works there.
LOOK_SECONDS = 2.0
# So many calls may die with their workers before the call itself is to blame.
MOST_DEATHS = 6


class Cluster:
    """An executor whose calls run on the workers of a Dask client, one thread each."""

    threads_per_call = 1

    def __init__(self, client: Client) -> None:
        require(
            hasattr(client, "scheduler_info") and hasattr(client, "submit"),
            f"client is a {type(client).__name__}. Give a dask.distributed.Client.",
        )
        self.client: Any = client

    def threads(self) -> int:
        """How many calls run at once; raises where the scheduler is gone."""
        with explained():
            return _count_threads(self.workers())

    def memory(self) -> int | None:
        """Bytes that one call may take on the smallest worker, or None where there is no limit."""
        with explained():
            workers = self.workers().values()
        limits = [worker["memory_limit"] // worker["nthreads"] for worker in workers if worker["memory_limit"]]
        return min(limits, default=None)

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of each worker; raises where it is gone or does not answer."""
        self.require_scheduler()
        asked: Any = self.client.sync(self.client.scheduler.identity, callback_timeout=CONNECT_SECONDS)
        workers: dict[str, Any] = asked["workers"]
        return workers

    @property
    def address(self) -> str:
        """Of the dashboard."""
        return str(self.client.dashboard_link)

    def run(
        self, function: Callable[..., Any], common: Any, calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (i, function(common, *calls[i])) in the order in which they are done."""
        with explained():
            shared: Any = _pack((function, common))
            if len(shared) > LARGEST_MESSAGE:
                # A call of its own holds it: it is sent to each worker once, and made again if it is lost.
                shared = self.client.submit(_same, shared, pure=False)
            numbers: dict[Any, int] = {}
            token = secrets.token_hex(8)  # a name that was used before would bring what was found then
            waiting = iter(enumerate(calls))
            done: queue.SimpleQueue[Any] = queue.SimpleQueue()

            def submit(count: int) -> None:
                for i, call in islice(waiting, max(0, count)):
                    future = self.client.submit(
                        _call, shared, _pack(call), pure=False, key=f"{function.__name__}-{i}-{token}"
                    )
                    numbers[future] = i
                    future.add_done_callback(done.put)

            watch = _Lookout(self)
            submit(watch.wanted)
            try:
                while numbers:
                    watch.look()
                    try:
                        future = done.get(timeout=LOOK_SECONDS)
                    except queue.Empty:
                        pass
                    else:
                        result = self._result_of(future, watch)
                        yield numbers.pop(future), result
                    submit(watch.wanted - len(numbers))  # workers may have come meanwhile
            finally:
                with suppress(Exception):
                    self.client.cancel(list(numbers), force=True)

    def _result_of(self, future: Any, watch: _Lookout) -> Any:
        """What a call returned, or what it raised."""
        while True:
            try:
                return future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if future.status == "error":  # raised by the call itself
                    raise
                watch.look()

    def require_scheduler(self) -> None:
        """Raise where the scheduler is gone. Dask tries to find it again for a while, then waits for ever."""
        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(self.client.status)


class _Lookout:
    """Looks every few seconds who works there.

    wanted : number of calls that keep all workers busy
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watch = Watch(str(cluster.client.scheduler.address))
        self._next = time.monotonic() + LOOK_SECONDS
        self.wanted = (1 + WAITING_PER_THREAD) * cluster.threads()

    def look(self) -> None:
        """Raise where the scheduler is gone, or where there have been no workers for long."""
        if time.monotonic() < self._next:
            return
        self._cluster.require_scheduler()
        try:
            workers = self._cluster.workers()
            self.wanted = (1 + WAITING_PER_THREAD) * _count_threads(workers)
            self._watch.look({address: worker["last_seen"] for address, worker in workers.items()})
        except (OSError, TimeoutError):  # Dask looks for it, for a while
            self._watch.look(None)
        self._next = time.monotonic() + LOOK_SECONDS


def _count_threads(workers: dict[str, Any]) -> int:
    return max(1, sum(int(worker["nthreads"]) for worker in workers.values()))


def _same(value: bytes) -> bytes:
    return value


def _pack(value: Any) -> bytes:
    """As bytes, so that Dask does not look for tasks inside."""
    import cloudpickle  # type: ignore[import-untyped]

    packed: bytes = cloudpickle.dumps(value)
    return packed


def _call(shared: bytes, call: bytes) -> Any:
    function, common = pickle.loads(shared)
    return function(common, *pickle.loads(call))


@contextmanager
def local_cluster(n_workers: int, memory_limit: str | int = "auto") -> Iterator[Client]:
    """Worker processes of one thread each on this machine, for as long as the block lasts."""
    distributed = load_distributed()
    import dask  # late: it may not be there

    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        "distributed.admin.log-format": "%(message)s",
        # Dask gives a worker up for good if 15 s after its death it is dead too, be it for the second time.
        "distributed.deploy.lost-worker-timeout": "1000 days",
    }
    with dask.config.set(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        try:
            with sigint_ignored_in_children():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, memory_limit=memory_limit, silence_logs=50
                )
        except Exception as error:  # ports, limits, a nanny that dies: Dask has no class of its own for these
            raise ClusterError(f"Workers could not be started: {error}.") from None
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


@contextmanager
def sigint_ignored_in_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear Ctrl-C, which goes to all of them: it is for whoever waits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def remote_cluster(address: str) -> Iterator[Client]:
    """A client of a scheduler that is already running."""
    distributed = load_distributed()
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)  # errors are reported once, in one sentence
    try:
        # As the default of all of Dask, a client that fails to connect or to close would remain so in this process.
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"No scheduler answers at {address!r} ({type(error).__name__}). "
            "Start one with `dask scheduler`, and workers with `dask worker ADDRESS`."
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise ClusterError(f"The scheduler at {address!r} has no workers. Start some with `dask worker {address}`.")
        yield client


def load_distributed() -> Any:
    """The library, or how to get it."""
    try:
        import distributed
    except ImportError:
        raise MissingLibraryError('Several workers need the library dask: pip install "pmlda[scale]".') from None
    return distributed


@contextmanager
def explained() -> Iterator[None]:
    """What Dask raises, as one sentence that says what to do."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"Workers died again and again while they worked on {getattr(error, 'task', 'a tile')!s}; most likely "
            "they ran out of memory. Give them more, or choose smaller tiles (--set block=512) in a new run."
        ) from None
    except (CommClosedError, CancelledError, TimeoutError, ConnectionError) as error:
        raise ClusterError(
            f"The connection to the scheduler was lost ({type(error).__name__}). Start another, or resume without one."
        ) from None
