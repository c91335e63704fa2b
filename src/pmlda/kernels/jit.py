"""How kernels are compiled: once per machine, results kept on disk (kernels.cache)."""

from collections.abc import Callable
from typing import Any

from numba import njit

from pmlda.kernels.cache import KEEPS, cached

# error_model: 1/0 is infinity, as in NumPy, not an exception.
inner = njit(nogil=True, error_model="numpy")
"""For functions that only kernels call."""

inlined = njit(nogil=True, error_model="numpy", forceinline=True)
"""For small functions in loops that must vectorise: LLVM vectorises no loop that has a call in it."""

summing = njit(nogil=True, error_model="numpy", fastmath={"reassoc"})
"""For sums over words, which vectorise only where their terms may be added in another order."""


@inlined
def total_of(x: Any) -> float:
    """Σ x (n,). NumPy's sums, and its other calls on whole arrays, take longer to compile than a loop."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


def kernel(function: Callable[..., Any]) -> Any:
    """For functions that Python calls."""
    return cached(inner(function)) if KEEPS else inner(function)
