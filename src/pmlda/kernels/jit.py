"""How kernels are compiled: once per machine, results kept on disk (kernels.cache).

What a user waits for on a new machine is numba, hence three measures, which save a good half of it. Functions that only
kernels call have no entry from Python (no_*_wrapper). They are neither optimised nor made into machine code by
themselves: numba would do both for each with all that it calls, again for each that calls it, and then for the kernel
as a whole, which is all that is ever run. And Python collects no garbage meanwhile.
"""

import gc
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from numba import njit

from pmlda.kernels.cache import KEEPS, cached

event: Any = import_module("numba.core.event")
codegen: Any = import_module("numba.core.codegen")
target: Any = import_module("numba.core.registry").cpu_target.target_context
Function = TypeVar("Function", bound=Callable[..., Any])
# error_model: 1/0 is infinity, as in NumPy, not an exception. Nothing is called from C.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def _without_entry(**more: Any) -> Callable[[Function], Function]:
    options: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True} | more
    decorator: Callable[[Function], Function] = njit(**options)
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


class Part(codegen.JITCodeLibrary):
    """Code of a function that a kernel calls: kept as it is, to be linked into the kernel."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None, as numba says it: there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """What numba tells where a function finds its constants. Without machine code there is nothing to be told."""
        return SimpleNamespace(set_env=lambda name, environment: None)


# What Part relies on is numba's own: versions with other names for it compile functions as they always do.
RELIED_ON = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "_ensure_finalized")
HAS_PARTS = hasattr(target.codegen(), "_library_class") and all(
    hasattr(codegen.JITCodeLibrary, name) for name in RELIED_ON
)


class _CompileOnce(event.Listener):
    """Makes Parts of functions while a kernel that calls them is being compiled. numba compiles one at a time."""

    def __init__(self) -> None:
        self._are_kernels: list[bool] = []
        self._collects = False

    def on_start(self, found: Any) -> None:
        is_kernel = found.data["dispatcher"] in _kernels
        if is_kernel and not any(self._are_kernels):
            self._collects = gc.isenabled()
            gc.disable()
        self._are_kernels.append(is_kernel)
        self._choose()

    def on_end(self, found: Any) -> None:
        was_kernel = self._are_kernels.pop()
        self._choose()
        if was_kernel and not any(self._are_kernels) and self._collects:
            gc.enable()

    def _choose(self) -> None:
        is_inside = any(self._are_kernels) and not self._are_kernels[-1]
        if HAS_PARTS:
            target.codegen()._library_class = Part if is_inside else codegen.JITCodeLibrary


_kernels: set[Any] = set()
event.register("numba:compile", _CompileOnce())


def kernel(function: Callable[..., Any]) -> Any:
    """For functions that Python calls."""
    compiled = njit(**OPTIONS)(function)
    _kernels.add(compiled)
    return cached(compiled) if KEEPS else compiled
