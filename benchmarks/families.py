"""Families without a closed form: how accurate memberships are, what a fit takes, and how a sweep scales.

The first table is of words simulated from each family: 6,000 of them in 40 documents, three topics, 8 features (24 for
zeros and ones, 8 symbols). The Gaussian family stands in its first rows, to compare times with.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from accuracy import SCALE_RATE, best_possible, judge, rmse
from common import where

from pmlda import PMLDA
from pmlda.families import Bernoulli, Categorical, Gamma, Gaussian, Poisson, TopicDiagonalGaussian, TopicFullGaussian
from pmlda.families.noise import draw_inverse_wishart
from pmlda.model import simulate
from pmlda.types import Topics

N_TOPICS, P, SIZES = 3, 8, [150] * 40
# Topics of Gaussians lie this far apart, in units of about one standard deviation.
APART = 4.0


def gaussian_topics(draw_spread, rng):
    return Topics(rng.normal(scale=APART, size=(N_TOPICS, P)), draw_spread(rng))


def own_topics(family, rng):
    return family.draw_topics(rng, N_TOPICS)


def of_prior(family):
    return family, partial(own_topics, family)


# Each: a family, how to draw its true topics, and what the model is told.
SIMULATED = {
    "gaussian": ((Gaussian(), partial(gaussian_topics, lambda rng: np.array(1.0))), {}),
    "poisson": (of_prior(Poisson(rate=np.full(P, 0.1))), {"family": "poisson"}),
    "gamma": (of_prior(Gamma(shape=4.0, prior_rate=np.full(P, 8.0))), {"family": Gamma(shape=4.0)}),
    "bernoulli": (of_prior(Bernoulli(n_features=3 * P)), {"family": "bernoulli"}),
    "categorical": (of_prior(Categorical(n_symbols=P, concentration=0.3)), {"family": "categorical"}),
    "topic-diagonal": (
        (TopicDiagonalGaussian(), partial(gaussian_topics, lambda rng: 1.0 / rng.standard_gamma(2.0, (N_TOPICS, P)))),
        {"covariance": "topic-diagonal"},
    ),
    "topic-full": (
        (
            TopicFullGaussian(),
            partial(gaussian_topics, lambda rng: draw_inverse_wishart(rng, 12.0, 3.0 * np.eye(P), N_TOPICS)),
        ),
        {"covariance": "topic-full"},
    ),
}


def simulated(name, seed):
    """Words, the document of each, true topics, what is hidden, and the family."""
    rng = np.random.default_rng([7, seed])
    family, draw = SIMULATED[name][0]
    topics = draw(rng)
    return (*simulate(rng, family, topics, SIZES, scale_rate=SCALE_RATE), topics, family)


def fit(name, seed, words, document, **options):
    """A model, and the CPU seconds of its fit."""
    model = PMLDA(N_TOPICS, random_state=seed, n_jobs=1, **SIMULATED[name][1], **options)
    start = time.process_time()
    model.fit(words, groups=document)
    return model, time.process_time() - start


def accuracy_row(name, seed, sweeps):
    """Best possible RMSE; then error relative to it, coverage and seconds of each engine; gibbs if it has sweeps."""
    words, document, latents, topics, family = simulated(name, seed)
    truth, best = latents.memberships, best_possible(words, document, topics, latents, family)
    numbers = [rmse(best, truth)]
    runs = [{}] + [{"engine": "gibbs", "n_sweeps": sweeps, "draws_memory": 2**30}] * (sweeps > 0)
    for options in runs:
        model, seconds = fit(name, seed, words, document, **options)
        numbers += [*judge(model, truth, best), seconds]
    if sweeps:
        numbers.append(float(np.max(model.diagnose().rhat["means"])))
    return numbers


def show_accuracy(names, seeds, sweeps):
    header = ["family", "seed", "best RMSE", "variational", "its coverage", "CPU s"]
    header += ["gibbs", "its coverage", "CPU s", "R-hat of means"] * (sweeps > 0)
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    usual = None
    for name in names:
        fit(name, 0, *simulated(name, 0)[:2], n_sweeps=2)  # compile
        rows = []
        for seed in seeds:
            rows.append(accuracy_row(name, seed, sweeps))
            best, ratio, covered, seconds, *rest = rows[-1]
            more = " {:.3f} | {:.1%} | {:.1f} | {:.2f} |".format(*rest) if rest else ""
            print(f"| {name} | {seed} | {best:.4f} | {ratio:.3f} | {covered:.1%} | {seconds:.2f} |{more}", flush=True)
        table = np.array(rows)
        usual = np.median(table[:, 3]) if name == "gaussian" else usual
        times = "" if usual is None else f" | {np.median(table[:, 3]) / usual:.1f} × the Gaussian family's"
        print(f"| {name} | all | | at most {table[:, 1].max():.3f} | {table[:, 2].mean():.1%}{times} |", flush=True)


# ── how a sweep scales ─────────────────────────────────────────────────────────────────────────────────────────────
CASES = (
    ("topic-full", 200, 5, 3),
    ("topic-full", 200, 10, 3),
    ("topic-full", 200, 20, 3),
    ("topic-full", 200, 40, 3),
    ("topic-full", 200, 10, 6),
    ("topic-full", 2000, 10, 3),
    ("topic-diagonal", 200, 100, 3),
    ("poisson", 60, 100, 3),
    ("poisson", 60, 1000, 3),
    ("poisson", 60, 4000, 3),
    ("categorical", 2000, 300, 3),
)


def words_of(name, n, p, n_topics):
    """Words of a family, and the parameters that choose it."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(n_topics, 0.3), n)
    if name == "poisson":
        return rng.poisson(np.exp(z @ np.log(rng.gamma(2.0, 2.0, (n_topics, p))))).astype(float), {"family": name}
    if name == "categorical":
        eta = z @ np.log(rng.dirichlet(np.full(p, 0.3), n_topics) + 1e-6)
        symbols = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
        return symbols[:, None].astype(float), {"family": name}
    return z @ rng.normal(scale=5.0, size=(n_topics, p)) + rng.normal(size=(n, p)), {"covariance": name}


def seconds_of_sweeps(name, n, p, n_topics):
    """CPU time of two sweeps from one start, without refits."""
    X, chosen = words_of(name, n, p, n_topics)
    model = PMLDA(n_topics, n_sweeps=2, n_init=1, n_refits=0, random_state=0, n_jobs=1, **chosen)
    start = time.process_time()
    model.fit(X, groups=np.arange(n) * 5 // n)
    return time.process_time() - start


def show_scaling():
    for name in dict.fromkeys(case[0] for case in CASES):
        seconds_of_sweeps(name, 50, 2, 2)  # compile
    print("\n| family | words | features | K | CPU s of two sweeps |\n|---|---|---|---|---|")
    for case in CASES:
        print("|", " | ".join(map(str, case)), f"| {seconds_of_sweeps(*case):.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", default=",".join(SIMULATED))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sweeps", type=int, default=0, help="sweeps of engine gibbs; 0 leaves it out")
    parser.add_argument("--no-scaling", action="store_true", help="leave out how a sweep scales")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"# Families without a closed form\n\n{where()}")
    first = arguments.first_seed
    show_accuracy(arguments.families.split(","), range(first, first + arguments.seeds), arguments.sweeps)
    if not arguments.no_scaling:
        show_scaling()
