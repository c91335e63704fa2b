"""How close do memberships come to the best possible, and do intervals hold what they promise? Simulated problems."""

import argparse
import warnings

import numpy as np
from common import spaced_means, where
from scipy.optimize import linear_sum_assignment

from pmlda import PMLDA
from pmlda.engines import variational_steps
from pmlda.engines.documents import group_rows
from pmlda.families import Gaussian
from pmlda.model import draw_log_dirichlet, log_dirichlet, simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Topics

N_DOCUMENTS = 100
SCALE_RATE = 0.5
PROPOSALS = 1500


def random_problem(seed, words_per_document):
    """K from 2 to 6 topics in 2 to 20 dimensions, all between 6 and 12 noise standard deviations apart."""
    rng = np.random.default_rng([2024, seed])
    means = None
    while means is None:
        n_topics, p = int(rng.integers(2, 7)), int(rng.integers(2, 21))
        means = spaced_means(rng, n_topics, p)
    topics = Topics(means, np.array(1.0))
    words, document, latents = simulate(
        rng, Gaussian(), topics, [words_per_document] * N_DOCUMENTS, scale_rate=SCALE_RATE
    )
    return words, document, topics, latents


def best_possible(words, document, topics, latents, family=None):
    """(N, K) exact posterior means under the true topics, π and s: importance sampling with many proposals each.

    Half of the proposals come from each word's variational posterior, made a little wider, and half from its prior.
    family : Gaussian unless given
    """
    family = (Gaussian() if family is None else family).informed_by(words)
    rng = np.random.default_rng(0)
    documents = group_rows(words, document)
    a = np.maximum(np.exp(latents.log_proportions) * latents.scales[:, None], 1e-8)
    fixed = variational_steps.Fixed(True, True, True, True)
    settings = variational_steps.Settings(np.ones(a.shape[1]), SCALE_RATE, steps=60, accelerate=False, fixed=fixed)
    with Workers(None) as workers:
        start = variational_steps.start(documents, topics, settings, a)
        state, _ = next(variational_steps.run(documents, family, start, settings, workers))
    means = np.empty_like(state.gamma)
    for first in range(0, len(words), 500):
        here = slice(first, first + 500)
        q, prior = 0.8 * state.gamma[here], a[document[here]]
        log_z = draw_log_dirichlet(
            rng, np.concatenate([np.tile(q, (PROPOSALS, 1, 1)), np.tile(prior, (PROPOSALS, 1, 1))])
        )
        z = np.exp(log_z)
        densities = [log_dirichlet(log_z, np.broadcast_to(one, log_z.shape)) for one in (q, prior)]
        fit = (z * family.scores(words[here], topics)).sum(axis=2)
        fit -= family.log_partition(z @ family.natural(topics), topics)
        log_weight = fit + densities[1] - np.logaddexp(*densities)
        weight = np.exp(log_weight - log_weight.max(axis=0))
        means[here] = (weight[..., None] * z).sum(axis=0) / weight.sum(axis=0)[:, None]
    return means


def matched(model, truth):
    """The order of the model's topics that fits the truth best."""
    cost = ((model.memberships_[:, :, None] - truth[:, None, :]) ** 2).mean(axis=0)
    return np.argsort(linear_sum_assignment(cost)[1])


def rmse(estimate, truth):
    return float(np.sqrt(((estimate - truth) ** 2).mean()))


def judge(model, truth, best):
    """RMSE relative to the best possible, and the coverage of 90 % intervals."""
    order = matched(model, truth)
    low, high = (end[:, order] for end in model.membership_interval(0.9))
    covered = float(((low <= truth + 1e-12) & (truth <= high + 1e-12)).mean())
    return rmse(model.memberships_[:, order], truth) / rmse(best, truth), covered


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--words", type=int, default=100, help="words in each of the 100 documents")
    parser.add_argument("--sweeps", type=int, default=600, help="sweeps of engine gibbs, half of them warm-up")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"# Accuracy\n\n{where()}\n")
    print(f"{N_DOCUMENTS} documents of {arguments.words} words, scale_rate {SCALE_RATE}.\n")
    print("| seed | K | p | best RMSE | variational | its coverage | gibbs | its coverage |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        words, document, topics, latents = random_problem(seed, arguments.words)
        truth = latents.memberships
        best = best_possible(words, document, topics, latents)
        n_topics, p = topics.means.shape
        fast = PMLDA(n_topics, random_state=seed).fit(words, groups=document)
        exact = PMLDA(n_topics, engine="gibbs", n_sweeps=arguments.sweeps, random_state=seed, draws_memory=2**30)
        rows.append(judge(fast, truth, best) + judge(exact.fit(words, groups=document), truth, best))
        numbers = "{:.3f} | {:.1%} | {:.3f} | {:.1%}".format(*rows[-1])
        print(f"| {seed} | {n_topics} | {p} | {rmse(best, truth):.4f} | {numbers} |", flush=True)
    table = np.array(rows)
    print("\nWorst ratio: variational {:.3f}, gibbs {:.3f}.".format(*table[:, [0, 2]].max(axis=0)))
    print("Mean coverage: variational {:.1%}, gibbs {:.1%}.".format(*table[:, [1, 3]].mean(axis=0)))
