"""Calls on real worker processes: every result comes once, errors come as they are, and what failed is explained."""

import os
import signal
import sys
import threading
import time
import warnings
from contextlib import ExitStack
from itertools import pairwise

import dask
import dask.array
import psutil
import pytest

from pmlda.errors import ClusterError, MissingLibraryError, WaitingWarning
from pmlda.parallel.dask_cluster import Cluster, load_distributed, remote_cluster
from tests.pipeline.common import LEFT_SOCKETS, scheduler_process, worker_processes, workers

pytestmark = LEFT_SOCKETS


@pytest.fixture(scope="module")
def client():
    with workers(2) as client:
        yield client


def add(common, number):
    return common + number


def fail(common, number):
    if number == 3:
        raise ValueError("number 3 is wrong")
    return number


def die(common, number):
    os.kill(os.getpid(), signal.SIGKILL)


def slow(common, number):
    time.sleep(common)
    return number


def test_every_call_is_made_and_its_result_comes_with_its_number(client):
    found = dict(Cluster(client).run(add, 10, [(i,) for i in range(50)]))
    assert found == {i: 10 + i for i in range(50)}
    assert list(Cluster(client).run(add, 10, [])) == []


def test_the_same_calls_are_made_anew(client):
    """Names of earlier calls must not bring what was found then."""
    assert [dict(Cluster(client).run(add, start, [(1,)])) for start in (10, 20)] == [{0: 11}, {0: 21}]


def test_what_is_told_of_the_cluster(client):
    cluster = Cluster(client)
    assert cluster.threads() == 2
    assert cluster.memory() > 0
    assert cluster.address.startswith("http")


def test_an_error_in_a_call_comes_as_it_is_and_later_calls_work(client):
    with pytest.raises(ValueError, match="number 3 is wrong"):
        list(Cluster(client).run(fail, None, [(i,) for i in range(8)]))
    assert dict(Cluster(client).run(add, 1, [(1,)])) == {0: 2}


def test_a_call_that_kills_every_worker_ends_with_an_explanation(monkeypatch):
    monkeypatch.setattr("pmlda.parallel.dask_cluster.MOST_DEATHS", 1)
    with (
        workers(1) as client,
        pytest.raises(ClusterError, match=r"Workers died again and again while .* block=512"),
    ):
        list(Cluster(client).run(die, None, [(0,)]))


def test_something_else_is_no_client():
    with pytest.raises(ValueError, match=r"client is a str\. Give a dask"):
        Cluster("tcp://127.0.0.1:8786")


def test_without_the_library_it_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingLibraryError, match=r'pip install "pmlda\[scale\]"'):
        load_distributed()


def test_processes_end_with_the_cluster():
    with workers(1) as client:
        processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        assert all(process.is_running() for process in processes)
    assert not psutil.wait_procs(processes, timeout=20)[1]


def test_a_worker_that_dies_and_takes_its_time_to_come_back_is_not_given_up():
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "300ms"}), workers(1) as client:
        (first,) = client.run(os.getpid).values()
        os.kill(first, signal.SIGKILL)
        there, end = [first], time.monotonic() + 30
        while there in ([], [first]) and client.cluster.workers and time.monotonic() < end:
            time.sleep(0.05)
            there = list(client.run(os.getpid, on_error="ignore").values())
        assert len(client.cluster.workers) == len(there) == 1


# ── a scheduler of its own ─────────────────────────────────────────────────────────────────────────────────────────
def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr("pmlda.parallel.dask_cluster.CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "tcp://no.such.host.invalid:8786"):
        with pytest.raises(ClusterError, match="No scheduler answers at"), remote_cluster(address):
            pass
    assert dask.array.ones(3).sum().compute() == 3  # Dask itself still works without a cluster


def test_a_scheduler_without_workers_is_told_and_one_that_is_killed_too(tmp_path, monkeypatch):
    monkeypatch.setattr("pmlda.parallel.dask_cluster.CONNECT_SECONDS", 5)
    with scheduler_process(tmp_path) as (process, address):
        with pytest.raises(ClusterError, match="Start some with `dask worker"), remote_cluster(address):
            pass
        with worker_processes(address, 1, tmp_path), remote_cluster(address) as client:
            timer = threading.Timer(1.0, process.kill)
            timer.start()
            start = time.monotonic()
            with pytest.raises(ClusterError, match="connection to the scheduler was lost"):
                list(Cluster(client).run(slow, 0.3, [(i,) for i in range(400)]))
            assert time.monotonic() - start < 60
    assert dask.array.ones(3).sum().compute() == 3


# ── workers that are lost, one or all ──────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def impatient(monkeypatch):
    """Short times of waiting, with the real ones in their order."""
    monkeypatch.setattr("pmlda.parallel.dask_cluster.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("pmlda.parallel.watch.SILENT_SECONDS", 1.5)
    monkeypatch.setattr("pmlda.parallel.watch.EMPTY_SECONDS", 0.0)
    monkeypatch.setattr("pmlda.parallel.watch.SILENT_WORKER_SECONDS", 3.0)
    monkeypatch.setattr("pmlda.parallel.watch.WAIT_SECONDS", 2.5)


def test_without_workers_a_run_waits_goes_on_with_new_ones_and_gives_up_in_the_end(tmp_path, monkeypatch, impatient):
    monkeypatch.setattr("pmlda.parallel.watch.WAIT_SECONDS", 30.0)
    with scheduler_process(tmp_path) as (_, address), ExitStack() as first:
        pids = first.enter_context(worker_processes(address, 2, tmp_path))
        with remote_cluster(address) as client:
            found = Cluster(client).run(slow, 0.1, [(i,) for i in range(30)])
            next(found)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                timer = threading.Timer(0.5, lambda: first.enter_context(worker_processes(address, 1, tmp_path)))
                timer.start()
                assert len(list(found)) == 29
                timer.join()
            notes = [str(each.message) for each in said if issubclass(each.category, WaitingWarning)]
            assert notes == [
                f"The scheduler at {address} has no workers. The run waits 0.5 minutes for workers; start some with "
                f"`dask worker {address}`.",
                "There are workers again, and the run goes on.",
            ]
            monkeypatch.setattr("pmlda.parallel.watch.WAIT_SECONDS", 1.0)
            found = Cluster(client).run(slow, 0.1, [(i,) for i in range(30)])
            next(found)
            first.close()
            with (
                pytest.warns(WaitingWarning, match="has no workers"),
                pytest.raises(ClusterError, match=r"none came within .* minutes\. Start some with `dask worker tcp"),
            ):
                list(found)


def test_workers_that_are_stopped_are_told_and_their_calls_come_when_they_go_on(tmp_path, impatient):
    with (
        scheduler_process(tmp_path) as (_, address),
        worker_processes(address, 2, tmp_path) as pids,
        remote_cluster(address) as client,
    ):
        found = Cluster(client).run(slow, 0.1, [(i,) for i in range(40)])
        next(found)
        os.kill(pids[0], signal.SIGSTOP)
        timer = threading.Timer(4.5, os.kill, (pids[0], signal.SIGCONT))
        timer.start()
        with pytest.warns(WaitingWarning, match=r"The worker tcp://.* does not answer\. Its tiles go to others"):
            assert len(list(found)) == 39
        found = Cluster(client).run(slow, 0.1, [(i,) for i in range(20)])
        next(found)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # one of them may be missed alone before
            with pytest.raises(ClusterError, match="and none came within"):
                list(found)
        assert any(f"No worker of the scheduler at {address} answers" in str(each.message) for each in said)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def when(common, number):
    start = time.time()
    time.sleep(common)
    return start, time.time()


def test_workers_that_come_later_get_calls_too(tmp_path, monkeypatch, impatient):
    monkeypatch.setattr("pmlda.parallel.dask_cluster.WAITING_PER_THREAD", 0)  # so that one worker has one call at first
    with scheduler_process(tmp_path) as (_, address), ExitStack() as later:
        later.enter_context(worker_processes(address, 1, tmp_path))
        with remote_cluster(address) as client:
            found = Cluster(client).run(when, 0.2, [(i,) for i in range(20)])
            next(found)
            later.enter_context(worker_processes(address, 1, tmp_path))
            spans = sorted(span for _, span in found)
            assert len(spans) == 19
            assert sum(start < end for (_, end), (start, _) in pairwise(spans)) > 5  # two at once
