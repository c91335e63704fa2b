"""How long is one sweep of engine `paper`? Beside the same sweep in vectorised NumPy; by features; by words."""

import argparse
from contextlib import ExitStack

import numpy as np
from common import copied, problem, race, spread, where

from pmlda.engines import paper
from pmlda.families import Gaussian
from pmlda.parallel.threads import Workers

SWEEPS = 10
NAMES = ("vectorised NumPy", "engine, 1 thread", "engine, 2 threads", "engine, 2 threads, prior_steps=1")


class NumPySweep:
    """Algorithm 1 with the words vectorised, written for speed: its own generator, no addresses, no spare copies."""

    def __init__(self, documents, topics, latents):
        self.x, self.document, self.sizes = documents.words, documents.document, documents.sizes
        self.starts = documents.starts[:-1]
        self.mu, self.var = topics.means.copy(), float(topics.spread)
        self.z, self.log_z, self.log_pi, self.s = copied(latents)
        self.rng = np.random.default_rng(0)
        self.scores = self.x @ self.mu.T / self.var
        self.second = (self.x**2).sum()
        centre, covariance = self.x.mean(axis=0), np.cov(self.x, rowvar=False)
        self.centre, self.root = centre, np.linalg.cholesky(4.0 * covariance)
        self.bound = 0.5 * np.ptp(((self.x - centre) ** 2).sum(axis=1))
        self.sum_log_z = np.add.reduceat(self.log_z, self.starts, axis=0)

    def log_documents(self, log_pi, s):
        from scipy.special import gammaln

        a = s[:, None] * np.exp(log_pi)
        return self.sizes * (gammaln(s) - gammaln(a).sum(axis=1)) + ((a - 1.0) * self.sum_log_z).sum(axis=1)

    def log_words(self, mu, var, gram, cross):
        square = self.second - 2.0 * (mu * cross).sum() + ((mu @ mu.T) * gram).sum()
        return -0.5 * (square / var + self.x.size * np.log(2 * np.pi * var))

    def __call__(self):
        rng, n, k = self.rng, len(self.x), len(self.mu)
        pi = rng.dirichlet(np.ones(k), len(self.sizes))
        accept = np.log(rng.random(len(pi))) < self.log_documents(np.log(pi), self.s) - self.log_documents(
            self.log_pi, self.s
        )
        self.log_pi[accept] = np.log(pi[accept])
        s = rng.exponential(2.0, len(self.sizes))
        accept = np.log(rng.random(len(s))) < self.log_documents(self.log_pi, s) - self.log_documents(
            self.log_pi, self.s
        )
        self.s[accept] = s[accept]

        z = rng.standard_exponential((n, k))
        z /= z.sum(axis=1, keepdims=True)
        log_z = np.log(z)
        half_g = 0.5 / self.var * (self.mu @ self.mu.T)
        change = ((z - self.z) * self.scores).sum(axis=1)
        change -= ((z @ half_g) * z).sum(axis=1) - ((self.z @ half_g) * self.z).sum(axis=1)
        exponent = (self.s[:, None] * np.exp(self.log_pi) - 1.0)[self.document]
        change += (exponent * (log_z - self.log_z)).sum(axis=1)
        accept = np.log(rng.random(n)) < change
        self.z[accept], self.log_z[accept] = z[accept], log_z[accept]
        self.sum_log_z = np.add.reduceat(self.log_z, self.starts, axis=0)

        gram, cross = self.z.T @ self.z, self.z.T @ self.x
        current = self.log_words(self.mu, self.var, gram, cross)
        for topic in range(k):
            mu = self.mu.copy()
            white = rng.standard_normal(self.x.shape[1])
            mu[topic] = self.centre + self.root @ white
            old = np.linalg.solve(self.root, self.mu[topic] - self.centre)
            value = self.log_words(mu, self.var, gram, cross)
            if np.log(rng.random()) < value - current + 0.5 * (white @ white - old @ old):
                self.mu, current = mu, value
                self.scores = self.x @ self.mu.T / self.var
        var = self.bound * rng.random()
        if np.log(rng.random()) < self.log_words(self.mu, var, gram, cross) - current:
            self.scores *= self.var / var
            self.var = var


def engine(stack, data, n_jobs, **options):
    """A function that makes one sweep of the engine."""
    documents, topics, latents = data
    workers = stack.enter_context(Workers(n_jobs))
    settings = paper.Settings(np.ones(len(topics.means)), 0.5, seed=1, **options)
    family = Gaussian().informed_by(documents.words)
    run = paper.run(documents, family, paper.State(0, topics, copied(latents)), settings, workers)
    return lambda: next(run)


def several(run):
    """SWEEPS calls in a row, so that each contestant has its data in cache and its threads awake."""
    return lambda: [run() for _ in range(SWEEPS)]


def against_numpy(rounds, n):
    data = problem(n)
    with ExitStack() as stack:
        runs = [
            NumPySweep(*data),
            engine(stack, data, 1),
            engine(stack, data, 2),
            engine(stack, data, 2, prior_steps=1),
        ]
        times = race([several(run) for run in runs], rounds) / SWEEPS
    ns = 1e9 * times / n
    print(f"\n## One sweep, K = 3, p = 3, {n:,} words in 100 documents, {rounds} rounds\n")
    print("| sweep | ns per word | faster than NumPy |\n|---|---|---|")
    for i, name in enumerate(NAMES):
        print(f"| {name} | {spread(ns[:, i])} | {spread(times[:, 0] / times[:, i])}× |")


def by_features(rounds):
    n = 200_000
    small, large = problem(n, p=3), problem(n, p=100)
    with ExitStack() as stack:
        workers = stack.enter_context(Workers(1))

        def products(data):
            corpus = paper.Corpus(data[0], Gaussian().informed_by(data[0].words), workers, paper.COMPILED)
            z, x = data[2].memberships, data[0].words
            return lambda: [z[group.words].T @ x[group.words] for group in corpus.groups]

        runs = [engine(stack, small, 1), engine(stack, large, 1), products(small), products(large)]
        times = race([several(run) for run in runs], rounds) / SWEEPS
    rest = (times[:, 1] - times[:, 3]) / (times[:, 0] - times[:, 2])
    ms = 1e3 * times
    print(f"\n## Features, K = 3, {n:,} words, 1 thread, {rounds} rounds\n")
    print("| features | ms per sweep | of which the product ZᵀX |\n|---|---|---|")
    for i, p in enumerate((3, 100)):
        print(f"| {p} | {spread(ms[:, i], 2)} | {spread(ms[:, i + 2], 2)} |")
    print(f"\nApart from the product, 100 features cost {spread(rest, 2)} times as much as 3.")


def by_words(rounds, n_jobs):
    sizes = [10_000, 100_000, 1_000_000]
    with ExitStack() as stack:
        runs = [engine(stack, problem(n, n_documents=n // 1000), n_jobs) for n in sizes]
        # As many words in every measurement: a hundred short sweeps against one long one.
        times = race(
            [lambda run=run, n=n: [run() for _ in range(sizes[-1] // n)] for run, n in zip(runs, sizes, strict=True)],
            rounds,
        )
    print(f"\n## Words, K = 3, p = 3, documents of 1,000 words, {n_jobs} thread(s), {rounds} rounds\n")
    print("| words | ns per word | relative to a million |\n|---|---|---|")
    for i, n in enumerate(sizes):
        print(f"| {n:,} | {spread(1e9 * times[:, i] / sizes[-1])} | {spread(times[:, i] / times[:, -1], 2)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"# Sweeps of engine paper\n\n{where()}\n\nMedians, with quartiles in brackets.")
    for n in (100_000, 1_000_000):
        against_numpy(rounds, n)
    by_features(rounds)
    for n_jobs in (1, 2):
        by_words(max(3, rounds // 2), n_jobs)
