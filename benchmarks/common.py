"""What every benchmark needs: a problem from the model, fair timing, and where it ran."""

import datetime
import os
import platform
import sys
import time

import numba
import numpy as np
import scipy
import sklearn

import pmlda
from pmlda.engines.documents import group_rows
from pmlda.families import Gaussian
from pmlda.model import simulate
from pmlda.types import Latents, Topics

# The command, also of versions that `python -m pmlda` does not start.
PROGRAM = (sys.executable, "-c", "from pmlda.cli import app; app()")


def spaced_means(rng, n_topics, p):
    """(K, p) random means, every two of them between 6 and 12 apart; None where this draw cannot be scaled so."""
    means = rng.normal(size=(n_topics, p))
    gaps = np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(n_topics, 1)]
    least, most = 6.0 / gaps.min(), 12.0 / gaps.max()
    return means * rng.uniform(least, most) if least <= most else None


def problem(n_words, *, n_topics=3, p=3, n_documents=100, seed=0):
    """Documents simulated from the model, topics 6 to 12 noise standard deviations apart, and what is hidden."""
    rng = np.random.default_rng(seed)
    means = None
    while means is None:
        means = spaced_means(rng, n_topics, p)
    topics = Topics(means, np.array(1.0))
    words, document, latents = simulate(rng, Gaussian(), topics, [n_words // n_documents] * n_documents)
    words -= words.mean(axis=0)
    return group_rows(words, document), topics, latents


def copied(latents):
    """Latents in arrays of their own, since sweeps work in place."""
    return Latents(*(array.copy() for array in latents))


def race(contestants, rounds):
    """Seconds of each contestant in each round, (rounds, n): all run in turn within a round, so noise hits all."""
    for run in contestants:
        run()  # compile, and touch memory
    times = []
    for _ in range(rounds):
        row = []
        for run in contestants:
            start = time.perf_counter()
            run()
            row.append(time.perf_counter() - start)
        times.append(row)
    return np.array(times)


def spread(values, digits=1):
    """The median, and in brackets the quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def show(header, rows):
    """Print a table, each row as soon as it is known."""
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def where():
    """One line: machine, versions, date."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), cpu)
    versions = {"pmlda": pmlda, "numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba}
    listed = ", ".join(f"{name} {module.__version__}" for name, module in versions.items())
    return f"{cpu}, {os.cpu_count()} cores; Python {platform.python_version()}, {listed}; {datetime.date.today()}"
