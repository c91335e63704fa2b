"""Compiled kernels are kept where they can be, by one process for all, and nothing that fails there fails a run."""

import gc
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from numba import njit
from numba.core import codegen, event
from numba.core.errors import TypingError

from pmlda import PMLDA
from pmlda.errors import KernelCacheWarning, TakenError
from pmlda.kernels import cache, jit, warm
from pmlda.kernels.locks import Lock


def half(x):
    return x / 2.0


inner_half = jit.inner(half)


def half_and_one(x):
    return inner_half(x) + 1.0


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder of one's own for kernels."""
    monkeypatch.setenv("PMLDA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_places", None)
    monkeypatch.setattr(cache, "_has_warned", False)
    monkeypatch.setattr(cache, "_leaves_to_others", False)
    return cache.places()


def new_kernel():
    """As a new process would have it."""
    return cache.cached(njit(half))


def compiled(heard):
    """The result of a new kernel; heard gets its name if it had to be compiled."""
    with cache.listening(heard.append):
        return new_kernel()(3.0)


def test_what_one_process_compiles_the_next_one_finds(places):
    heard = []
    assert [compiled(heard), compiled(heard)] == [1.5, 1.5]
    assert heard == ["test_kernel_cache.half"]
    assert places.has("test_kernel_cache.half", "any")


def test_a_folder_that_was_filled_is_read_where_it_cannot_be_written(places, monkeypatch):
    heard = []
    compiled(heard)
    monkeypatch.setattr(cache, "can_write", lambda folder: False)
    monkeypatch.setattr(cache, "_places", None)
    assert not cache.places().is_kept
    assert compiled(heard) == 1.5
    assert len(heard) == 1


def test_where_nothing_can_be_kept_there_is_one_note(places, monkeypatch):
    """As on a server whose folders are read-only."""
    monkeypatch.setattr(cache, "can_write", lambda folder: False)
    monkeypatch.setattr(cache, "_places", None)
    with pytest.warns(KernelCacheWarning, match="PMLDA_CACHE_DIR"):
        assert compiled([]) == 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache._warn_once(" (for another reason)")


def test_a_disk_that_is_full_is_a_note_and_no_error(places, monkeypatch):
    kernel = new_kernel()

    def fail(*_):
        raise OSError(28, "No space left")

    monkeypatch.setattr(kernel._cache._cache_file, "save", fail)
    with pytest.warns(KernelCacheWarning, match="No space left"):
        assert kernel(3.0) == 1.5


def test_damaged_files_are_as_if_they_were_not_there(places):
    heard = []
    compiled(heard)
    for file in places.folder.glob("*.nb*"):
        file.write_bytes(b"\x80damaged")
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelCacheWarning)
        kernel = new_kernel()
        kernel._cache._cache_file.flush()
        assert kernel(3.0) == 1.5


def test_code_of_other_sources_is_never_used_and_goes(tmp_path):
    (tmp_path / "local_step-old.nbi").touch()
    (tmp_path / "local_step-new.nbi").touch()
    (tmp_path / "notes.txt").touch()
    cache.forget_stale(tmp_path, "new", older_than=3600.0)
    assert len(list(tmp_path.iterdir())) == 3  # another installation may have written it just now
    cache.forget_stale(tmp_path, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local_step-new.nbi", "notes.txt"]


def test_the_digest_changes_with_any_source(tmp_path, monkeypatch):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(cache, "SOURCES", tmp_path)
    before = cache._digest()
    (tmp_path / "b.py").write_text("x = 2\n")
    assert cache._digest() != before


HOLD = """
import sys, time
from pathlib import Path
from pmlda.kernels.locks import Lock
lock = Lock()
lock.acquire(Path(sys.argv[1]), 0.0)
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    file, lock = tmp_path / "lock", Lock()
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert not lock.acquire(file, 0.1)
        holder.kill()
        holder.wait()
        assert lock.acquire(file, 5.0)
    lock.release()


def test_a_helper_leaves_to_others_what_they_compile(places, monkeypatch):
    monkeypatch.setattr(cache, "_leaves_to_others", True)
    kernel, lock = new_kernel(), Lock()
    assert lock.acquire(places.folder / f"{kernel._cache._base}.kernel-lock", 0.0)
    with pytest.raises(TakenError):
        kernel(3.0)
    lock.release()
    assert kernel(3.0) == 1.5


def test_what_another_process_compiles_is_not_waited_for_idly(places):
    kernel, lock, called = new_kernel(), Lock(), []
    assert lock.acquire(places.folder / f"{kernel._cache._base}.kernel-lock", 0.0)

    def meanwhile():
        called.append(True)
        lock.release()

    with cache.using_waits(meanwhile):
        assert kernel(3.0) == 1.5
    assert called == [True]


def test_functions_that_only_kernels_call_are_made_into_machine_code_with_the_kernel_alone(places):
    collecting = []

    class Look(event.Listener):
        def on_start(self, found):
            collecting.append(gc.isenabled())

        def on_end(self, found):
            pass

    def libraries(function):
        return [type(found.library) for found in function.overloads.values()]

    with event.install_listener("numba:compile", Look()):
        kernel = jit.kernel(half_and_one)
        assert kernel(3.0) == 2.5
    assert libraries(inner_half) == [jit.Part]
    assert libraries(kernel) == [codegen.JITCodeLibrary]
    usual = njit(half)
    assert usual(3.0) == 1.5
    assert libraries(usual) == [codegen.JITCodeLibrary]
    assert collecting == [False, False]
    assert gc.isenabled()


def test_a_kernel_that_cannot_be_compiled_leaves_everything_as_it_was(places):
    def wrong(x):
        return inner_half(x).nothing

    with pytest.raises(TypingError):
        jit.kernel(wrong)(3.0)
    assert gc.isenabled()
    usual = njit(half)
    assert usual(5.0) == 2.5


@pytest.mark.parametrize("family", ["gaussian", "poisson", "additive-poisson"])
def test_a_helper_compiles_what_a_fit_calls(family):
    """Types of arguments that are told beforehand are those with which engines call."""
    x = np.random.default_rng(0).integers(0, 5, (40, 3)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few sweeps are not enough
        PMLDA(2, family=family, n_sweeps=5, random_state=0).fit(x, groups=np.arange(40) // 20)
    kind = warm.kind_of_family(family, "auto")
    for name in warm.COMMON:
        assert tuple(warm.signature(name, kind)) in warm.find(name).overloads, name


@pytest.mark.parametrize("family", ["gaussian", "topic", "poisson", "additive-poisson"])
def test_kinds_are_those_of_the_log_partition(family):
    covariance = "topic-full" if family == "topic" else "auto"
    name = "gaussian" if family == "topic" else family
    kinds = {"gaussian": "quadratic", "topic": "other", "poisson": "other", "additive-poisson": "additive"}
    assert warm.kind_of_family(name, covariance) == kinds[family]


def test_every_kernel_of_the_lists_is_there():
    names = {name for names in (*warm.OF_KIND.values(), *warm.OF_ENGINE.values(), warm.COMMON) for name in names}
    for name in names:
        assert cache.name_of(warm.find(name).py_func) == name


def test_no_helper_outlives_its_block(places, monkeypatch):
    started = []

    class Endless(subprocess.Popen):
        def __init__(self, command, **more):
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **more)
            started.append(self)

    monkeypatch.setattr(warm.subprocess, "Popen", Endless)
    with pytest.raises(KeyboardInterrupt), warm.helped("quadratic"):
        raise KeyboardInterrupt
    assert started[0].returncode is not None


def test_a_helper_ends_in_the_middle_of_its_work_when_its_parent_ends(places):
    command = [sys.executable, "-m", "pmlda.kernels.warm", "quadratic"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as helper:
        deadline = time.monotonic() + 100
        while not (locks := list(places.folder.glob("*.kernel-lock"))) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert helper.poll() is None
        helper.stdin.close()  # as the system does when the parent is killed
        assert helper.wait(100) == 1
    assert not places.has(warm.HELPED[0], "quadratic")
    lock = Lock()
    assert lock.acquire(locks[0], 0.0)
    lock.release()


def test_what_a_helper_compiles_others_use(places):
    """Of one kernel, since the others are said to be taken."""
    own, locks = warm.COMMON[1], []
    for name in set(warm.COMMON) - {own}:
        locks.append(Lock())
        assert locks[-1].acquire(places.folder / f"{warm.find(name)._cache._base}.kernel-lock", 0.0)
    command = [sys.executable, "-m", "pmlda.kernels.warm", "quadratic"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as helper:
        assert helper.stdout.read() == b""
        assert helper.wait(100) == 0
    for lock in locks:
        lock.release()
    assert set(warm.missing("quadratic")) == set(warm.COMMON) - {own}
    again = cache.cached(njit(**jit.OPTIONS)(warm.find(own).py_func))
    again.compile(warm.signature(own, "quadratic"))
    assert sum(again.stats.cache_hits.values()) == 1


def test_where_there_is_one_core_there_is_no_helper(places, monkeypatch):
    monkeypatch.setattr(warm, "_cores", lambda: 1)
    monkeypatch.setattr(warm.subprocess, "Popen", None)
    with warm.helped("quadratic"):
        pass


def test_where_nothing_is_to_be_kept_there_is_no_helper(places, monkeypatch):
    monkeypatch.setattr(cache, "KEEPS", False)
    monkeypatch.setattr(warm.subprocess, "Popen", None)
    with warm.helped("quadratic"):
        pass


def test_a_helper_that_cannot_start_is_done_without(places, monkeypatch):
    monkeypatch.setattr(sys, "executable", os.devnull)
    with warm.helped("quadratic"):
        pass
