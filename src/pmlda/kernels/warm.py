"""Compile kernels before they are needed: which ones a run needs, and a process that compiles some of them beside it.

numba compiles one kernel at a time in each process, so that only another process makes use of a second core. It shares
no more with the run than the folder of compiled kernels: should it fail, the run compiles everything itself. It ends
with the run, however that ends: nothing is written to its standard input, which the system closes with the run.
`python -m pmlda.kernels.warm quadratic` is that process.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import Any

from pmlda.errors import TakenError
from pmlda.kernels import cache

# What every engine needs, since all begin with a variational fit, in the order of need.
COMMON = (
    "variational.local_step", "variational_documents.document_step", "variational_moments.posterior_moments",
    "variational_refits.move_under_refits",
)  # fmt: skip
OF_KIND = {"quadratic": (), "additive": ("additive.split_expected",), "other": ("lines.expected_partition",)}
OF_ENGINE: dict[str, tuple[str, ...]] = {
    "variational": (),
    "gibbs": (
        "gibbs_candidates.draw_candidates", "gibbs_candidates.candidate_fits", "gibbs.document_step",
        "gibbs.weigh_candidates", "gibbs.log_marginals", "gibbs_stretch.stretch_step", "gibbs.transfer_step",
        "gibbs.choose_candidates", "paper.gram", "paper.sum_log", "paper.log_hidden", "paper.accumulate",
    ),
    "paper": (
        "paper.gram", "paper.sum_log", "log_partition.sum_partition", "paper.log_hidden", "paper.document_step",
        "paper.word_step", "paper.word_prior_step", "paper.accumulate",
    ),
}  # fmt: skip
# A helper begins with what shares most. The run, which comes to its first kernel seconds later, begins at the end.
HELPED = (COMMON[0], COMMON[3], COMMON[1], COMMON[2])
SECONDS_TO_END = 5.0


def kind_of_family(family: str, covariance: str) -> str:
    """The kind of log-partition (LogPartition) of a family by its name in settings; "auto" is a shared covariance."""
    if family == "gaussian":
        return "other" if covariance.startswith("topic-") else "quadratic"
    return "additive" if family.startswith("additive") else "other"


def missing(kind: str, engine: str = "variational") -> list[str]:
    """Names of the kernels that a fit needs, and that are not kept yet."""
    places = cache.places()
    needed = COMMON + OF_KIND[kind] + OF_ENGINE.get(engine, ())
    found = [any(places.has(name, of) for of in (kind, "any")) for name in needed]
    return [name for name, is_there in zip(needed, found, strict=True) if not is_there]


def signature(name: str, kind: str) -> tuple[Any, ...]:
    """Types of the arguments that engines give one of the common kernels."""
    import numpy as np
    from numba import typeof

    from pmlda.kernels.arguments import ADDITIVE, QUADRATIC, DocumentPrior, DocumentRange, LocalSums, LogPartition
    from pmlda.types import Fixed, Labels

    row, rows, numbers = np.zeros(2), np.zeros((2, 2)), np.zeros(2, np.int64)
    labels = Labels(numbers, rows, rows, row)
    if name == COMMON[1]:
        prior, documents = DocumentPrior(row, 1.0, labels), DocumentRange(numbers, 0, 1)
        return tuple(map(typeof, (prior, rows, rows, documents, 1, Fixed(), row)))
    log_partition = LogPartition.of({"quadratic": QUADRATIC, "additive": ADDITIVE, "other": 1}[kind], rows, 1.0)
    segments = np.zeros((1, 4), np.int64)
    if name == COMMON[3]:
        each = np.zeros((2, 2, 2))
        return tuple(map(typeof, (log_partition, each, each, each, segments, labels, 1, rows, rows, rows, rows)))
    common = log_partition, rows, rows, segments, labels
    rest: tuple[Any, ...] = rows, rows, rows
    if name == COMMON[0]:
        rest = 1, rows, row, LocalSums(rows, rows, rows, row)
    return tuple(map(typeof, common + rest))


def find(name: str) -> Any:
    """A kernel by module and name."""
    module, function = name.split(".")
    return getattr(import_module(f"pmlda.kernels.{module}"), function)


def compile_common(kind: str, names: Sequence[str] = HELPED) -> None:
    """Compile the common kernels of a kind, but for those that other processes are compiling."""
    with cache.leaving_to_others():
        for name in names:
            with suppress(TakenError):
                find(name).compile(signature(name, kind))


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """End this process, whatever it does, once the one that started it has ended."""

    def wait() -> None:
        os.read(0, 1)  # not sys.stdin, whose lock Python wants when it ends
        os._exit(1)  # files of kernels are complete or absent

    Thread(target=wait, daemon=True).start()


@contextmanager
def helped(kind: str) -> Iterator[None]:
    """Compile what a fit of this kind needs in a process beside this one, if anything is missing."""
    process = None
    lacks_several = cache.KEEPS and _cores() > 1 and len(set(missing(kind)) & set(HELPED)) > 1
    if lacks_several and (folder := cache.places().folder) is not None:
        # -P: no module of the folder where the user happens to be.
        command = [sys.executable, "-P", "-m", "pmlda.kernels.warm", kind]
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        environment = (
            dict(os.environ) if cache.places().is_kept else os.environ | {"PMLDA_CACHE_DIR": str(folder.parent)}
        )
        with suppress(OSError, ValueError):
            process = subprocess.Popen(command, stdin=pipe, stdout=nothing, stderr=nothing, env=environment)
    try:
        with cache.using_waits(lambda: compile_common(kind, HELPED[::-1])):
            yield
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()


if __name__ == "__main__":
    end_with_parent()
    compile_common(sys.argv[1])
