"""How kernels are compiled: once per machine, results kept on disk."""

import os

from numba import njit

# The cache on disk does not notice edits in other files than the kernel's own, so tests and development turn it off
# with PMLDA_KERNEL_CACHE=0.
CACHE = os.environ.get("PMLDA_KERNEL_CACHE", "1") != "0"

# error_model: 1/0 is infinity, as in NumPy, not an exception.
kernel = njit(nogil=True, cache=CACHE, error_model="numpy")
"""For functions that Python calls."""

inner = njit(nogil=True, error_model="numpy")
"""For functions that only kernels call."""
