"""How kernels are compiled: once per machine, results kept on disk (kernels.cache).

What a user waits for on a new machine is numba, hence two measures, which save a quarter of the time. Functions that
only kernels call have no entry from Python (no_*_wrapper). And they are hardly optimised by themselves: numba would do
so for each with all that it calls, again for each that calls it, only to optimise the kernel as a whole in the end.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from numba import njit

from pmlda.kernels.cache import KEEPS, cached

config: Any = import_module("numba.core.config")
event: Any = import_module("numba.core.event")
Function = TypeVar("Function", bound=Callable[..., Any])
# error_model: 1/0 is infinity, as in NumPy, not an exception.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
WITHOUT_ENTRY: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _without_entry(**options: Any) -> Callable[[Function], Function]:
    decorator: Callable[[Function], Function] = njit(**OPTIONS, **WITHOUT_ENTRY, **options)
    return decorator


inner = _without_entry()
"""For functions that only kernels call."""

inlined = _without_entry(forceinline=True)
"""For small functions in loops that must vectorise: LLVM vectorises no loop that has a call in it."""

summing = _without_entry(fastmath={"reassoc"})
"""For sums over words, which vectorise only where their terms may be added in another order."""


@inlined
def total_of(x: Any) -> float:
    """Σ x (n,). NumPy's sums, and its other calls on whole arrays, take longer to compile than a loop."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


# The level of LLVM for functions by themselves: at 0, kernels that call them run 16 times slower, at 1 as fast as ever.
BY_THEMSELVES = 1


class _OptimiseOnce(event.Listener):  # type: ignore[misc]
    """Hardly optimises functions while a kernel that calls them is being compiled. numba compiles one at a time."""

    def __init__(self) -> None:
        self._are_kernels: list[bool] = []
        self._level = config.OPT

    def on_start(self, found: Any) -> None:
        if not self._are_kernels:
            self._level = config.OPT
        self._are_kernels.append(found.data["dispatcher"] in _kernels)
        self._choose()

    def on_end(self, found: Any) -> None:
        self._are_kernels.pop()
        self._choose()

    def _choose(self) -> None:
        is_inside = any(self._are_kernels) and not self._are_kernels[-1]
        config.OPT = type(self._level)(BY_THEMSELVES) if is_inside else self._level


_kernels: set[Any] = set()
event.register("numba:compile", _OptimiseOnce())


def kernel(function: Callable[..., Any]) -> Any:
    """For functions that Python calls."""
    compiled = njit(**OPTIONS)(function)
    _kernels.add(compiled)
    return cached(compiled) if KEEPS else compiled
