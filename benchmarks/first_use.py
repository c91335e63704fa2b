"""How long until the first result in a new process? Import, first fit with a warm and with a cold compile cache."""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
from common import spread, where

FIT = """
import time
start = time.perf_counter()
from pmlda import PMLDA
imported = time.perf_counter() - start
import numpy as np
X = np.random.default_rng(0).normal(size=(10_000, 3))
start = time.perf_counter()
PMLDA(3, n_sweeps=10, random_state=0).fit(X)
print(imported, time.perf_counter() - start)
"""


def measure(cache):
    """Seconds to import PMLDA and to fit 10,000 words, in a new process."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(measure(cache))
            warm.append(measure(cache))
    cold, warm = np.array(cold), np.array(warm)
    print(f"# First use\n\n{where()}\n\n{rounds} rounds, medians with quartiles in brackets.\n")
    print("| what | seconds |\n|---|---|")
    print(f"| from pmlda import PMLDA | {spread(warm[:, 0], 2)} |")
    print(f"| first fit of 10,000 words, 10 sweeps, compile cache warm | {spread(warm[:, 1], 2)} |")
    print(f"| the same, compile cache cold | {spread(cold[:, 1], 2)} |")
