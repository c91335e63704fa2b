"""Shares of materials in spots that count genes: additive-poisson beside latent Dirichlet allocation and Poisson NMF.

20,000 spots in 100 regions, 500 genes, 8 materials, sparse counts at three depths. Materials differ in how many
molecules they have. The others get the best of several settings, chosen with the truth; their parts of molecules are
divided by the totals of their components, so that all answer the same question: how much of each material is there.

    python benchmarks/counts.py [--spots 20000] [--genes 500] [--depths 50,200,800]
"""

import argparse
import multiprocessing
import time
import warnings
from itertools import product

import numpy as np
from common import where
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF, LatentDirichletAllocation

from pmlda import PMLDA

K = 8


def generate(n_spots, n_genes, depth, seed=0):
    """Sparse counts, the region of each spot, and the true shares. Materials have from half to twice the molecules."""
    rng = np.random.default_rng(seed)
    profiles = rng.gamma(0.3, 1.0, (K, n_genes)) * rng.gamma(0.5, 1.0, n_genes)
    profiles /= profiles.sum(axis=1, keepdims=True)
    rates = depth * np.geomspace(0.5, 2.0, K)[:, None] * profiles
    regions = np.repeat(np.arange(100), n_spots // 100)
    proportions, scales = rng.dirichlet(np.full(K, 0.4), 100), rng.exponential(3.0, 100)
    gammas = rng.standard_gamma(np.maximum(proportions * scales[:, None], 1e-3)[regions])
    shares = (gammas + 1e-12) / (gammas + 1e-12).sum(axis=1, keepdims=True)
    return sparse.csr_matrix(rng.poisson(shares @ rates).astype(float)), regions, shares


def error(found, truth):
    """Root mean squared error of shares under the best numbering of topics."""
    rows = found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
    cost = ((rows[:, :, None] - truth[:, None]) ** 2).sum(axis=0)
    return float(np.sqrt(cost[linear_sum_assignment(cost)].sum() / truth.size))


def by_pmlda(X, regions, truth):
    """Memberships with default settings, spots grouped by region."""
    start = time.process_time()
    model = PMLDA(K, family="additive-poisson", random_state=0).fit(X, groups=regions)
    return time.process_time() - start, error(model.memberships_, truth), "defaults"


def by_pmlda_without_refits(X, regions, truth):
    """The same without refits, which tell uncertainty and not shares."""
    start = time.process_time()
    model = PMLDA(K, family="additive-poisson", n_refits=0, random_state=0).fit(X, groups=regions)
    return time.process_time() - start, error(model.memberships_, truth), "n_refits=0"


def by_lda(X, regions, truth):
    """The best of several priors, with and without dividing by how bright topics are."""
    best = (np.inf, np.inf, "")
    for alpha, beta in product((0.02, 1 / K, 0.5), (0.01, 1 / K)):
        start = time.process_time()
        model = LatentDirichletAllocation(
            K, doc_topic_prior=alpha, topic_word_prior=beta, max_iter=30, learning_method="batch", random_state=0
        )
        parts = model.fit_transform(X)
        seconds = time.process_time() - start
        for name, shares in rescaled(X, parts):
            found = error(shares, truth)
            best = min(best, (found, seconds, f"alpha={alpha:g}, beta={beta:g}, {name}"))
    return best[1], best[0], best[2]


def rescaled(X, parts):
    """Parts of molecules as they are, and divided by the brightness that explains the totals of spots best.

    With shares s of material and totals R, a spot has s·R molecules, of which the part of topic k is s_k R_k / s·R.
    """
    totals = np.asarray(X.sum(axis=1)).ravel()
    yield "as it is", parts
    molecules, brightness = parts * totals[:, None], np.full(K, totals.mean())
    for _ in range(200):  # Σ_k molecules_k / R_k = 1 for every spot, by least squares of ratios
        brightness *= molecules.T @ (molecules @ (1.0 / brightness)) / np.maximum(molecules.sum(axis=0), 1e-300)
    yield "divided by brightness", molecules / brightness


def by_nmf(X, regions, truth):
    """Poisson NMF (KL loss), the best of several starts and penalties, weights as they are and times totals."""
    best = (np.inf, np.inf, "")
    for start_at, penalty in product(("nndsvda", "random"), (0.0, 1e-4)):
        start = time.process_time()
        model = NMF(
            K,
            init=start_at,
            solver="mu",
            beta_loss="kullback-leibler",
            alpha_W=penalty,
            max_iter=200,
            random_state=0,
        )
        weights = model.fit_transform(X)
        seconds = time.process_time() - start
        molecules = weights * model.components_.sum(axis=1)
        parts = molecules / np.maximum(molecules.sum(axis=1, keepdims=True), 1e-300)
        options = [("weights", weights), *rescaled(X, parts)]
        options.append(("scaled by largest weights", weights / np.quantile(weights, 0.98, axis=0)))
        for name, shares in options:
            best = min(best, (error(shares, truth), seconds, f"{start_at}, alpha_W={penalty:g}, {name}"))
    return best[1], best[0], best[2]


def memory(name):
    """VmRSS or VmHWM of this process, in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024


def measured(method, problem, out):
    """CPU time, error, choice and peak memory of a method, in a process of its own."""
    warnings.simplefilter("ignore")
    X, regions, truth = generate(*problem)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # forget the peak so far
    before = memory("VmRSS")
    result = method(X, regions, truth)
    out.put((*result, memory("VmHWM") - before))


METHODS = {
    "additive-poisson": by_pmlda,
    "additive-poisson, no refits": by_pmlda_without_refits,
    "LDA": by_lda,
    "NMF, KL loss": by_nmf,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spots", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--depths", default="50,200,800")
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    print(f"# Sparse counts: {asked.spots} spots × {asked.genes} genes, K = {K}\n\n{where()}\n")
    print("| molecules per spot | method | RMSE of shares | CPU s of one fit | MB above the data | chosen |")
    print("|---|---|---|---|---|---|")
    for depth in asked.depths.split(","):
        for name, method in METHODS.items():
            queue = context.Queue()
            problem = asked.spots, asked.genes, float(depth)
            process = context.Process(target=measured, args=(method, problem, queue))
            process.start()
            seconds, found, chosen, peak = queue.get()
            process.join()
            print(f"| {depth} | {name} | {found:.4f} | {seconds:.1f} | {peak:.0f} | {chosen} |", flush=True)
