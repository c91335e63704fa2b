"""Entries from Python for functions that only kernels call, which are compiled without (pmlda.kernels.jit)."""

from functools import cache
from types import ModuleType
from typing import Any

from numba import njit


@cache
def from_python(function: Any) -> Any:
    """The function with an entry; as it is if it has one."""
    has_none = getattr(function, "targetoptions", {}).get("no_cpython_wrapper", False)
    return njit(error_model="numpy")(function.py_func) if has_none else function


def give_entries(monkeypatch: Any, module: ModuleType) -> None:
    """Let kernels of the module that run as Python call its functions."""
    for name, function in list(vars(module).items()):
        if hasattr(function, "py_func"):
            monkeypatch.setattr(module, name, from_python(function))
