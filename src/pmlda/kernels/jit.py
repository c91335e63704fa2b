"""How kernels are compiled: once per machine, results kept on disk."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit

# Tests and work on kernels turn the cache on disk off with PMLDA_KERNEL_CACHE=0.
CACHE = os.environ.get("PMLDA_KERNEL_CACHE", "1") != "0"


def forget_stale(folder: Path) -> None:
    """Delete compiled kernels that are older than any source in the folder.

    numba looks at the file of a kernel but not at those of the functions it calls, so after an update it would go on
    using their old code.
    """
    newest = max(source.stat().st_mtime for source in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        with suppress(OSError):  # gone already, or not ours to delete
            if index.stat().st_mtime < newest:
                index.unlink()


if CACHE:
    forget_stale(Path(__file__).parent)

# error_model: 1/0 is infinity, as in NumPy, not an exception.
inner = njit(nogil=True, error_model="numpy")
"""For functions that only kernels call."""

inlined = njit(nogil=True, error_model="numpy", forceinline=True)
"""For small functions in loops that must vectorise: LLVM vectorises no loop that has a call in it."""

summing = njit(nogil=True, error_model="numpy", fastmath={"reassoc"})
"""For sums over words, which vectorise only where their terms may be added in another order."""


def kernel(function: Callable[..., Any]) -> Any:
    """For functions that Python calls."""
    if CACHE:
        with suppress(RuntimeError):  # numba may write nowhere: then every process compiles for itself
            return njit(nogil=True, cache=True, error_model="numpy")(function)
    return inner(function)
