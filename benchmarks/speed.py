"""How long does engine variational take? Beside fuzzy c-means, a mixture and k-means; by words, K, p, documents."""

import argparse
import subprocess
import sys
import warnings

import numpy as np
from common import problem, race, spread, where
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from pmlda import PMLDA
from pmlda.engines import variational_steps as steps
from pmlda.families import Gaussian
from pmlda.parallel.threads import Workers


def ours(words, document, n_topics=3, **parameters):
    """Fit, and memberships of all words."""
    return PMLDA(n_topics, random_state=0, **parameters).fit(words, groups=document).memberships_


def fuzzy(words, n_topics=3):
    """scikit-fuzzy, m = 1.5, its own stopping rule (error 1e-5, as in its documentation)."""
    import skfuzzy

    return skfuzzy.cmeans(words.T, n_topics, 1.5, error=1e-5, maxiter=1000, seed=0)[1].T


def mixture(words, n_topics=3):
    """scikit-learn, full covariances, defaults."""
    return GaussianMixture(n_topics, random_state=0).fit(words).predict_proba(words)


def k_means(words, n_topics=3):
    """scikit-learn, one start."""
    return KMeans(n_topics, n_init=1, random_state=0).fit(words).labels_


def against_rivals(rounds, n):
    documents, _, _ = problem(n)
    words, document = documents.words, documents.document
    runs = {
        "PM-LDA, engine variational": lambda: ours(words, document),
        "PM-LDA without refits": lambda: ours(words, document, n_refits=0),
        "fuzzy c-means, scikit-fuzzy, m = 1.5": lambda: fuzzy(words),
        "Gaussian mixture, full covariances": lambda: mixture(words),
        "k-means, n_init=1": lambda: k_means(words),
    }
    times = race(list(runs.values()), rounds)
    print(f"\n## {n:,} words, K = 3, p = 3, 100 documents: fit and all memberships, {rounds} rounds\n")
    print("| method | seconds | PM-LDA's time divided by it | without refits |\n|---|---|---|---|")
    for i, name in enumerate(runs):
        ratios = (spread(times[:, j] / times[:, i], 3) for j in (0, 1))
        print(f"| {name} | {spread(times[:, i], 2)} | {' | '.join(ratios)} |")


def growth(rounds):
    print(f"\n## Growth, {rounds} rounds, documents of 10,000 words; else K = 3, p = 3, 1,000,000 words\n")
    print("| words | K | p | documents | seconds | relative to the first line |\n|---|---|---|---|---|---|")
    cases = [
        {"n_words": 1_000_000},
        {"n_words": 2_000_000, "n_documents": 200},
        {"n_words": 4_000_000, "n_documents": 400},
        {"n_words": 1_000_000, "n_topics": 6},
        {"n_words": 1_000_000, "p": 20},
        {"n_words": 1_000_000, "n_documents": 10_000},
        {"n_words": 1_000_000, "n_topics": 5, "p": 30},
        {"n_words": 1_000_000, "n_topics": 10, "p": 30},
        {"n_words": 100_000, "n_topics": 4, "p": 100, "n_documents": 10},
        {"n_words": 100_000, "n_topics": 4, "p": 200, "n_documents": 10},
    ]
    data = [problem(**case)[0] for case in cases]
    times = race(
        [
            lambda d=d, case=case: ours(d.words, d.document, case.get("n_topics", 3))
            for d, case in zip(data, cases, strict=True)
        ],
        rounds,
    )
    for i, case in enumerate(cases):
        case = {"n_topics": 3, "p": 3, "n_documents": 100} | case
        line = f"| {case['n_words']:,} | {case['n_topics']} | {case['p']} | {case['n_documents']:,} "
        print(line + f"| {spread(times[:, i], 2)} | {spread(times[:, i] / times[:, 0], 2)} |")


def memory():
    """Peak memory beyond X, in a process of its own."""
    print("\n## Memory beyond X, K = 3, p = 3\n\n| words | bytes per word |\n|---|---|")
    for n in (1_000_000, 4_000_000):
        out = subprocess.run([sys.executable, __file__, "--memory", str(n)], capture_output=True, text=True, check=True)
        print(f"| {n:,} | {float(out.stdout):.0f} |")


def peak(n):
    """Bytes per word by which a fit raises the peak of this process."""
    documents, _, _ = problem(n, n_documents=n // 10_000)
    words, document = documents.words.copy(), documents.document.copy()
    del documents
    ours(words[:20_000], document[:20_000])  # compile
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    before = status("VmRSS")
    ours(words, document)
    print((status("VmHWM") - before) / n)


def status(name):
    """A line of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith(name)).split()[1])


def many_features(rounds):
    n, n_topics, p = 100_000, 4, 200
    documents, topics, _ = problem(n, n_topics=n_topics, p=p)
    family = Gaussian().informed_by(documents.words)
    settings = steps.Settings(np.ones(n_topics), 0.5, accelerate=False)
    with Workers(2) as workers:
        run = steps.run(documents, family, steps.start(documents, topics, settings), settings, workers)
        means = np.ascontiguousarray(topics.means)
        times = race(
            [lambda: [next(run) for _ in range(5)], lambda: [documents.words @ means.T for _ in range(5)]], rounds
        )
    print(f"\n## One sweep with p = {p}, K = {n_topics}, {n:,} words, {rounds} rounds\n")
    print(f"Sweep {spread(200 * times[:, 0])} ms, product X·Mᵀ alone {spread(200 * times[:, 1])} ms: ", end="")
    print(f"{spread(times[:, 0] / times[:, 1], 2)} times.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, help="only print the bytes per word of a fit of so many words")
    arguments = parser.parse_args()
    if arguments.memory:
        peak(arguments.memory)
    else:
        warnings.simplefilter("ignore")
        print(f"# Engine variational\n\n{where()}\n\nMedians, with quartiles in brackets.")
        against_rivals(arguments.rounds, 1_000_000)
        growth(max(3, arguments.rounds // 2))
        memory()
        many_features(max(5, arguments.rounds))
